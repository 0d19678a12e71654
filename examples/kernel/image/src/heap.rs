//! The heap: talc, fed with blocks of frames and giving them back, so that `alloc` works.

use core::alloc::Layout;
use core::cell::UnsafeCell;

use pageblock_frame::{Gfp, Order, PAGE_SIZE, Pfn};
use talc::DefaultBinning;
use talc::base::Talc;
use talc::base::binning::Binning;
use talc::source::Source;
use talc::sync::TalcLock;

use crate::arch::paging::{DIRECT_MAP, phys_ptr};
use crate::mm;

/// What talc's own tables take, and a little more.
const ARENA_BYTES: usize = 8192;
/// Blocks are at least of this order.
const MIN_ORDER: u8 = 4;
/// What talc adds to a request in a heap of its own.
const OVERHEAD: usize = 64;

#[expect(clippy::disallowed_types, reason = "talc asks for a `lock_api` lock; the heap is not used by interrupts")]
type RawLock = spin::mutex::SpinMutex<()>;

/// Heaps of whole blocks of frames, each given back when nothing in it is used.
#[derive(Debug)]
struct FrameSource;

// SAFETY: frames come from the page allocator, which does not allocate from the heap.
unsafe impl Source for FrameSource {
    const TRACK_HEAP_END: bool = true;

    fn acquire<B: Binning>(talc: &mut Talc<Self, B>, layout: Layout) -> Result<(), ()> {
        let bytes = layout.size().checked_add(layout.align()).and_then(|bytes| bytes.checked_add(OVERHEAD)).ok_or(())?;
        let frames = bytes.div_ceil(PAGE_SIZE as usize).next_power_of_two();
        let order = Order::new((frames.trailing_zeros() as u8).max(MIN_ORDER)).ok_or(())?;
        let pfn = mm::alloc(order, Gfp::KERNEL).ok_or(())?;
        // SAFETY: the block was just allocated, and nothing else refers to it.
        match unsafe { talc.claim(phys_ptr(pfn.as_u64() << 12), order.frames() as usize * PAGE_SIZE as usize) } {
            Some(_) => Ok(()),
            None => {
                give_back(pfn, order);
                Err(())
            }
        }
    }

    unsafe fn resize(&mut self, base: *mut u8, end: *mut u8, is_heap_base: bool) -> *mut u8 {
        // Only whole blocks are given back: what is left of one stays where it is. The arena stays.
        let start = base as u64 & !(PAGE_SIZE - 1);
        if !is_heap_base || !(DIRECT_MAP..DIRECT_MAP + (1 << 46)).contains(&start) {
            return end;
        }
        let frames = (end as u64 - start).div_ceil(PAGE_SIZE);
        match Order::new(frames.trailing_zeros() as u8) {
            Some(order) if frames.is_power_of_two() => {
                give_back(Pfn::new((start - DIRECT_MAP) >> 12), order);
                base
            }
            _ => end,
        }
    }
}

fn give_back(pfn: Pfn, order: Order) {
    if let Err(error) = mm::free(pfn, order) {
        panic!("the heap's block {pfn:?} was refused: {error}");
    }
}

#[global_allocator]
static HEAP: TalcLock<RawLock, FrameSource, DefaultBinning> = TalcLock::new(FrameSource);

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
