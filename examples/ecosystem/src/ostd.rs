//! ostd's `GlobalFrameAllocator`. The crate needs a nightly compiler, so its trait is repeated here in shape.

use core::alloc::Layout;

use pageblock::{Config, Frames, Gfp, Order, PageAllocator, Pfn, Platform, RawFrames, Region};

/// As in ostd: sizes and alignments are powers of two of at least a page.
pub trait GlobalFrameAllocator: Sync {
    /// Frames for this layout.
    fn alloc(&self, layout: Layout) -> Option<u64>;
    /// Takes frames back: any part of an allocation, at most the size of one allocation.
    fn dealloc(&self, address: u64, size: usize);
    /// Declares memory usable: at boot or later.
    fn add_free_memory(&self, address: u64, size: usize);
}

/// pageblock behind ostd's trait; `span` is all memory that may be declared.
pub struct Ostd<P: Platform> {
    pub frames: &'static PageAllocator<P>,
    pub span: core::ops::Range<u64>,
}

impl<P: Platform> GlobalFrameAllocator for Ostd<P> {
    fn alloc(&self, layout: Layout) -> Option<u64> {
        let block = self.frames.alloc_order(Order::for_layout(layout)?, Gfp::KERNEL).ok()?;
        Some(block.into_raw().pfn.phys())
    }

    fn dealloc(&self, address: u64, size: usize) {
        let pfn = Pfn::from_phys(address);
        let order = Order::fitting(size.div_ceil(4096) as u64);
        // SAFETY: ostd frees frames it was given, or parts of them, and uses it no more.
        unsafe {
            match order {
                Some(order) if self.frames.order_of(pfn) == Some(order) => {
                    drop(Frames::from_raw(self.frames, RawFrames { pfn, order }));
                }
                _ => _ = self.frames.free_range(pageblock::PfnRange::from_len(pfn, size as u64 / 4096)),
            }
        }
    }

    fn add_free_memory(&self, address: u64, size: usize) {
        let new = Region::usable(address..address + size as u64);
        // SAFETY: ostd declares memory that nothing uses.
        unsafe {
            if self.frames.stats().managed == 0 {
                let below = Region::later(self.span.start..address);
                let above = Region::later(address + size as u64..self.span.end);
                let _ = self.frames.init([below, new, above], &Config::new());
            } else {
                let _ = self.frames.add_memory(new);
            }
        }
    }
}

#[test]
fn memory_is_declared_and_comes_back_in_parts() {
    let _cpu = crate::machine::boot();
    static OWN: PageAllocator<crate::machine::Machine> = PageAllocator::new();
    let lent = crate::machine::FRAMES.request().contiguous(4096).unwrap().into_raw();
    let start = lent.start.phys();
    let ostd = Ostd { frames: &OWN, span: start..lent.end.phys() };
    ostd.add_free_memory(start + (4 << 20), 4 << 20);
    ostd.add_free_memory(start + (12 << 20), 2 << 20);
    let free = OWN.stats().free;
    assert!(free > 1024);
    let layout = Layout::from_size_align(64 << 10, 64 << 10).unwrap();
    let address = ostd.alloc(layout).unwrap();
    assert_eq!(address % (64 << 10), 0);
    ostd.dealloc(address + (16 << 10), 16 << 10);
    ostd.dealloc(address, 16 << 10);
    ostd.dealloc(address + (32 << 10), 32 << 10);
    assert_eq!((OWN.stats().free, OWN.stats().bad_frees), (free, 0));
}
