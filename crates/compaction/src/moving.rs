//! Borrowing blocks from their owner, having them moved, and settling what came of it.
//!
//! The state byte says at every moment whose a frame is, so that a run may be stopped anywhere and an owner may break
//! its contract without a frame being lost or given twice:
//! * a lent source is `Isolated`; its owner's free of it is refused;
//! * a target is `Isolated` until the move begins, and the owner's `Allocated` block from then on;
//! * what is freed, or taken back, is checked under the zone lock to be what it should be.

use arrayvec::ArrayVec;
use pageblock_buddy::{Held, ZoneScan};
use pageblock_frame::migration::{IsolateRequest, Migrate, MigrateMode, Move, MoveError, PutBack, Refusal};
use pageblock_frame::trace::RunCounts;
use pageblock_frame::{MigrateType, Order, Platform, StateByte};

use crate::compactor::trace_batch;

/// Blocks that are isolated and moved at a time (`COMPACT_CLUSTER_MAX`).
pub(crate) const CLUSTER: usize = 32;

/// Up to a cluster of blocks of one order.
pub(crate) type Cluster = ArrayVec<Held, CLUSTER>;
/// Targets in hand, marked isolated.
pub(crate) type Stock = ArrayVec<u32, { 2 * CLUSTER }>;

/// Adds to a list that has room; the caller has seen to that.
pub(crate) fn keep<T, const N: usize>(list: &mut ArrayVec<T, N>, entry: T) {
    let kept = list.try_push(entry).is_ok();
    debug_assert!(kept, "the list is full");
}

/// What an owner answered to a cluster of questions.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answers {
    /// Blocks not lent.
    pub(crate) refused: u32,
    /// Some of those might be lent in another mode or later.
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

/// The owner, and how it is asked.
#[derive(Debug)]
pub(crate) struct Mover<'a, 'z, 'm, P, M> {
    pub(crate) scan: &'a ZoneScan<'z, 'm, P>,
    pub(crate) migrator: &'a M,
    pub(crate) mode: MigrateMode,
    pub(crate) passes: u8,
}

impl<P: Platform, M: Migrate> Mover<'_, '_, '_, P, M> {
    /// Asks the owner for `wanted`, all of one order; what it lends goes to `lent`, as far as there is room.
    pub(crate) fn borrow(&self, wanted: &[Held], lent: &mut Cluster) -> Answers {
        let zone = self.scan.zone();
        let mut loans: ArrayVec<IsolateRequest, CLUSTER> = ArrayVec::new();
        let room = lent.remaining_capacity().min(CLUSTER);
        for held in wanted.iter().take(room) {
            keep(&mut loans, IsolateRequest::new(zone.pfn_of(held.index), held.order()));
        }
        self.migrator.isolate_batch(&mut loans, self.mode);
        let mut answers = Answers::default();
        let mut granted = Cluster::new();
        for (held, loan) in wanted.iter().zip(&loans) {
            match loan.answer {
                Some(Ok(())) => keep(&mut granted, *held),
                other => {
                    answers.refuse(held.index);
                    answers.busy |= other == Some(Err(Refusal::Busy));
                }
            }
        }
        let marked = self.scan.mark(&granted);
        for (i, held) in granted.into_iter().enumerate() {
            if marked >> i & 1 == 1 {
                keep(lent, held);
                continue;
            }
            // Not the block that the scanner saw: the owner keeps it, or has nothing of it any more.
            answers.refuse(held.index);
            self.return_to_owner(held);
        }
        answers
    }

    /// Ends loans without a move.
    pub(crate) fn put_back(&self, lent: impl IntoIterator<Item = Held>) {
        for held in lent {
            self.scan.zone().states().set(held.index, held.state);
            self.return_to_owner(held);
        }
    }

    fn return_to_owner(&self, held: Held) {
        let zone = self.scan.zone();
        let pfn = zone.pfn_of(held.index);
        if self.migrator.put_back(pfn, held.order()) == PutBack::Released {
            // Refused if the owner freed it all the same.
            let _ = zone.free::<P>(pfn, held.order());
        }
    }

    /// Moves lent blocks of one order to as many targets from the stock, frees what they leave, and returns the
    /// others to their owner. Targets that are not used go back to the stock. Returns how many blocks were not moved.
    pub(crate) fn move_cluster(&self, lent: &mut Cluster, stock: &mut Stock, counts: &mut RunCounts) -> u32 {
        let Some(order) = lent.first().map(|held| held.order()) else { return 0 };
        let zone = self.scan.zone();
        let before = *counts;
        let mut targets: ArrayVec<u32, CLUSTER> = ArrayVec::new();
        while targets.len() < lent.len()
            && let Some(index) = stock.pop()
        {
            zone.states().set(index, StateByte::allocated(order, MigrateType::Movable));
            keep(&mut targets, index);
        }
        let without_target = lent.len() - targets.len();
        while lent.len() > targets.len()
            && let Some(held) = lent.pop()
        {
            self.put_back([held]);
        }
        let outcomes = self.try_moves(lent, &targets, order);
        let mut freed: ArrayVec<u32, CLUSTER> = ArrayVec::new();
        let mut failed = without_target as u32;
        for ((held, target), outcome) in core::mem::take(lent).into_iter().zip(targets).zip(outcomes) {
            match outcome {
                Ok(()) => {
                    keep(&mut freed, held.index);
                    counts.migrated += order.frames();
                    continue;
                }
                Err(MoveError::Released) => keep(&mut freed, held.index),
                Err(_) => {
                    failed += 1;
                    counts.failed += order.frames();
                    self.put_back([held]);
                }
            }
            if self.scan.reclaim_target(target, order) {
                keep(stock, target);
            }
        }
        self.scan.give_free(&freed, order);
        trace_batch::<P>(counts, &before);
        failed
    }

    /// Asks the owner to move each block, several times where it says so.
    fn try_moves(&self, lent: &Cluster, targets: &[u32], order: Order) -> ArrayVec<Result<(), MoveError>, CLUSTER> {
        let zone = self.scan.zone();
        let mut outcomes: ArrayVec<Result<(), MoveError>, CLUSTER> = ArrayVec::new();
        lent.iter().zip(targets).for_each(|_| keep(&mut outcomes, Err(MoveError::Again)));
        for _ in 0..self.passes.max(1) {
            let mut moves: ArrayVec<Move, CLUSTER> = ArrayVec::new();
            for ((held, &to), outcome) in lent.iter().zip(targets).zip(&outcomes) {
                if *outcome == Err(MoveError::Again) {
                    keep(&mut moves, Move::new(zone.pfn_of(held.index), zone.pfn_of(to), order));
                }
            }
            if moves.is_empty() {
                break;
            }
            self.migrator.migrate_batch(&mut moves, self.mode);
            let mut answers = moves.iter();
            for outcome in outcomes.iter_mut().filter(|outcome| **outcome == Err(MoveError::Again)) {
                *outcome = answers.next().and_then(|one| one.outcome).unwrap_or(Err(MoveError::Failed));
            }
        }
        outcomes
    }

    /// Frees targets that nothing was moved to.
    pub(crate) fn return_stock(&self, stock: &mut Stock, order: Order) {
        if !stock.is_empty() {
            self.scan.give_free(stock, order);
            stock.clear();
        }
    }
}
