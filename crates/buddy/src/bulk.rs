//! Many blocks under one lock hold, a word at a time: for refills and drains of per-CPU lists.

use pageblock_frame::runs::{self, WORD_FRAMES, WORD_ORDER};
use pageblock_frame::sync::Ordering;
use pageblock_frame::{BLOCK_WORDS, MigrateType, Order, Platform, StateByte, WordGiven};

use crate::ones::Ones;
use crate::refill::Batch;
use crate::region::{BLOCK_SHIFT, Region};
use crate::scattered::LEVEL;
use crate::summary::MOST_REGIONS;
use crate::word::word_of;
use crate::zone::Zone;

/// Words with less than that, after which the rest is looked at block by block: an ordered run has such at its ends
/// only.
const MOST_SMALL: u32 = 2;

/// How much one call may still do. A drain counts in units of about 9 instructions, a refill in units of about 35.
#[derive(Debug)]
pub(crate) struct Effort(u32);

impl Effort {
    /// In a drain, a pageblock, or a word of one, that is looked for and settled.
    pub(crate) const PAGEBLOCK: u32 = 60;
    /// A region that is locked, and left again.
    pub(crate) const REGION: u32 = 10;
    /// One block among others.
    pub(crate) const BLOCK: u32 = 5;
    /// A byte of a map that has become full beside another, and nothing larger.
    pub(crate) const PAIR: u32 = 3;
    /// Further work for a block: a byte of a map has become full beside another, or a pageblock has something larger.
    pub(crate) const BYTE: u32 = 8;
    /// A pageblock's largest order that rises.
    pub(crate) const RISE: u32 = 20;
    /// A pageblock that becomes wholly free.
    pub(crate) const WHOLE: u32 = 54;

    /// Effort of a drain of these blocks. A call that pays for what its list owes passes few, or words, of which two are
    /// enough; a request that finds nothing else passes many.
    #[inline]
    const fn of_drain(blocks: &[u32]) -> Self {
        if are_neighbours(blocks) {
            Self(2 * Self::PAGEBLOCK)
        } else if blocks.len() <= FEW {
            Self(180)
        } else {
            Self(425)
        }
    }

    /// Effort of a refill of a per-CPU list.
    pub(crate) const fn of_one_refill() -> Self {
        Self(40)
    }

    pub(crate) const fn unlimited() -> Self {
        Self(u32::MAX)
    }

    #[inline]
    pub(crate) const fn is_left(&self) -> bool {
        self.0 > 0
    }

    /// The units that are left, as far as a loop of its own may count them.
    #[inline]
    pub(crate) const fn left(&self) -> i32 {
        if self.0 > i32::MAX as u32 { i32::MAX } else { self.0 as i32 }
    }

    /// Sets [`left`](Self::left); none for less than none.
    #[inline]
    pub(crate) const fn set(&mut self, left: i32) {
        if self.0 <= i32::MAX as u32 {
            self.0 = if left < 0 { 0 } else { left as u32 };
        }
    }

    /// How often so much can be spent.
    #[inline]
    pub(crate) const fn affords(&self, units: u32) -> usize {
        (self.0 / units) as usize
    }

    #[inline]
    pub(crate) const fn spend(&mut self, units: u32) {
        self.0 = self.0.saturating_sub(units);
    }
}

/// Outcome for a number of blocks that were given back.
///
/// ```
/// let given = pageblock_buddy::BulkGiven::default();
/// assert_eq!((given.done, given.refused), (0, 0));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BulkGiven {
    /// So many, from the first on, are done with.
    pub done: usize,
    /// So many of them were not listed with this order, and have been left as they are.
    pub refused: usize,
}

/// Blocks that a call which pays for what is owed passes at most, unless they are words.
const FEW: usize = 32;
/// Blocks that one hold of a lock gives back at most.
const CHUNK: usize = 128;

/// Outcome for some of up to 64 blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Picked {
    /// Those that are not done with: one bit for the place of each.
    pub(crate) left: u64,
    /// So many were not listed with this order, and have been left as they are.
    pub(crate) refused: usize,
}

impl Zone<'_> {
    /// Takes up to `out.len()` blocks of `order`, marks each as listed, and says how many there were (`rmqueue_bulk()`,
    /// without fallback). Writes zone-relative indices. There are none of an order above the zone's largest, and none
    /// of isolated pageblocks.
    pub fn alloc_bulk<P: Platform>(&self, order: Order, migrate_type: MigrateType, out: &mut [u32]) -> usize {
        if order > self.max_order() || migrate_type == MigrateType::Isolate {
            return 0;
        }
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
    ///
    /// # Safety
    /// Those that are listed the caller holds, from [`alloc_bulk`](Self::alloc_bulk), [`refill`](Self::refill), or
    /// because it has marked a block so that it held; nothing uses their frames.
    #[expect(unsafe_code, reason = "the caller's word that it holds the blocks")]
    pub unsafe fn free_bulk<P: Platform>(&self, order: Order, blocks: &[u32]) -> usize {
        let mut given = BulkGiven::default();
        while let Some(rest) = blocks.get(given.done..).filter(|rest| !rest.is_empty()) {
            let part = self.free_together::<P>(order, rest, &mut Effort::unlimited());
            given =
                BulkGiven { done: given.done + part.given.done.max(1), refused: given.refused + part.given.refused };
        }
        given.refused
    }

    /// As [`free_bulk`](Self::free_bulk), with a bound on the call's work: it may stop before all blocks are done
    /// with, and does at least one. Those that are left are the last of `blocks` then, whatever their order was.
    ///
    /// # Safety
    /// As [`free_bulk`](Self::free_bulk).
    #[expect(unsafe_code, reason = "the caller's word that it holds the blocks")]
    pub unsafe fn free_some<P: Platform>(&self, order: Order, blocks: &mut [u32]) -> BulkGiven {
        let mut effort = Effort::of_drain(blocks);
        let mut given = BulkGiven::default();
        while effort.is_left()
            && let Some(rest) = blocks.get_mut(given.done..).filter(|rest| !rest.is_empty())
        {
            let part = self.free_together::<P>(order, rest, &mut effort);
            move_to_end(rest.get_mut(..part.shown).unwrap_or_default(), part.left);
            given = BulkGiven { done: given.done + part.given.done, refused: given.refused + part.given.refused };
        }
        given
    }

    /// Gives back some of the blocks: those from the first on, as long as they lie in one region; else some of the
    /// first 64.
    #[inline]
    fn free_together<P: Platform>(&self, order: Order, blocks: &[u32], effort: &mut Effort) -> Part {
        // As many as the effort allows, or a word of neighbours, which costs as much as a few.
        let few = effort.affords(Effort::BLOCK).clamp(1, 64);
        let most = if are_neighbours(blocks) { CHUNK } else { few };
        let some = blocks.get(..most).unwrap_or(blocks);
        let (shift, first) = (self.region_shift(), some.first().copied().unwrap_or(0));
        let differing = some.iter().fold(0, |differing, index| differing | index ^ first);
        if differing.wrapping_shr(shift) != 0 {
            return self.free_scattered::<P>(order, some.get(..few).unwrap_or(some), effort);
        }
        let given = match self.lock::<P>(first.wrapping_shr(shift)) {
            Some(mut region) => {
                let given = region.give_many(order, some, effort);
                self.publish(&mut region);
                given
            }
            None => BulkGiven { done: some.len(), refused: some.len() },
        };
        Part { given, shown: given.done, left: 0 }
    }

    /// Gives back blocks of several regions, each of which is locked once.
    #[inline(never)]
    fn free_scattered<P: Platform>(&self, order: Order, blocks: &[u32], effort: &mut Effort) -> Part {
        let regions = ByRegion::of(blocks, self.region_shift());
        let mut part = Part { given: BulkGiven::default(), shown: blocks.len(), left: 0 };
        for number in Ones(regions.met) {
            let picked = regions.blocks[number as usize % MOST_REGIONS];
            let of_region = match self.lock::<P>(number) {
                _ if !effort.is_left() => Picked { left: picked, refused: 0 },
                // There is no such region.
                None => Picked { left: 0, refused: picked.count_ones() as usize },
                Some(mut region) => {
                    let of_region = region.give_picked(order, blocks, picked, effort);
                    self.publish(&mut region);
                    effort.spend(Effort::REGION);
                    of_region
                }
            };
            part.left |= of_region.left;
            part.given.refused += of_region.refused;
        }
        part.given.done = blocks.len() - part.left.count_ones() as usize;
        part
    }
}

/// Outcome for some blocks of a list.
struct Part {
    given: BulkGiven,
    /// So many were looked at, from the first on.
    shown: usize,
    /// Of those, up to 64, the ones that are not done with; 0 if they are the last ones.
    left: u64,
}

/// A bit for each of so many places, up to 64.
const fn places(count: usize) -> u64 {
    if count < 64 { (1 << count) - 1 } else { u64::MAX }
}

/// Moves the elements at places with a bit in `left` to the end.
fn move_to_end(blocks: &mut [u32], left: u64) {
    let mut rest = left;
    let mut end = blocks.len();
    while let Some(some) = core::num::NonZeroU64::new(rest) {
        let at = some.ilog2();
        end = end.saturating_sub(1);
        if let Some(&block) = blocks.get(at as usize) {
            // The former element has been done with, or moved up already.
            blocks.get_mut(end).into_iter().for_each(|slot| *slot = block);
        }
        rest &= !(1 << at);
    }
}

/// Up to 64 blocks by region: one bit for the place of each.
struct ByRegion {
    blocks: [u64; MOST_REGIONS],
    /// The regions that have some.
    met: u64,
}

impl ByRegion {
    #[inline]
    fn of(blocks: &[u32], shift: u32) -> Self {
        let mut by_region = Self { blocks: [0; MOST_REGIONS], met: 0 };
        let mut place = 1u64;
        for &index in blocks {
            let region = index.wrapping_shr(shift) % MOST_REGIONS as u32;
            by_region.blocks[region as usize] |= place;
            by_region.met |= 1 << region;
            place = place.wrapping_add(place);
        }
        by_region
    }
}

/// True if the first or the last two blocks lie in one word, as after refills that are freed in order.
#[inline]
const fn are_neighbours(blocks: &[u32]) -> bool {
    matches!(*blocks, [a, b, ..] if a >> WORD_ORDER == b >> WORD_ORDER)
        || matches!(*blocks, [.., a, b] if a >> WORD_ORDER == b >> WORD_ORDER)
}

/// A word with no more blocks than this to give is merged block by block; with more it is recounted as a whole.
const RECOUNT_FROM: u32 = 4;

impl Region<'_> {
    /// Settles the effects of a pageblock's loss of `frames` frames beyond its words; some may be of full words.
    pub(crate) fn finish_take(&mut self, block: u32, full_before: u32, frames: u32) {
        let Some(b) = self.blocks.known_mut(block) else { return };
        let top = b.settle_taken(frames);
        let (migrate_type, full_after) = (b.migrate_type(), b.full_words());
        if full_after != full_before {
            runs::count_word_runs(full_before, |o, n| self.uncount(o, u64::from(n)));
            runs::count_word_runs(full_after, |o, n| self.count(o, u64::from(n)));
        }
        self.sub_free(migrate_type, u64::from(frames));
        if top.is_any() {
            self.top_changed(block, top);
        }
    }

    /// Gives back blocks of `order` with heads marked as listed (`free_pcppages_bulk()`), of this region, by their
    /// numbers in the zone. Neighbours that follow one another are given back together. Those that are not so marked
    /// are left as they are.
    pub(crate) fn give_many(&mut self, order: Order, blocks: &[u32], effort: &mut Effort) -> BulkGiven {
        let alike = self.counts_alike(order);
        if alike && !are_neighbours(blocks) {
            return self.give_first(order, blocks, effort);
        }
        // Two copies of one loop: without the look for whole words, single frames take fewer instructions.
        let mut given = if order == Order::ZERO && blocks.len() >= WORD_FRAMES as usize {
            self.give_listed::<true>(order, blocks, effort)
        } else {
            self.give_listed::<false>(order, blocks, effort)
        };
        if given.done < blocks.len() && alike && effort.is_left() {
            let scattered = self.give_first(order, blocks.get(given.done..).unwrap_or_default(), effort);
            given = BulkGiven { done: given.done + scattered.done, refused: given.refused + scattered.refused };
        }
        given
    }

    /// Blocks of the order lie in one byte of a map, and all free frames of the region count alike.
    #[inline]
    fn counts_alike(&self, order: Order) -> bool {
        u32::from(order.as_u8()) <= LEVEL && self.isolated_blocks == 0 && !self.has_unusable
    }

    /// Gives back the first 64 blocks, or as many of them as the effort allows.
    #[inline]
    fn give_first(&mut self, order: Order, blocks: &[u32], effort: &mut Effort) -> BulkGiven {
        let some = blocks.get(..64).unwrap_or(blocks);
        let picked = self.give_scattered(order, some, places(some.len()), effort);
        let done = if picked.left == 0 { some.len() } else { picked.left.trailing_zeros() as usize };
        BulkGiven { done, refused: picked.refused }
    }

    /// Gives back those blocks, up to 64, for which `picked` has a bit, lowest first.
    pub(crate) fn give_picked(&mut self, order: Order, blocks: &[u32], picked: u64, effort: &mut Effort) -> Picked {
        if self.counts_alike(order) {
            return self.give_scattered(order, blocks, picked, effort);
        }
        let listed = StateByte::listed(order, MigrateType::Unmovable).raw();
        let mut result = Picked { left: picked, refused: 0 };
        for (place, &index) in blocks.iter().enumerate().take(64).filter(|&(place, _)| picked >> place & 1 == 1) {
            if !effort.is_left() {
                break;
            }
            effort.spend(Effort::PAGEBLOCK);
            let index = index.wrapping_sub(self.offset);
            if self.states.get(index).without_type() == listed {
                self.states.set(index, StateByte::INSIDE);
                self.give(index, u32::from(order.as_u8()));
            } else {
                result.refused += 1;
            }
            result.left &= !(1 << place);
        }
        result
    }

    #[inline]
    fn give_listed<const DENSE: bool>(&mut self, order: Order, blocks: &[u32], effort: &mut Effort) -> BulkGiven {
        let o = u32::from(order.as_u8());
        let alike = self.counts_alike(order);
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
                && self.give_word(whole.wrapping_sub(self.offset >> WORD_ORDER))
            {
                rest = after;
                continue;
            }
            let (in_zone, first) = (first >> WORD_ORDER, first.wrapping_sub(self.offset));
            let word = first >> WORD_ORDER;
            let (mut mask, mut taken, mut wrong) = (0u64, 0, 0);
            // Without a chunk this is the end of the zone, or blocks larger than a word.
            match self.states.chunk(word << WORD_ORDER).filter(|_| o < WORD_ORDER) {
                Some(chunk) => {
                    for &index in rest.iter().take_while(|&index| index >> WORD_ORDER == in_zone) {
                        taken += 1;
                        let byte = &chunk[index as usize % WORD_FRAMES as usize];
                        if StateByte::from_raw(byte.load(Ordering::Relaxed)).without_type() == listed {
                            byte.store(StateByte::INSIDE.raw(), Ordering::Relaxed);
                            mask |= runs::ones(o) << (index % WORD_FRAMES);
                        } else {
                            wrong += 1;
                        }
                    }
                    let pieces = taken as u32 - wrong;
                    small += u32::from(pieces < RECOUNT_FROM);
                    self.give_mask(word, mask, o, pieces);
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
        BulkGiven { done: blocks.len() - rest.len(), refused }
    }

    /// Gives back `pieces` blocks of `order` of one word (counted through the zone).
    #[inline(never)]
    fn give_mask(&mut self, word: u32, mask: u64, order: u32, pieces: u32) {
        if mask == 0 {
            return; // nothing came, or blocks larger than a word, which went back one by one
        }
        if pieces == 1 {
            return self.give(word << WORD_ORDER | mask.trailing_zeros(), order);
        }
        if pieces < RECOUNT_FROM {
            let mut left = mask & runs::runs(mask, order);
            while left != 0 {
                let at = left.trailing_zeros();
                self.give(word << WORD_ORDER | at, order);
                left &= !(runs::ones(order) << at);
            }
            return;
        }
        let block = word >> (BLOCK_SHIFT - WORD_ORDER);
        let at = word as usize % BLOCK_WORDS;
        let Some(b) = self.blocks.known_mut(block) else { return };
        let migrate_type = b.migrate_type();
        let WordGiven { before, after, given } = b.give_to_word(at, mask);
        runs::count_runs(before, |o, n| self.uncount(o, u64::from(n)));
        self.add_free(migrate_type, u64::from(pieces) << order);
        if after == u64::MAX {
            return self.account_given(block, WORD_ORDER, given);
        }
        runs::count_runs(after, |o, n| self.count(o, u64::from(n)));
        if given.top.is_any() {
            self.top_changed(block, given.top);
        }
    }
}
