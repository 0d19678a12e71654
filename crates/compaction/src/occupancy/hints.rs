//! Notes on pageblocks that could not be emptied, so that they are not read again for the same answer.
//!
//! A note holds while the pageblock's number of free frames stays the same. Memory in use changes that all the time,
//! but the frame in the way, the blocker, stays: a kernel's page, or a pinned one. It is looked at before the other
//! 511 are.

use core::num::NonZeroU16;
use core::ops::Range;

use pageblock_buddy::Held;
use pageblock_frame::migration::Migrate;
use pageblock_frame::{FrameState, MigrateType, Pageblock, Platform, StateView};

use super::run::Run;
use crate::choice::{Appraisal, Sources as Suitable, appraise};
use crate::cluster::BLOCK;
use crate::migration::Sources;

/// Pageblocks looked at together.
const GROUP: u32 = 64;

/// Whether a frame that was in the way still is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockerIs {
    /// It may be out of the way, or none was known.
    Gone,
    /// It is there.
    There,
    /// It is there, and may go soon.
    Busy,
}

/// Which pageblocks are read before the next choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prescreen {
    /// Those where something is known to have been in the way: one frame each.
    Noted,
    /// All of them: those of which nothing is known are read through.
    All,
}

/// Notes on a group of pageblocks: one bit each for those in question, and their blockers.
struct Group {
    seen: u64,
    blockers: [Option<NonZeroU16>; GROUP as usize],
}

impl Group {
    fn blocker(&self, i: u32) -> Option<NonZeroU16> {
        self.blockers[(i % GROUP) as usize]
    }
}

impl<P: Platform, M: Migrate> Run<'_, '_, '_, P, M> {
    /// Looks at one frame: whether it still keeps its pageblock from being emptied.
    pub(super) fn look_at(&mut self, block: u32, blocker: Option<NonZeroU16>) -> BlockerIs {
        let Some(blocker) = blocker else { return BlockerIs::Gone };
        let index = index_of(block, blocker);
        let state = self.migration.scan.zone().states().get(index);
        self.counts.migrate_scanned += 1;
        match state.decode() {
            FrameState::Allocated(order, Some(MigrateType::Movable)) if order <= self.config().largest_move => {
                // Only its migrator knows.
                let mut sources = Sources::new(self.migration);
                let answers = self.migration.isolate(&[Held { index, state }], &mut sources);
                sources.put_back();
                match answers {
                    _ if answers.refused == 0 => BlockerIs::Gone,
                    _ if answers.busy => BlockerIs::Busy,
                    _ => BlockerIs::There,
                }
            }
            FrameState::Inside | FrameState::Isolated(_) => BlockerIs::Gone,
            _ => BlockerIs::There,
        }
    }

    /// Forgets the notes of pageblocks that have no known blocker any more.
    pub(super) fn recheck_notes(&mut self) {
        let blocks = self.migration.scan.blocks();
        for first in (0..blocks).step_by(GROUP as usize) {
            let noted = self.group(first..first + GROUP, |b| b.note() != 0);
            let mut gone = 0;
            let mut left = noted.seen;
            while left != 0 {
                let i = left.trailing_zeros();
                left &= left - 1;
                if self.look_at(first + i, noted.blocker(i)) == BlockerIs::Gone {
                    gone |= 1 << i;
                }
            }
            self.migration.scan.forget_notes(first, gone);
        }
    }

    /// Looks at all pageblocks with at most `most` frames in use, and notes which of them cannot be emptied: once the
    /// best have turned out to be unsuitable, one pass over the others costs less than choosing a few at a time. True
    /// if some can be.
    pub(super) fn prescreen(&mut self, most: u16, which: Prescreen) -> bool {
        let sources = Suitable::new(self.request, self.order, self.config());
        let least = BLOCK as u16 - most;
        let states = self.migration.scan.zone().states();
        let mut at = self.window.start;
        let mut any = false;
        while at < self.window.end {
            let end = (at + GROUP).min(self.window.end);
            // Not wholly free, and no more in use than asked for.
            let mut group = self.group(at..end, |b| {
                let fits = u32::from(b.managed()) == BLOCK && b.free().wrapping_sub(least) < most && sources.contain(b);
                fits && (which == Prescreen::All || b.obstacle().is_some())
            });
            let mut unfit = group.seen;
            let mut left = group.seen;
            while left != 0 {
                let i = left.trailing_zeros();
                left &= left - 1;
                match self.still_blocked(&states, at + i, group.blocker(i)) {
                    Ok(()) => unfit &= !(1 << i),
                    Err(blocker) => group.blockers[(i % GROUP) as usize] = blocker,
                }
            }
            any |= unfit != group.seen;
            self.migration.scan.note_free(at, unfit, |i| group.blocker(i));
            at = end;
        }
        any
    }

    /// Whether a pageblock may be emptied; otherwise its blocker.
    #[inline]
    fn still_blocked(
        &mut self,
        states: &StateView<'_>,
        block: u32,
        blocker: Option<NonZeroU16>,
    ) -> Result<(), Option<NonZeroU16>> {
        if blocker.is_some() {
            match self.look_at(block, blocker) {
                BlockerIs::There => return Err(blocker),
                BlockerIs::Busy => return Ok(()),
                BlockerIs::Gone => {}
            }
        } else if let Some(first) = states.immovable(block) {
            // Most full or nearly full pageblocks are the kernel's, with nothing movable in them.
            self.counts.migrate_scanned += u64::from(BLOCK);
            return Err(if first < BLOCK { number(first) } else { None });
        }
        let frames = block * BLOCK..(block + 1) * BLOCK;
        let Appraisal { used, read } = appraise(*states, &self.migration.scan.map(block), frames, self.config());
        self.counts.migrate_scanned += u64::from(read);
        used.map(|_| ()).map_err(|frame| frame.and_then(number))
    }

    /// The pageblocks of a range of 64 at most that `suits` says yes to.
    #[inline]
    fn group(&self, blocks: Range<u32>, suits: impl Fn(&Pageblock) -> bool) -> Group {
        let (mut seen, mut blockers) = (0, [None; GROUP as usize]);
        let first = blocks.start;
        self.migration.scan.survey(blocks, |block, b| {
            if suits(b) {
                let i = (block - first) % GROUP;
                seen |= 1 << i;
                blockers[i as usize] = b.obstacle();
            }
        });
        Group { seen, blockers }
    }
}

/// One more than a frame's place in its pageblock.
pub(super) const fn number(index: u32) -> Option<NonZeroU16> {
    NonZeroU16::new((index % BLOCK) as u16 + 1)
}

/// The frame with this number in a pageblock.
pub(super) fn index_of(block: u32, number: NonZeroU16) -> u32 {
    block * BLOCK + u32::from(number.get() - 1) % BLOCK
}
