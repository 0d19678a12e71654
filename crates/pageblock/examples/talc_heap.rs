//! Collections on frames: talc as the global allocator, fed by the page allocator. The "physical" memory is 64 MiB of
//! this program's address space.
//!
//! `cargo run -p pageblock --example talc_heap --features talc`

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Once, OnceLock};

use pageblock::adapt::FrameSource;
use pageblock::{Config, PageAllocator, Platform, Region};
use talc::DefaultBinning;
use talc::sync::TalcLock;

const BYTES: usize = 64 << 20;
const ARENA_BYTES: usize = 8192;

struct Machine;

// SAFETY: the heap's lock lets one thread at a time in, and there are no interrupts; the memory is there for ever.
unsafe impl Platform for Machine {
    const MAX_CPUS: usize = 1;

    fn phys_to_virt(pa: u64) -> NonNull<u8> {
        static START: OnceLock<usize> = OnceLock::new();
        let layout = Layout::from_size_align(BYTES, 4096).expect("a layout");
        // SAFETY: not of size 0; never freed. The system's allocator, because the global one comes here.
        let start = *START.get_or_init(|| unsafe { System.alloc(layout) } as usize);
        NonNull::new((start + pa as usize) as *mut u8).expect("not at 0")
    }
}

static FRAMES: PageAllocator<Machine> = PageAllocator::new();

#[expect(clippy::disallowed_types, reason = "talc asks for a `lock_api` lock")]
type RawLock = spin::Mutex<()>;
static HEAP: TalcLock<RawLock, FrameSource<Machine>, DefaultBinning> = TalcLock::new(FrameSource::new(&FRAMES));

/// Memory for talc's own tables.
static mut ARENA: [u8; ARENA_BYTES] = [0; ARENA_BYTES];

/// The heap, made on first use: a program allocates before `main`. A kernel knows when it may and needs no such thing.
struct FirstUse;

fn heap() -> &'static TalcLock<RawLock, FrameSource<Machine>, DefaultBinning> {
    static MADE: Once = Once::new();
    MADE.call_once(|| {
        let regions = [Region::from((0, BYTES as u64, true))];
        // SAFETY: nothing else uses the memory, nor the arena.
        unsafe {
            FRAMES.init(regions, &Config::new()).expect("a plain memory map");
            HEAP.lock().claim((&raw mut ARENA).cast(), ARENA_BYTES).expect("room for the tables");
        }
    });
    &HEAP
}

// SAFETY: as talc's own.
unsafe impl GlobalAlloc for FirstUse {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { heap().alloc(layout) }
    }

    unsafe fn dealloc(&self, bytes: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { heap().dealloc(bytes, layout) }
    }
}

#[global_allocator]
static GLOBAL: FirstUse = FirstUse;

fn main() {
    let before = FRAMES.stats().free;
    let squares: BTreeMap<u64, String> = (0..50_000).map(|n| (n, format!("{}", n * n))).collect();
    let used = before - FRAMES.stats().free;
    assert_eq!(squares[&123], "15129");
    drop(squares);
    let left = before - FRAMES.stats().free;
    println!("{used} frames were used, {left} are still");
    assert!(used > 500 && left < used / 10);
}
