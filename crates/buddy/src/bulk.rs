//! Many blocks under one lock hold, a word at a time: what refills and drains per-CPU lists.

use pageblock_frame::sync::Ordering;
use pageblock_frame::{BLOCK_WORDS, MigrateType, Order, StateByte};

use crate::bits::{self, WORD_FRAMES, WORD_ORDER};
use crate::core::{BLOCK_SHIFT, ZoneCore};
use crate::dense::word_of;
use crate::scattered::LEVEL;

/// Words with less than that, after which the rest is looked at block by block: an ordered run has such at its ends only.
const MOST_SMALL: u32 = 2;

/// How much one call may still do. A drain counts in units of about 9 instructions, a refill in units of about 35.
#[derive(Debug)]
pub(crate) struct Effort(u32);

impl Effort {
    /// In a drain, a pageblock, or a word of one, that is looked for and settled.
    pub(crate) const PAGEBLOCK: u32 = 60;
    /// One block among others.
    pub(crate) const BLOCK: u32 = 3;
    /// A byte of a map that has become full beside another, and nothing larger.
    pub(crate) const PAIR: u32 = 3;
    /// What more comes of a block: a byte of a map has become full beside another, or a pageblock has something larger.
    pub(crate) const BYTE: u32 = 8;
    /// A pageblock's largest order that rises.
    pub(crate) const RISE: u32 = 20;
    /// A pageblock that becomes wholly free.
    pub(crate) const WHOLE: u32 = 54;

    /// What a drain of a per-CPU list may do: with all that it keeps one call below 5,000 instructions.
    pub(crate) const fn of_one_drain() -> Self {
        Self(425)
    }

    /// What is done for so many blocks.
    #[inline(always)]
    pub(crate) const fn of_blocks(blocks: usize) -> i32 {
        Self::BLOCK as i32 * blocks as i32
    }

    /// What a refill of a per-CPU list may do, which keeps it below 5,000 instructions, too.
    pub(crate) const fn of_one_refill() -> Self {
        Self(96)
    }

    pub(crate) const fn unlimited() -> Self {
        Self(u32::MAX)
    }

    #[inline(always)]
    pub(crate) const fn is_left(&self) -> bool {
        self.0 > 0
    }

    /// The units that are left, as far as a loop of its own may count them.
    #[inline(always)]
    pub(crate) const fn left(&self) -> i32 {
        if self.0 > i32::MAX as u32 { i32::MAX } else { self.0 as i32 }
    }

    /// Sets what [`left`](Self::left) has become; none for less than none.
    #[inline(always)]
    pub(crate) const fn set(&mut self, left: i32) {
        if self.0 <= i32::MAX as u32 {
            self.0 = if left < 0 { 0 } else { left as u32 };
        }
    }

    /// How often so much can be spent.
    #[inline(always)]
    pub(crate) const fn affords(&self, units: u32) -> usize {
        (self.0 / units) as usize
    }

    #[inline(always)]
    pub(crate) const fn spend(&mut self, units: u32) {
        self.0 = self.0.saturating_sub(units);
    }
}

/// What has come of a number of blocks that were given back.
///
/// ```
/// let given = pageblock_buddy::Given::default();
/// assert_eq!((given.done, given.refused), (0, 0));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Given {
    /// So many, from the first on, are done with.
    pub done: usize,
    /// So many of them were not listed with this order, and have been left as they are.
    pub refused: usize,
}

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
    pub(crate) fn finish_take(&mut self, block: u32, full_before: u32, frames: u32) {
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
    pub(crate) fn give_many(&mut self, order: Order, blocks: &[u32], effort: &mut Effort) -> Given {
        let o = u32::from(order.as_u8());
        let alike = o <= LEVEL && self.isolated_blocks == 0 && !self.has_unusable;
        if alike && !are_neighbours(blocks) {
            return self.give_scattered(order, blocks, effort);
        }
        // Two copies of one loop: without the look for whole words, single frames take fewer instructions.
        let mut given = if order == Order::ZERO && blocks.len() >= WORD_FRAMES as usize {
            self.give_listed::<true>(order, blocks, (alike, effort))
        } else {
            self.give_listed::<false>(order, blocks, (alike, effort))
        };
        if given.done < blocks.len() && alike && effort.is_left() {
            let rest = blocks.get(given.done..).unwrap_or_default();
            let scattered = self.give_scattered(order, rest, effort);
            given = Given { done: given.done + scattered.done, refused: given.refused + scattered.refused };
        }
        given
    }

    #[inline(always)]
    fn give_listed<const DENSE: bool>(
        &mut self,
        order: Order,
        blocks: &[u32],
        (alike, effort): (bool, &mut Effort),
    ) -> Given {
        let o = u32::from(order.as_u8());
        let listed = StateByte::listed(order, MigrateType::Unmovable).raw();
        let (mut rest, mut refused, mut small) = (blocks, 0, 0);
        while let Some(&first) = rest.first() {
            if !effort.is_left() || (alike && small == MOST_SMALL) {
                break;
            }
            effort.spend(Effort::PAGEBLOCK);
            if DENSE
                && let Some((frames, after)) = rest.split_first_chunk()
                && let Some(whole) = word_of(frames)
                && self.give_word(whole)
            {
                rest = after;
                continue;
            }
            let word = first >> WORD_ORDER;
            let (mut mask, mut taken, mut wrong) = (0u64, 0, 0);
            // Without a chunk this is the end of the zone, or blocks larger than a word.
            match self.states.chunk(word << WORD_ORDER).filter(|_| o < WORD_ORDER) {
                Some(chunk) => {
                    for &index in rest.iter().take_while(|&index| index >> WORD_ORDER == word) {
                        taken += 1;
                        let byte = &chunk[index as usize % WORD_FRAMES as usize];
                        if StateByte::from_raw(byte.load(Ordering::Relaxed)).without_type() == listed {
                            byte.store(StateByte::INSIDE.raw(), Ordering::Relaxed);
                            mask |= bits::ones(o) << (index % WORD_FRAMES);
                        } else {
                            wrong += 1;
                        }
                    }
                    let pieces = taken as u32 - wrong;
                    small += u32::from(pieces < RECOUNT_FROM);
                    self.give_mask(word, mask, (o, pieces));
                }
                None => {
                    taken = 1;
                    if self.states.get(first).without_type() == listed {
                        self.states.set(first, StateByte::INSIDE);
                        self.give(first, o);
                    } else {
                        wrong = 1;
                    }
                }
            }
            refused += wrong as usize;
            rest = rest.get(taken..).unwrap_or_default();
        }
        Given { done: blocks.len() - rest.len(), refused }
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
