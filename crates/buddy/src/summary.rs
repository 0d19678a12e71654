//! Which regions have a pageblock for a request: one word a set, one bit a region.
//!
//! A search reads the words without a lock, takes the lock of the region that they name, and looks again there. The holder of a
//! region's lock sets and clears that region's bits before it lets go, so that a bit is exact whenever the lock is free.
//!
//! | word | bit | set while |
//! |---|---|---|
//! | a type and an order 0 to 9 | a region | the region's [`FreeArea`](crate::free_area::FreeArea) has a member in that set |
//! | reserved, a type | a region | one of its pageblocks is reserved for a CPU's refills |
//!
//! # Orderings
//! A pageblock whose largest order changes enters its new set before it leaves the old one, and each change is a release. So a search
//! that goes up through the orders and sees it gone from the old set sees it in a larger one, and one that goes down sees it in a
//! smaller one; a search that failed in both directions failed at a moment at which nothing served.

use pageblock_frame::MigrateType;
use pageblock_frame::sync::{AtomicUsize, Ordering};

use crate::free_area::{FreeAreaId, Members, ROW};

/// Regions that a zone has at most: the bits of a word.
pub(crate) const MOST_REGIONS: usize = usize::BITS as usize;

/// For each set the regions that have a member.
#[derive(Debug)]
pub(crate) struct Summary([AtomicUsize; ROW]);

impl Summary {
    pub(crate) fn new() -> Self {
        Self(core::array::from_fn(|_| AtomicUsize::new(0)))
    }

    /// The regions with a member of a set, one bit each.
    #[inline(always)]
    pub(crate) fn regions(&self, set: FreeAreaId) -> u64 {
        // Acquire: pairs with the releases in `update`, for the two directions of a search (see above).
        self.0[set.index()].load(Ordering::Acquire) as u64
    }

    /// The lowest region with a pageblock of a type whose largest order is the smallest from `order` to 8, and that order.
    #[inline(always)]
    pub(crate) fn most_fragmented(&self, migrate_type: MigrateType, order: u32) -> Option<Found> {
        let set = |top| FreeAreaId::new(migrate_type, top);
        (order..FreeAreaId::WHOLE).find_map(|top| Found::of(self.regions(set(top)), top))
    }

    /// The same from the other end: the largest order from 8 down to `order`.
    pub(crate) fn least_fragmented(&self, migrate_type: MigrateType, order: u32) -> Option<Found> {
        let set = |top| FreeAreaId::new(migrate_type, top);
        (order..FreeAreaId::WHOLE).rev().find_map(|top| Found::of(self.regions(set(top)), top))
    }

    /// Makes a region's bits those of `now`, where they were those of `before`. The caller holds the region's lock.
    #[cold]
    #[inline(never)]
    pub(crate) fn update(&self, region: u32, before: Members, now: Members) {
        for set in now.appeared_since(before) {
            self.0[set.index()].fetch_or(1usize.wrapping_shl(region), Ordering::AcqRel);
        }
        for set in before.appeared_since(now) {
            self.0[set.index()].fetch_and(!1usize.wrapping_shl(region), Ordering::AcqRel);
        }
    }
}

/// A region in which a search may succeed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub(crate) region: u32,
    pub(crate) top: u32,
}

impl Found {
    #[inline(always)]
    fn of(regions: u64, top: u32) -> Option<Self> {
        (regions != 0).then(|| Self { region: regions.trailing_zeros(), top })
    }
}
