//! The ladder of Linux 6.1.

use pageblock_frame::{Gfp, Platform};

use super::attempts::{
    at_min, cannot_reclaim, cannot_wait, first_attempt, must_not_fail, unreserve, without_watermarks,
};
use super::compact::{compact, compact_first, should_retry};
use super::lists::{drain_all_lists, drain_own_lists};
use super::wake::wake_threads;
use super::{Climb, Step, give_up};
use crate::error::AllocError;

/// Rounds that a request makes at most, whatever it is told of progress.
const MOST_ROUNDS: u32 = 256;

pub(super) fn climb<P: Platform>(climb: &mut Climb<P>) -> Step {
    wake_threads(climb);
    first_attempt(climb)?;
    drain_own_lists(climb)?;
    compact_first(climb)?;
    for round in 0..MOST_ROUNDS {
        if round > 0 {
            wake_threads(climb);
            at_min(climb)?;
        }
        without_watermarks(climb)?;
        cannot_wait(climb)?;
        cannot_reclaim(climb)?;
        drain_all_lists(climb)?;
        compact(climb, climb.priority)?;
        insists(climb)?;
        if !should_retry(climb) {
            break;
        }
    }
    unreserve(climb)?;
    must_not_fail(climb)
}

/// Who said that failing is fine, or wants a block so large that reclaim does not insist, gets no more than one round.
fn insists<P: Platform>(climb: &Climb<P>) -> Step {
    let mild = climb.is_costly() && !(climb.has(Gfp::RETRY_MAYFAIL) && climb.may_compact());
    let ends = climb.has(Gfp::NORETRY) || (mild && !climb.has(Gfp::NOFAIL));
    if ends { give_up(AllocError::OutOfMemory) } else { Step::Continue(()) }
}
