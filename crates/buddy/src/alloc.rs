//! Taking blocks out of the free maps.
//!
//! An allocation takes the most fragmented pageblock that still serves, a wholly free one only if no other does; inside
//! the pageblock, the smallest sufficient maximal run.

use core::num::NonZeroU64;

use pageblock_frame::{BLOCK_WORDS, MigrateType, Pageblock};

use crate::bits::{self, Run, WORD_FRAMES, WORD_ORDER};
use crate::free_area::TopChange;
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
    #[inline]
    pub(crate) fn take_from(&mut self, block: u32, order: u32) -> Option<u32> {
        self.freshen(block);
        if order >= WORD_ORDER { self.take_words(block, order) } else { self.take_larger(block, order) }
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
        self.blocks.get_mut(run.first)?.top = Pageblock::NO_TOP;
        Some(run.first)
    }

    /// Takes a block smaller than a word from the smallest maximal run that can serve it.
    #[inline]
    fn take_larger(&mut self, block: u32, order: u32) -> Option<u32> {
        let b = self.blocks.known_mut(block)?;
        let presence = b.presence;
        let found = NonZeroU64::new(presence >> (order * BLOCK_WORDS as u32))?.trailing_zeros();
        let (run, word) = (order + found / BLOCK_WORDS as u32, found % BLOCK_WORDS as u32);
        if run >= WORD_ORDER {
            return self.split_word(block, order);
        }
        let slot = &mut b.map[word as usize];
        // No run from `order` on is smaller, so those that could start one of `run` do.
        let exact = bits::exact(bits::runs(*slot, order) & bits::starts(run), run);
        let at = exact.trailing_zeros();
        *slot &= !(bits::ones(order) << at);
        b.free = b.free.wrapping_sub(1 << order);
        let last = exact & exact.wrapping_sub(1) == 0;
        let presence = presence & !(u64::from(last) << (run * BLOCK_WORDS as u32 + word));
        // What is left of the run: one block of each order from `order` to `run - 1`.
        let parts = bits::below(run) & !bits::below(order);
        b.presence = presence | parts << word;
        let migrate_type = b.migrate_type;
        self.uncount(run, 1);
        for part in order..run {
            self.count(part, 1);
        }
        self.sub_free(migrate_type, 1 << order);
        let index = block << BLOCK_SHIFT | word << WORD_ORDER | at;
        if presence >> (run * BLOCK_WORDS as u32) == 0 {
            return self.lower(block, run, index);
        }
        Some(index)
    }

    /// A pageblock has lost its last block of the order `from`, which was its largest. Hands `index` through, so that
    /// this can be a caller's last call.
    #[cold]
    #[inline(never)]
    fn lower(&mut self, block: u32, from: u32, index: u32) -> Option<u32> {
        let b = self.blocks.known_mut(block)?;
        // `NO_TOP` is one below order 0, also as a signed number.
        let top = bits::top_order(b.presence).map_or(-1, |top| top as i32);
        b.top = top as u8;
        self.top_changed(block, TopChange { from: from as i32, to: top });
        Some(index)
    }

    /// Takes a block smaller than a word from a full word, the one in the smallest run of full words.
    fn split_word(&mut self, block: u32, order: u32) -> Option<u32> {
        let full = bits::full_words(self.presence(block));
        let Run { first: word, order: run } = bits::smallest_word_run(full, WORD_ORDER)?;
        let b = self.blocks.known_mut(block)?;
        let word = word as usize % BLOCK_WORDS;
        b.map[word] = !bits::ones(order);
        b.presence ^= bits::spread((2u8 << WORD_ORDER) - (1u8 << order), word);
        b.free = b.free.wrapping_sub(1 << order);
        let migrate_type = b.migrate_type;
        self.uncount(run, 1);
        for part in order..run {
            self.count(part, 1);
        }
        self.sub_free(migrate_type, 1 << order);
        self.refresh_top(block);
        Some(block << BLOCK_SHIFT | (word as u32) << WORD_ORDER)
    }

    /// Takes a block of one, two or four words.
    fn take_words(&mut self, block: u32, order: u32) -> Option<u32> {
        let full = bits::full_words(self.presence(block));
        let Run { first: word, order: run } = bits::smallest_word_run(full, order)?;
        let b = self.blocks.known_mut(block)?;
        for w in word as usize..word as usize + (1 << (order - WORD_ORDER)) {
            b.map[w % BLOCK_WORDS] = 0;
            b.presence &= !bits::present(WORD_ORDER, w % BLOCK_WORDS);
        }
        b.free = b.free.wrapping_sub(1 << order);
        let migrate_type = b.migrate_type;
        self.uncount(run, 1);
        for part in order..run {
            self.count(part, 1);
        }
        self.sub_free(migrate_type, 1 << order);
        self.refresh_top(block);
        Some((block << BLOCK_SHIFT) | (word * WORD_FRAMES))
    }

    /// Takes one or several whole pageblocks.
    #[inline]
    fn take_run(&mut self, order: u32, migrate_type: MigrateType) -> Option<u32> {
        let run = self.find_run(migrate_type, order)?;
        self.cut_run(migrate_type, run, order);
        for block in run.first..run.first + (1 << (order - BLOCK_SHIFT)) {
            Self::fill(self.blocks.known_mut(block)?, false);
        }
        self.sub_free(migrate_type, 1 << order);
        Some(run.first << BLOCK_SHIFT)
    }
}
