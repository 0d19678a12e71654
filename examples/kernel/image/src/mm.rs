//! The machine's memory: the firmware's map, given to the page allocator.

use core::ops::Range;

use pageblock::{Config, FreeError, Gfp, Order, PageAllocator, Pfn, Region, Stats};

use crate::boot::pvh::BootInfo;
use crate::platform::Kernel;
use crate::println;

/// The page allocator.
pub static FRAMES: PageAllocator<Kernel> = PageAllocator::new();

/// Memory below this stays with the firmware and the code that starts other CPUs.
const LOW: u64 = 1 << 20;

/// Gives all memory but the kernel's own to the allocator, which will be used by `cpus` CPUs.
///
/// # Panics
/// The firmware's map makes no sense.
pub fn init(boot: &BootInfo, kernel: &Range<u64>, cpus: usize) {
    let regions = boot.map().iter().map(|entry| Region::from_e820(entry.base, entry.len, entry.kind));
    let config = Config::new().reserve_low(LOW).reserve(kernel.clone()).cpus(cpus);
    // SAFETY: the usable memory of the firmware's map, less what is reserved here, has no user: data that the loader
    // left in it has been copied. All of it is in the direct map.
    match unsafe { FRAMES.init(regions, &config) } {
        Ok(stats) => println!("memory: {stats}"),
        Err(error) => panic!("no allocator: {error}"),
    }
}

/// Allocates a block that the caller frees by hand.
#[inline(always)]
pub fn alloc(order: Order, gfp: Gfp) -> Option<Pfn> {
    FRAMES.alloc_order(order, gfp).ok().map(|frames| frames.into_raw().pfn)
}

/// Frees a block.
///
/// # Errors
/// The block was not allocated like this; nothing has changed.
#[inline(always)]
pub fn free(pfn: Pfn, order: Order) -> Result<(), FreeError> {
    // SAFETY: callers free what they allocated and use no more, or, to see the error, unheld frames.
    unsafe { FRAMES.free(pfn, order) }
}

/// The allocator's figures.
pub fn stats() -> Stats {
    FRAMES.stats()
}

/// Has every CPU empty its lists: the others by an interrupt.
///
/// # Panics
/// A CPU does not answer.
pub fn drain() {
    // A CPU without a processor of its own may take a while.
    for _ in 0..10_000 {
        if FRAMES.drain() == 0 {
            return;
        }
    }
    panic!("a CPU does not empty its lists");
}

/// Frames that are free.
pub fn free_frames() -> u64 {
    stats().free
}

/// Recomputes everything that is derived from the free maps and from the per-CPU lists. No other CPU allocates
/// meanwhile.
///
/// # Panics
/// It does not agree with them.
pub fn check() {
    if let Err(violation) = FRAMES.check() {
        panic!("the allocator is damaged: {violation}");
    }
    if let Err(violation) = FRAMES.check_lists() {
        panic!("the per-CPU lists are damaged: {violation}");
    }
}
