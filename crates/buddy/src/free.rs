//! Putting blocks back into the free maps.
//!
//! Freeing sets bits; merging is a fact about them. The values beside the bits, the counts by order and the set that
//! the pageblock is in, follows from how far the merge reaches.

use pageblock_frame::Given;

use crate::region::{BLOCK_SHIFT, Region};

impl Region<'_> {
    /// Gives a block back (`__free_one_page()`). The caller has checked that its frames are inside the zone, aligned,
    /// and not free. The short path is that of a frame beside one that is not free, so that nothing merges.
    #[inline]
    pub(crate) fn give(&mut self, index: u32, order: u32) {
        let block = index >> BLOCK_SHIFT;
        if order == 0
            && let Some(b) = self.blocks.known_mut(block)
            && let Some(top) = b.give_alone(index, 0)
        {
            let migrate_type = b.migrate_type();
            self.count(0, 1);
            if top.is_any() {
                self.top_changed(block, top);
            }
            return self.add_free(migrate_type, 1);
        }
        self.give_block(index, order);
    }

    #[inline(never)]
    fn give_block(&mut self, index: u32, order: u32) {
        if order >= BLOCK_SHIFT {
            return self.give_blocks(index, order);
        }
        let block = index >> BLOCK_SHIFT;
        let Some(b) = self.blocks.known_mut(block) else { return };
        // A constant saves a third of the instructions.
        let given = if order == 0 { b.give(index, 0) } else { b.give(index, order) };
        let migrate_type = b.migrate_type();
        self.add_free(migrate_type, 1 << order);
        self.account_given(block, order, given);
    }

    /// Accounts for a block that has come back, except for its frames.
    #[inline]
    pub(crate) fn account_given(&mut self, block: u32, order: u32, given: Given) {
        for merged in order..given.to {
            self.uncount(merged, 1);
        }
        if given.to == BLOCK_SHIFT {
            return self.make_whole(block);
        }
        self.count(given.to, 1);
        if given.top.is_any() {
            self.top_changed(block, given.top);
        }
    }

    /// All of a pageblock has become free, and nothing of it is counted any more.
    pub(crate) fn make_whole(&mut self, block: u32) {
        self.unreserve(block);
        let Some(b) = self.blocks.known_mut(block) else { return };
        let (migrate_type, top) = (b.migrate_type(), b.become_whole());
        if top.is_any() {
            self.top_changed(block, top);
        }
        self.join_whole(block, migrate_type);
    }

    fn give_blocks(&mut self, index: u32, order: u32) {
        let first = index >> BLOCK_SHIFT;
        for block in first..first + (1 << (order - BLOCK_SHIFT)) {
            self.give_whole(block << BLOCK_SHIFT);
        }
    }
}
