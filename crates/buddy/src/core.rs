//! A zone's free state: its pageblocks, the lists that order them, and the counts by order.
//!
//! Everything here is reached through the zone lock: [`ZoneCore`] is the value inside it.
//!
//! # Lists
//! A pageblock with anything free is on exactly one list, that of its migrate type and of the largest order it can
//! serve. A wholly free pageblock may be the head of a run of `2^(o-9)` wholly free pageblocks, listed once under its
//! order `o`; the others of the run are [`COVERED`] and on no list. `nonempty[t]` has bit `o` set if and only if that
//! list has an entry.

use bitvec::slice::BitSlice;
use pageblock_frame::{MigrateType, NO_BLOCK, Order, PAGEBLOCK_FRAMES, Pageblock, Pfn, StateTable};

use crate::bits;
use crate::policy::Policy;

/// log2 of the frames in a pageblock, for shifts.
pub(crate) const BLOCK_SHIFT: u32 = 9;
/// Lists of one migrate type: one an order.
pub(crate) const LISTS: usize = Order::COUNT;
/// Value of `linked` for a wholly free pageblock that belongs to the run of a block below it.
pub(crate) const COVERED: u8 = 0xfe;

/// What the zone lock protects.
#[derive(Debug)]
pub struct ZoneCore<'m> {
    pub(crate) blocks: &'m mut [Pageblock],
    pub(crate) states: StateTable<'m>,
    pub(crate) skip: &'m mut BitSlice<u64>,
    /// First frame of block 0: the span's start rounded down to the zone's largest block.
    pub(crate) base: Pfn,
    pub(crate) max_order: u32,
    pub(crate) policy: Policy,
    /// First block of each list, or [`NO_BLOCK`]; index by [`list_index`].
    pub(crate) heads: [u32; LISTS * MigrateType::COUNT],
    /// For each migrate type the orders whose list has an entry.
    pub(crate) nonempty: [u32; MigrateType::COUNT],
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
    /// Isolated pageblocks.
    pub(crate) isolated_blocks: u64,
}

/// The list of a migrate type and an order.
#[inline(always)]
pub(crate) const fn list_index(migrate_type: MigrateType, order: u32) -> usize {
    migrate_type.index() * LISTS + (order as usize & (LISTS - 1))
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
        self.blocks.get(block as usize).map_or(0, |b| u64::from_le_bytes(b.presence))
    }

    /// Puts a block on a list, at its head.
    #[inline(always)]
    pub(crate) fn link(&mut self, block: u32, migrate_type: MigrateType, order: u32) {
        let list = list_index(migrate_type, order);
        let Some(head) = self.heads.get_mut(list) else { return };
        let next = core::mem::replace(head, block);
        if let Some(b) = self.blocks.get_mut(block as usize) {
            b.prev = NO_BLOCK;
            b.next = next;
            b.linked = list as u8;
        }
        if next == NO_BLOCK {
            self.nonempty[migrate_type.index()] |= 1 << order;
        } else if let Some(b) = self.blocks.get_mut(next as usize) {
            b.prev = block;
        }
    }

    /// Takes a block off its list, if it is on one.
    #[inline(always)]
    pub(crate) fn unlink(&mut self, block: u32) {
        let Some(b) = self.blocks.get_mut(block as usize) else { return };
        let (list, prev, next) = (b.linked as usize, b.prev, b.next);
        if list >= self.heads.len() {
            return;
        }
        b.linked = Pageblock::UNLINKED;
        if next != NO_BLOCK
            && let Some(b) = self.blocks.get_mut(next as usize)
        {
            b.prev = prev;
        }
        if prev != NO_BLOCK {
            if let Some(b) = self.blocks.get_mut(prev as usize) {
                b.next = next;
            }
        } else if let Some(head) = self.heads.get_mut(list) {
            *head = next;
            if next == NO_BLOCK {
                self.nonempty[list / LISTS] &= !(1 << (list % LISTS));
            }
        }
    }

    /// The order of the list that holds the block; `None` if it is on no list.
    #[inline(always)]
    pub(crate) fn linked_order(block: &Pageblock) -> Option<u32> {
        ((block.linked as usize) < LISTS * MigrateType::COUNT).then_some(u32::from(block.linked) % LISTS as u32)
    }

    /// Moves a block that is not wholly free to the list that its presence asks for.
    #[inline]
    pub(crate) fn relink(&mut self, block: u32) {
        let Some(b) = self.blocks.get(block as usize) else { return };
        let (linked, migrate_type) = (b.linked, b.migrate_type);
        let wanted = bits::top_order(u64::from_le_bytes(b.presence));
        if wanted.is_some_and(|order| list_index(migrate_type, order) == linked as usize) {
            return;
        }
        self.unlink(block);
        if let Some(order) = wanted {
            self.link(block, migrate_type, order);
        }
    }

    /// Accounts for frames of a block of this type becoming free.
    #[inline(always)]
    pub(crate) fn add_free(&mut self, migrate_type: MigrateType, frames: u64) {
        match migrate_type {
            MigrateType::Isolate => {}
            MigrateType::Cma => {
                self.free = self.free.wrapping_add(frames);
                self.free_cma = self.free_cma.wrapping_add(frames);
            }
            _ => self.free = self.free.wrapping_add(frames),
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
        let slot = &mut self.nr_free[order as usize & (LISTS - 1)];
        *slot = slot.wrapping_add(blocks);
    }

    /// Takes from the number of free blocks of an order.
    #[inline(always)]
    pub(crate) fn uncount(&mut self, order: u32, blocks: u64) {
        self.count(order, blocks.wrapping_neg());
    }

    /// Number of pageblocks in a wholly free run of this order.
    #[inline(always)]
    pub(crate) const fn run_blocks(order: u32) -> u32 {
        1 << (order - BLOCK_SHIFT)
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

const _: () = assert!(PAGEBLOCK_FRAMES == 1 << BLOCK_SHIFT);
const _: () = assert!(LISTS * MigrateType::COUNT < COVERED as usize);
