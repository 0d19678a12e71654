//! Putting blocks back into the free maps.
//!
//! Freeing sets bits; merging is a fact about them. What is kept beside the bits, the counts by order and the list that
//! the pageblock is on, follows from how far the merge reaches.

use pageblock_frame::{BLOCK_WORDS, Pageblock};

use crate::bits::{self, WORD_FRAMES, WORD_ORDER};
use crate::free_area::TopChange;
use crate::region::{BLOCK_SHIFT, Region};

/// A frame's pageblock, word in its map, and bit in that.
struct Bit {
    block: u32,
    word: usize,
    at: u32,
}

impl Bit {
    #[inline]
    const fn of(index: u32) -> Self {
        let word = (index >> WORD_ORDER) as usize % BLOCK_WORDS;
        Self { block: index >> BLOCK_SHIFT, word, at: index % WORD_FRAMES }
    }
}

impl Region<'_> {
    /// Gives a block back (`__free_one_page()`). The caller has checked that its frames are inside the zone, aligned,
    /// and not free.
    #[inline]
    pub(crate) fn give(&mut self, index: u32, order: u32) {
        if order == 0 {
            self.give_small(index, 0);
        } else {
            self.give_block(index, order);
        }
    }

    #[inline(never)]
    fn give_block(&mut self, index: u32, order: u32) {
        if order == 0 {
            self.give_bits(index, 0); // a constant, which saves a third of the instructions
        } else if order >= BLOCK_SHIFT {
            self.give_blocks(index, order);
        } else if order >= WORD_ORDER {
            self.give_words(index, order);
        } else {
            self.give_bits(index, order);
        }
    }

    /// Gives back a block of `order < 6`. The short path is that of a block whose buddy is not free, so that nothing
    /// merges.
    #[inline]
    pub(crate) fn give_small(&mut self, index: u32, order: u32) {
        let Bit { block, word, at } = Bit::of(index);
        let Some(b) = self.blocks.known_mut(block) else { return };
        let old = b.map[word];
        if !old >> (at ^ 1 << order) & bits::ones(order) == 0 {
            return self.give_block(index, order); // the buddy is free
        }
        b.map[word] = old | bits::ones(order) << at;
        b.presence |= bits::present(order, word);
        b.free = b.free.wrapping_add(1 << order);
        self.nr_free[order as usize] = self.nr_free[order as usize].wrapping_add(1);
        // `NO_TOP` is one below order 0, also as a signed number.
        let (migrate_type, top) = (b.migrate_type, b.top as i8);
        if top < order as i8 {
            b.top = order as u8;
            let from = if order == 0 { -1 } else { i32::from(top) };
            self.top_changed(block, TopChange { from, to: order as i32 });
        }
        self.add_free(migrate_type, 1 << order);
    }

    /// A pageblock that is not wholly free has got a block of `order < 9`.
    #[inline]
    pub(crate) fn raise(&mut self, block: u32, order: u32) {
        let Some(b) = self.blocks.known_mut(block) else { return };
        // `NO_TOP` is one below order 0, also as a signed number.
        let top = b.top as i8;
        if top < order as i8 {
            b.top = order as u8;
            self.top_changed(block, TopChange { from: i32::from(top), to: order as i32 });
        }
    }

    /// Gives back a block of `order < 6` with all that may follow.
    #[inline]
    fn give_bits(&mut self, index: u32, order: u32) {
        let Bit { block, word, mut at } = Bit::of(index);
        let Some(b) = self.blocks.known_mut(block) else { return };
        let new = b.map[word] | bits::ones(order) << at;
        b.map[word] = new;
        b.free = b.free.wrapping_add(1 << order);
        let migrate_type = b.migrate_type;
        let mut presence = b.presence;
        let mut runs = bits::runs(new, order);
        let mut merged = order;
        while merged < WORD_ORDER {
            let above = bits::coarser(runs, merged);
            at &= !(1 << merged);
            if above >> at & 1 == 0 {
                break;
            }
            if runs & !(above | above << (1u32 << merged)) == 0 {
                presence &= !bits::present(merged, word);
            }
            let slot = &mut self.nr_free[merged as usize];
            *slot = slot.wrapping_sub(1);
            runs = above;
            merged += 1;
        }
        b.presence = presence;
        self.add_free(migrate_type, 1 << order);
        if merged == WORD_ORDER {
            return self.give_full(block, word as u32, WORD_ORDER);
        }
        let Some(b) = self.blocks.known_mut(block) else { return };
        b.presence |= bits::present(merged, word);
        self.count(merged, 1);
        self.raise(block, merged);
    }

    fn give_words(&mut self, index: u32, order: u32) {
        let block = index >> BLOCK_SHIFT;
        let word = (index >> WORD_ORDER) % BLOCK_WORDS as u32;
        let Some(b) = self.blocks.known_mut(block) else { return };
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
        let Some(b) = self.blocks.known_mut(block) else { return };
        for w in word as usize..word as usize + (1 << (order - WORD_ORDER)) {
            b.presence |= bits::present(WORD_ORDER, w % BLOCK_WORDS);
        }
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
            self.make_whole(block);
        } else {
            self.count(merged, 1);
            self.raise(block, merged);
        }
    }

    /// All of a pageblock has become free, and nothing of it is counted any more.
    pub(crate) fn make_whole(&mut self, block: u32) {
        self.unreserve(block);
        self.set_top(block, Pageblock::NO_TOP);
        let Some(b) = self.blocks.known_mut(block) else { return };
        b.top = Pageblock::WHOLE;
        b.presence = bits::ALL_FULL;
        b.loose = 0;
        let migrate_type = b.migrate_type;
        self.join_whole(block, migrate_type);
    }

    fn give_blocks(&mut self, index: u32, order: u32) {
        let first = index >> BLOCK_SHIFT;
        for block in first..first + (1 << (order - BLOCK_SHIFT)) {
            self.give_whole(block << BLOCK_SHIFT);
        }
    }
}
