//! `page_table_multiarch`'s `PagingHandler`: page tables of any architecture out of frames.

use memory_addr::{PhysAddr, VirtAddr};
use page_table_multiarch::PagingHandler;
use pageblock::{Gfp, Order, Pfn, PfnRange, Platform};

use crate::machine::{FRAMES, Machine};

/// The handler that a kernel names in `PageTable64<_, _, Handler>`.
#[derive(Debug)]
pub struct Handler;

impl PagingHandler for Handler {
    fn alloc_frames(num: usize, align: usize) -> Option<PhysAddr> {
        let align = Order::fitting(align.div_ceil(4096) as u64)?;
        let run = FRAMES.request().gfp(Gfp::KERNEL).align(align).contiguous(num as u64).ok()?;
        // A run is aligned to its size; only a larger alignment has to be asked for.
        if !run.pfns().start.is_aligned(align) {
            let block = FRAMES.request().order(align).alloc().ok()?;
            let first = block.pfn();
            let _ = block.into_raw();
            give_back(first.add(num as u64), align.frames() - num as u64);
            return Some(PhysAddr::from(first.phys() as usize));
        }
        Some(PhysAddr::from(run.into_raw().start.phys() as usize))
    }

    fn dealloc_frames(paddr: PhysAddr, num: usize) {
        give_back(pageblock::Pfn::from_phys(paddr.as_usize() as u64), num as u64);
    }

    fn phys_to_virt(paddr: PhysAddr) -> VirtAddr {
        VirtAddr::from(Machine::phys_to_virt(paddr.as_usize() as u64).as_ptr().expose_provenance())
    }
}

/// Frees frames that the trait handed out. A refused free is counted in the statistics: the trait has no error.
fn give_back(first: Pfn, frames: u64) {
    // SAFETY: the trait's caller frees frames it was given, and uses them no more.
    let _ = unsafe { FRAMES.free_range(PfnRange::from_len(first, frames)) };
}

#[test]
fn frames_come_aligned_and_go() {
    let _cpu = crate::machine::boot();
    let before = FRAMES.stats();
    for (num, align) in [(1, 4096), (3, 4096), (4, 0x4000), (1, 0x8000), (512, 0x20_0000)] {
        let paddr = Handler::alloc_frames(num, align).unwrap();
        assert_eq!(paddr.as_usize() % align, 0);
        assert_eq!(FRAMES.stats().free, before.free - num as u64);
        Handler::dealloc_frames(paddr, num);
    }
    assert_eq!(FRAMES.stats().free, before.free);
    assert_eq!(FRAMES.stats().bad_frees, before.bad_frees);
}
