//! The machine of the examples: 256 MiB of this program's memory are "physical". A kernel has its own `Platform`.

use std::alloc::{Layout, alloc_zeroed};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use pageblock::{Config, PageAllocator, Platform, Region};

pub const BYTES: usize = 256 << 20;
/// The mapping keeps the alignment of the largest block.
const ALIGN: usize = 4 << 20;

#[derive(Debug)]
pub struct Machine;

// SAFETY: `frames` lets one thread at a time in, and there are no interrupts; the memory is there for ever.
unsafe impl Platform for Machine {
    const MAX_CPUS: usize = 1;

    fn phys_to_virt(pa: u64) -> NonNull<u8> {
        let start = NonNull::new(std::ptr::with_exposed_provenance_mut::<u8>(start())).expect("not at 0");
        // SAFETY: the allocator asks for addresses inside the memory map only.
        unsafe { start.add(pa as usize) }
    }
}

/// Where the physical memory begins in this program.
fn start() -> usize {
    static START: OnceLock<usize> = OnceLock::new();
    let layout = Layout::from_size_align(BYTES, ALIGN).expect("a layout");
    // SAFETY: not of size 0; never freed.
    *START.get_or_init(|| unsafe { alloc_zeroed(layout) }.expose_provenance())
}

/// The physical address behind a pointer into memory.
pub fn virt_to_phys(pointer: NonNull<u8>) -> u64 {
    (pointer.addr().get() - start()) as u64
}

pub static FRAMES: PageAllocator<Machine> = PageAllocator::new();

/// Boots the machine once, and keeps other tests out while this one runs.
pub fn boot() -> MutexGuard<'static, ()> {
    static ONE_CPU: Mutex<()> = Mutex::new(());
    let guard = ONE_CPU.lock().unwrap_or_else(PoisonError::into_inner);
    if FRAMES.stats().managed == 0 {
        // SAFETY: the memory is the machine's alone.
        unsafe { FRAMES.init([Region::usable(0..BYTES as u64)], &Config::new()) }.expect("a plain memory map");
    }
    guard
}
