//! Taking blocks out of the free maps.
//!
//! An allocation takes the lowest pageblock that can serve it, one that is not wholly free if there is any; inside the
//! pageblock, the smallest sufficient maximal run.

use core::num::{NonZeroU8, NonZeroU64};

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
        match self.partial(migrate_type, order) {
            Some(block) => self.take_from(block, order),
            None => self.take_opened(migrate_type, order),
        }
    }

    /// Takes a block of `order < 6` that is free on its own, if the lowest pageblock that can serve has one: the common case
    /// of [`take`](Self::take), for the three ordinary types.
    #[inline(always)]
    fn take_exact(&mut self, migrate_type: MigrateType, order: u32) -> Option<u32> {
        let mut entry = self.candidates.serving_row(migrate_type, order)?;
        let block = entry.row * 64 + NonZeroU64::new(entry.serving(migrate_type, order))?.trailing_zeros();
        let b = self.blocks.get_mut(block as usize)?;
        if b.loose != 0 {
            return None;
        }
        let presence = b.presence;
        let words = NonZeroU8::new((presence >> (order * BLOCK_WORDS as u32)) as u8)?;
        let word = words.trailing_zeros();
        let slot = &mut b.map[word as usize % BLOCK_WORDS];
        let old = *slot;
        let (at, rest) = if old == (old & old.wrapping_neg()).wrapping_mul(bits::ones(order)) {
            // The word has nothing else.
            *slot = 0;
            (old.trailing_zeros(), 0)
        } else {
            let exact = NonZeroU64::new(bits::exact(bits::runs(old, order), order))?;
            let rest = exact.get() & (exact.get() - 1);
            *slot = old & !((exact.get() ^ rest) * bits::ones(order));
            (exact.trailing_zeros(), rest)
        };
        b.free = b.free.wrapping_sub(1 << order);
        self.nr_free[order as usize] = self.nr_free[order as usize].wrapping_sub(1);
        self.free = self.free.wrapping_sub(1 << order);
        let index = block << BLOCK_SHIFT | word << WORD_ORDER | at;
        if rest == 0 {
            b.presence = presence & !bits::present(order, word as usize);
            if b.presence >> (order * BLOCK_WORDS as u32) == 0 {
                // That was the last of its order, and the largest. `NO_TOP` is one below order 0, also as a signed number.
                let top = if order == 0 { None } else { bits::small_top(b.presence) };
                let top = top.map_or(-1, |top| top as i32);
                b.top = top as u8;
                if top == order as i32 - 1 && order < 4 {
                    entry.lower_lowest(Set::new(migrate_type, order));
                } else {
                    entry.lower(migrate_type, block, (order as i32, top));
                }
            }
        }
        Some(index)
    }

    /// [`take`](Self::take) for a constant order below 6 and the three ordinary types.
    #[inline(always)]
    pub(crate) fn take_small<const ORDER: u32>(&mut self, migrate_type: MigrateType) -> Option<u32> {
        match self.take_exact(migrate_type, ORDER) {
            None => self.take_split::<ORDER>(migrate_type),
            taken => taken,
        }
    }

    /// Takes a block of `order < 6` from pageblocks of exactly this type, where [`take_exact`](Self::take_exact) found none.
    #[cold]
    #[inline(never)]
    fn take_split<const ORDER: u32>(&mut self, migrate_type: MigrateType) -> Option<u32> {
        match self.partial(migrate_type, ORDER) {
            Some(block) => {
                self.freshen(block);
                self.take_larger(block, ORDER)
            }
            None => self.take_opened(migrate_type, ORDER),
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
        self.blocks.get_mut(run.0 as usize)?.top = Pageblock::NO_TOP;
        Some(run.0)
    }

    /// Takes a block smaller than a word from the smallest maximal run that can serve it.
    #[inline(always)]
    fn take_larger(&mut self, block: u32, order: u32) -> Option<u32> {
        let b = self.blocks.get_mut(block as usize)?;
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

    /// A pageblock has lost its last block of the order `from`, which was its largest. Hands `index` through, so that this
    /// can be a caller's last call.
    #[cold]
    #[inline(never)]
    fn lower(&mut self, block: u32, from: u32, index: u32) -> Option<u32> {
        let b = self.blocks.get_mut(block as usize)?;
        // `NO_TOP` is one below order 0, also as a signed number.
        let top = bits::top_order(b.presence).map_or(-1, |top| top as i32);
        b.top = top as u8;
        let migrate_type = b.migrate_type;
        self.candidates.row_of(block)?.lower(migrate_type, block, (from as i32, top));
        Some(index)
    }

    /// Takes a block smaller than a word from a full word, the one in the smallest run of full words.
    fn split_word(&mut self, block: u32, order: u32) -> Option<u32> {
        let full = bits::full_words(self.presence(block));
        let (word, run) = bits::smallest_word_run(full, WORD_ORDER)?;
        let b = self.blocks.get_mut(block as usize)?;
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
        let (word, run) = bits::smallest_word_run(full, order)?;
        let b = self.blocks.get_mut(block as usize)?;
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
        let first = run.0 as usize;
        for b in self.blocks.get_mut(first..first + (1 << (order - BLOCK_SHIFT)))? {
            Self::fill(b, false);
        }
        self.sub_free(migrate_type, 1 << order);
        Some(run.0 << BLOCK_SHIFT)
    }
}
