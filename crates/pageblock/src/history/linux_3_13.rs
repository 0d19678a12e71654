//! The ladder of Linux 3.13.

use pageblock_compaction::Priority;
use pageblock_frame::trace::CompactResult;
use pageblock_frame::{Gfp, Hooks, Platform};
use pageblock_reclaim::may_retry;

use super::attempts::{
    at_min, cannot_reclaim, cannot_wait, first_attempt, may_mix, mix_if_plenty, must_not_fail, unreserve,
    without_watermarks,
};
use super::compact::compact;
use super::lists::{drain_all_lists, drain_own_lists};
use super::oom::{is_dying, out_of_memory, pause};
use super::reclaim::reclaim;
use super::retry::reclaim_again;
use super::wake::wake_threads;
use super::whole::whole_pageblock;
use super::{Climb, MOST_ROUNDS, Step, give_up};
use crate::error::AllocError;

/// All three together: a request that was meant for its own node, and nothing more.
const ONLY_HERE: Gfp = Gfp::THISNODE.union(Gfp::NORETRY).union(Gfp::NOWARN);

pub(super) fn climb<P: Platform>(climb: &mut Climb<P>) -> Step {
    if climb.has(ONLY_HERE) {
        return give_up(AllocError::OutOfMemory);
    }
    wake_threads(&climb.request);
    climb.priority = Priority::Async;
    for round in 0..MOST_ROUNDS {
        if round == 0 { first_attempt(climb) } else { at_min(climb) }?;
        drain_own_lists(climb)?;
        without_watermarks(climb)?;
        cannot_wait(climb)?;
        cannot_reclaim(climb)?;
        is_dying(climb)?;
        whole_pageblock(climb)?;
        mix_if_plenty(climb)?;
        compact(climb, climb.priority)?;
        climb.priority = Priority::SyncLight;
        unloved_huge_page(climb)?;
        reclaim(climb)?;
        drain_all_lists(climb)?;
        may_mix(climb)?;
        if !goes_on(climb)? {
            break;
        }
        must_not_fail(climb)?;
        pause(climb);
    }
    compact(climb, Priority::SyncLight)?;
    unreserve(climb)?;
    must_not_fail(climb)
}

/// A request that does not even wake kswapd would not be worth the cost of synchronous compaction.
fn unloved_huge_page<P: Platform>(climb: &Climb<P>) -> Step {
    let vain = matches!(climb.compacted, CompactResult::Deferred | CompactResult::Contended);
    if vain && !climb.has(Gfp::KSWAPD_RECLAIM) { give_up(AllocError::OutOfMemory) } else { Step::Continue(()) }
}

/// Whether reclaim is worth another round; where it achieved nothing at all, after the last resort.
fn goes_on<P: Platform>(climb: &mut Climb<P>) -> Decision {
    let Some((_, first)) = P::hooks().reclaimer().zip(climb.request.inner.kswapds.first()) else {
        return Decision::Continue(false);
    };
    if !climb.reclaim.progress.is_some() && climb.has(Gfp::FS) && !climb.has(Gfp::NORETRY) && !climb.is_costly() {
        unreserve_then_emergency(climb)?;
        wake_threads(&climb.request);
        return Decision::Continue(true);
    }
    let (order, gfp, total) = (climb.request.order, climb.request.gfp, climb.reclaim.total);
    let counted = reclaim_again(climb) || climb.has(Gfp::NOFAIL) || climb.is_costly();
    Decision::Continue(counted && may_retry(first.config(), order, gfp, total))
}

fn unreserve_then_emergency<P: Platform>(climb: &mut Climb<P>) -> Step {
    unreserve(climb)?;
    match out_of_memory(climb) {
        Step::Break(Err(AllocError::OutOfMemory)) if climb.has(Gfp::NOFAIL) => Step::Continue(()),
        step => step,
    }
}

type Decision = core::ops::ControlFlow<Result<pageblock_frame::Pfn, AllocError>, bool>;
