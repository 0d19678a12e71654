//! Which regions have a pageblock for a request: one word a set, one bit a region.
//!
//! A search reads the words without a lock, takes the lock of the region that they name, and looks again there. The
//! holder of a region's lock sets and clears that region's bits before it lets go, so that a bit is exact whenever the
//! lock is free.
//!
//! | word | bit | set while |
//! |---|---|---|
//! | a type and an order 0 to 9 | a region | the region's [`FreeArea`](crate::free_area::FreeArea) has a member in that set |
//! | reserved, a type | a region | one of its pageblocks is reserved for a CPU's refills |
//!
//! # A search that finds nothing
//! A pageblock may move between sets while a search reads one after the other, so that the search sees it in none. Each
//! update enters the new sets, counts itself in `moves`, and leaves the old ones, in this order; a search that finds
//! nothing looks at `moves` again, and begins anew if it has changed.
//!
//! Why that suffices: a search that missed the pageblock in its new set read that set before the entry, and so `moves`
//! before the count, since a read of the count (acquire, of a release) would have made the entry visible. If it missed
//! the pageblock in its old set as well, it read that set after the departure (acquire, of a release), which makes the
//! count visible to its second look.

use pageblock_frame::MigrateType;
use pageblock_frame::sync::{AtomicUsize, Ordering};

use crate::free_area::{FreeAreaId, Members, ROW};

/// Regions that a zone has at most: the bits of a word.
pub(crate) const MOST_REGIONS: usize = usize::BITS as usize;

/// For each set the regions that have a member.
#[derive(Debug)]
pub(crate) struct Summary {
    sets: [AtomicUsize; ROW],
    /// Updates so far.
    moves: AtomicUsize,
}

impl Summary {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self { sets: [const { AtomicUsize::new(0) }; ROW], moves: AtomicUsize::new(0) }
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self { sets: core::array::from_fn(|_| AtomicUsize::new(0)), moves: AtomicUsize::new(0) }
    }

    /// The regions with a member of a set, one bit each.
    #[inline]
    pub(crate) fn regions(&self, set: FreeAreaId) -> u64 {
        // Acquire: pairs with the releases in `update` (see above).
        self.sets[set.index()].load(Ordering::Acquire) as u64
    }

    /// Updates so far: read before a search, and again if it has found nothing.
    #[inline]
    pub(crate) fn moves(&self) -> usize {
        // Acquire: pairs with the release in `update` (see above).
        self.moves.load(Ordering::Acquire)
    }

    /// The lowest region with a pageblock of a type that has the smallest largest order from `order` to 8, and that
    /// order.
    #[inline]
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
        // Release each: pairs with the acquires of searches (see above).
        for set in now.appeared_since(before) {
            self.sets[set.index()].fetch_or(1usize.wrapping_shl(region), Ordering::Release);
        }
        self.moves.fetch_add(1, Ordering::Release);
        for set in before.appeared_since(now) {
            self.sets[set.index()].fetch_and(!1usize.wrapping_shl(region), Ordering::Release);
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
    #[inline]
    fn of(regions: u64, top: u32) -> Option<Self> {
        (regions != 0).then(|| Self { region: regions.trailing_zeros(), top })
    }
}
