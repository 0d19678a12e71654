//! Adapters for frame allocators from the registry, called as their documentation says.

use core::num::NonZeroUsize;
use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};

use bitmap_allocator::{BitAlloc, BitAlloc64K};
use buddy_system_allocator::FrameAllocator;
use frame_alloc::{
    DepotAllocator, NoCpuId, PageSize, PhysRange, PhysicalAllocator, Provenance, RegionInit, SummaryBuddyAllocator,
};
use pageblock_frame::{PAGE_SHIFT, PAGE_SIZE};

use super::{Candidate, Report, examine};

/// Examines every peer, in the table's order.
#[must_use]
pub fn examine_all() -> Vec<Report> {
    vec![
        examine::<BuddySystem>(),
        examine::<Bitmap>(),
        examine::<FrameAlloc<Summary>>(),
        examine::<FrameAlloc<Depot>>(),
    ]
}

/// `buddy_system_allocator::FrameAllocator` with orders 0 to 10. Its free returns nothing.
///
/// ```
/// use pageblock_testkit::conformance::{Candidate, peers::BuddySystem};
/// assert_eq!(BuddySystem::new(4096).alloc(0), Some(0));
/// ```
#[derive(Default)]
pub struct BuddySystem(FrameAllocator<11>);

impl core::fmt::Debug for BuddySystem {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(Self::NAME)
    }
}

impl Candidate for BuddySystem {
    const NAME: &'static str = "buddy_system_allocator 0.13";

    fn new(frames: u64) -> Self {
        let mut allocator = FrameAllocator::new();
        allocator.add_frame(0, frames as usize);
        Self(allocator)
    }

    fn alloc(&mut self, order: u8) -> Option<u64> {
        self.0.alloc(1 << order).map(|frame| frame as u64)
    }

    fn free(&mut self, pfn: u64, order: u8) -> Result<(), String> {
        self.0.dealloc(pfn as usize, 1 << order);
        Ok(())
    }

    fn alloc_frames(&mut self, frames: u64) -> Option<Option<u64>> {
        Some(self.0.alloc(frames as usize).map(|frame| frame as u64))
    }
}

/// `bitmap_allocator::BitAlloc64K`. Its free returns whether it freed.
///
/// ```
/// use pageblock_testkit::conformance::{Candidate, peers::Bitmap};
/// assert_eq!(Bitmap::new(4096).alloc(1), Some(0));
/// ```
pub struct Bitmap(Box<BitAlloc64K>);

impl core::fmt::Debug for Bitmap {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(Self::NAME)
    }
}

impl Candidate for Bitmap {
    const NAME: &'static str = "bitmap-allocator 0.4.6";
    const BOUNDED: bool = false;

    fn new(frames: u64) -> Self {
        let mut allocator = Box::new(BitAlloc64K::DEFAULT);
        allocator.insert(0..frames as usize);
        Self(allocator)
    }

    fn alloc(&mut self, order: u8) -> Option<u64> {
        let frame = match order {
            0 => self.0.alloc(),
            _ => self.0.alloc_contiguous(None, 1 << order, order.into()),
        };
        frame.map(|frame| frame as u64)
    }

    fn free(&mut self, pfn: u64, order: u8) -> Result<(), String> {
        let freed = match order {
            0 => self.0.dealloc(pfn as usize),
            _ => self.0.dealloc_contiguous(pfn as usize, 1 << order),
        };
        if freed { Ok(()) } else { Err("false".into()) }
    }

    fn alloc_frames(&mut self, frames: u64) -> Option<Option<u64>> {
        Some(self.0.alloc_contiguous(None, frames as usize, 0).map(|frame| frame as u64))
    }
}

/// Which of `frame-alloc`'s allocators.
pub trait Flavour {
    /// For the table.
    const NAME: &'static str;
    /// The allocator.
    type Allocator: PhysicalAllocator + RegionInit;
    /// An empty one.
    fn new() -> Self::Allocator;
}

/// `frame_alloc::SummaryBuddyAllocator` with orders 0 to 10: the core.
///
/// ```
/// use pageblock_testkit::conformance::peers::{Flavour, Summary};
/// assert!(Summary::NAME.starts_with("frame-alloc"));
/// ```
#[derive(Debug)]
pub struct Summary;

/// `frame_alloc::DepotAllocator` over [`Summary`]: with a cache of single frames.
///
/// ```
/// use pageblock_testkit::conformance::peers::{Depot, Flavour};
/// assert!(Depot::NAME.contains("depot"));
/// ```
#[derive(Debug)]
pub struct Depot;

const BASE: PageSize = PageSize::from_log2(PAGE_SHIFT as u8);

impl Flavour for Summary {
    const NAME: &'static str = "frame-alloc 0.1 core";
    type Allocator = SummaryBuddyAllocator<11, Exposed>;
    fn new() -> Self::Allocator {
        SummaryBuddyAllocator::new(BASE)
    }
}

impl Flavour for Depot {
    const NAME: &'static str = "frame-alloc 0.1 depot";
    type Allocator = DepotAllocator<SummaryBuddyAllocator<11, Exposed>, NoCpuId, 1>;
    fn new() -> Self::Allocator {
        DepotAllocator::new(BASE, SummaryBuddyAllocator::new(BASE))
    }
}

/// Memory with a provenance that was exposed at its allocation.
#[derive(Debug)]
pub struct Exposed;

// SAFETY: `create` recovers the provenance that `FrameAlloc::new` exposed, over the whole pool; `destroy` ends nothing.
#[expect(unsafe_code, reason = "the peer's seam")]
unsafe impl Provenance for Exposed {
    unsafe fn create(phys: usize) -> NonNull<u8> {
        NonNull::new(core::ptr::with_exposed_provenance_mut(phys)).unwrap_or(NonNull::dangling())
    }

    unsafe fn destroy<T>(ptr: NonNull<T>) -> usize {
        ptr.addr().get()
    }
}

/// One of `frame-alloc`'s allocators over real memory, where it keeps its bitmap. Its free is an `unsafe fn` that
/// returns nothing: the wrong frees break its contract, and the table shows the consequence.
///
/// ```
/// use pageblock_testkit::conformance::{Candidate, peers::{FrameAlloc, Summary}};
/// let mut candidate = FrameAlloc::<Summary>::new(4096);
/// let pfn = candidate.alloc(9).unwrap();
/// assert_eq!(candidate.free(pfn, 9), Ok(()));
/// ```
pub struct FrameAlloc<F: Flavour> {
    allocator: F::Allocator,
    base: usize,
    pool: NonNull<u8>,
    layout: Layout,
}

impl<F: Flavour> core::fmt::Debug for FrameAlloc<F> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(F::NAME)
    }
}

// SAFETY: the pool is owned like a `Box`'s bytes, and reached through the allocator only, which is `Sync` itself.
#[expect(unsafe_code, reason = "a raw pointer to owned bytes")]
unsafe impl<F: Flavour> Sync for FrameAlloc<F> where F::Allocator: Sync {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "a raw pointer to owned bytes")]
unsafe impl<F: Flavour> Send for FrameAlloc<F> where F::Allocator: Send {}

impl<F: Flavour> FrameAlloc<F> {
    #[inline(always)]
    fn frames(order: u8) -> NonZeroUsize {
        NonZeroUsize::new(1 << order).unwrap_or(NonZeroUsize::MIN)
    }

    /// The allocator's own call: the address of a block.
    #[inline(always)]
    pub fn alloc_phys(&self, order: u8) -> Option<usize> {
        self.allocator.allocate_physical(BASE, Self::frames(order)).ok()
    }

    /// The allocator's own call: frees the block at an address.
    #[expect(unsafe_code, reason = "the peer's seam")]
    #[inline(always)]
    pub fn free_phys(&self, phys: usize, order: u8) {
        // SAFETY: for right frees the contract holds. The suite's wrong frees break it on purpose; the allocator
        // touches nothing but its own bitmap, in which even the first frame past the end has a bit (of the next order).
        unsafe { self.allocator.deallocate_physical(BASE, Self::frames(order), phys) };
    }
}

impl<F: Flavour> Candidate for FrameAlloc<F> {
    const NAME: &'static str = F::NAME;

    #[expect(unsafe_code, reason = "the peer's seam")]
    fn new(frames: u64) -> Self {
        let bytes = (frames * PAGE_SIZE) as usize;
        let align = (PAGE_SIZE << Self::MAX_ORDER) as usize;
        // Aligned by hand: zeroed memory without large alignment comes untouched from the system.
        let Ok(layout) = Layout::from_size_align(bytes + align, 16) else { panic!("{frames} frames are too many") };
        // SAFETY: the size is not 0.
        let Some(pool) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { handle_alloc_error(layout) };
        let allocator = F::new();
        let base = pool.as_ptr().expose_provenance().next_multiple_of(align);
        // SAFETY: one thread; the memory is ours alone, and stays until the adapter is dropped.
        unsafe { allocator.init(base, bytes, &[PhysRange { base, len: bytes }]) };
        Self { allocator, base, pool, layout }
    }

    fn alloc(&mut self, order: u8) -> Option<u64> {
        self.alloc_phys(order).map(|phys| (phys - self.base) as u64 >> PAGE_SHIFT)
    }

    fn free(&mut self, pfn: u64, order: u8) -> Result<(), String> {
        self.free_phys(self.base + (pfn << PAGE_SHIFT) as usize, order);
        Ok(())
    }
}

impl<F: Flavour> Drop for FrameAlloc<F> {
    #[expect(unsafe_code, reason = "frees what `new` allocated")]
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with this layout; no code uses frames of a pool that is gone.
        unsafe { dealloc(self.pool.as_ptr(), self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_pass_what_is_about_right_use() {
        for report in examine_all() {
            for point in ["blocks are naturally aligned", "no frame is handed out twice", "all frames come back"] {
                let outcome = report.outcomes.iter().find(|(name, _)| *name == point).map(|(_, outcome)| outcome);
                assert!(outcome.is_some_and(super::super::Outcome::is_pass), "{}: {point}: {outcome:?}", report.name);
            }
        }
    }
}
