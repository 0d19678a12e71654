//! Allocators as the loops see them.

use core::hint::black_box;

use bitmap_allocator::{BitAlloc, BitAlloc1M};
use buddy_system_allocator::FrameAllocator;
use pageblock_buddy::{Zone, ZoneConfig, ZoneStorage};
use pageblock_frame::{Carver, NodeId, Pfn, PfnRange, ZoneKind};
use pageblock_testkit::conformance::Candidate;
use pageblock_testkit::conformance::peers::{Flavour, FrameAlloc};
use pageblock_testkit::host::{Quiet, Stored};

/// An allocator of blocks of frames, named by whatever number it returns natively (a frame number or an address).
pub trait Frames {
    /// All `frames` frames free.
    fn new(frames: u64) -> Self;
    /// A block of `2^order` frames; `None` if the request is refused.
    fn alloc(&mut self, order: u8) -> Option<u64>;
    /// Takes a block back.
    fn free(&mut self, block: u64, order: u8);
    /// Allocates all frames one by one, also those that ordinary requests are denied.
    fn exhaust(&mut self) -> Vec<u64> {
        core::iter::from_fn(|| self.alloc(0)).collect()
    }
    /// Allocates blocks of an order until there is none, nothing being kept back for later: how many.
    fn count_blocks(&mut self, order: u8) -> u64 {
        core::iter::from_fn(|| self.alloc(order)).count() as u64
    }
}

#[cold]
#[inline(never)]
pub(crate) fn refused(order: u8) -> ! {
    panic!("a block of order {order} was refused, or its free")
}

/// Does nothing, opaquely: the cost of a loop without an allocator.
#[derive(Debug)]
pub struct Nothing;

impl Frames for Nothing {
    fn new(_frames: u64) -> Self {
        Self
    }

    #[inline(always)]
    fn alloc(&mut self, order: u8) -> Option<u64> {
        Some(black_box(u64::from(order)))
    }

    #[inline(always)]
    fn free(&mut self, block: u64, order: u8) {
        black_box((block, order));
    }
}

/// An empty zone that spans `frames` frames from 0, over storage of its own.
///
/// # Panics
/// If there are more than 2^32 frames, or none.
#[must_use]
#[expect(unsafe_code, reason = "the testkit's seam: a zone together with its storage")]
pub fn empty_zone(frames: u64) -> Stored<Zone<'static>> {
    let span = PfnRange::from_len(Pfn::new(0), frames);
    let config = ZoneConfig::new(ZoneKind::Normal, NodeId::new(0), span);
    // SAFETY: the benches keep nothing of a zone longer than the zone.
    unsafe {
        Stored::new(ZoneStorage::bytes(span, config.max_order), |raw| {
            let storage = ZoneStorage::carve(span, config.max_order, &mut Carver::new(raw));
            match storage.map(|storage| Zone::new::<Quiet>(config, storage)) {
                Some(Ok(zone)) => zone,
                other => panic!("{frames} frames: {other:?}"),
            }
        })
    }
}

/// `buddy_system_allocator::FrameAllocator` with orders 0 to 10.
pub struct BuddySystem(FrameAllocator<11>);

impl core::fmt::Debug for BuddySystem {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("buddy_system_allocator")
    }
}

impl Frames for BuddySystem {
    fn new(frames: u64) -> Self {
        let mut allocator = FrameAllocator::new();
        allocator.add_frame(0, frames as usize);
        Self(allocator)
    }

    #[inline(always)]
    fn alloc(&mut self, order: u8) -> Option<u64> {
        self.0.alloc(1 << order).map(|frame| frame as u64)
    }

    #[inline(always)]
    fn free(&mut self, block: u64, order: u8) {
        self.0.dealloc(block as usize, 1 << order);
    }
}

/// `bitmap_allocator::BitAlloc1M`.
pub struct Bitmap(Box<BitAlloc1M>);

impl core::fmt::Debug for Bitmap {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("bitmap-allocator")
    }
}

impl Frames for Bitmap {
    fn new(frames: u64) -> Self {
        let mut allocator = Box::new(BitAlloc1M::DEFAULT);
        allocator.insert(0..frames as usize);
        Self(allocator)
    }

    #[inline(always)]
    fn alloc(&mut self, order: u8) -> Option<u64> {
        let frame = match order {
            0 => self.0.alloc(),
            _ => self.0.alloc_contiguous(None, 1 << order, order.into()),
        };
        frame.map(|frame| frame as u64)
    }

    #[inline(always)]
    fn free(&mut self, block: u64, order: u8) {
        let freed = match order {
            0 => self.0.dealloc(block as usize),
            _ => self.0.dealloc_contiguous(block as usize, 1 << order),
        };
        if !freed {
            refused(order);
        }
    }
}

impl<F: Flavour> Frames for FrameAlloc<F> {
    fn new(frames: u64) -> Self {
        <Self as Candidate>::new(frames)
    }

    #[inline(always)]
    fn alloc(&mut self, order: u8) -> Option<u64> {
        self.alloc_phys(order).map(|phys| phys as u64)
    }

    #[inline(always)]
    fn free(&mut self, block: u64, order: u8) {
        self.free_phys(block as usize, order);
    }
}
