//! Runs of set bits: arithmetic on the words of a free map, and of sets of wholly free pageblocks.
//!
//! A word is 64 frames. A *run* of order `o` is an aligned group of `2^o` set bits; the *exact* runs are the maximal
//! ones, the blocks into which the word decomposes. A whole pageblock is eight words, and its full words are again a
//! set of bits (`full`), in which runs of orders 6 to 9 are found in the same way.

use crate::BLOCK_WORDS;

/// Order of a full word.
pub const WORD_ORDER: u32 = 6;
/// Frames in a word.
pub const WORD_FRAMES: u32 = 64;

/// Bits at which a run of the order may start.
const STARTS: [u64; 8] = [
    !0,
    0x5555_5555_5555_5555,
    0x1111_1111_1111_1111,
    0x0101_0101_0101_0101,
    0x0001_0001_0001_0001,
    0x0000_0001_0000_0001,
    1,
    0,
];

/// Bits at which a run of the order, up to 6, may start.
#[inline]
pub(crate) const fn starts(order: u32) -> u64 {
    STARTS[order as usize % 8]
}

/// `2^order` ones, for orders up to 6.
#[inline]
pub const fn ones(order: u32) -> u64 {
    u64::MAX >> (WORD_FRAMES - (1 << order))
}

/// The runs of order `o + 1`, from those of order `o < 6`.
#[inline]
pub const fn coarser(runs: u64, o: u32) -> u64 {
    runs & (runs >> (1u32 << o)) & STARTS[(o as usize + 1) % 8]
}

/// First bits of all runs of order `o <= 6` in a word. Unrolled: constant shifts are half the instructions.
#[inline]
pub const fn runs(word: u64, o: u32) -> u64 {
    let mut runs = word;
    if o >= 1 {
        runs = coarser(runs, 0);
    }
    if o >= 2 {
        runs = coarser(runs, 1);
    }
    if o >= 3 {
        runs = coarser(runs, 2);
    }
    if o >= 4 {
        runs = coarser(runs, 3);
    }
    if o >= 5 {
        runs = coarser(runs, 4);
    }
    if o >= 6 {
        runs = coarser(runs, 5);
    }
    runs
}

/// First bits of the maximal runs of order `o < 6`, given all runs of that order.
#[inline]
pub const fn exact(runs: u64, o: u32) -> u64 {
    let above = coarser(runs, o);
    runs & !(above | above << (1u32 << o))
}

/// The orders of a word's maximal runs: bit `o` for order `o`.
pub(crate) const fn orders(word: u64) -> u8 {
    let mut found = 0;
    let mut runs = word;
    let mut o = 0;
    while o < WORD_ORDER && runs != 0 {
        let above = coarser(runs, o);
        if runs & !(above | above << (1u32 << o)) != 0 {
            found |= 1 << o;
        }
        runs = above;
        o += 1;
    }
    if o == WORD_ORDER && runs != 0 { found | 1 << WORD_ORDER } else { found }
}

/// How many maximal runs a word has of each order below 6. A full word has none: it counts at its block.
pub fn count_runs(word: u64, mut count: impl FnMut(u32, u32)) {
    if word == 0 || word == u64::MAX {
        return;
    }
    let mut runs = word;
    for o in 0..WORD_ORDER {
        let above = coarser(runs, o);
        let exact = runs & !(above | above << (1u32 << o));
        if exact != 0 {
            count(o, exact.count_ones());
        }
        runs = above;
        if runs == 0 {
            return;
        }
    }
}

/// A run of free words, or of wholly free pageblocks: where it starts, and its order in frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Where it starts, in words or pageblocks.
    pub first: u32,
    /// Its order, in frames or pageblocks.
    pub order: u32,
}

/// The smallest maximal run of full words of at least `order` (6 to 9).
#[inline]
pub(crate) const fn smallest_word_run(full: u32, order: u32) -> Option<Run> {
    let mut runs = full & 0xff;
    let mut o = WORD_ORDER;
    let starts = [0xffu32, 0x55, 0x11, 1];
    while o < WORD_ORDER + 3 {
        let shift = 1u32 << (o - WORD_ORDER);
        let above = runs & (runs >> shift) & starts[(o - WORD_ORDER + 1) as usize & 3];
        let exact = runs & !(above | above << shift);
        if o >= order && exact != 0 {
            return Some(Run { first: exact.trailing_zeros(), order: o });
        }
        runs = above;
        o += 1;
    }
    if runs != 0 { Some(Run { first: 0, order: o }) } else { None }
}

/// How many maximal runs of full words there are of orders 6 to 9.
pub fn count_word_runs(full: u32, mut count: impl FnMut(u32, u32)) {
    let mut runs = full & 0xff;
    for (level, starts) in [0x55u32, 0x11, 1].into_iter().enumerate() {
        let shift = 1u32 << level;
        let above = runs & (runs >> shift) & starts;
        let exact = runs & !(above | above << shift);
        if exact != 0 {
            count(WORD_ORDER + level as u32, exact.count_ones());
        }
        runs = above;
    }
    if runs != 0 {
        count(WORD_ORDER + 3, 1);
    }
}

/// The maximal free blocks of a pageblock's map: order and how many.
pub fn for_each_run(map: &[u64; BLOCK_WORDS], mut visit: impl FnMut(u32, u32)) {
    let mut full = 0;
    for (w, &word) in map.iter().enumerate() {
        count_runs(word, &mut visit);
        full |= u32::from(word == u64::MAX) << w;
    }
    count_word_runs(full, visit);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// The decomposition by its definition: the largest aligned all-set group at each position, bit by bit.
    fn slow_decompose(word: u64) -> Vec<(u32, u32)> {
        let mut blocks = Vec::new();
        let mut at = 0;
        while at < 64 {
            let best = (0..=6).rev().find(|&o| {
                at % (1 << o) == 0 && at + (1 << o) <= 64 && (at..at + (1 << o)).all(|bit| word >> bit & 1 == 1)
            });
            if let Some(o) = best {
                blocks.push((at, o));
                at += 1 << o;
            } else {
                at += 1;
            }
        }
        blocks
    }

    fn word() -> impl Strategy<Value = u64> {
        // Plain random words hardly ever hold long runs: join sparse and dense ones.
        (any::<u64>(), any::<u64>(), any::<u64>(), 0..4u8).prop_map(|(a, b, c, kind)| match kind {
            0 => a,
            1 => a | b | c,
            2 => !(a & b & c & a.rotate_left(17)),
            _ => u64::MAX << (a % 64),
        })
    }

    proptest! {
        #[test]
        fn word_functions_agree_with_the_definition(word in word()) {
            let blocks = slow_decompose(word);
            for o in 0..6 {
                let starts = blocks.iter().filter(|b| b.1 == o).fold(0u64, |m, b| m | 1 << b.0);
                prop_assert_eq!(exact(runs(word, o), o), starts);
            }
            let found = blocks.iter().fold(0u8, |m, b| m | 1 << b.1);
            prop_assert_eq!(orders(word), found);
            let mut counts = [0u32; 7];
            count_runs(word, |o, n| counts[o as usize] += n);
            for o in 0..6u32 {
                prop_assert_eq!(counts[o as usize] as usize, blocks.iter().filter(|b| b.1 == o).count());
            }
        }

        #[test]
        fn word_runs_agree_with_the_definition(full in 0u32..256) {
            let blocks: Vec<_> = slow_decompose(u64::from(full)).into_iter().map(|(at, o)| (at, o + 6)).collect();
            let mut counts = [0usize; 10];
            count_word_runs(full, |o, n| counts[o as usize] += n as usize);
            for o in 6..10u32 {
                prop_assert_eq!(counts[o as usize], blocks.iter().filter(|b| b.1 == o).count());
                let smallest = blocks.iter().filter(|b| b.1 >= o).min_by_key(|b| (b.1, b.0));
                let smallest = smallest.map(|&(first, order)| Run { first, order });
                prop_assert_eq!(smallest_word_run(full, o), smallest);
            }
        }
    }
}
