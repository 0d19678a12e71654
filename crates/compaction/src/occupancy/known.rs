//! What is known of pageblocks that could not be emptied, so that they are not read again for the same answer.
//!
//! A note holds while the pageblock's number of free frames stays the same. Memory in use changes that all the time, but what is in the
//! way stays: a kernel's page, or one that its owner does not lend. That one frame is looked at before the other 511 are.

use core::num::NonZeroU16;

use pageblock_buddy::{Held, obstacle_of};
use pageblock_frame::migration::Migrate;
use pageblock_frame::{FrameState, MigrateType, Pageblock, Platform, StateTable};

use super::{BLOCK, Run};
use crate::choice::{Sources, appraise};
use crate::moving::Cluster;

/// Pageblocks looked at together.
const GROUP: u32 = 64;

/// What has become of a frame that was in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// It may be out of the way, or none was known.
    Gone,
    /// It is there.
    There,
    /// It is there, and may go soon.
    Busy,
}

/// Which pageblocks are looked at all at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weeds {
    /// Those where something is known to have been in the way: one frame each.
    Noted,
    /// All of them: those of which nothing is known are read through.
    All,
}

/// What was left with a group of pageblocks: one bit each for those in question, and the frames in their way.
struct Group {
    seen: u64,
    obstacles: [Option<NonZeroU16>; GROUP as usize],
}

impl Group {
    fn obstacle(&self, i: u32) -> Option<NonZeroU16> {
        self.obstacles[(i % GROUP) as usize]
    }
}

impl<P: Platform, M: Migrate> Run<'_, '_, '_, P, M> {
    /// Looks at one frame: whether it still keeps its pageblock from being emptied.
    pub(super) fn look_at(&mut self, block: u32, obstacle: Option<NonZeroU16>) -> Obstacle {
        let Some(obstacle) = obstacle else { return Obstacle::Gone };
        let index = index_of(block, obstacle);
        let state = self.mover.scan.zone().states().get(index);
        self.counts.migrate_scanned += 1;
        match state.decode() {
            FrameState::Allocated(order, Some(MigrateType::Movable)) if order <= self.config().largest_move => {
                // Only its owner knows.
                let mut lent = Cluster::new();
                let answers = self.mover.borrow(&[Held { index, state }], &mut lent);
                self.mover.put_back(lent);
                match answers {
                    _ if answers.refused == 0 => Obstacle::Gone,
                    _ if answers.busy => Obstacle::Busy,
                    _ => Obstacle::There,
                }
            }
            FrameState::Inside | FrameState::Isolated(_) => Obstacle::Gone,
            _ => Obstacle::There,
        }
    }

    /// Forgets the notes of pageblocks where what was in the way is gone, or was never known.
    pub(super) fn recheck_notes(&mut self) {
        let blocks = self.mover.scan.blocks();
        for first in (0..blocks).step_by(GROUP as usize) {
            let noted = self.group((first, first + GROUP), |b| pageblock_buddy::note_of(b) != 0);
            let mut gone = 0;
            let mut left = noted.seen;
            while left != 0 {
                let i = left.trailing_zeros();
                left &= left - 1;
                if self.look_at(first + i, noted.obstacle(i)) == Obstacle::Gone {
                    gone |= 1 << i;
                }
            }
            self.mover.scan.forget_notes(first, gone);
        }
    }

    /// Looks at all pageblocks with at most `most` frames in use, and notes which of them cannot be emptied: once the best
    /// have turned out to be unsuitable, one pass over the others costs less than choosing a few at a time. True if some can be.
    pub(super) fn weed(&mut self, most: u16, weeds: Weeds) -> bool {
        let sources = Sources::new(self.request, self.order, self.config());
        let least = BLOCK as u16 - most;
        let mut at = self.window.0;
        let mut any = false;
        while at < self.window.1 {
            let end = (at + GROUP).min(self.window.1);
            // Not wholly free, and no more in use than asked for.
            let mut group = self.group((at, end), |b| {
                let fits = u32::from(b.managed) == BLOCK && b.free.wrapping_sub(least) < most && sources.contain(b);
                fits && (weeds == Weeds::All || obstacle_of(b).is_some())
            });
            let mut unfit = group.seen;
            let mut left = group.seen;
            while left != 0 {
                let i = left.trailing_zeros();
                left &= left - 1;
                match self.weigh(at + i, group.obstacle(i)) {
                    Ok(()) => unfit &= !(1 << i),
                    Err(obstacle) => group.obstacles[(i % GROUP) as usize] = obstacle,
                }
            }
            any |= unfit != group.seen;
            self.mover.scan.note_free(at, unfit, |i| group.obstacle(i));
            at = end;
        }
        any
    }

    /// Whether a pageblock may be emptied; otherwise what is in the way.
    fn weigh(&mut self, block: u32, obstacle: Option<NonZeroU16>) -> Result<(), Option<NonZeroU16>> {
        match self.look_at(block, obstacle) {
            Obstacle::There => return Err(obstacle),
            Obstacle::Busy => return Ok(()),
            Obstacle::Gone => {}
        }
        let scan = self.mover.scan;
        let states = scan.zone().states();
        // Most that is full or nearly so is the kernel's, with nothing movable in it.
        if obstacle.is_none() && !states.any_movable(block * BLOCK, BLOCK) {
            self.counts.migrate_scanned += u64::from(BLOCK);
            return Err(first_head(states, block));
        }
        let (used, looked) = appraise(states, &scan.map(block), (block * BLOCK, BLOCK), self.config());
        self.counts.migrate_scanned += u64::from(looked);
        used.map(|_| ()).map_err(|frame| frame.and_then(number))
    }

    /// The pageblocks of a range of 64 at most that `suits` says yes to.
    #[inline(always)]
    fn group(&self, (first, end): (u32, u32), suits: impl Fn(&Pageblock) -> bool) -> Group {
        let mut group = Group { seen: 0, obstacles: [None; GROUP as usize] };
        self.mover.scan.survey(first..end, |block, b| {
            if suits(b) {
                let i = block - first;
                group.seen |= 1 << i;
                group.obstacles[(i % GROUP) as usize] = obstacle_of(b);
            }
        });
        group
    }
}

/// The first frame of a pageblock that heads a block; nearly always its first.
#[inline(always)]
fn first_head(states: StateTable<'_>, block: u32) -> Option<NonZeroU16> {
    if states.get(block * BLOCK).is_head() {
        return number(0);
    }
    (0..BLOCK).step_by(64).find_map(|at| {
        let heads = states.heads(block * BLOCK + at);
        if heads == 0 { None } else { number(at + heads.trailing_zeros()) }
    })
}

/// One more than a frame's place in its pageblock.
pub(super) const fn number(index: u32) -> Option<NonZeroU16> {
    NonZeroU16::new((index % BLOCK) as u16 + 1)
}

/// The frame with this number in a pageblock.
pub(super) fn index_of(block: u32, number: NonZeroU16) -> u32 {
    block * BLOCK + u32::from(number.get() - 1) % BLOCK
}
