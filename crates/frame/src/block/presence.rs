//! A pageblock's presence: for each word of its map the orders of the blocks into which the word's free frames
//! decompose, as one number, in which the words that have a block of an order are a byte.

use core::num::NonZeroU64;

use super::BLOCK_WORDS;
use crate::runs::{WORD_ORDER, orders};

/// Bit 0 of every byte: in a block's presence, the first word's orders.
pub(super) const EVERY_WORD: u64 = 0x0101_0101_0101_0101;
/// The presence of a wholly free block: every word is full.
pub(super) const ALL_FULL: u64 = 0xff << (WORD_ORDER * BLOCK_WORDS as u32);

/// The bit of a block's presence for an order below 7 and a word.
#[inline]
pub(super) const fn present(order: u32, word: usize) -> u64 {
    1 << (order * BLOCK_WORDS as u32 + word as u32)
}

/// The first word's bits of a block's presence for the orders below this one.
#[inline]
pub(super) const fn below(order: u32) -> u64 {
    EVERY_WORD & ((1 << (order * BLOCK_WORDS as u32)) - 1)
}

/// A word's bits of a block's presence, from the orders of its maximal runs ([`orders`]).
#[inline]
pub(super) const fn spread(orders: u8, word: usize) -> u64 {
    // Copies of seven bits, seven apart, do not overlap; one bit of each comes to lie at the start of a byte.
    ((orders as u64).wrapping_mul(0x0002_0408_1020_4081) & EVERY_WORD) << word
}

/// One bit for each full word of the block.
#[inline]
pub(super) const fn full_words(presence: u64) -> u32 {
    (presence >> (WORD_ORDER * BLOCK_WORDS as u32)) as u32
}

/// Largest order that a block without full words can serve, from its presence; `None` if it has nothing free.
#[inline]
pub(super) const fn small_top(presence: u64) -> Option<u32> {
    match NonZeroU64::new(presence) {
        Some(presence) => Some(presence.ilog2() / BLOCK_WORDS as u32),
        None => None,
    }
}

/// Largest order that a block can serve (0 to 9), from its presence; `None` if it has nothing free.
#[inline]
pub(super) const fn top_order(presence: u64) -> Option<u32> {
    let full = full_words(presence);
    if full == 0 {
        return small_top(presence);
    }
    let pairs = full & (full >> 1) & 0x55;
    let fours = pairs & (pairs >> 2) & 0x11;
    Some(WORD_ORDER + (pairs != 0) as u32 + (fours != 0) as u32 + (full == 0xff) as u32)
}

/// The smallest order from `order < 6` on, up to 6, of which a block has a maximal free block, from its presence.
pub(super) const fn smallest_order(presence: u64, order: u32) -> Option<u32> {
    match NonZeroU64::new(presence >> (order * BLOCK_WORDS as u32)) {
        Some(rest) => Some(order + rest.trailing_zeros() / BLOCK_WORDS as u32),
        None => None,
    }
}

/// A block's presence, computed from its map.
pub(super) fn block_presence(map: &[u64; BLOCK_WORDS]) -> u64 {
    map.iter().enumerate().fold(0, |found, (w, &word)| found | spread(orders(word), w))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::runs::count_word_runs;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_order_of_a_word_has_its_bit(found in 0u8..128, word in 0usize..8) {
            let bits = (0..7).filter(|&o| found >> o & 1 == 1).fold(0, |bits, o| bits | present(o, word));
            prop_assert_eq!(spread(found, word), bits);
        }

        #[test]
        fn the_largest_order_of_full_words_is_that_of_their_runs(full in 0u32..256) {
            let mut map = [0u64; 8];
            for (w, word) in map.iter_mut().enumerate() {
                if full >> w & 1 == 1 { *word = u64::MAX; }
            }
            let mut largest = None;
            count_word_runs(full, |order, _| largest = largest.max(Some(order)));
            let presence = block_presence(&map);
            prop_assert_eq!(full_words(presence), full);
            prop_assert_eq!(top_order(presence), largest);
        }
    }
}
