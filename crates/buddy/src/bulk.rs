//! Many blocks under one lock hold, a word at a time: what refills and drains per-CPU lists.

use pageblock_frame::sync::Ordering;
use pageblock_frame::{BLOCK_WORDS, MigrateType, Order, StateByte};

use crate::bits::{self, WORD_FRAMES, WORD_ORDER};
use crate::core::{BLOCK_SHIFT, ZoneCore};
use crate::dense::word_of;
use crate::scattered::LEVEL;

/// True if the first or the last two blocks lie in one word, as after refills that are freed in order.
#[inline(always)]
fn are_neighbours(blocks: &[u32]) -> bool {
    let same = |a: u32, b: u32| a >> WORD_ORDER == b >> WORD_ORDER;
    matches!(*blocks, [a, b, ..] if same(a, b)) || matches!(*blocks, [.., a, b] if same(a, b))
}

/// A word with no more blocks than this to give is merged block by block; with more it is recounted as a whole.
const RECOUNT_FROM: u32 = 4;

impl ZoneCore<'_> {
    /// Takes up to `out.len()` blocks of `order` from pageblocks of this type, marks each head, and says how many there
    /// were (`rmqueue_bulk()`, without fallback).
    pub(crate) fn take_many(
        &mut self,
        order: Order,
        migrate_type: MigrateType,
        mark: StateByte,
        out: &mut [u32],
    ) -> usize {
        let o = u32::from(order.as_u8());
        let mut got = 0;
        while got < out.len() {
            if o >= WORD_ORDER {
                let Some(index) = self.take(o, migrate_type) else { break };
                self.states.set(index, mark);
                out[got] = index;
                got += 1;
                continue;
            }
            let Some(block) = self.partial(migrate_type, o).or_else(|| self.open_whole(migrate_type)) else { break };
            self.freshen(block);
            let Some(rest) = out.get_mut(got..) else { break };
            let taken = if o == 0 && rest.len() >= WORD_FRAMES as usize {
                self.take_words_of::<true>(block, (o, mark), rest)
            } else {
                self.take_words_of::<false>(block, (o, mark), rest)
            };
            if taken == 0 {
                break;
            }
            got += taken;
        }
        got
    }

    /// Takes blocks of `order < 6` out of one pageblock until `out` is full or the pageblock has no more.
    fn take_words_of<const DENSE: bool>(
        &mut self,
        block: u32,
        (order, mark): (u32, StateByte),
        out: &mut [u32],
    ) -> usize {
        let full_before = bits::full_words(self.presence(block));
        let mut got = 0;
        while got < out.len() {
            let Some(b) = self.blocks.get_mut(block as usize) else { break };
            let wanted = b.presence >> (order * BLOCK_WORDS as u32);
            if wanted == 0 {
                break;
            }
            let word = wanted.trailing_zeros() as usize % BLOCK_WORDS;
            let old = b.map[word];
            if DENSE
                && old == u64::MAX
                && let Some(frames) = out.get_mut(got..).and_then(|rest| rest.first_chunk_mut())
            {
                self.take_word(block, word, mark, frames);
                got += frames.len();
                continue;
            }
            let starts = bits::runs(old, order);
            let first = block << BLOCK_SHIFT | (word as u32) << WORD_ORDER;
            let mut left = starts;
            let chunk = self.states.chunk(first);
            for slot in out.get_mut(got..).unwrap_or_default() {
                if left == 0 {
                    break;
                }
                let at = left.trailing_zeros();
                *slot = first | at;
                match chunk {
                    Some(chunk) => chunk[at as usize % 64].store(mark.raw(), Ordering::Relaxed),
                    None => self.states.set(first | at, mark),
                }
                left &= left - 1;
                got += 1;
            }
            let mut taken = starts ^ left;
            for level in 0..order {
                taken |= taken << (1 << level);
            }
            let new = old & !taken;
            b.map[word] = new;
            b.presence = b.presence & !(bits::EVERY_WORD << word) | bits::spread(bits::orders(new), word);
            bits::count_runs(old, |o, n| self.uncount(o, u64::from(n)));
            bits::count_runs(new, |o, n| self.count(o, u64::from(n)));
        }
        self.finish_take(block, full_before, (got as u32) << order);
        got
    }

    /// Settles what a pageblock's loss of `frames` frames, some of them perhaps of full words, means beyond its words.
    fn finish_take(&mut self, block: u32, full_before: u32, frames: u32) {
        let Some(b) = self.blocks.get_mut(block as usize) else { return };
        b.free = b.free.wrapping_sub(frames as u16);
        let migrate_type = b.migrate_type;
        let full_after = bits::full_words(b.presence);
        if full_after != full_before {
            bits::count_word_runs(full_before, |o, n| self.uncount(o, u64::from(n)));
            bits::count_word_runs(full_after, |o, n| self.count(o, u64::from(n)));
        }
        self.sub_free(migrate_type, u64::from(frames));
        self.refresh_top(block);
    }

    /// Gives back blocks of `order` whose heads are marked as listed (`free_pcppages_bulk()`). Neighbours that follow one another are
    /// given back together. Returns how many heads were not so marked; those are left as they are.
    pub(crate) fn give_many(&mut self, order: Order, blocks: &[u32]) -> usize {
        let o = u32::from(order.as_u8());
        if o <= LEVEL && self.isolated_blocks == 0 && !self.has_unusable && !are_neighbours(blocks) {
            return self.give_scattered(order, blocks);
        }
        // Two copies of one loop: without the look for whole words, single frames take fewer instructions.
        if order == Order::ZERO && blocks.len() >= WORD_FRAMES as usize {
            self.give_listed::<true>(order, blocks)
        } else {
            self.give_listed::<false>(order, blocks)
        }
    }

    #[inline(always)]
    fn give_listed<const DENSE: bool>(&mut self, order: Order, blocks: &[u32]) -> usize {
        let o = u32::from(order.as_u8());
        let listed = StateByte::listed(order, MigrateType::Unmovable).raw();
        let (mut word, mut mask, mut pieces, mut refused) = (u32::MAX, 0u64, 0, 0);
        let mut rest = blocks.iter();
        loop {
            let here = rest.as_slice();
            let Some(&index) = rest.next() else { break };
            if index >> WORD_ORDER != word {
                self.give_mask(word, mask, (o, pieces));
                (word, mask, pieces) = (index >> WORD_ORDER, 0, 0);
                if DENSE
                    && let Some((frames, after)) = here.split_first_chunk()
                    && let Some(whole) = word_of(frames)
                    && self.give_word(whole)
                {
                    rest = after.iter();
                    continue;
                }
            }
            let Some(byte) = self.states.byte(index) else {
                refused += 1;
                continue;
            };
            if StateByte::from_raw(byte.load(Ordering::Relaxed)).without_type() != listed {
                refused += 1;
                continue;
            }
            byte.store(StateByte::INSIDE.raw(), Ordering::Relaxed);
            if o >= WORD_ORDER {
                self.give(index, o);
                continue;
            }
            mask |= bits::ones(o) << (index % WORD_FRAMES);
            pieces += 1;
        }
        self.give_mask(word, mask, (o, pieces));
        refused
    }

    /// Gives back `pieces` blocks of `order` of one word (counted through the zone).
    #[inline(never)]
    fn give_mask(&mut self, word: u32, mask: u64, (order, pieces): (u32, u32)) {
        if mask == 0 {
            return; // nothing came, or blocks larger than a word, which went back one by one
        }
        if pieces == 1 {
            return self.give(word << WORD_ORDER | mask.trailing_zeros(), order);
        }
        if pieces < RECOUNT_FROM {
            let mut left = mask & bits::runs(mask, order);
            while left != 0 {
                let at = left.trailing_zeros();
                self.give(word << WORD_ORDER | at, order);
                left &= !(bits::ones(order) << at);
            }
            return;
        }
        let block = word >> (BLOCK_SHIFT - WORD_ORDER);
        let at = word as usize % BLOCK_WORDS;
        let Some(b) = self.blocks.get_mut(block as usize) else { return };
        let old = b.map[at];
        let new = old | mask;
        b.map[at] = new;
        b.free = b.free.wrapping_add((pieces << order) as u16);
        let migrate_type = b.migrate_type;
        bits::count_runs(old, |o, n| self.uncount(o, u64::from(n)));
        self.add_free(migrate_type, u64::from(pieces) << order);
        let Some(b) = self.blocks.get_mut(block as usize) else { return };
        b.presence &= !(bits::EVERY_WORD << at);
        if new == u64::MAX {
            self.give_full(block, at as u32, WORD_ORDER);
            return;
        }
        let orders = bits::orders(new);
        b.presence |= bits::spread(orders, at);
        bits::count_runs(new, |o, n| self.count(o, u64::from(n)));
        self.raise(block, 7 - orders.leading_zeros());
    }
}
