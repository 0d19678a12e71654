//! Spans: arbitrary runs of frames, at a given place, an exact number, a part of a block.
//!
//! These are the rare operations; they recompute the pageblock's contribution to the counts rather than follow it.

use pageblock_frame::runs::{WORD_FRAMES, WORD_ORDER, for_each_run};
use pageblock_frame::{BLOCK_WORDS, Pageblock, TopChange};

use crate::region::{BLOCK_SHIFT, Region};

/// The bits `from..to` of a word, `from < 64`, `to <= 64`.
const fn span_mask(from: u32, to: u32) -> u64 {
    (u64::MAX >> (WORD_FRAMES - (to - from))) << from
}

impl Region<'_> {
    /// True if all frames of the run are free.
    pub(crate) fn all_free(&self, index: u32, frames: u32) -> bool {
        self.word_spans(index, frames)
            .all(|(block, word, mask)| self.blocks.get(block).is_some_and(|b| b.word(word) & mask == mask))
    }

    /// True if no frame of the run is free.
    pub(crate) fn none_free(&self, index: u32, frames: u32) -> bool {
        self.word_spans(index, frames)
            .all(|(block, word, mask)| self.blocks.get(block).is_none_or(|b| b.word(word) & mask == 0))
    }

    /// The words that a run of frames touches: block, word in it, bits.
    pub(crate) fn word_spans(&self, index: u32, frames: u32) -> impl Iterator<Item = (u32, usize, u64)> + use<> {
        let end = u64::from(index) + u64::from(frames);
        (u64::from(index) >> WORD_ORDER..end.div_ceil(u64::from(WORD_FRAMES))).map(move |word| {
            let first = word << WORD_ORDER;
            let from = u64::from(index).saturating_sub(first) as u32;
            let to = (end - first).min(u64::from(WORD_FRAMES)) as u32;
            ((first >> BLOCK_SHIFT) as u32, word as usize % BLOCK_WORDS, span_mask(from, to))
        })
    }

    /// Takes the frames of an aligned block of `order`, if all are free. True if taken.
    pub(crate) fn take_at(&mut self, index: u32, order: u32) -> bool {
        let frames = 1u32 << order;
        if !self.all_free(index, frames) {
            return false;
        }
        let first = index >> BLOCK_SHIFT;
        let last = (index + frames - 1) >> BLOCK_SHIFT;
        for block in first..=last {
            let start = (block << BLOCK_SHIFT).max(index);
            let part = frames.min(1 << BLOCK_SHIFT);
            let spans = self.word_spans(start, part);
            self.edit_block(block, |map| {
                for (_, word, mask) in spans {
                    map[word] &= !mask;
                }
            });
        }
        true
    }

    /// Gives frames `index..index + frames` back, in the largest aligned blocks that they make.
    pub(crate) fn give_range(&mut self, index: u32, frames: u32) {
        for (at, order) in aligned_pieces(index, frames, self.max_order) {
            self.give(at, order);
        }
    }

    /// Changes a pageblock's map, and everything derived from it.
    pub(crate) fn edit_block(&mut self, block: u32, edit: impl FnOnce(&mut [u64; BLOCK_WORDS])) {
        let Some(b) = self.blocks.known_mut(block) else { return };
        let mut map = *b.map();
        edit(&mut map);
        self.replace_map(block, &map);
    }

    /// Counts leave by the map as it was, and come by the new one. Boot stacks are small: both are copied once.
    fn replace_map(&mut self, block: u32, map: &[u64; BLOCK_WORDS]) {
        self.unreserve(block);
        let Some(b) = self.blocks.known_mut(block) else { return };
        let (before, old_top) = (*b.map(), b.top());
        let (migrate_type, old) = (b.migrate_type(), u64::from(b.free()));
        b.replace_map(map);
        let (free, top) = (u64::from(b.free()), TopChange::of(old_top, b.top()));
        self.sub_free(migrate_type, old);
        self.add_free(migrate_type, free);
        if old_top == Pageblock::WHOLE {
            self.leave_whole(block, migrate_type);
        } else {
            for_each_run(&before, |order, runs| self.uncount(order, u64::from(runs)));
        }
        // The sets of partly free pageblocks: a wholly free one is in none of them.
        let part = |top: i32| if top == i32::from(Pageblock::WHOLE) { -1 } else { top };
        let parts = TopChange { from: part(top.from), to: part(top.to) };
        if parts.is_any() {
            self.top_changed(block, parts);
        }
        if free == 1 << BLOCK_SHIFT {
            return self.join_whole(block, migrate_type);
        }
        for_each_run(map, |order, runs| self.count(order, u64::from(runs)));
    }
}

/// The aligned blocks, as large as possible and at most of order `most`, that make up `frames` frames from `index` on.
pub(crate) fn aligned_pieces(index: u32, frames: u32, most: u32) -> impl Iterator<Item = (u32, u32)> {
    let mut at = u64::from(index);
    let end = at + u64::from(frames);
    core::iter::from_fn(move || {
        let left = (end - at).checked_ilog2()?;
        let order = at.trailing_zeros().min(left).min(most);
        let piece = (at as u32, order);
        at += 1 << order;
        Some(piece)
    })
}
