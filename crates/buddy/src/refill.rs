//! What a per-CPU list gets when it has run dry: blocks of one pageblock that is this CPU's, whole words if there are.

use core::num::NonZeroU64;

use pageblock_frame::sync::Ordering;
use pageblock_frame::{BLOCK_WORDS, CpuId, MigrateType, Order, StateByte, StateTable};

use crate::bits::{self, WORD_FRAMES, WORD_ORDER};
use crate::bulk::Effort;
use crate::core::{BLOCK_SHIFT, ZoneCore};

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
    /// Whose list it is: other CPUs take from other pageblocks.
    pub cpu: CpuId,
    /// How many are enough. Of a word of 64 free frames all blocks come, if there is room for them.
    pub least: u32,
}

/// What the parts of a refill take, in units of [`Effort`]: a pageblock that is looked for, recomputed and settled; a part of a word;
/// a full word.
const OPENED: u32 = 20;
const PART: u32 = 8;
const FULL: u32 = 4;
/// So many blocks take one unit.
const BLOCKS: u32 = 3;

impl ZoneCore<'_> {
    /// Takes blocks from pageblocks of the type until there are enough or the effort is spent, marks each head as listed, and
    /// says how many there were. One at least, if there is any.
    pub(crate) fn refill(&mut self, refill: Refill, (out, effort): (&mut [u32], &mut Effort)) -> usize {
        let Refill { order, migrate_type, cpu, least } = refill;
        let mark = StateByte::listed(order, migrate_type);
        let o = u32::from(order.as_u8());
        if o >= WORD_ORDER {
            let Some(slot) = out.first_mut() else { return 0 };
            let Some(index) = self.take(o, migrate_type) else { return 0 };
            self.states.set(index, mark);
            *slot = index;
            return 1;
        }
        let least = (least as usize).min(out.len());
        let mut got = 0;
        while got < least && effort.is_left() {
            effort.spend(OPENED);
            let Some(block) = self.reserved_block(cpu, migrate_type, o) else { break };
            self.freshen(block);
            let Some(rest) = out.get_mut(got..) else { break };
            let taken = self.refill_from(block, (o, mark, least - got), (rest, effort));
            if taken == 0 {
                break;
            }
            got += taken;
        }
        got
    }

    /// Takes full words of one pageblock as single frames until there are `least`, as far as they fit. Pushed on a stack as they are,
    /// they come off in ascending order. Says how many frames they were.
    fn refill_words(
        &mut self,
        block: u32,
        (mark, least): (StateByte, usize),
        (out, effort): (&mut [u32], &mut Effort),
    ) -> usize {
        let mut full = bits::full_words(self.presence(block));
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

    /// Takes blocks of `order < 6` out of one pageblock until there are `least` or the pageblock has no more. A full word is taken in
    /// full if it fits into `out`.
    fn refill_from(
        &mut self,
        block: u32,
        (order, mark, least): (u32, StateByte, usize),
        (out, effort): (&mut [u32], &mut Effort),
    ) -> usize {
        let full_before = bits::full_words(self.presence(block));
        let mut got = 0;
        // One word at least, whatever the effort: a pageblock that has been opened must not stay wholly free.
        while got < least && (got == 0 || effort.is_left()) {
            let Some(b) = self.blocks.get(block as usize) else { break };
            let wanted = b.presence >> (order * BLOCK_WORDS as u32);
            if wanted == 0 {
                break;
            }
            let word = wanted.trailing_zeros() as usize % BLOCK_WORDS;
            let old = b.map[word];
            if old == u64::MAX && order == 0 {
                let rest = out.get_mut(got..).unwrap_or_default();
                let frames = self.refill_words(block, (mark, least - got), (rest, effort));
                got += frames;
                if frames > 0 {
                    continue;
                }
            }
            let starts = bits::runs(old, order);
            let first = block << BLOCK_SHIFT | (word as u32) << WORD_ORDER;
            // A free word comes in full; without it, or where it does not fit, what is enough.
            let fits = old == u64::MAX && out.len() - got >= (WORD_FRAMES >> order) as usize;
            let end = if fits { out.len() } else { least };
            let left = mark_starts(self.states, (first, starts), mark, out.get_mut(got..end).unwrap_or_default());
            let mut taken = starts ^ left;
            let blocks = taken.count_ones();
            got += blocks as usize;
            effort.spend(PART + blocks / BLOCKS);
            for level in 0..order {
                taken |= taken << (1 << level);
            }
            let new = old & !taken;
            let Some(b) = self.blocks.get_mut(block as usize) else { break };
            b.map[word] = new;
            b.presence = b.presence & !(bits::EVERY_WORD << word) | bits::spread(bits::orders(new), word);
            bits::count_runs(old, |o, n| self.uncount(o, u64::from(n)));
            bits::count_runs(new, |o, n| self.count(o, u64::from(n)));
        }
        self.finish_take(block, full_before, (got as u32) << order);
        got
    }
}

/// Marks the blocks that start at these places of a word, as many as there are slots for, and says which are left.
#[inline(always)]
fn mark_starts(states: StateTable<'_>, (first, starts): (u32, u64), mark: StateByte, slots: &mut [u32]) -> u64 {
    let mut left = starts;
    if let Some(chunk) = states.chunk(first) {
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
        states.set(*slot, mark);
        left &= left - 1;
    }
    left
}
