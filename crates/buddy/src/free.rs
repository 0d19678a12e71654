//! Putting blocks back into the free maps.
//!
//! Freeing sets bits; merging is a fact about them. What is kept beside the bits, the counts by order and the list that
//! the pageblock is on, follows from how far the merge reaches.

use pageblock_frame::{BLOCK_WORDS, MigrateType, Pageblock};

use crate::bits::{self, WORD_FRAMES, WORD_ORDER};
use crate::candidates::Set;
use crate::core::{BLOCK_SHIFT, ZoneCore};

impl ZoneCore<'_> {
    /// Gives a block back (`__free_one_page()`). The caller has checked that its frames are inside the zone, aligned, and
    /// not free.
    #[inline(always)]
    pub(crate) fn give(&mut self, index: u32, order: u32) {
        if order == 0 {
            self.give_frame(index);
        } else {
            self.give_block(index, order);
        }
    }

    #[inline(never)]
    fn give_block(&mut self, index: u32, order: u32) {
        if order >= BLOCK_SHIFT {
            self.give_blocks(index, order);
        } else if order >= WORD_ORDER {
            self.give_words(index, order);
        } else {
            self.give_bits(index, order);
        }
    }

    /// Gives back a single frame. The short path is that of a frame whose buddy is not free, so that nothing merges.
    #[inline(always)]
    pub(crate) fn give_frame(&mut self, index: u32) {
        let block = index >> BLOCK_SHIFT;
        let word = (index >> WORD_ORDER) as usize % BLOCK_WORDS;
        let at = index % WORD_FRAMES;
        let Some(b) = self.blocks.get_mut(block as usize) else { return };
        let old = b.map[word];
        if old >> (at ^ 1) & 1 != 0 || b.migrate_type as u8 > MigrateType::HighAtomic as u8 {
            return self.give_block(index, 0);
        }
        b.map[word] = old | 1 << at;
        b.presence[word] |= 1;
        b.free = b.free.wrapping_add(1);
        self.nr_free[0] = self.nr_free[0].wrapping_add(1);
        self.free = self.free.wrapping_add(1);
        if b.top == Pageblock::NO_TOP {
            b.top = 0;
            let migrate_type = b.migrate_type;
            self.candidates.insert_one(Set::new(migrate_type, 0), block);
        }
    }

    #[inline]
    fn give_bits(&mut self, index: u32, order: u32) {
        let block = index >> BLOCK_SHIFT;
        let word = (index >> WORD_ORDER) as usize % BLOCK_WORDS;
        let mut at = index % WORD_FRAMES;
        let Some(b) = self.blocks.get_mut(block as usize) else { return };
        let new = b.map[word] | bits::ones(order) << at;
        b.map[word] = new;
        b.free = b.free.wrapping_add(1 << order);
        let migrate_type = b.migrate_type;
        let mut merged = order;
        let mut frames = 1u32 << order;
        while merged < WORD_ORDER {
            // All bits of the buddy, shifted out from above.
            let buddy = (new >> (at ^ frames)) << (WORD_FRAMES - frames);
            if !buddy >> (WORD_FRAMES - frames) != 0 {
                break;
            }
            let slot = &mut self.nr_free[merged as usize];
            *slot = slot.wrapping_sub(1);
            at &= !frames;
            frames *= 2;
            merged += 1;
        }
        if merged == WORD_ORDER {
            b.presence[word] = 0;
            self.add_free(migrate_type, 1 << order);
            return self.give_full(block, word as u32, WORD_ORDER);
        }
        b.presence[word] |= 1 << merged;
        let slot = &mut self.nr_free[merged as usize];
        *slot = slot.wrapping_add(1);
        // `NO_TOP` is one below order 0.
        let raise = u32::from(b.top.wrapping_add(1)) <= merged;
        self.add_free(migrate_type, 1 << order);
        if raise {
            self.set_top(block, merged as u8);
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
        let (migrate_type, top) = (b.migrate_type, b.top);
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
            self.set_top(block, Pageblock::NO_TOP);
            if let Some(b) = self.blocks.get_mut(block as usize) {
                b.top = Pageblock::WHOLE;
            }
            self.join_whole(block, migrate_type);
            return;
        }
        self.count(merged, 1);
        if u32::from(top.wrapping_add(1)) <= merged {
            self.set_top(block, merged as u8);
        }
    }

    fn give_blocks(&mut self, index: u32, order: u32) {
        let first = index >> BLOCK_SHIFT;
        for block in first..first + (1 << (order - BLOCK_SHIFT)) {
            self.give_whole(block << BLOCK_SHIFT);
        }
    }
}
