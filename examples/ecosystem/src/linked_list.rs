//! `linked_list_allocator` in a run of frames. The run is neighbouring memory, so that the heap can begin with any
//! number of frames.

use core::mem::MaybeUninit;

use linked_list_allocator::Heap;
use pageblock::{AllocError, Gfp};

use crate::machine::{FRAMES, Machine};
use pageblock::Platform;

/// A heap of so many bytes, rounded up to frames.
///
/// # Errors
/// [`AllocError`] if there is no such run.
pub fn heap(bytes: u64) -> Result<Heap, AllocError> {
    let run = FRAMES.request().gfp(Gfp::KERNEL).contiguous(bytes.div_ceil(4096))?.into_raw();
    let start = Machine::phys_to_virt(run.start.phys()).cast::<MaybeUninit<u8>>();
    // SAFETY: the run was the handle's alone, which has been given up for good; it is mapped for ever, neighbour by
    // neighbour.
    let memory = unsafe { core::slice::from_raw_parts_mut(start.as_ptr(), (run.len() * 4096) as usize) };
    Ok(Heap::from_slice(memory))
}

#[test]
fn it_serves_what_a_kernel_boxes() {
    let _cpu = crate::machine::boot();
    let mut heap = heap(5 << 20).unwrap();
    let layout = core::alloc::Layout::new::<[u64; 100]>();
    let taken: Vec<_> = core::iter::from_fn(|| heap.allocate_first_fit(layout).ok()).collect();
    assert!(taken.len() > 6000, "{}", taken.len());
    for pointer in taken {
        // SAFETY: allocated above with this layout.
        unsafe { heap.deallocate(pointer, layout) };
    }
    assert_eq!(heap.used(), 0);
}
