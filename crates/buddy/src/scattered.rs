//! Many small blocks back into the maps, wherever they lie: the drain of per-CPU lists.
//!
//! A pageblock is eight words of eight bytes of eight frames, and how a free one of eight merges with those beside it
//! is the same on each of the three levels, so one table of all bytes answers: a block of an order up to 3 in its byte;
//! if that becomes full, the byte among the full ones of its word; and if that becomes full, the word among the full
//! ones of the pageblock. Its effect on the numbers of free blocks is summed up in registers. The one thing that is
//! left undone is the pageblock's presence, of which the frames count as loose: a taker of its frames
//! recomputes it, once for all of them.

use core::hint::cold_path;
use core::ops::Range;

use pageblock_frame::runs::{self, WORD_ORDER};
use pageblock_frame::sync::Ordering;
use pageblock_frame::{BLOCK_WORDS, MigrateType, Order, Pageblock, StateByte};

use crate::bulk::{Effort, Picked};
use crate::free_area::FreeArea;
use crate::region::{BLOCK_SHIFT, Region};

/// Orders between an eighth and the whole, on each level; the largest order of a block that lies in one byte of a map.
pub(crate) const LEVEL: u32 = 3;
/// In [`Eights`]: all eight are free, and the whole may reach further. More than any order.
const ALL: u8 = 0x7f;

/// Knowledge of eight, one bit each: side by side, so that one register finds both.
struct Eights {
    /// For each eight, times 8, and a place among them that has become free: the order, in eighths, of the block that
    /// it is part of, or [`ALL`].
    merged: [u8; 8 * 256],
    /// Effect of a block on the numbers of free blocks if it came to be by freeing eighths: one more of its order,
    /// one less of each below. Four numbers of 16 bits, order 0 in the lowest. By the values of `merged`, so that a
    /// look needs no check.
    grown: [u64; 256],
    /// For a byte of a map that has become full, by how many of the 16, 32 and 64 frames around it are free too: the
    /// effect beyond one byte more, in the same numbers, of bytes; and the order of the block that it is part of;
    /// [`ALL`] for a full word.
    full: [u64; 4],
    reached: [u8; 4],
}

static EIGHTS: Eights = {
    let mut merged = [0; 8 * 256];
    let mut index = 0;
    while index < merged.len() {
        let (eight, place) = (index / 8, index % 8);
        let mut order = 0;
        while order < LEVEL {
            let size = 2 << order;
            let block = ((1 << size) - 1) << (place / size * size);
            if eight & block != block {
                break;
            }
            order += 1;
        }
        merged[index] = if order == LEVEL { ALL } else { order as u8 };
        index += 1;
    }
    let mut grown = [0u64; 256];
    grown[0] = 1;
    grown[1] = (1 << 16) - 1;
    grown[2] = (1 << 32) - (1 << 16) - 1;
    let all = 0u64.wrapping_sub((1 << 32) + (1 << 16) + 1);
    grown[ALL as usize] = all.wrapping_add(1 << 48);
    // Each full byte has been counted as a block of its own.
    let full = [0, grown[1] - 1, grown[2] - 1, all.wrapping_sub(1)];
    Eights { merged, grown, full, reached: [3, 4, 5, ALL] }
};

/// The order of the block, among eight, that a place is part of; see [`Eights`].
#[inline]
fn merged_at(eight: u8, place: u32) -> u8 {
    EIGHTS.merged[(u32::from(eight) * 8 + place % 8) as usize]
}

/// Outcome for blocks with heads of one state.
struct Alike {
    /// Those that are not done with.
    left: u64,
    /// A pageblock has become wholly free with the last that is.
    whole: bool,
}

impl Region<'_> {
    /// Gives back those of up to 64 blocks of an order up to [`LEVEL`] at places with a bit in `picked`, if their
    /// heads are marked as listed, in a region where all free frames count alike. Others are left as they are.
    pub(crate) fn give_scattered(&mut self, order: Order, blocks: &[u32], picked: u64, effort: &mut Effort) -> Picked {
        let listed = StateByte::listed(order, MigrateType::Unmovable).raw();
        let mut result = Picked { left: picked, refused: 0 };
        while effort.is_left()
            && let Some(&first) = blocks.get(result.left.trailing_zeros() as usize)
        {
            // All blocks of a list have the same state.
            let state = self.states.get(first.wrapping_sub(self.offset));
            if state.without_type() != listed {
                result = Picked { left: result.left & (result.left - 1), refused: result.refused + 1 };
                effort.spend(Effort::BLOCK);
                continue;
            }
            let alike = self.give_alike(state, blocks, result.left, effort);
            let done = result.left & !alike.left;
            result.left = alike.left;
            if alike.whole
                && let Some(last) = done.checked_ilog2().and_then(|last| blocks.get(last as usize))
            {
                self.make_whole(last.wrapping_sub(self.offset) >> BLOCK_SHIFT);
            }
        }
        result
    }

    /// Gives back blocks with heads of this state, until one has another, or a pageblock has become wholly free, or
    /// the effort is spent.
    #[inline(never)]
    fn give_alike(&mut self, state: StateByte, blocks: &[u32], picked: u64, effort: &mut Effort) -> Alike {
        let order = u32::from(state.order().as_u8());
        let (bits, frames) = (runs::ones(order) as u8, 1 << order);
        // In memory, with all that is needed afterwards, so that the loop has the registers to itself.
        let mut growth = Growth {
            words: 0,
            left: effort.left(),
            whole: false,
            nr_free: &mut self.nr_free,
            free_area: &mut self.free_area,
            free: &mut self.totals.free,
            effort,
        };
        let mut visit = self.blocks.visit(blocks, picked, self.offset, state);
        let mut grown = 0u64;
        while let Some(mut frame) = visit.next() {
            frame.state().store(StateByte::INSIDE.raw(), Ordering::Relaxed);
            let place = frame.index() % 8;
            let now = frame.set(bits << place);
            let merged = merged_at(now, place);
            grown = grown.wrapping_add(EIGHTS.grown[usize::from(merged)]);
            let b = frame.block();
            b.count_loose(frames);
            // `NO_TOP` is one below order 0, also as a signed number.
            if merged as i8 > b.top() as i8 {
                cold_path();
                let top = b.top() as i8;
                let full = now == u8::MAX;
                if full && top >= LEVEL as i8 && !frame.is_beside_full() {
                    continue;
                }
                let stops = if full && top > LEVEL as i8 && !frame.is_pair_beside_full() {
                    growth.pairs()
                } else {
                    let index = frame.index();
                    growth.stops(frame.block(), index, merged)
                };
                if stops {
                    break;
                }
            }
        }
        let left = visit.left();
        growth.settle(order, (picked ^ left).count_ones() as usize, grown);
        Alike { left, whole: growth.whole }
    }
}

/// The case that more comes of a block than one in a byte of a map, or the largest block of its pageblock; and
/// the settlement when the drain ends.
struct Growth<'c, 'm> {
    /// Effect of full bytes beside others on the numbers of free blocks, from order [`LEVEL`] on.
    words: u64,
    /// Effort that is left, apart from the cost of every block.
    left: i32,
    /// A pageblock has become wholly free.
    whole: bool,
    nr_free: &'c mut [u64; Order::COUNT],
    free_area: &'c mut FreeArea<'m>,
    /// Free frames of the region.
    free: &'c mut u64,
    effort: &'c mut Effort,
}

impl Growth<'_, '_> {
    /// Accounts for so many blocks that have been given back, and for their effect on the numbers of free blocks up
    /// to order [`LEVEL`].
    #[inline(never)]
    fn settle(&mut self, order: u32, blocks: usize, grown: u64) {
        self.effort.set(self.left);
        self.effort.spend(Effort::BLOCK * blocks as u32);
        *self.free = self.free.wrapping_add((blocks as u64) << order);
        self.count_grown(grown, 0..LEVEL + 1);
        if self.words != 0 {
            self.count_grown(self.words, LEVEL..2 * LEVEL);
        }
        for slot in self.nr_free.iter_mut().take(order as usize) {
            // Blocks smaller than these did not come with them.
            *slot = slot.wrapping_add(blocks as u64);
        }
    }

    /// Adds the sums to the numbers of free blocks of these orders.
    #[inline]
    fn count_grown(&mut self, grown: u64, orders: Range<u32>) {
        let mut left = grown as i64;
        for order in orders {
            let change = i64::from(left as i16);
            left = (left - change) >> 16;
            let slot = &mut self.nr_free[order as usize % Order::COUNT];
            *slot = slot.wrapping_add(change as u64);
        }
    }

    /// A full byte and the one beside it make a block of 16, which is nothing new in its pageblock, as most of them.
    /// True if that is enough for one call.
    #[inline]
    const fn pairs(&mut self) -> bool {
        self.words = self.words.wrapping_add(EIGHTS.full[1]);
        self.left -= Effort::PAIR as i32;
        self.left <= 0
    }

    /// The frame's block has merged to an order, or a full byte ([`ALL`]). True if that is enough for one call.
    #[inline(never)]
    fn stops(&mut self, b: &mut Pageblock, index: u32, merged: u8) -> bool {
        self.left -= Effort::BYTE as i32;
        let mut reached = merged;
        if merged == ALL {
            let around = usize::from(b.free_around(index)) % 4;
            self.words = self.words.wrapping_add(EIGHTS.full[around]);
            reached = EIGHTS.reached[around];
        }
        if reached as i8 > b.top() as i8 {
            self.rises(b, index, reached);
        }
        self.whole || self.left <= 0
    }

    #[inline(never)]
    fn rises(&mut self, b: &mut Pageblock, index: u32, reached: u8) {
        self.whole = rise(b, index, reached, self.nr_free, self.free_area);
        self.left -= Effort::RISE as i32 + if self.whole { Effort::WHOLE as i32 } else { 0 };
    }
}

/// A pageblock has got a larger block than any that it had, or a full word ([`ALL`] and one level). True if all of it
/// is free then, which has been counted up to the orders below.
#[inline]
fn rise(
    b: &mut Pageblock,
    index: u32,
    reached: u8,
    nr_free: &mut [u64; Order::COUNT],
    free_area: &mut FreeArea<'_>,
) -> bool {
    let mut reached = u32::from(reached);
    if reached >= u32::from(ALL) {
        let word = (index >> WORD_ORDER) % BLOCK_WORDS as u32;
        b.fill_loose_word(word);
        let merged = merged_at(b.full_words() as u8, word);
        reached = WORD_ORDER + u32::from(merged.min(LEVEL as u8));
        for order in WORD_ORDER..=reached.min(BLOCK_SHIFT - 1) {
            let slot = &mut nr_free[order as usize % Order::COUNT];
            *slot = if order == reached { slot.wrapping_add(1) } else { slot.wrapping_sub(1) };
        }
        if reached == BLOCK_SHIFT {
            return true;
        }
    }
    let top = b.raise(reached);
    if top.is_any() && b.reserved_by() == 0 {
        free_area.change(b.migrate_type(), index >> BLOCK_SHIFT, top);
    }
    false
}
