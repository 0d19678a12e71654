//! `allocator-api2`'s `Allocator`: collections of page size and above, with a block as buffer.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};
use pageblock::{Frames, Gfp, Order, RawFrames};

use crate::machine::{FRAMES, virt_to_phys};

/// Memory in whole blocks, for buffers; a small value would waste most of a frame.
#[derive(Clone, Copy, Default)]
pub struct Pages;

// SAFETY: a block is valid memory until it is freed, wherever this value is moved; all values are the same allocator.
unsafe impl Allocator for Pages {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let order = Order::for_layout(layout).ok_or(AllocError)?;
        let block = FRAMES.alloc_order(order, Gfp::KERNEL).map_err(|_| AllocError)?;
        let memory = NonNull::slice_from_raw_parts(block.as_ptr(), block.bytes() as usize);
        let _ = block.into_raw();
        Ok(memory)
    }

    unsafe fn deallocate(&self, pointer: NonNull<u8>, layout: Layout) {
        // The same order as when it was allocated; a layout of size 0 has one, too.
        let Some(order) = Order::for_layout(layout) else { return };
        let raw = RawFrames { pfn: pageblock::Pfn::from_phys(virt_to_phys(pointer)), order };
        // SAFETY: the caller says that `allocate` gave this out with this layout, and that nothing uses it any more.
        drop(unsafe { Frames::from_raw(&FRAMES, raw) });
    }
}

#[test]
fn a_vector_grows_through_the_orders() {
    let _cpu = crate::machine::boot();
    FRAMES.drain();
    let before = FRAMES.stats().free;
    let mut numbers = allocator_api2::vec::Vec::new_in(Pages);
    for number in 0..300_000u64 {
        numbers.push(number);
    }
    assert!(before - FRAMES.stats().free >= 300_000 * 8 / 4096);
    assert_eq!(numbers.iter().sum::<u64>(), 300_000 * 299_999 / 2);
    drop(numbers);
    assert_eq!(FRAMES.stats().free, before);
}
