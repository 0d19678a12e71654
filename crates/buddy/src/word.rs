//! Words: 64 single frames that are neighbours, which move together, with no look at each.

use pageblock_frame::runs::{WORD_FRAMES, WORD_ORDER};
use pageblock_frame::{BLOCK_WORDS, Order, StateByte};

use crate::region::{BLOCK_SHIFT, Region};

/// As many frames as a word of a free map describes.
pub(crate) type Word = [u32; WORD_FRAMES as usize];

/// The word of the free maps, counted from the zone's base, that these frames belong to, in ascending or in descending
/// order. Such frames go back through [`Zone::free_bulk`](crate::Zone::free_bulk) at the price of a few.
///
/// ```
/// let frames = core::array::from_fn(|i| 128 + i as u32);
/// assert_eq!(pageblock_buddy::word_of(&frames), Some(2));
/// ```
#[must_use]
#[inline]
pub fn word_of(frames: &[u32; WORD_FRAMES as usize]) -> Option<u32> {
    let [first, .., last] = *frames;
    let at = first % WORD_FRAMES;
    if first ^ last != WORD_FRAMES - 1 || (at != 0 && at != WORD_FRAMES - 1) {
        return None;
    }
    // Counting up from 0 and down from 63 are the same: an exclusive or with the place.
    let differing = frames.iter().zip(0..).fold(0, |found, (&frame, place)| found | frame ^ first ^ place);
    (differing == 0).then_some(first >> WORD_ORDER)
}

impl Region<'_> {
    /// Takes all 64 frames of a word that is wholly free. Pushed on a stack as they are, they come off in ascending
    /// order.
    #[inline]
    pub(crate) fn take_word(&mut self, block: u32, word: usize, mark: StateByte, frames: &mut Word) {
        let first = block << BLOCK_SHIFT | (word as u32) << WORD_ORDER;
        for (slot, place) in frames.iter_mut().rev().zip(0..) {
            *slot = (self.offset + first) | place;
        }
        let Some(b) = self.blocks.known_mut(block) else { return };
        // Of an opened pageblock, now.
        if let Some(frames) = self.states.chunk(first) {
            mark.fill(frames);
        }
        b.take_full_word(word);
    }

    /// Gives back all 64 frames of a word, if all are listed as single frames.
    #[inline]
    pub(crate) fn give_word(&mut self, word: u32) -> bool {
        let Some(frames) = self.states.chunk(word << WORD_ORDER) else { return false };
        let listed = StateByte::listed(Order::ZERO, pageblock_frame::MigrateType::Unmovable);
        let (block, at) = (word >> (BLOCK_SHIFT - WORD_ORDER), word as usize % BLOCK_WORDS);
        let Some(b) = self.blocks.known_mut(block) else { return false };
        if b.word(at) != 0 || !listed.are_all(frames) {
            return false;
        }
        StateByte::INSIDE.fill(frames);
        let (given, migrate_type) = (b.give_full_word(at), b.migrate_type());
        self.add_free(migrate_type, u64::from(WORD_FRAMES));
        self.account_given(block, WORD_ORDER, given);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_known_in_both_directions_only() {
        let mut up: Word = core::array::from_fn(|i| 640 + i as u32);
        assert_eq!(word_of(&up), Some(10));
        up.reverse();
        assert_eq!(word_of(&up), Some(10));
        up.swap(5, 9);
        assert_eq!(word_of(&up), None);
        assert_eq!(word_of(&core::array::from_fn(|i| 641 + i as u32)), None);
        assert_eq!(word_of(&core::array::from_fn(|i| 640 + (i as u32 ^ 1))), None);
    }
}
