//! The ladder of Linux 3.13.

use pageblock_compaction::Priority;
use pageblock_frame::trace::CompactResult;
use pageblock_frame::{Gfp, Platform};

use super::attempts::{cannot_reclaim, cannot_wait, first_attempt, must_not_fail, unreserve, without_watermarks};
use super::compact::compact;
use super::lists::{drain_all_lists, drain_own_lists};
use super::wake::wake_threads;
use super::{Climb, Step, give_up};
use crate::error::AllocError;

/// All three together: a request that was meant for its own node, and nothing more.
const ONLY_HERE: Gfp = Gfp::THISNODE.union(Gfp::NORETRY).union(Gfp::NOWARN);

pub(super) fn climb<P: Platform>(climb: &mut Climb<P>) -> Step {
    if climb.has(ONLY_HERE) {
        return give_up(AllocError::OutOfMemory);
    }
    wake_threads(climb);
    first_attempt(climb)?;
    drain_own_lists(climb)?;
    without_watermarks(climb)?;
    cannot_wait(climb)?;
    cannot_reclaim(climb)?;
    compact(climb, Priority::Async)?;
    unloved_huge_page(climb)?;
    drain_all_lists(climb)?;
    compact(climb, Priority::SyncLight)?;
    unreserve(climb)?;
    must_not_fail(climb)
}

/// A request that does not even wake kswapd would not be worth what synchronous compaction costs.
fn unloved_huge_page<P: Platform>(climb: &Climb<P>) -> Step {
    let vain = matches!(climb.compacted, CompactResult::Deferred | CompactResult::Contended);
    if vain && !climb.has(Gfp::KSWAPD_RECLAIM) { give_up(AllocError::OutOfMemory) } else { Step::Continue(()) }
}
