//! Many blocks under one lock hold, a word at a time: what refills and drains per-CPU lists.

use pageblock_frame::sync::Ordering;
use pageblock_frame::{BLOCK_WORDS, MigrateType, Order, Platform, StateByte};

use crate::bits::{self, WORD_FRAMES, WORD_ORDER};
use crate::dense::word_of;
use crate::refill::Batch;
use crate::region::{BLOCK_SHIFT, Region};
use crate::scattered::LEVEL;
use crate::summary::MOST_REGIONS;
use crate::zone::{Ones, Zone};

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
        Self(40)
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

/// Blocks that one hold of a lock gives back at most.
const CHUNK: usize = 64;

impl Zone<'_> {
    /// Takes up to `out.len()` blocks of `order`, marks each as listed, and says how many there were (`rmqueue_bulk()`, without fallback).
    /// Writes zone-relative indices.
    pub fn alloc_bulk<P: Platform>(&self, order: Order, migrate_type: MigrateType, out: &mut [u32]) -> usize {
        let mark = StateByte::listed(order, migrate_type);
        let o = u32::from(order.as_u8());
        let mut got = 0;
        while let Some(rest) = out.get_mut(got..).filter(|rest| !rest.is_empty()) {
            if o >= WORD_ORDER {
                let Some(index) = self.take::<P>(o, migrate_type, mark) else { break };
                if let Some(slot) = rest.first_mut() {
                    *slot = index;
                }
                got += 1;
                continue;
            }
            let Some(found) = self.search::<P>(o, migrate_type) else { break };
            let Some(mut region) = self.lock::<P>(found) else { break };
            if let Some(block) = region.partial(migrate_type, o).or_else(|| region.open_whole(migrate_type)) {
                let batch = Batch { order: o, mark, least: rest.len() };
                got += region.refill_from(block, batch, rest, &mut Effort::unlimited());
            }
            self.publish(&mut region);
        }
        got
    }

    /// Gives listed blocks back. Returns how many were not listed with this order; those are left as they are.
    #[inline]
    pub fn free_bulk<P: Platform>(&self, order: Order, blocks: &[u32]) -> usize {
        self.free_within::<P>(order, blocks, Effort::unlimited()).refused
    }

    /// As [`free_bulk`](Self::free_bulk), with a bound on what the call does: it may stop before the last block, and does
    /// at least one.
    #[inline]
    pub fn free_some<P: Platform>(&self, order: Order, blocks: &[u32]) -> Given {
        self.free_within::<P>(order, blocks, Effort::of_one_drain())
    }

    fn free_within<P: Platform>(&self, order: Order, blocks: &[u32], mut effort: Effort) -> Given {
        let mut given = Given::default();
        while let Some(rest) = blocks.get(given.done..).filter(|rest| !rest.is_empty())
            && effort.is_left()
        {
            let mut some = [0; CHUNK];
            let (some, _) = some.split_at_mut(rest.len().min(CHUNK));
            some.copy_from_slice(rest.get(..some.len()).unwrap_or_default());
            let first = some.first().map_or(0, |&index| self.region_of(index));
            let last = some.last().map_or(0, |&index| self.region_of(index));
            let done = if first == last && some.iter().all(|&index| self.region_of(index) == first) {
                self.free_in_region::<P>(order, first, some, &mut effort)
            } else {
                self.free_scattered::<P>(order, some, &mut effort)
            };
            given = Given { done: given.done + done.done, refused: given.refused + done.refused };
        }
        given
    }

    /// Gives back blocks of one region; their zone-relative indices become those of the region.
    fn free_in_region<P: Platform>(&self, order: Order, number: u32, some: &mut [u32], effort: &mut Effort) -> Given {
        let Some(mut region) = self.lock::<P>(number) else { return Given { done: some.len(), refused: some.len() } };
        let offset = region.offset;
        some.iter_mut().for_each(|index| *index = index.wrapping_sub(offset));
        let given = region.give_many(order, some, effort);
        self.publish(&mut region);
        given
    }

    /// Gives back blocks of several regions, all of them: sorted by region, so that each region is locked once.
    #[inline(never)]
    fn free_scattered<P: Platform>(&self, order: Order, some: &mut [u32], effort: &mut Effort) -> Given {
        let mut sorted = [0; CHUNK];
        let ends = sort_by_region(some, &mut sorted, self.region_shift());
        let mut given = Given { done: some.len(), refused: 0 };
        let mut start = 0;
        for number in Ones(ends.met) {
            let end = usize::from(ends.ends[number as usize % MOST_REGIONS]);
            let group = sorted.get_mut(start..end).unwrap_or_default();
            start = end;
            let part = self.free_in_region::<P>(order, number, group, &mut Effort::unlimited());
            given.refused += part.refused;
            effort.spend(Effort::PAGEBLOCK / 2 + Effort::BLOCK * group.len() as u32);
        }
        given
    }
}

/// Where each region's blocks end in a sorted chunk, and which regions there are.
struct RegionEnds {
    ends: [u8; MOST_REGIONS],
    met: u64,
}

/// A counting sort; regions have numbers below [`MOST_REGIONS`].
fn sort_by_region(blocks: &[u32], sorted: &mut [u32; CHUNK], shift: u32) -> RegionEnds {
    let mut ends = [0u8; MOST_REGIONS];
    let mut met = 0u64;
    for &index in blocks {
        let region = index.wrapping_shr(shift) % MOST_REGIONS as u32;
        ends[region as usize] += 1;
        met |= 1 << region;
    }
    // Counts become the places at which the regions begin; placing the blocks moves them to the ends.
    let mut start = 0;
    for region in Ones(met) {
        let count = core::mem::replace(&mut ends[region as usize % MOST_REGIONS], start);
        start += count;
    }
    for &index in blocks {
        let place = &mut ends[(index.wrapping_shr(shift) % MOST_REGIONS as u32) as usize];
        sorted[usize::from(*place) % CHUNK] = index;
        *place += 1;
    }
    RegionEnds { ends, met }
}

/// True if the first or the last two blocks lie in one word, as after refills that are freed in order.
#[inline(always)]
fn are_neighbours(blocks: &[u32]) -> bool {
    let same = |a: u32, b: u32| a >> WORD_ORDER == b >> WORD_ORDER;
    matches!(*blocks, [a, b, ..] if same(a, b)) || matches!(*blocks, [.., a, b] if same(a, b))
}

/// A word with no more blocks than this to give is merged block by block; with more it is recounted as a whole.
const RECOUNT_FROM: u32 = 4;

impl Region<'_> {
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
