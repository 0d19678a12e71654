//! Taking blocks out of the free maps.
//!
//! An allocation takes the lowest pageblock that can serve it, one that is not wholly free if there is any; inside the
//! pageblock, the smallest sufficient maximal run.

use pageblock_frame::{BLOCK_WORDS, MigrateType, Pageblock};

use crate::bits::{self, WORD_FRAMES, WORD_ORDER};
use crate::candidates::Set;
use crate::core::{BLOCK_SHIFT, ZoneCore};

impl ZoneCore<'_> {
    /// Takes a block of `order` from pageblocks of exactly this type (`__rmqueue_smallest()`).
    #[inline(never)]
    pub(crate) fn take(&mut self, order: u32, migrate_type: MigrateType) -> Option<u32> {
        if order >= BLOCK_SHIFT {
            return self.take_run(order, migrate_type);
        }
        let block = match self.partial(migrate_type, order) {
            Some(block) => block,
            None => self.open_whole(migrate_type)?,
        };
        self.take_from(block, order)
    }

    /// Takes a single frame that is free on its own, if the lowest pageblock with anything free has one: the common case of
    /// [`take`](Self::take), for the three ordinary types.
    #[inline(always)]
    pub(crate) fn take_frame(&mut self, migrate_type: MigrateType) -> Option<u32> {
        let set = Set::new(migrate_type, 0);
        let (hint, members) = self.candidates.hinted_word(set)?;
        let block = hint * 64 + members.trailing_zeros();
        let b = self.blocks.get_mut(block as usize)?;
        let presence = u64::from_le_bytes(b.presence);
        let singles = presence & bits::EVERY_WORD;
        if singles == 0 {
            return None;
        }
        let shift = singles.trailing_zeros();
        let word = (shift / 8) as usize % BLOCK_WORDS;
        let old = b.map[word];
        let exact = bits::exact(old, 0);
        if exact == 0 {
            return None;
        }
        let left = exact & (exact - 1);
        b.map[word] = old & !(exact ^ left);
        b.free = b.free.wrapping_sub(1);
        self.nr_free[0] = self.nr_free[0].wrapping_sub(1);
        self.free = self.free.wrapping_sub(1);
        let index = (block << BLOCK_SHIFT) | (shift << (WORD_ORDER - 3)) | exact.trailing_zeros();
        if left == 0 {
            // No hint is below order 0, so the word's highest order stays exact.
            let presence = presence & !(1 << shift);
            b.presence = presence.to_le_bytes();
            if presence == 0 {
                b.top = Pageblock::NO_TOP;
                *members &= *members - 1;
                if *members == 0 {
                    return Some(self.candidates.vanished(set, hint, index));
                }
            }
        }
        Some(index)
    }

    /// Takes a block of `order < 9` from a pageblock that can serve it and is not in the set of wholly free ones.
    #[inline]
    pub(crate) fn take_from(&mut self, block: u32, order: u32) -> Option<u32> {
        // A constant order saves a third of the instructions.
        match order {
            0 => self.take_bits(block, 0),
            1 => self.take_bits(block, 1),
            2 => self.take_bits(block, 2),
            3 => self.take_bits(block, 3),
            4 | 5 => self.take_bits(block, order),
            _ => self.take_words(block, order),
        }
    }

    /// Takes a wholly free pageblock out of its set, to be used in parts.
    pub(crate) fn open_whole(&mut self, migrate_type: MigrateType) -> Option<u32> {
        let run = self.find_run(migrate_type, BLOCK_SHIFT)?;
        self.cut_run(migrate_type, run, BLOCK_SHIFT);
        self.count(BLOCK_SHIFT, 1);
        self.blocks.get_mut(run.0 as usize)?.top = Pageblock::NO_TOP;
        Some(run.0)
    }

    /// Takes a block smaller than a word.
    #[inline(always)]
    fn take_bits(&mut self, block: u32, order: u32) -> Option<u32> {
        let b = self.blocks.get_mut(block as usize)?;
        loop {
            let presence = u64::from_le_bytes(b.presence);
            let wanted = bits::join(presence) >> order;
            if wanted == 0 {
                return None;
            }
            let run = order + wanted.trailing_zeros();
            if run >= WORD_ORDER {
                return self.split_word(block, order);
            }
            let word = ((presence & (bits::EVERY_WORD << run)).trailing_zeros() / 8) as usize % BLOCK_WORDS;
            let old = b.map[word];
            let exact = bits::exact(bits::runs(old, run), run);
            if exact == 0 {
                // Left over from a merge: correct the hint, and look again.
                b.presence[word] = bits::presence(old);
                continue;
            }
            let at = exact.trailing_zeros();
            let new = old & !(bits::ones(order) << at);
            b.map[word] = new;
            let left = exact & (exact - 1);
            let fixed = Self::presence_after_take(b.presence[word], new, left == 0, (run, order));
            let moved = b.presence[word] ^ fixed;
            b.presence[word] = fixed;
            b.free = b.free.wrapping_sub(1 << order);
            let (migrate_type, top) = (b.migrate_type, b.top);
            self.uncount(run, 1);
            for part in order..run {
                self.count(part, 1);
            }
            self.sub_free(migrate_type, 1 << order);
            if u32::from(moved) >> (top % 32) & 1 != 0 {
                self.refresh_top(block);
            }
            return Some(block << BLOCK_SHIFT | (word as u32) << WORD_ORDER | at);
        }
    }

    /// A word's presence after a block of `order` was cut from a maximal run of order `run`, which was the last of its
    /// order if `last`. The highest bit stays exact.
    #[inline(always)]
    fn presence_after_take(old: u8, word: u64, last: bool, (run, order): (u32, u32)) -> u8 {
        // The parts that are left of the run: one of each order from `order` to `run - 1`.
        let kept = old | ((1u8 << run) - (1u8 << order));
        if !last {
            return kept;
        }
        let kept = kept & !(1 << run);
        if kept >> order == 0 && kept != 0 {
            // Only hints below are left, and the highest of them must be exact.
            return bits::presence(word);
        }
        kept
    }

    /// Takes a block smaller than a word from a full word, the one in the smallest run of full words.
    fn split_word(&mut self, block: u32, order: u32) -> Option<u32> {
        let full = bits::full_words(self.presence(block));
        let (word, run) = bits::smallest_word_run(full, WORD_ORDER)?;
        let b = self.blocks.get_mut(block as usize)?;
        let word = word as usize % BLOCK_WORDS;
        b.map[word] = !bits::ones(order);
        b.presence[word] = (1u8 << WORD_ORDER) - (1u8 << order);
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
        let (word, run) = bits::smallest_word_run(full, order)?;
        let b = self.blocks.get_mut(block as usize)?;
        for w in word as usize..word as usize + (1 << (order - WORD_ORDER)) {
            b.map[w % BLOCK_WORDS] = 0;
            b.presence[w % BLOCK_WORDS] = 0;
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
        let first = run.0 as usize;
        for b in self.blocks.get_mut(first..first + (1 << (order - BLOCK_SHIFT)))? {
            Self::fill(b, false);
        }
        self.sub_free(migrate_type, 1 << order);
        Some(run.0 << BLOCK_SHIFT)
    }
}
