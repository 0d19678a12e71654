//! Work on whole pageblocks: changing their type, isolating them, the high-order atomic reserve.

use pageblock_frame::{MigrateType, PAGEBLOCK_FRAMES, Pageblock};

use crate::core::{BLOCK_SHIFT, ZoneCore};
use crate::error::IsolateError;

impl ZoneCore<'_> {
    /// Changes what a pageblock is for; what is free in it goes along (`move_freepages_block()`, here a few bits).
    pub(crate) fn set_type(&mut self, block: u32, migrate_type: MigrateType) {
        let Some(b) = self.blocks.get_mut(block as usize) else { return };
        let (old, top, free) = (b.migrate_type, b.top, u64::from(b.free));
        self.has_unusable |= matches!(migrate_type, MigrateType::Cma | MigrateType::HighAtomic);
        let reserve = |migrate_type| if migrate_type == MigrateType::HighAtomic { PAGEBLOCK_FRAMES } else { 0 };
        self.highatomic = (self.highatomic + reserve(migrate_type)).saturating_sub(reserve(old));
        self.sub_free(old, free);
        self.add_free(migrate_type, free);
        if top == Pageblock::WHOLE {
            self.leave_whole(block, old);
        } else {
            self.set_top(block, Pageblock::NO_TOP);
        }
        let Some(b) = self.blocks.get_mut(block as usize) else { return };
        b.migrate_type = migrate_type;
        if top == Pageblock::WHOLE {
            self.join_own_type(block, migrate_type);
        } else {
            self.set_top(block, top);
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
        let reserve = MigrateType::HighAtomic;
        let block = match self.partial(reserve, 0) {
            Some(block) => block,
            None => self.find_run(reserve, BLOCK_SHIFT)?.0,
        };
        self.set_type(block, migrate_type);
        Some(block)
    }
}
