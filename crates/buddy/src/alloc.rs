//! Taking blocks out of the free maps.
//!
//! An allocation takes the list with the smallest sufficient order, so that the most fragmented pageblock that still
//! serves is used up first, and inside the pageblock the smallest sufficient maximal run.

use pageblock_frame::{BLOCK_WORDS, MigrateType, Pageblock};

use crate::bits::{self, WORD_FRAMES, WORD_ORDER};
use crate::core::{BLOCK_SHIFT, LISTS, ZoneCore, list_index};

impl ZoneCore<'_> {
    /// Takes a block of `order` from pageblocks of exactly this type (`__rmqueue_smallest()`).
    #[inline]
    pub(crate) fn take(&mut self, order: u32, migrate_type: MigrateType) -> Option<u32> {
        let sufficient = self.nonempty[migrate_type.index()] >> order;
        if sufficient == 0 {
            return None;
        }
        let listed = order + sufficient.trailing_zeros();
        let block = *self.heads.get(list_index(migrate_type, listed))?;
        self.take_from(block, listed, order)
    }

    /// Takes a block of `order` from a pageblock that is on the list of order `listed >= order`.
    #[inline]
    pub(crate) fn take_from(&mut self, block: u32, listed: u32, order: u32) -> Option<u32> {
        if listed >= BLOCK_SHIFT {
            return self.take_from_run(block, listed, order);
        }
        if order >= WORD_ORDER { self.take_words(block, order) } else { self.take_bits(block, listed, order) }
    }

    /// Takes a block smaller than a word.
    #[inline(always)]
    fn take_bits(&mut self, block: u32, listed: u32, order: u32) -> Option<u32> {
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
            let migrate_type = b.migrate_type;
            self.uncount(run, 1);
            for part in order..run {
                self.count(part, 1);
            }
            self.sub_free(migrate_type, 1 << order);
            if u32::from(moved) & (1 << listed) != 0 {
                self.relink(block);
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
        self.relink(block);
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
        self.relink(block);
        Some((block << BLOCK_SHIFT) | (word * WORD_FRAMES))
    }

    /// Takes a block from a wholly free run of pageblocks.
    fn take_from_run(&mut self, block: u32, listed: u32, order: u32) -> Option<u32> {
        let migrate_type = self.blocks.get(block as usize)?.migrate_type;
        self.unlink(block);
        let keep = order.max(BLOCK_SHIFT);
        self.uncount(listed, 1);
        // Hand the upper halves back to their lists (`expand()`).
        for half in (keep..listed).rev() {
            self.link(block + Self::run_blocks(half), migrate_type, half);
            self.count(half, 1);
        }
        if order < BLOCK_SHIFT {
            self.count(BLOCK_SHIFT, 1);
            self.link(block, migrate_type, BLOCK_SHIFT);
            return if order >= WORD_ORDER { self.take_words(block, order) } else { self.split_word(block, order) };
        }
        let first = block as usize;
        for b in self.blocks.get_mut(first..first + Self::run_blocks(order) as usize)? {
            b.map = [0; BLOCK_WORDS];
            b.presence = [0; BLOCK_WORDS];
            b.free = 0;
            b.linked = Pageblock::UNLINKED;
        }
        self.sub_free(migrate_type, 1 << order);
        Some(block << BLOCK_SHIFT)
    }
}

const _: () = assert!(LISTS <= 16, "a list index fits the byte that names it");
