//! Work on whole pageblocks: changing their type, isolating them, the high-order atomic reserve.

use pageblock_frame::{MigrateType, NO_BLOCK, PAGEBLOCK_FRAMES, Pageblock};

use crate::core::{BLOCK_SHIFT, ZoneCore};
use crate::error::IsolateError;

impl ZoneCore<'_> {
    /// Makes a wholly free pageblock a run of its own, if it is part of a larger run. Others are left alone.
    pub(crate) fn detach(&mut self, block: u32) {
        if !self.blocks.get(block as usize).is_some_and(Pageblock::is_wholly_free) {
            return;
        }
        let Some((head, order)) = self.run_of(block) else { return };
        if order == BLOCK_SHIFT {
            return;
        }
        let Some(migrate_type) = self.blocks.get(head as usize).map(|b| b.migrate_type) else { return };
        self.unlink(head);
        self.uncount(order, 1);
        let mut start = head;
        for half in (BLOCK_SHIFT..order).rev() {
            let middle = start + Self::run_blocks(half);
            let (keep, other) = if block >= middle { (middle, start) } else { (start, middle) };
            self.link(other, migrate_type, half);
            self.count(half, 1);
            start = keep;
        }
        self.link(block, migrate_type, BLOCK_SHIFT);
        self.count(BLOCK_SHIFT, 1);
    }

    /// Head and order of the wholly free run that a wholly free pageblock is in.
    pub(crate) fn run_of(&self, block: u32) -> Option<(u32, u32)> {
        (BLOCK_SHIFT..self.max_order + 1).find_map(|order| {
            let head = block & !(Self::run_blocks(order) - 1);
            let listed = self.blocks.get(head as usize).and_then(Self::linked_order)?;
            (listed >= BLOCK_SHIFT && listed >= order).then_some((head, listed))
        })
    }

    /// Changes what a pageblock is for; what is free in it moves to the new type's list with it
    /// (`move_freepages_block()`, here one list entry).
    pub(crate) fn set_type(&mut self, block: u32, migrate_type: MigrateType) {
        self.detach(block);
        let Some(b) = self.blocks.get_mut(block as usize) else { return };
        let (old, free) = (b.migrate_type, u64::from(b.free));
        b.migrate_type = migrate_type;
        self.has_unusable |= matches!(migrate_type, MigrateType::Cma | MigrateType::HighAtomic);
        let listed = Self::linked_order(b);
        let reserve = |migrate_type| if migrate_type == MigrateType::HighAtomic { PAGEBLOCK_FRAMES } else { 0 };
        self.highatomic = (self.highatomic + reserve(migrate_type)).saturating_sub(reserve(old));
        self.sub_free(old, free);
        self.add_free(migrate_type, free);
        if let Some(order) = listed {
            self.unlink(block);
            if order == BLOCK_SHIFT {
                self.uncount(order, 1);
                self.join_run(block, order, migrate_type);
            } else {
                self.link(block, migrate_type, order);
            }
        }
    }

    /// Withholds a pageblock from allocation (`set_migratetype_isolate()`). Its free frames no longer count as free.
    pub(crate) fn isolate(&mut self, block: u32) -> Result<(), IsolateError> {
        let b = self.blocks.get_mut(block as usize).ok_or(IsolateError::OutOfRange)?;
        if b.managed == 0 {
            return Err(IsolateError::OutOfRange);
        }
        if b.migrate_type == MigrateType::Isolate {
            return Err(IsolateError::AlreadyIsolated);
        }
        b.saved_type = b.migrate_type;
        self.isolated_blocks += 1;
        self.set_type(block, MigrateType::Isolate);
        Ok(())
    }

    /// Gives an isolated pageblock back to allocation, as what it was before.
    pub(crate) fn unisolate(&mut self, block: u32) -> Result<(), IsolateError> {
        let b = self.blocks.get(block as usize).ok_or(IsolateError::OutOfRange)?;
        if b.migrate_type != MigrateType::Isolate {
            return Err(IsolateError::NotIsolated);
        }
        let saved = b.saved_type;
        self.isolated_blocks = self.isolated_blocks.saturating_sub(1);
        self.set_type(block, saved);
        Ok(())
    }

    /// Most frames that the high-order atomic reserve may hold before it takes another pageblock.
    #[must_use]
    pub(crate) fn highatomic_limit(&self) -> u64 {
        self.managed / 100 + PAGEBLOCK_FRAMES
    }

    /// Puts a pageblock into the high-order atomic reserve, if the reserve may grow (`reserve_highatomic_pageblock()`).
    pub(crate) fn reserve_highatomic(&mut self, block: u32) -> bool {
        let Some(b) = self.blocks.get(block as usize) else { return false };
        if !self.policy.highatomic || self.highatomic >= self.highatomic_limit() || !b.migrate_type.is_ordinary() {
            return false;
        }
        self.set_type(block, MigrateType::HighAtomic);
        true
    }

    /// Takes one pageblock with something free out of the reserve and gives it to the requester's type
    /// (`unreserve_highatomic_pageblock()`). Unforced, the last one stays. Returns the pageblock.
    pub(crate) fn unreserve_highatomic(&mut self, force: bool, migrate_type: MigrateType) -> Option<u32> {
        if !force && self.highatomic <= PAGEBLOCK_FRAMES {
            return None;
        }
        let lists = self.nonempty[MigrateType::HighAtomic.index()];
        let order = if lists == 0 { return None } else { lists.trailing_zeros() };
        let block = *self.heads.get(crate::core::list_index(MigrateType::HighAtomic, order))?;
        if block == NO_BLOCK {
            return None;
        }
        // A run of several pageblocks of the reserve gives up its first.
        self.set_type(block, migrate_type);
        Some(block)
    }
}
