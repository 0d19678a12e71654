//! The ladder of Linux 6.1.

use pageblock_frame::{Gfp, Platform};

use super::attempts::{
    at_min, cannot_reclaim, cannot_wait, first_attempt, may_mix, mix_if_plenty, must_not_fail, unreserve,
    without_watermarks,
};
use super::compact::{compact, compact_first};
use super::lists::{drain_all_lists, drain_own_lists};
use super::oom::{is_dying, out_of_memory, pause};
use super::reclaim::reclaim;
use super::retry::{compact_again, reclaim_again};
use super::wake::wake_threads;
use super::whole::whole_pageblock;
use super::{Climb, MOST_ROUNDS, Step, give_up};
use crate::error::AllocError;

pub(super) fn climb<P: Platform>(climb: &mut Climb<P>) -> Step {
    wake_threads(&climb.request);
    first_attempt(climb)?;
    drain_own_lists(climb)?;
    compact_first(climb)?;
    for _ in 0..MOST_ROUNDS {
        match round(climb) {
            Step::Break(Err(AllocError::OutOfMemory)) if climb.has(Gfp::NOFAIL) && climb.has(Gfp::DIRECT_RECLAIM) => {
                must_not_fail(climb)?;
                pause(climb);
            }
            Step::Break(end) => return Step::Break(end),
            Step::Continue(()) => {}
        }
        wake_threads(&climb.request);
        at_min(climb)?;
    }
    give_up(AllocError::OutOfMemory)
}

/// `Continue` if another one may do better.
fn round<P: Platform>(climb: &mut Climb<P>) -> Step {
    without_watermarks(climb)?;
    cannot_wait(climb)?;
    cannot_reclaim(climb)?;
    is_dying(climb)?;
    whole_pageblock(climb)?;
    mix_if_plenty(climb)?;
    reclaim(climb)?;
    drain_all_lists(climb)?;
    compact(climb, climb.priority)?;
    may_mix(climb)?;
    insists(climb)?;
    if reclaim_again(climb) {
        return Step::Continue(());
    }
    unreserve(climb)?;
    if compact_again(climb) {
        return Step::Continue(());
    }
    out_of_memory(climb)
}

/// A request that may fail, or for a block so large that reclaim does not insist, gets no more than one round.
fn insists<P: Platform>(climb: &Climb<P>) -> Step {
    let mild = climb.is_costly() && !(climb.has(Gfp::RETRY_MAYFAIL) && climb.may_compact());
    if climb.has(Gfp::NORETRY) || mild { give_up(AllocError::OutOfMemory) } else { Step::Continue(()) }
}
