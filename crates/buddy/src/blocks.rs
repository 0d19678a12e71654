//! Work on whole pageblocks: changing their type, isolating them, the high-order atomic reserve.

use pageblock_frame::{MigrateType, PAGEBLOCK_FRAMES, Pageblock, TopChange};

use crate::error::IsolateError;
use crate::region::{BLOCK_SHIFT, Region};

impl Region<'_> {
    /// Changes a pageblock's purpose; its free frames go along (`move_freepages_block()`, here a few bits).
    pub(crate) fn set_type(&mut self, block: u32, migrate_type: MigrateType) {
        self.unreserve(block);
        let Some(b) = self.blocks.get_mut(block) else { return };
        let (old, top, free) = (b.migrate_type(), b.top(), u64::from(b.free()));
        self.has_unusable |= matches!(migrate_type, MigrateType::Cma | MigrateType::HighAtomic);
        let reserve = |migrate_type| if migrate_type == MigrateType::HighAtomic { PAGEBLOCK_FRAMES } else { 0 };
        let highatomic = self.totals.highatomic.wrapping_add(reserve(migrate_type));
        self.totals.highatomic = highatomic.wrapping_sub(reserve(old));
        self.sub_free(old, free);
        self.add_free(migrate_type, free);
        // A member of a set leaves that of the old type and joins that of the new one.
        let parts = TopChange::of(if top == Pageblock::WHOLE { Pageblock::NO_TOP } else { top }, Pageblock::NO_TOP);
        if top == Pageblock::WHOLE {
            self.leave_whole(block, old);
        } else if parts.is_any() {
            self.top_changed(block, parts);
        }
        let Some(b) = self.blocks.get_mut(block) else { return };
        b.set_migrate_type(migrate_type);
        if top == Pageblock::WHOLE {
            self.join_own_type(block, migrate_type);
        } else if parts.is_any() {
            self.top_changed(block, TopChange { from: parts.to, to: parts.from });
        }
    }

    /// Withholds a pageblock from allocation (`set_migratetype_isolate()`). Its free frames no longer count as free.
    pub(crate) fn isolate(&mut self, block: u32) -> Result<(), IsolateError> {
        let b = self.blocks.get_mut(block).ok_or(IsolateError::OutOfRange)?;
        if b.managed() == 0 {
            return Err(IsolateError::OutOfRange);
        }
        if b.migrate_type() == MigrateType::Isolate {
            return Err(IsolateError::AlreadyIsolated);
        }
        b.save_type();
        self.isolated_blocks += 1;
        self.set_type(block, MigrateType::Isolate);
        Ok(())
    }

    /// Gives an isolated pageblock back to allocation, with its former purpose.
    pub(crate) fn unisolate(&mut self, block: u32) -> Result<(), IsolateError> {
        let b = self.blocks.get(block).ok_or(IsolateError::OutOfRange)?;
        if b.migrate_type() != MigrateType::Isolate {
            return Err(IsolateError::NotIsolated);
        }
        let saved = b.saved_type();
        self.isolated_blocks = self.isolated_blocks.saturating_sub(1);
        self.set_type(block, saved);
        Ok(())
    }

    /// The pageblock with something free that leaves the high-order atomic reserve next.
    pub(crate) fn reserve_to_shrink(&mut self) -> Option<u32> {
        let reserve = MigrateType::HighAtomic;
        self.partial(reserve, 0).or_else(|| self.find_run(reserve, BLOCK_SHIFT).map(|run| run.first))
    }

    /// Changes a pageblock's type, but for isolated ones.
    pub(crate) fn retype(&mut self, block: u32, migrate_type: MigrateType) -> Result<(), IsolateError> {
        let b = self.blocks.get(block).ok_or(IsolateError::OutOfRange)?;
        if b.migrate_type() == MigrateType::Isolate || migrate_type == MigrateType::Isolate {
            return Err(IsolateError::AlreadyIsolated);
        }
        self.set_type(block, migrate_type);
        Ok(())
    }
}
