//! A zone's free state: its pageblocks, the sets that say which can serve what, and the counts by order.
//!
//! Everything here is reached through the zone lock: [`ZoneCore`] is the value inside it.

use bitvec::slice::BitSlice;
use pageblock_frame::{BLOCK_WORDS, MigrateType, Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, Pageblock, Pfn, StateTable};

use crate::bits;
use crate::events::ZoneEvents;
use crate::fallback::Loan;
use crate::free_area::{FreeArea, TopChange};
use crate::policy::Policy;
use crate::reservations::CpuReservations;
use crate::storage::ZoneStorage;
use crate::zone::ZoneConfig;

/// log2 of the frames in a pageblock, for shifts.
pub(crate) const BLOCK_SHIFT: u32 = 9;

/// What the zone lock protects.
///
/// Aligned, so that the lock itself is not on a cache line of what its holder writes: who waits for it reads that line again and
/// again.
#[derive(Debug)]
#[repr(align(128))]
pub struct ZoneCore<'m> {
    pub(crate) blocks: &'m mut [Pageblock],
    pub(crate) states: StateTable<'m>,
    pub(crate) skip: &'m mut BitSlice<u64>,
    pub(crate) free_area: FreeArea<'m>,
    /// First frame of block 0: the span's start rounded down to the zone's largest block.
    pub(crate) base: Pfn,
    pub(crate) max_order: u32,
    /// Levels above a single pageblock that a free run can have: `max_order - 9`.
    pub(crate) levels: u32,
    pub(crate) policy: Policy,
    /// Maximal free blocks by order, of all types (`nr_free`).
    pub(crate) nr_free: [u64; Order::COUNT],
    /// Free frames outside isolated pageblocks (`NR_FREE_PAGES`).
    pub(crate) free: u64,
    /// Free frames in CMA pageblocks (`NR_FREE_CMA_PAGES`).
    pub(crate) free_cma: u64,
    /// Frames that exist, and frames that belong to the allocator.
    pub(crate) present: u64,
    pub(crate) managed: u64,
    /// Some frame has been marked as reserved or a hole.
    pub(crate) absent_marked: bool,
    /// Some pageblock is or was CMA or in the high-order atomic reserve.
    pub(crate) has_unusable: bool,
    /// Frames in pageblocks of the high-order atomic reserve: whole pageblocks.
    pub(crate) highatomic: u64,
    /// For each ordinary type what it may still take from a pageblock of another type without another mixing.
    pub(crate) borrowed: [Loan; MigrateType::PCP_COUNT],
    /// From which pageblock each CPU's lists take.
    pub(crate) reservations: CpuReservations,
    /// Isolated pageblocks.
    pub(crate) isolated_blocks: u64,
    /// A mixing below this order is refused to requests with [`AllocFlags::FRAGMENT_STALL`](pageblock_frame::AllocFlags::FRAGMENT_STALL).
    pub(crate) stall_order: u32,
    /// Types were mixed, or that was refused, since [`Zone`](crate::Zone) last looked: it is to be boosted.
    pub(crate) mixed: bool,
    /// A type that cannot move took the last whole pageblock, or found none: the compaction thread is to be asked for one.
    pub(crate) short: bool,
    /// Counts since boot.
    pub(crate) events: ZoneEvents,
}

impl<'m> ZoneCore<'m> {
    /// A zone without frames over storage of the right size.
    pub(crate) fn new(config: &ZoneConfig, base: Pfn, storage: ZoneStorage<'m>) -> Self {
        let ZoneStorage { blocks, states, skip, sets } = storage;
        let max_order = config.max_order;
        Self {
            free_area: FreeArea::new(sets, blocks.len()),
            blocks,
            states,
            skip,
            base,
            max_order: u32::from(max_order.as_u8()),
            levels: u32::from(max_order.as_u8() - PAGEBLOCK_ORDER.as_u8()),
            policy: config.policy,
            nr_free: [0; Order::COUNT],
            free: 0,
            free_cma: 0,
            present: 0,
            managed: 0,
            absent_marked: false,
            has_unusable: false,
            highatomic: 0,
            borrowed: [Loan::NONE; MigrateType::PCP_COUNT],
            reservations: CpuReservations::new(),
            isolated_blocks: 0,
            stall_order: u32::from(config.stall_order),
            mixed: false,
            short: false,
            events: ZoneEvents::default(),
        }
    }
}

impl ZoneCore<'_> {
    /// The frame with this index.
    #[inline(always)]
    pub(crate) fn pfn_of(&self, index: u32) -> Pfn {
        self.base.add(u64::from(index))
    }

    /// The block's presence as one word.
    #[inline(always)]
    pub(crate) fn presence(&self, block: u32) -> u64 {
        self.blocks.get(block as usize).map_or(0, |b| b.presence)
    }

    /// The most fragmented pageblock of the type, not wholly free, that serves `order < 9`.
    #[inline(always)]
    pub(crate) fn partial(&self, migrate_type: MigrateType, order: u32) -> Option<u32> {
        self.free_area.most_fragmented(migrate_type, order)
    }

    /// Moves a pageblock that is not wholly free between the sets of its type, after its largest order changed.
    #[inline(never)]
    pub(crate) fn set_top(&mut self, block: u32, top: u8) {
        let Some(b) = self.blocks.get_mut(block as usize) else { return };
        let old = core::mem::replace(&mut b.top, top);
        if old != top {
            self.free_area.change(b.migrate_type, block, TopChange::of(old, top));
        }
    }

    /// Makes a pageblock's presence what its map says, if blocks have come back since: before anything is taken from it.
    #[inline(always)]
    pub(crate) fn freshen(&mut self, block: u32) {
        if let Some(b) = self.blocks.get_mut(block as usize)
            && b.loose != 0
        {
            recompute(b);
        }
    }

    /// Recomputes the largest order of a pageblock that is not wholly free.
    pub(crate) fn refresh_top(&mut self, block: u32) {
        let top = bits::top_order(self.presence(block)).map_or(Pageblock::NO_TOP, |order| order as u8);
        if self.blocks.get(block as usize).is_some_and(|b| b.top != top) {
            self.set_top(block, top);
        }
    }

    /// Accounts for frames of a block of this type becoming free.
    #[inline(always)]
    pub(crate) fn add_free(&mut self, migrate_type: MigrateType, frames: u64) {
        if migrate_type as u8 <= MigrateType::HighAtomic as u8 {
            self.free = self.free.wrapping_add(frames);
        } else if migrate_type == MigrateType::Cma {
            self.free = self.free.wrapping_add(frames);
            self.free_cma = self.free_cma.wrapping_add(frames);
        }
    }

    /// Accounts for frames of a block of this type ceasing to be free.
    #[inline(always)]
    pub(crate) fn sub_free(&mut self, migrate_type: MigrateType, frames: u64) {
        self.add_free(migrate_type, frames.wrapping_neg());
    }

    /// Adds to the number of free blocks of an order.
    #[inline(always)]
    pub(crate) fn count(&mut self, order: u32, blocks: u64) {
        let slot = &mut self.nr_free[order as usize & (Order::COUNT - 1)];
        *slot = slot.wrapping_add(blocks);
    }

    /// Takes from the number of free blocks of an order.
    #[inline(always)]
    pub(crate) fn uncount(&mut self, order: u32, blocks: u64) {
        self.count(order, blocks.wrapping_neg());
    }

    /// Sets the map of a pageblock to wholly free, or to nothing free.
    #[inline(always)]
    pub(crate) fn fill(b: &mut Pageblock, free: bool) {
        let (word, presence, frames, top) = if free {
            (u64::MAX, bits::ALL_FULL, 1 << BLOCK_SHIFT, Pageblock::WHOLE)
        } else {
            (0, 0, 0, Pageblock::NO_TOP)
        };
        b.map = [word; BLOCK_WORDS];
        b.presence = presence;
        b.free = frames;
        b.top = top;
    }

    /// The pageblocks of the zone.
    #[must_use]
    pub fn pageblocks(&self) -> &[Pageblock] {
        self.blocks
    }

    /// One bit a pageblock, for the scanners of compaction: nothing to be found there.
    #[must_use]
    pub fn skip_bits(&self) -> &BitSlice<u64> {
        self.skip
    }

    /// Free frames outside isolated pageblocks.
    #[must_use]
    pub fn free_frames(&self) -> u64 {
        self.free
    }
}

#[cold]
#[inline(never)]
fn recompute(b: &mut Pageblock) {
    b.presence = bits::block_presence(&b.map);
    b.loose = 0;
}

const _: () = assert!(PAGEBLOCK_FRAMES == 1 << BLOCK_SHIFT);
