//! A region: a run of pageblocks with one lock, and all that is derived from their free maps.
//!
//! A zone is at most 64 regions. Blocks never cross from one region into another, so that each is a small zone of its
//! own; their common data (watermarks, totals, contents of regions) is published by the holder of the region's
//! lock before it lets go. Frame and pageblock numbers in here count from the region's first frame.

use pageblock_frame::{
    MigrateType, Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, Pageblock, Pageblocks, Pfn, StateTable, TopChange,
    const_unless_model,
};

use crate::events::ZoneEvents;
use crate::free_area::{FreeArea, FreeAreaId, Members, Reserved};

/// log2 of the frames in a pageblock, for shifts.
pub(crate) const BLOCK_SHIFT: u32 = 9;

/// The state that a region's lock protects.
///
/// Aligned, so that the lock itself is not on a cache line that its holder writes: the CPUs that wait for it read
/// that line again and again.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Region<'m> {
    pub(crate) blocks: Pageblocks<'m>,
    pub(crate) states: StateTable<'m>,
    /// One bit a pageblock, for the scanners of compaction: nothing to be found there.
    pub(crate) skip: &'m mut [u64],
    pub(crate) free_area: FreeArea<'m>,
    /// Zone-relative index of the first frame.
    pub(crate) offset: u32,
    /// The first frame.
    pub(crate) base: Pfn,
    pub(crate) max_order: u32,
    /// Levels above a single pageblock that a free run can have: `max_order - 9`.
    pub(crate) levels: u32,
    /// Maximal free blocks by order, of all types (`nr_free`).
    pub(crate) nr_free: [u64; Order::COUNT],
    /// Frames that belong to the allocator.
    pub(crate) managed: u64,
    /// Some frame has been marked as reserved or a hole.
    pub(crate) absent_marked: bool,
    /// Isolated pageblocks.
    pub(crate) isolated_blocks: u64,
    /// Some pageblock is or was CMA or in the high-order atomic reserve.
    pub(crate) has_unusable: bool,
    /// The region's part of the zone's totals.
    pub(crate) totals: Totals,
    /// The part that was added to the zone's totals last.
    pub(crate) published: Totals,
    /// The sets that the zone's summary knows to have a member here.
    pub(crate) published_members: Members,
    /// Wholly free pageblocks that the zone knows of.
    pub(crate) published_whole: u32,
    /// How far the zone knows that pageblocks have been opened.
    pub(crate) published_opened: u32,
    /// Counts since boot.
    pub(crate) events: ZoneEvents,
}

/// A region's part of the zone's totals, in frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Totals {
    /// Free frames outside isolated pageblocks (`NR_FREE_PAGES`).
    pub(crate) free: u64,
    /// Free frames in CMA pageblocks (`NR_FREE_CMA_PAGES`).
    pub(crate) free_cma: u64,
    /// Frames in pageblocks of the high-order atomic reserve: whole pageblocks.
    pub(crate) highatomic: u64,
}

/// Storage of a region, all of it for the same pageblocks.
pub(crate) struct RegionStorage<'m> {
    pub(crate) blocks: Pageblocks<'m>,
    pub(crate) skip: &'m mut [u64],
    pub(crate) free_area: FreeArea<'m>,
}

impl<'m> Region<'m> {
    const_unless_model! {
        /// A region without pageblocks: it is set up where it stays, since a boot stack has no room for one.
        pub(crate) const fn empty() -> Self {
            Self {
                free_area: FreeArea::empty(),
                states: Pageblocks::none().states(),
                blocks: Pageblocks::none(),
                skip: &mut [],
                offset: 0,
                base: Pfn::new(0),
                max_order: 0,
                levels: 0,
                nr_free: [0; Order::COUNT],
                managed: 0,
                absent_marked: false,
                isolated_blocks: 0,
                has_unusable: false,
                totals: Totals { free: 0, free_cma: 0, highatomic: 0 },
                published: Totals { free: 0, free_cma: 0, highatomic: 0 },
                published_members: Members::NONE,
                published_whole: 0,
                published_opened: 0,
                events: ZoneEvents::new(),
            }
        }
    }

    /// Gives an empty region its pageblocks, without a frame of the allocator's.
    pub(crate) fn set_up(&mut self, storage: RegionStorage<'m>, base: Pfn, offset: u32, max_order: Order) {
        self.states = storage.blocks.states();
        self.blocks = storage.blocks;
        self.skip = storage.skip;
        self.free_area = storage.free_area;
        self.base = base;
        self.offset = offset;
        self.max_order = u32::from(max_order.as_u8());
        self.levels = self.max_order.saturating_sub(u32::from(PAGEBLOCK_ORDER.as_u8()));
    }
}

impl Region<'_> {
    /// The frame with this index.
    #[inline]
    pub(crate) fn pfn_of(&self, index: u32) -> Pfn {
        self.base.add(u64::from(index))
    }

    /// One bit for each full word of a pageblock.
    #[inline]
    pub(crate) fn full_words(&self, block: u32) -> u32 {
        self.blocks.get(block).map_or(0, Pageblock::full_words)
    }

    /// The most fragmented pageblock of the type, not wholly free, that serves `order < 9`.
    #[inline]
    pub(crate) fn partial(&self, migrate_type: MigrateType, order: u32) -> Option<u32> {
        self.free_area.most_fragmented(migrate_type, order)
    }

    /// A pageblock's largest order has changed, while it is not wholly free: moves it between the sets of its type,
    /// unless it is reserved and so in none of them.
    #[inline]
    pub(crate) fn top_changed(&mut self, block: u32, change: TopChange) {
        let Some(b) = self.blocks.get(block) else { return };
        if b.reserved_by() == 0 {
            self.free_area.change(b.migrate_type(), block, change);
        }
    }

    /// Makes a pageblock's presence that of its map, if blocks have come back since: before words are taken from it.
    #[inline]
    pub(crate) fn freshen(&mut self, block: u32) {
        if let Some(b) = self.blocks.known_mut(block) {
            b.freshen();
        }
    }

    /// Reserves a pageblock with something free for the refills of one CPU: no search finds it any more.
    pub(crate) fn reserve(&mut self, block: u32, reserved_by: u16) {
        self.unreserve(block);
        let Some(b) = self.blocks.known_mut(block) else { return };
        b.set_reserved_by(reserved_by);
        let (migrate_type, from) = (b.migrate_type(), i32::from(b.top() as i8));
        self.free_area.change(migrate_type, block, TopChange { from, to: -1 });
        self.free_area.set_reserved(migrate_type, block, Reserved::Yes);
    }

    /// True if one of the type's reserved pageblocks serves the order.
    pub(crate) fn reserved_serves(&self, migrate_type: MigrateType, order: u32) -> bool {
        let set = FreeAreaId::reserved(migrate_type);
        let next = |&block: &u32| self.free_area.first_from(set, block + 1);
        core::iter::successors(self.free_area.first_from(set, 0), next)
            // `NO_TOP` is one below order 0, also as a signed number.
            .any(|block| self.blocks.get(block).is_some_and(|b| i32::from(b.top() as i8) >= order as i32))
    }

    /// Ends a pageblock's reservation, if it has one.
    #[inline]
    pub(crate) fn unreserve(&mut self, block: u32) {
        if self.blocks.get(block).is_some_and(|b| b.reserved_by() != 0) {
            self.end_reservation(block);
        }
    }

    #[inline(never)]
    fn end_reservation(&mut self, block: u32) {
        let Some(b) = self.blocks.known_mut(block) else { return };
        b.set_reserved_by(0);
        let (migrate_type, to) = (b.migrate_type(), i32::from(b.top() as i8));
        self.free_area.set_reserved(migrate_type, block, Reserved::No);
        self.free_area.change(migrate_type, block, TopChange { from: -1, to });
    }

    /// Accounts for frames of a block of this type becoming free.
    #[inline]
    pub(crate) fn add_free(&mut self, migrate_type: MigrateType, frames: u64) {
        let totals = &mut self.totals;
        if migrate_type as u8 <= MigrateType::HighAtomic as u8 {
            totals.free = totals.free.wrapping_add(frames);
        } else if migrate_type == MigrateType::Cma {
            totals.free = totals.free.wrapping_add(frames);
            totals.free_cma = totals.free_cma.wrapping_add(frames);
        }
    }

    /// Accounts for frames of a block of this type ceasing to be free.
    #[inline]
    pub(crate) fn sub_free(&mut self, migrate_type: MigrateType, frames: u64) {
        self.add_free(migrate_type, frames.wrapping_neg());
    }

    /// Adds to the number of free blocks of an order.
    #[inline]
    pub(crate) fn count(&mut self, order: u32, blocks: u64) {
        let slot = &mut self.nr_free[order as usize & (Order::COUNT - 1)];
        *slot = slot.wrapping_add(blocks);
    }

    /// Takes from the number of free blocks of an order.
    #[inline]
    pub(crate) fn uncount(&mut self, order: u32, blocks: u64) {
        self.count(order, blocks.wrapping_neg());
    }

    /// True if a pageblock's skip bit is set.
    pub(crate) fn is_skipped(&self, block: u32) -> bool {
        self.skip.get((block / 64) as usize).is_some_and(|word| word >> (block % 64) & 1 == 1)
    }
}

const _: () = assert!(PAGEBLOCK_FRAMES == 1 << BLOCK_SHIFT);
