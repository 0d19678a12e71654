//! The heap: talc, fed with blocks of frames and giving them back, so that `alloc` works.

use core::cell::UnsafeCell;

use pageblock::adapt::FrameSource;
use talc::DefaultBinning;
use talc::sync::TalcLock;

use crate::mm::FRAMES;
use crate::platform::Kernel;

/// The size of talc's own tables, and a little more.
const ARENA_BYTES: usize = 8192;

#[expect(clippy::disallowed_types, reason = "talc asks for a `lock_api` lock; the heap is not used by interrupts")]
type RawLock = spin::mutex::SpinMutex<()>;

#[global_allocator]
static HEAP: TalcLock<RawLock, FrameSource<Kernel>, DefaultBinning> = TalcLock::new(FrameSource::new(&FRAMES));

/// Memory for talc's own tables, which never go back.
#[repr(C, align(64))]
struct Arena(UnsafeCell<[u8; ARENA_BYTES]>);

// SAFETY: handed to talc once, and not referred to otherwise.
unsafe impl Sync for Arena {}

static ARENA: Arena = Arena(UnsafeCell::new([0; ARENA_BYTES]));

/// Makes the heap usable.
///
/// # Panics
/// The arena does not hold talc's tables.
pub fn init() {
    // SAFETY: the arena is used for this only, once.
    let claimed = unsafe { HEAP.lock().claim(ARENA.0.get().cast(), ARENA_BYTES) };
    assert!(claimed.is_some(), "the heap's arena is too small");
}
