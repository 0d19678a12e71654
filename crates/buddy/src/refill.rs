//! Refills: a per-CPU list that has run dry gets blocks of one pageblock that is this CPU's, whole words if there are.

use core::num::NonZeroU64;

use pageblock_frame::runs::{self, WORD_FRAMES, WORD_ORDER};
use pageblock_frame::sync::Ordering;
use pageblock_frame::{BLOCK_WORDS, CpuId, MigrateType, Order, StateByte, StateTable};

use crate::bulk::Effort;
use crate::region::{BLOCK_SHIFT, Region};

/// Blocks that a per-CPU list asks for.
///
/// ```
/// use pageblock_buddy::Refill;
/// use pageblock_frame::{CpuId, MigrateType, Order};
/// let refill = Refill { order: Order::ZERO, migrate_type: MigrateType::Movable, cpu: CpuId::new(1), least: 8 };
/// assert_eq!(refill.least, 8);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refill {
    /// Of each block.
    pub order: Order,
    /// Of the pageblocks from which they come.
    pub migrate_type: MigrateType,
    /// CPU of the list: others take from other pageblocks.
    pub cpu: CpuId,
    /// How many are enough. Of a word of 64 free frames all blocks come, if there is room for them.
    pub least: u32,
}

/// Prices of the parts of a refill, in units of [`Effort`]: a pageblock that is looked for, recomputed and settled; a
/// part of a word; a full word.
const OPENED: u32 = 12;
const PART: u32 = 12;
const FULL: u32 = 4;
/// So many blocks take one unit.
const BLOCKS: u32 = 3;

/// A request to one pageblock: at least so many blocks of an order, each head marked so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    pub(crate) order: u32,
    pub(crate) mark: StateByte,
    pub(crate) least: usize,
}

impl Region<'_> {
    /// Takes full words of one pageblock as single frames until there are `least`, as far as they fit. Pushed on a
    /// stack as they are, they come off in ascending order. Says how many frames they were.
    fn refill_words(&mut self, block: u32, batch: Batch, out: &mut [u32], effort: &mut Effort) -> usize {
        let Batch { mark, least, .. } = batch;
        let mut full = self.full_words(block);
        let (words, _) = out.as_chunks_mut();
        let wanted = least.div_ceil(WORD_FRAMES as usize).min(effort.affords(FULL).max(1));
        let count = wanted.min(words.len()).min(full.count_ones() as usize);
        for frames in words.iter_mut().take(count).rev() {
            effort.spend(FULL);
            self.take_word(block, full.trailing_zeros() as usize % BLOCK_WORDS, mark, frames);
            full &= full.wrapping_sub(1);
        }
        count * WORD_FRAMES as usize
    }

    /// Takes blocks of `order < 6` out of one pageblock until there are `least` or the pageblock has no more. A full
    /// word is taken in full if it fits into `out`.
    pub(crate) fn refill_from(&mut self, block: u32, batch: Batch, out: &mut [u32], effort: &mut Effort) -> usize {
        let Batch { order, mark, least } = batch;
        effort.spend(OPENED);
        self.freshen(block);
        let full_before = self.full_words(block);
        let mut got = 0;
        // One word at least, whatever the effort: a pageblock that has been opened must not stay wholly free.
        while got < least && (got == 0 || effort.is_left()) {
            let Some(b) = self.blocks.get(block) else { break };
            let Some(word) = b.word_with(order) else { break };
            let old = b.word(word);
            if old == u64::MAX && order == 0 {
                let rest = out.get_mut(got..).unwrap_or_default();
                let frames = self.refill_words(block, Batch { least: least - got, ..batch }, rest, effort);
                got += frames;
                if frames > 0 {
                    continue;
                }
            }
            let starts = runs::runs(old, order);
            let first = self.offset + (block << BLOCK_SHIFT | (word as u32) << WORD_ORDER);
            // A free word comes in full; without it, or where it does not fit, as many as are enough.
            let fits = old == u64::MAX && out.len() - got >= (WORD_FRAMES >> order) as usize;
            let end = if fits { out.len() } else { least };
            let left = mark_starts(
                self.states,
                Starts { first, offset: self.offset, starts },
                mark,
                out.get_mut(got..end).unwrap_or_default(),
            );
            let mut taken = starts ^ left;
            let blocks = taken.count_ones();
            got += blocks as usize;
            effort.spend(PART + blocks / BLOCKS);
            for level in 0..order {
                taken |= taken << (1 << level);
            }
            let new = old & !taken;
            let Some(b) = self.blocks.get_mut(block) else { break };
            b.take_from_word(word, taken);
            runs::count_runs(old, |o, n| self.uncount(o, u64::from(n)));
            runs::count_runs(new, |o, n| self.count(o, u64::from(n)));
        }
        self.finish_take(block, full_before, (got as u32) << order);
        got
    }
}

/// Places of a word at which blocks start.
#[derive(Clone, Copy)]
struct Starts {
    /// Zone-relative index of the word's first frame.
    first: u32,
    /// That of the region's first frame, from which state bytes count.
    offset: u32,
    starts: u64,
}

/// Marks blocks of a word, as many as there are slots for, and says which are left.
#[inline]
fn mark_starts(states: StateTable<'_>, word: Starts, mark: StateByte, slots: &mut [u32]) -> u64 {
    let Starts { first, offset, starts } = word;
    let mut left = starts;
    if let Some(chunk) = states.chunk(first - offset) {
        for slot in slots {
            let Some(some) = NonZeroU64::new(left) else { break };
            let at = some.trailing_zeros();
            *slot = first | at;
            chunk[at as usize % 64].store(mark.raw(), Ordering::Relaxed);
            left &= left - 1;
        }
        return left;
    }
    for slot in slots {
        let Some(some) = NonZeroU64::new(left) else { break };
        *slot = first | some.trailing_zeros();
        states.set(*slot - offset, mark);
        left &= left - 1;
    }
    left
}
