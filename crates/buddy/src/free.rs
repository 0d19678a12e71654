//! Putting blocks back into the free maps.
//!
//! Freeing sets bits; merging is a fact about them. What is kept beside the bits, the counts by order and the list that
//! the pageblock is on, follows from how far the merge reaches.

use pageblock_frame::{BLOCK_WORDS, MigrateType, Pageblock};

use crate::bits::{self, WORD_FRAMES, WORD_ORDER};
use crate::core::{BLOCK_SHIFT, COVERED, ZoneCore};

impl ZoneCore<'_> {
    /// Gives a block back (`__free_one_page()`). The caller has checked that its frames are inside the zone, aligned, and
    /// not free.
    #[inline]
    pub(crate) fn give(&mut self, index: u32, order: u32) {
        if order >= BLOCK_SHIFT {
            self.give_blocks(index, order);
        } else if order >= WORD_ORDER {
            self.give_words(index, order);
        } else {
            self.give_bits(index, order);
        }
    }

    #[inline(always)]
    fn give_bits(&mut self, index: u32, order: u32) {
        let block = index >> BLOCK_SHIFT;
        let word = (index >> WORD_ORDER) as usize % BLOCK_WORDS;
        let mut at = index % WORD_FRAMES;
        let Some(b) = self.blocks.get_mut(block as usize) else { return };
        let new = b.map[word] | bits::ones(order) << at;
        b.map[word] = new;
        b.free = b.free.wrapping_add(1 << order);
        let (migrate_type, linked) = (b.migrate_type, b.linked);
        self.add_free(migrate_type, 1 << order);
        let mut merged = order;
        while merged < WORD_ORDER {
            let half = bits::ones(merged);
            if (new >> (at ^ (1 << merged))) & half != half {
                break;
            }
            self.uncount(merged, 1);
            at &= !(1 << merged);
            merged += 1;
        }
        let Some(b) = self.blocks.get_mut(block as usize) else { return };
        if merged == WORD_ORDER {
            b.presence[word] = 0;
            self.give_full(block, word as u32, WORD_ORDER);
            return;
        }
        b.presence[word] |= 1 << merged;
        self.count(merged, 1);
        if linked == Pageblock::UNLINKED {
            self.link(block, migrate_type, merged);
        } else if u32::from(linked) % 16 < merged {
            self.unlink(block);
            self.link(block, migrate_type, merged);
        }
    }

    fn give_words(&mut self, index: u32, order: u32) {
        let block = index >> BLOCK_SHIFT;
        let word = (index >> WORD_ORDER) % BLOCK_WORDS as u32;
        let Some(b) = self.blocks.get_mut(block as usize) else { return };
        for w in word as usize..word as usize + (1 << (order - WORD_ORDER)) {
            b.map[w % BLOCK_WORDS] = u64::MAX;
        }
        b.free = b.free.wrapping_add(1 << order);
        let migrate_type = b.migrate_type;
        self.add_free(migrate_type, 1 << order);
        self.give_full(block, word, order);
    }

    /// Merges full words from `word` on, which make a block of `order`, with the full words beside them.
    pub(crate) fn give_full(&mut self, block: u32, word: u32, order: u32) {
        let full = bits::full_words(self.presence(block));
        let (mut word, mut merged) = (word, order);
        let Some(b) = self.blocks.get_mut(block as usize) else { return };
        for w in word as usize..word as usize + (1 << (order - WORD_ORDER)) {
            b.presence[w % BLOCK_WORDS] = 1 << WORD_ORDER;
        }
        let migrate_type = b.migrate_type;
        let linked = Self::linked_order(b);
        while merged < BLOCK_SHIFT {
            let words = 1 << (merged - WORD_ORDER);
            let half = ((1u32 << words) - 1) << (word ^ words);
            if full & half != half {
                break;
            }
            self.uncount(merged, 1);
            word &= !words;
            merged += 1;
        }
        if merged == BLOCK_SHIFT {
            self.unlink(block);
            self.join_run(block, BLOCK_SHIFT, migrate_type);
            return;
        }
        self.count(merged, 1);
        if linked.is_none_or(|order| order < merged) {
            self.unlink(block);
            self.link(block, migrate_type, merged);
        }
    }

    fn give_blocks(&mut self, index: u32, order: u32) {
        let block = index >> BLOCK_SHIFT;
        let blocks = Self::run_blocks(order);
        let Some(migrate_type) = self.blocks.get(block as usize).map(|b| b.migrate_type) else { return };
        let first = block as usize;
        let mut mixed = false;
        for b in self.blocks.get_mut(first..first + blocks as usize).unwrap_or_default() {
            b.map = [u64::MAX; BLOCK_WORDS];
            b.presence = [1 << WORD_ORDER; BLOCK_WORDS];
            b.free = 1 << BLOCK_SHIFT;
            b.linked = COVERED;
            mixed |= b.migrate_type != migrate_type;
        }
        if mixed {
            // The types of the pageblocks under it changed while it was out: each goes to its own.
            for block in block..block + blocks {
                let Some(own) = self.blocks.get(block as usize).map(|b| b.migrate_type) else { return };
                self.add_free(own, 1 << BLOCK_SHIFT);
                self.join_run(block, BLOCK_SHIFT, own);
            }
            return;
        }
        self.add_free(migrate_type, 1 << order);
        self.join_run(block, order, migrate_type);
    }

    /// Lists a wholly free run that is on no list, after merging it with its buddies of the same or of a mergeable type.
    /// The buddy takes the type of the run that joins it, as in Linux 6.10.
    pub(crate) fn join_run(&mut self, block: u32, order: u32, migrate_type: MigrateType) {
        let (mut block, mut order) = (block, order);
        while order < self.max_order {
            let blocks = Self::run_blocks(order);
            let buddy = block ^ blocks;
            let Some(b) = self.blocks.get(buddy as usize) else { break };
            if Self::linked_order(b) != Some(order) || !b.is_wholly_free() {
                break;
            }
            let other = b.migrate_type;
            if other != migrate_type && !(other.is_ordinary() && migrate_type.is_ordinary()) {
                break;
            }
            self.unlink(buddy);
            self.uncount(order, 1);
            let first = buddy as usize;
            for b in self.blocks.get_mut(first..first + blocks as usize).unwrap_or_default() {
                b.migrate_type = migrate_type;
                b.linked = COVERED;
            }
            if let Some(b) = self.blocks.get_mut(block as usize) {
                b.linked = COVERED;
            }
            block &= !blocks;
            order += 1;
        }
        self.count(order, 1);
        self.link(block, migrate_type, order);
    }
}
