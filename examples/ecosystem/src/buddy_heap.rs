//! `buddy_system_allocator`'s heap, which is given a block whenever it has nothing left.

use core::alloc::Layout;
use core::ptr::NonNull;

use buddy_system_allocator::Heap;
use pageblock::{AllocError, Gfp, Order};

use crate::machine::FRAMES;

/// A heap that grows by blocks of 256 KiB, or as large as one request.
#[derive(Default)]
pub struct GrowingHeap {
    heap: Heap<32>,
}

impl GrowingHeap {
    const STEP: Order = Order::saturating(6);

    /// Memory for a value of this layout.
    ///
    /// # Errors
    /// [`AllocError`] if there is no block to grow by.
    pub fn alloc(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        if let Ok(pointer) = self.heap.alloc(layout) {
            return Ok(pointer);
        }
        // The heap rounds up to powers of two, and so does an order.
        let order = Order::for_layout(layout).ok_or(AllocError::OutOfMemory)?.max(Self::STEP);
        let block = FRAMES.alloc_order(order, Gfp::KERNEL)?;
        let (start, bytes) = (block.as_ptr().as_ptr().expose_provenance(), block.bytes() as usize);
        let _ = block.into_raw();
        // SAFETY: the block was the handle's alone, which has been given up for good.
        unsafe { self.heap.add_to_heap(start, start + bytes) };
        self.heap.alloc(layout).map_err(|()| AllocError::OutOfMemory)
    }

    /// Takes memory back; it stays the heap's.
    ///
    /// # Safety
    /// `pointer` is from [`alloc`](Self::alloc) with this layout, and nothing uses it any more.
    pub unsafe fn dealloc(&mut self, pointer: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { self.heap.dealloc(pointer, layout) };
    }
}

#[test]
fn it_grows_as_it_is_used() {
    let _cpu = crate::machine::boot();
    let mut heap = GrowingHeap::default();
    let before = FRAMES.stats().free;
    let layout = Layout::new::<[u8; 2048]>();
    let taken: Vec<_> = (0..1000).map(|_| heap.alloc(layout).unwrap()).collect();
    assert_eq!(before - FRAMES.stats().free, 8 * 64);
    let large = Layout::new::<[u8; 3 << 20]>();
    let one = heap.alloc(large).unwrap();
    for pointer in taken {
        // SAFETY: allocated above with this layout.
        unsafe { heap.dealloc(pointer, layout) };
    }
    // SAFETY: as above.
    unsafe { heap.dealloc(one, large) };
    // Freed memory serves again, without growth.
    let free = FRAMES.stats().free;
    heap.alloc(large).unwrap();
    assert_eq!(FRAMES.stats().free, free);
}
