//! Notes that scanners leave with pageblocks that could not be emptied, so as not to read them again for the same
//! answer.
//!
//! They are the fields `note`, `obstacle` and `part_note` of a [`Pageblock`], written under the region's lock.

use core::num::NonZeroU16;

use pageblock_frame::{Pageblock, Platform};

use super::{LOOKS_PER_HOLD, Looked, ZoneScan};

impl<P: Platform> ZoneScan<'_, '_, P> {
    /// Notes with each of the pageblocks `first + i` for which bit `i` of `which` is set how many free frames it has,
    /// and one more (see [`BlockView::note`](super::BlockView::note)), and the frame that `obstacle` says of `i`.
    pub fn note_free(&self, first: u32, which: u64, obstacle: impl Fn(u32) -> Option<NonZeroU16>) {
        self.change(first, which, |i, b| {
            b.note_unemptied();
            b.note_obstacle(obstacle(i));
        });
    }

    /// Notes that no block smaller than the pageblock can be made in it as it is.
    pub fn note_part(&self, block: u32) {
        self.change(block, 1, |_, b| b.note_unparted());
    }

    /// Remembers which frame of a pageblock was in the way, and nothing else.
    pub fn note_obstacle(&self, block: u32, obstacle: Option<NonZeroU16>) {
        self.change(block, 1, |_, b| b.note_obstacle(obstacle));
    }

    /// Which frame of a pageblock was in the way; one more than its place in the pageblock.
    #[must_use]
    pub fn obstacle(&self, block: u32) -> Option<NonZeroU16> {
        let Looked { region, block } = self.lock(block)?;
        region.blocks.get(block).and_then(Pageblock::obstacle)
    }

    /// Clears the notes of the pageblocks `first + i` for which bit `i` of `which` is set.
    pub fn forget_notes(&self, first: u32, which: u64) {
        self.change(first, which, |_, b| b.forget_notes());
    }

    /// Clears the notes of all pageblocks.
    pub fn clear_notes(&self) {
        for first in (0..self.blocks()).step_by(LOOKS_PER_HOLD as usize) {
            let Some(Looked { mut region, block }) = self.lock(first) else { return };
            // A pageblock that has not been opened has no notes.
            region.blocks.each_opened(block..block + LOOKS_PER_HOLD, Pageblock::forget_notes);
        }
    }

    #[inline(never)]
    fn change(&self, first: u32, which: u64, mut change: impl FnMut(u32, &mut Pageblock)) {
        let mut left = which;
        while left != 0 {
            // One hold for all pageblocks of a region, which are all that there are where `first` is a multiple of 64.
            let Some(lowest) = first.checked_add(left.trailing_zeros()) else { return };
            let Some(Looked { mut region, block }) = self.lock(lowest) else { return };
            let end = region.blocks.len() as u32;
            if block >= end {
                return;
            }
            let from = block.wrapping_sub(left.trailing_zeros());
            while left != 0 {
                let i = left.trailing_zeros();
                match region.blocks.opened_mut(from.wrapping_add(i)) {
                    Some(b) => change(i, b),
                    None if from.wrapping_add(i) >= end => break,
                    // Of a pageblock that has not been opened there is nothing to note.
                    None => {}
                }
                left &= left - 1;
            }
        }
    }
}
