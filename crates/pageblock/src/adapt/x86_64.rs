//! The frame traits of the `x86_64` crate.
//!
//! They are implemented for the reference, so that an allocator in a static serves where `&mut impl FrameAllocator` is
//! asked for: `mapper.map_to(page, frame, flags, &mut &FRAMES)`.

use pageblock_frame::{Gfp, Order, PAGEBLOCK_ORDER, Pfn, PfnRange, Platform};
use x86_64::PhysAddr;
use x86_64::structures::paging::{FrameAllocator, FrameDeallocator, PageSize, PhysFrame, Size1GiB, Size2MiB, Size4KiB};

use crate::PageAllocator;

fn allocate<S: PageSize, P: Platform>(frames: &PageAllocator<P>, order: Order) -> Option<PhysFrame<S>> {
    let pfn = frames.alloc_order(order, Gfp::KERNEL).ok()?.into_raw().pfn;
    Some(PhysFrame::containing_address(PhysAddr::new_truncate(pfn.phys())))
}

fn deallocate<S: PageSize, P: Platform>(frames: &PageAllocator<P>, frame: PhysFrame<S>, order: Order) {
    // SAFETY: the trait's caller promises that the frame is unused and was allocated. A frame that is refused all the
    // same is counted in `Stats::bad_frees`; the trait has no error to return.
    #[expect(unsafe_code, reason = "the promise of `deallocate_frame` is that of `free`")]
    let _ = unsafe { frames.free(Pfn::new(frame.start_address().as_u64() / pageblock_frame::PAGE_SIZE), order) };
}

// SAFETY: a frame that was handed out belongs to the caller alone until it is freed.
#[expect(unsafe_code, reason = "the trait promises that frames are unused, which is what an allocator does")]
#[cfg_attr(docsrs, doc(cfg(feature = "x86_64")))]
unsafe impl<P: Platform> FrameAllocator<Size4KiB> for &PageAllocator<P> {
    fn allocate_frame(&mut self) -> Option<PhysFrame<Size4KiB>> {
        allocate(self, Order::ZERO)
    }
}

// SAFETY: as above; a block of the pageblock order is 2 MiB, aligned.
#[expect(unsafe_code, reason = "the trait promises that frames are unused, which is what an allocator does")]
#[cfg_attr(docsrs, doc(cfg(feature = "x86_64")))]
unsafe impl<P: Platform> FrameAllocator<Size2MiB> for &PageAllocator<P> {
    fn allocate_frame(&mut self) -> Option<PhysFrame<Size2MiB>> {
        allocate(self, PAGEBLOCK_ORDER)
    }
}

#[cfg_attr(docsrs, doc(cfg(feature = "x86_64")))]
impl<P: Platform> FrameDeallocator<Size4KiB> for &PageAllocator<P> {
    #[expect(unsafe_code, reason = "declared so by the trait")]
    unsafe fn deallocate_frame(&mut self, frame: PhysFrame<Size4KiB>) {
        deallocate(self, frame, Order::ZERO);
    }
}

#[cfg_attr(docsrs, doc(cfg(feature = "x86_64")))]
impl<P: Platform> FrameDeallocator<Size2MiB> for &PageAllocator<P> {
    #[expect(unsafe_code, reason = "declared so by the trait")]
    unsafe fn deallocate_frame(&mut self, frame: PhysFrame<Size2MiB>) {
        deallocate(self, frame, PAGEBLOCK_ORDER);
    }
}

/// Frames of 1 GiB.
const GIB_FRAMES: u64 = Size1GiB::SIZE / pageblock_frame::PAGE_SIZE;

// SAFETY: as above; a run of as many frames, which is a power of two, is aligned to its size.
#[expect(unsafe_code, reason = "the trait promises that frames are unused, which is what an allocator does")]
#[cfg_attr(docsrs, doc(cfg(feature = "x86_64")))]
unsafe impl<P: Platform> FrameAllocator<Size1GiB> for &PageAllocator<P> {
    fn allocate_frame(&mut self) -> Option<PhysFrame<Size1GiB>> {
        let run = self.request().contiguous(GIB_FRAMES).ok()?.into_raw();
        Some(PhysFrame::containing_address(PhysAddr::new_truncate(run.start.phys())))
    }
}

#[cfg_attr(docsrs, doc(cfg(feature = "x86_64")))]
impl<P: Platform> FrameDeallocator<Size1GiB> for &PageAllocator<P> {
    #[expect(unsafe_code, reason = "declared so by the trait")]
    unsafe fn deallocate_frame(&mut self, frame: PhysFrame<Size1GiB>) {
        let first = Pfn::new(frame.start_address().as_u64() / pageblock_frame::PAGE_SIZE);
        // SAFETY: the trait's caller promises that the frame is unused and was allocated.
        #[expect(unsafe_code, reason = "the promise of `deallocate_frame` is that of `free_range`")]
        let _ = unsafe { self.free_range(PfnRange::from_len(first, GIB_FRAMES)) };
    }
}
