//! Arithmetic on the words of a free map.
//!
//! A word is 64 frames. A *run* of order `o` is an aligned group of `2^o` set bits; the *exact* runs are the maximal
//! ones, the blocks into which the word decomposes. A whole pageblock is eight words, whose full words are again a set
//! of bits (`full`), in which runs of orders 6 to 9 are found in the same way.

use core::num::NonZeroU64;

use pageblock_frame::BLOCK_WORDS;

/// Order of a full word.
pub(crate) const WORD_ORDER: u32 = 6;
/// Frames in a word.
pub(crate) const WORD_FRAMES: u32 = 64;
/// Bit 0 of every byte: in a block's presence, the first word's orders.
pub(crate) const EVERY_WORD: u64 = 0x0101_0101_0101_0101;
/// The presence of a wholly free block: every word is full.
pub(crate) const ALL_FULL: u64 = 0xff << (WORD_ORDER * BLOCK_WORDS as u32);

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
pub(crate) const fn ones(order: u32) -> u64 {
    u64::MAX >> (WORD_FRAMES - (1 << order))
}

/// The runs of order `o + 1`, from those of order `o < 6`.
#[inline]
pub(crate) const fn coarser(runs: u64, o: u32) -> u64 {
    runs & (runs >> (1u32 << o)) & STARTS[(o as usize + 1) % 8]
}

/// First bits of all runs of order `o <= 6` in a word. Unrolled: constant shifts are half the instructions.
#[inline]
pub(crate) const fn runs(word: u64, o: u32) -> u64 {
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
pub(crate) const fn exact(runs: u64, o: u32) -> u64 {
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
pub(crate) fn count_runs(word: u64, mut count: impl FnMut(u32, u32)) {
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

/// The bit of a block's presence for an order below 7 and a word.
#[inline]
pub(crate) const fn present(order: u32, word: usize) -> u64 {
    1 << (order * BLOCK_WORDS as u32 + word as u32)
}

/// The first word's bits of a block's presence for the orders below this one.
#[inline]
pub(crate) const fn below(order: u32) -> u64 {
    EVERY_WORD & ((1 << (order * BLOCK_WORDS as u32)) - 1)
}

/// A word's bits of a block's presence, from the orders of its maximal runs ([`orders`]).
#[inline]
pub(crate) const fn spread(orders: u8, word: usize) -> u64 {
    // Copies of seven bits, seven apart, do not overlap; one bit of each comes to lie at the start of a byte.
    ((orders as u64).wrapping_mul(0x0002_0408_1020_4081) & EVERY_WORD) << word
}

/// One bit for each full word of the block.
#[inline]
pub(crate) const fn full_words(presence: u64) -> u32 {
    (presence >> (WORD_ORDER * BLOCK_WORDS as u32)) as u32
}

/// Largest order that a block without full words can serve, from its presence; `None` if it has nothing free.
#[inline]
pub(crate) const fn small_top(presence: u64) -> Option<u32> {
    match NonZeroU64::new(presence) {
        Some(presence) => Some(presence.ilog2() / BLOCK_WORDS as u32),
        None => None,
    }
}

/// Largest order that a block can serve (0 to 9), from its presence; `None` if it has nothing free.
#[inline]
pub(crate) const fn top_order(presence: u64) -> Option<u32> {
    let full = full_words(presence);
    if full == 0 {
        return small_top(presence);
    }
    let pairs = full & (full >> 1) & 0x55;
    let fours = pairs & (pairs >> 2) & 0x11;
    Some(WORD_ORDER + (pairs != 0) as u32 + (fours != 0) as u32 + (full == 0xff) as u32)
}

/// The smallest order from `order < 6` on, up to 6, of which a block has a maximal free block, from its presence.
pub(crate) const fn smallest_order(presence: u64, order: u32) -> Option<u32> {
    match NonZeroU64::new(presence >> (order * BLOCK_WORDS as u32)) {
        Some(rest) => Some(order + rest.trailing_zeros() / BLOCK_WORDS as u32),
        None => None,
    }
}

/// A run of free words, or of wholly free pageblocks: where it starts, and its order in frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub(crate) first: u32,
    pub(crate) order: u32,
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
pub(crate) fn count_word_runs(full: u32, mut count: impl FnMut(u32, u32)) {
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

/// A block's presence, computed from its map.
pub(crate) fn block_presence(map: &[u64; BLOCK_WORDS]) -> u64 {
    map.iter().enumerate().fold(0, |found, (w, &word)| found | spread(orders(word), w))
}

#[cfg(test)]
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
            for w in 0..8 {
                let bits = (0..7).filter(|&o| found >> o & 1 == 1).fold(0, |bits, o| bits | present(o, w));
                prop_assert_eq!(spread(found, w), bits);
            }
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
            let mut map = [0u64; 8];
            for (w, word) in map.iter_mut().enumerate() {
                if full >> w & 1 == 1 { *word = u64::MAX; }
            }
            let presence = block_presence(&map);
            prop_assert_eq!(full_words(presence), full);
            prop_assert_eq!(top_order(presence), blocks.iter().map(|b| b.1).max());
        }
    }
}
