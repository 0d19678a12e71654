//! Taking blocks out of the free maps.
//!
//! An allocation takes the most fragmented pageblock that still serves, a wholly free one only if no other does; inside
//! the pageblock, the smallest sufficient maximal run.

use pageblock_frame::{Fill, MigrateType, Taken};

use crate::region::{BLOCK_SHIFT, Region};

impl Region<'_> {
    /// Takes a block of `order` from pageblocks of exactly this type (`__rmqueue_smallest()`).
    #[inline(never)]
    pub(crate) fn take(&mut self, order: u32, migrate_type: MigrateType) -> Option<u32> {
        if order >= BLOCK_SHIFT {
            return self.take_run(order, migrate_type);
        }
        match self.partial(migrate_type, order) {
            Some(block) => self.take_from(block, order),
            None => self.take_opened(migrate_type, order),
        }
    }

    /// Takes a block of `order < 9` from a pageblock that can serve it and is not in the set of wholly free ones.
    #[inline(never)]
    pub(crate) fn take_from(&mut self, block: u32, order: u32) -> Option<u32> {
        let b = self.blocks.known_mut(block)?;
        let Taken { place, from, top } = b.take(order)?;
        let migrate_type = b.migrate_type();
        self.uncount(from, 1);
        for part in order..from {
            self.count(part, 1);
        }
        self.sub_free(migrate_type, 1 << order);
        if top.is_any() {
            self.top_changed(block, top);
        }
        Some(block << BLOCK_SHIFT | place)
    }

    /// Takes a block of `order < 9` from a wholly free pageblock.
    #[cold]
    #[inline(never)]
    fn take_opened(&mut self, migrate_type: MigrateType, order: u32) -> Option<u32> {
        let block = self.open_whole(migrate_type)?;
        self.take_from(block, order)
    }

    /// Takes a wholly free pageblock out of its set, to be used in parts.
    pub(crate) fn open_whole(&mut self, migrate_type: MigrateType) -> Option<u32> {
        let run = self.find_run(migrate_type, BLOCK_SHIFT)?;
        self.cut_run(migrate_type, run, BLOCK_SHIFT);
        self.count(BLOCK_SHIFT, 1);
        self.blocks.get_mut(run.first)?.open_whole();
        Some(run.first)
    }

    /// Takes one or several whole pageblocks.
    #[inline]
    fn take_run(&mut self, order: u32, migrate_type: MigrateType) -> Option<u32> {
        let run = self.find_run(migrate_type, order)?;
        self.cut_run(migrate_type, run, order);
        for block in run.first..run.first + (1 << (order - BLOCK_SHIFT)) {
            self.blocks.known_mut(block)?.fill(Fill::Taken);
        }
        self.sub_free(migrate_type, 1 << order);
        Some(run.first << BLOCK_SHIFT)
    }
}
