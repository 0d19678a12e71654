//! Isolating blocks with their migrator, having them moved, and ending each isolation in one way.
//!
//! The state byte says at every moment which side holds a frame:
//! * a source is `Isolated` from [`Migration::isolate`] on, and a free of it is refused;
//! * a target is `Isolated` until its move begins, and the migrator's `Allocated` block from then on;
//! * a block that is freed, or taken back, is checked under the zone lock to be in the state that its course requires.
//!
//! A migrator may unwind in any call. Each value here that stands for blocks in hand ends their isolation when it is
//! dropped.

use arrayvec::ArrayVec;
use pageblock_buddy::{Held, ZoneScan};
use pageblock_frame::migration::{IsolateRequest, Migrate, MigrateMode, Move, MoveError, PutBack, Refusal};
use pageblock_frame::trace::{CompactEvent, Event, RunCounts};
use pageblock_frame::{Hooks, Order, Platform};

use crate::cluster::{CLUSTER, Cluster, keep};
use crate::targets::Targets;

/// A migrator's answer to a cluster of requests.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answers {
    /// Blocks not isolated.
    pub(crate) refused: u32,
    /// Some of those might be isolated in another mode or later.
    pub(crate) busy: bool,
    /// The first of them.
    pub(crate) first: Option<u32>,
}

impl Answers {
    fn refuse(&mut self, index: u32) {
        self.refused += 1;
        self.first = self.first.or(Some(index));
    }
}

/// The zone, the migrator, and how long it may wait: the same for a whole run.
#[derive(Debug)]
pub(crate) struct Migration<'a, 'z, 'm, P, M> {
    pub(crate) scan: &'a ZoneScan<'z, 'm, P>,
    pub(crate) migrator: &'a M,
    pub(crate) mode: MigrateMode,
    /// Times that a move is tried.
    pub(crate) passes: u8,
}

// Derived, these would ask the same of the platform and the migrator.
impl<P, M> Clone for Migration<'_, '_, '_, P, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P, M> Copy for Migration<'_, '_, '_, P, M> {}

impl<'a, 'z, 'm, P: Platform, M: Migrate> Migration<'a, 'z, 'm, P, M> {
    /// Asks the migrator for `wanted`, all of one order; isolated blocks go to `sources`, as far as there is room.
    pub(crate) fn isolate(self, wanted: &[Held], sources: &mut Sources<'a, 'z, 'm, P, M>) -> Answers {
        let mut asked = Requests::new(self, wanted, sources.room());
        self.migrator.isolate_batch(&mut asked.requests, self.mode);
        let mut answers = Answers::default();
        let mut granted = Cluster::new();
        for (held, request) in asked.blocks.iter().zip(&asked.requests) {
            match request.answer {
                Some(Ok(())) => keep(&mut granted, *held),
                other => {
                    answers.refuse(held.index);
                    answers.busy |= other == Some(Err(Refusal::Busy));
                }
            }
        }
        // The migrator holds what it has granted, so that the state byte is still the one that the scanner saw; unless
        // the byte was stale when it was read, and the block is another one today.
        // SAFETY: the migrator's `Ok` lends the block.
        #[expect(unsafe_code, reason = "a migrator's answers are promises")]
        let marked = unsafe { self.scan.mark(&granted) };
        let granted_requests = asked.requests.iter_mut().filter(|request| request.answer == Some(Ok(())));
        for ((i, held), request) in granted.into_iter().enumerate().zip(granted_requests) {
            if marked >> i & 1 == 1 {
                request.answer = None;
                sources.push(held);
            } else {
                answers.refuse(held.index);
            }
        }
        asked.take_back();
        answers
    }

    /// Tells the migrator that the isolation of a block is over. The state byte says already that the block is
    /// allocated: the migrator may free it in this call.
    fn end_isolation(self, held: Held) {
        let zone = self.scan.zone();
        let pfn = zone.pfn_of(held.index);
        if self.migrator.put_back(pfn, held.order()) == PutBack::Released {
            // Refused if the block is not allocated with this order: the migrator freed it all the same.
            // SAFETY: its holder has released it by this answer.
            #[expect(unsafe_code, reason = "a migrator's answers are promises")]
            let _ = unsafe { zone.free::<P>(pfn, held.order()) };
        }
    }

    /// Ends an isolation without a move.
    pub(crate) fn put_back(self, held: Held) {
        // SAFETY: `mark` isolated it, and each value that has isolated blocks in hand ends its isolation once.
        #[expect(unsafe_code, reason = "sources are in hand")]
        unsafe {
            self.scan.unmark(held);
        }
        self.end_isolation(held);
    }

    /// Moves sources to as many targets of the same order, frees the frames that they leave, and puts the others back.
    /// Targets that are not used stay. Returns how many blocks were not moved.
    pub(crate) fn move_sources(
        self,
        sources: &mut Sources<'a, 'z, 'm, P, M>,
        targets: &mut Targets<'a, 'z, 'm, P>,
        counts: &mut RunCounts,
    ) -> u32 {
        if sources.is_empty() {
            return 0;
        }
        let before = *counts;
        let pairs = sources.len().min(targets.len());
        let without_target = sources.len() - pairs;
        sources.put_back_beyond(pairs);
        let mut moving = Moving::new(self, sources, targets);
        moving.migrate();
        let failed = without_target as u32 + moving.settle(targets, counts);
        let (migrated, not_migrated) = (counts.migrated - before.migrated, counts.failed - before.failed);
        P::hooks().trace(&Event::Compaction(CompactEvent::Migrate { migrated, failed: not_migrated }));
        failed
    }
}

/// Requests of a batch, until their answers have been acted upon. Dropped, granted isolations end; no state byte shows
/// them.
struct Requests<'a, 'z, 'm, P: Platform, M: Migrate> {
    migration: Migration<'a, 'z, 'm, P, M>,
    blocks: Cluster,
    /// One for each block.
    requests: ArrayVec<IsolateRequest, CLUSTER>,
}

impl<'a, 'z, 'm, P: Platform, M: Migrate> Requests<'a, 'z, 'm, P, M> {
    fn new(migration: Migration<'a, 'z, 'm, P, M>, wanted: &[Held], room: usize) -> Self {
        let mut asked = Self { migration, blocks: Cluster::new(), requests: ArrayVec::new() };
        for &held in wanted.iter().take(room) {
            keep(&mut asked.blocks, held);
            keep(&mut asked.requests, IsolateRequest::new(migration.scan.zone().pfn_of(held.index), held.order()));
        }
        asked
    }

    /// Ends the isolations that are left. Should the migrator unwind in one of them, the drop goes on with the next.
    fn take_back(&mut self) {
        while let (Some(request), Some(held)) = (self.requests.pop_at(0), self.blocks.pop_at(0)) {
            if request.answer == Some(Ok(())) {
                self.migration.end_isolation(held);
            }
        }
    }
}

impl<P: Platform, M: Migrate> Drop for Requests<'_, '_, '_, P, M> {
    fn drop(&mut self) {
        self.take_back();
    }
}

/// Isolated blocks of one order (`cc->migratepages`). Dropped, they are put back.
pub(crate) struct Sources<'a, 'z, 'm, P: Platform, M: Migrate> {
    migration: Migration<'a, 'z, 'm, P, M>,
    blocks: Cluster,
}

impl<'a, 'z, 'm, P: Platform, M: Migrate> Sources<'a, 'z, 'm, P, M> {
    pub(crate) fn new(migration: Migration<'a, 'z, 'm, P, M>) -> Self {
        Self { migration, blocks: Cluster::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.blocks.is_full()
    }

    /// Blocks that can be added.
    pub(crate) fn room(&self) -> usize {
        self.blocks.remaining_capacity()
    }

    /// First frame of the first block.
    pub(crate) fn first(&self) -> Option<u32> {
        self.blocks.first().map(|held| held.index)
    }

    /// Adds a block that is isolated.
    pub(crate) fn push(&mut self, held: Held) {
        keep(&mut self.blocks, held);
    }

    /// Moves all blocks to another list, which answers for them from then on.
    pub(crate) fn give_to(&mut self, mut other: impl FnMut(Held)) {
        core::mem::take(&mut self.blocks).into_iter().for_each(&mut other);
    }

    /// Puts back the blocks for which `keeps` is false.
    pub(crate) fn retain(&mut self, keeps: impl Fn(u32) -> bool) {
        let mut others = Self::new(self.migration);
        self.blocks.retain(|held| {
            let stays = keeps(held.index);
            if !stays {
                others.push(*held);
            }
            stays
        });
        others.put_back();
    }

    /// Puts all blocks back. Should the migrator unwind, the drop puts back the others.
    pub(crate) fn put_back(&mut self) {
        while let Some(held) = self.blocks.pop_at(0) {
            self.migration.put_back(held);
        }
    }

    /// Puts back the last blocks, so that no more than `most` stay.
    fn put_back_beyond(&mut self, most: usize) {
        while self.blocks.len() > most
            && let Some(held) = self.blocks.pop()
        {
            self.migration.put_back(held);
        }
    }
}

impl<P: Platform, M: Migrate> Drop for Sources<'_, '_, '_, P, M> {
    fn drop(&mut self) {
        self.put_back();
    }
}

/// Blocks on the move. Dropped, each ends as its outcome says; one without an outcome was not moved.
struct Moving<'a, 'z, 'm, P: Platform, M: Migrate> {
    migration: Migration<'a, 'z, 'm, P, M>,
    sources: Cluster,
    /// One for each source: the migrator's allocated blocks from the first pass on.
    targets: ArrayVec<u32, CLUSTER>,
    /// One for each source.
    outcomes: ArrayVec<Result<(), MoveError>, CLUSTER>,
    /// Moves of this pass, one for each outcome that asks for another try.
    moves: ArrayVec<Move, CLUSTER>,
    /// Sources that were left.
    left: Targets<'a, 'z, 'm, P>,
}

impl<'a, 'z, 'm, P: Platform, M: Migrate> Moving<'a, 'z, 'm, P, M> {
    /// Pairs the sources with targets, the last one first. There are enough.
    fn new(
        migration: Migration<'a, 'z, 'm, P, M>,
        sources: &mut Sources<'a, 'z, 'm, P, M>,
        targets: &mut Targets<'a, 'z, 'm, P>,
    ) -> Self {
        let order = targets.order();
        let mut moving = Self {
            migration,
            sources: core::mem::take(&mut sources.blocks),
            targets: ArrayVec::new(),
            outcomes: ArrayVec::new(),
            moves: ArrayVec::new(),
            left: Targets::new(migration.scan, order),
        };
        while moving.targets.len() < moving.sources.len()
            && let Some(index) = targets.pop()
        {
            // SAFETY: the target came out of those in hand.
            #[expect(unsafe_code, reason = "targets are in hand")]
            unsafe {
                migration.scan.lend_target(index, order);
            }
            keep(&mut moving.targets, index);
            keep(&mut moving.outcomes, Err(MoveError::Again));
        }
        moving
    }

    fn order(&self) -> Order {
        self.left.order()
    }

    /// Asks the migrator to move each block, several times where it says so.
    fn migrate(&mut self) {
        let zone = self.migration.scan.zone();
        for _ in 0..self.migration.passes.max(1) {
            for ((held, &to), outcome) in self.sources.iter().zip(&self.targets).zip(&self.outcomes) {
                if *outcome == Err(MoveError::Again) {
                    let order = self.left.order();
                    keep(&mut self.moves, Move::new(zone.pfn_of(held.index), zone.pfn_of(to), order));
                }
            }
            if self.moves.is_empty() {
                break;
            }
            self.migration.migrator.migrate_batch(&mut self.moves, self.migration.mode);
            self.note_outcomes();
        }
    }

    /// Takes over the migrator's answers. A move without an outcome has failed.
    fn note_outcomes(&mut self) {
        let mut moves = core::mem::take(&mut self.moves).into_iter();
        for outcome in self.outcomes.iter_mut().filter(|outcome| **outcome == Err(MoveError::Again)) {
            let Some(one) = moves.next() else { return };
            *outcome = one.outcome.unwrap_or(Err(MoveError::Failed));
        }
    }

    /// Frees the frames that were left, returns unused targets to `unused`, and puts back the sources that were not
    /// moved; returns how many those are.
    fn settle(&mut self, unused: &mut Targets<'a, 'z, 'm, P>, counts: &mut RunCounts) -> u32 {
        let order = self.order();
        let mut failed = 0;
        while let (Some(held), Some(target), Some(outcome)) =
            (self.sources.pop_at(0), self.targets.pop_at(0), self.outcomes.pop_at(0))
        {
            match outcome {
                Ok(()) => {
                    counts.migrated += order.frames();
                    self.left.push(held.index);
                    continue;
                }
                Err(MoveError::Released) => self.left.push(held.index),
                Err(_) => {}
            }
            // Before the migrator is called again: it has kept nothing of the target.
            // SAFETY: it was lent to the migrator, whose answer says that it has kept nothing of it.
            #[expect(unsafe_code, reason = "a migrator's answers are promises")]
            if unsafe { self.migration.scan.reclaim_target(target, order) } {
                unused.push(target);
            }
            if outcome != Err(MoveError::Released) {
                failed += 1;
                counts.failed += order.frames();
                self.migration.put_back(held);
            }
        }
        self.left.free();
        failed
    }
}

impl<P: Platform, M: Migrate> Drop for Moving<'_, '_, '_, P, M> {
    fn drop(&mut self) {
        self.note_outcomes();
        let mut unused = Targets::new(self.migration.scan, self.order());
        self.settle(&mut unused, &mut RunCounts::default());
    }
}
