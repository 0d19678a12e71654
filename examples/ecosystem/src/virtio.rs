//! `virtio-drivers`' `Hal`: zeroed, neighbouring frames for device queues.

use core::ptr::NonNull;

use pageblock::{PfnRange, Platform};
use virtio_drivers::{BufferDirection, Hal, PhysAddr};

use crate::machine::{FRAMES, Machine, virt_to_phys};

/// For machines with devices that see physical addresses, without an IOMMU.
#[derive(Debug)]
pub struct VirtioHal;

// SAFETY: 1. a run of frames has one owner, is aligned to a page, and zeroed. 2. Its address is the mapping's. 3.
// Buffers are in that mapping as well.
unsafe impl Hal for VirtioHal {
    fn dma_alloc(pages: usize, _: BufferDirection) -> (PhysAddr, NonNull<u8>) {
        match FRAMES.request().zeroed().contiguous(pages as u64) {
            Ok(run) => {
                let paddr = run.into_raw().start.phys();
                (paddr, Machine::phys_to_virt(paddr))
            }
            // The driver takes this for a failure.
            Err(_) => (0, NonNull::dangling()),
        }
    }

    unsafe fn dma_dealloc(paddr: PhysAddr, _: NonNull<u8>, pages: usize) -> i32 {
        let first = pageblock::Pfn::from_phys(paddr);
        // SAFETY: the caller says that this was allocated here, with as many pages, and is not used any more.
        let freed = unsafe { FRAMES.free_range(PfnRange::from_len(first, pages as u64)) };
        if freed.is_ok() { 0 } else { -1 }
    }

    unsafe fn mmio_phys_to_virt(paddr: PhysAddr, _: usize) -> NonNull<u8> {
        Machine::phys_to_virt(paddr)
    }

    unsafe fn share(buffer: NonNull<[u8]>, _: BufferDirection) -> PhysAddr {
        virt_to_phys(buffer.cast())
    }

    unsafe fn unshare(_: PhysAddr, _: NonNull<[u8]>, _: BufferDirection) {}
}

#[test]
fn a_queue_is_zeroed_and_given_back() {
    let _cpu = crate::machine::boot();
    let before = FRAMES.stats().free;
    let mut dirty = FRAMES.alloc(pageblock::Gfp::KERNEL).unwrap();
    dirty.bytes_mut().fill(core::mem::MaybeUninit::new(0xff));
    drop(dirty);
    let (paddr, vaddr) = VirtioHal::dma_alloc(3, BufferDirection::Both);
    // SAFETY: three frames, allocated above.
    let bytes = unsafe { core::slice::from_raw_parts(vaddr.as_ptr(), 3 * 4096) };
    assert!(paddr.is_multiple_of(4096) && bytes.iter().all(|byte| *byte == 0));
    // SAFETY: allocated above, and not used any more.
    assert_eq!(unsafe { VirtioHal::dma_dealloc(paddr, vaddr, 3) }, 0);
    assert_eq!(FRAMES.stats().free, before);
}
