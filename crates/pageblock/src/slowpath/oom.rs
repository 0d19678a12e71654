//! The end of reclaim: there is nothing left that would be given up lightly.

use pageblock_frame::{AllocFlags, Gfp, Hooks, Platform, ZoneKind};
use pageblock_reclaim::Retries;

use super::attempts::take_any;
use super::{Climb, Step, give_up, got};
use crate::counters::count;
use crate::error::AllocError;

/// Times that a request asks for the last resort, or waits for frames of others.
const MOST_EMERGENCIES: u32 = 16;
/// Time that a request waits for others at a time (`HZ/50`), in nanoseconds.
const PAUSE: u64 = 20_000_000;

/// Waits for a moment, or until kswapd makes progress.
pub(super) fn pause<P: Platform>(climb: &Climb<P>) {
    if let Some(zone) = climb.request.zones().next() {
        P::hooks().wait_until(zone.node(), P::hooks().now().saturating_add(PAUSE));
    }
}

/// A caller that is being killed gets half of the rest of the reserve, so that it can end, and waits no more.
pub(super) fn is_dying<P: Platform>(climb: &Climb<P>) -> Step {
    if climb.has(Gfp::NOFAIL) || !P::hooks().reclaimer().is_some_and(|owner| owner.is_dying()) {
        return Step::Continue(());
    }
    if !climb.has(Gfp::NOMEMALLOC) {
        let flags = climb.flags().difference(AllocFlags::NOFRAGMENT);
        got(climb.request.walk(flags | AllocFlags::OOM | AllocFlags::UNBOOSTED))?;
    }
    give_up(AllocError::OutOfMemory)
}

/// The last resort (`__alloc_pages_may_oom()`). `Continue` if the request should go round again.
pub(super) fn out_of_memory<P: Platform>(climb: &mut Climb<P>) -> Step {
    let Some(owner) = P::hooks().reclaimer() else { return give_up(AllocError::OutOfMemory) };
    let request = climb.request;
    // A killer may have been asked just now: only if that left nothing it is this request's turn.
    let high = AllocFlags::WMARK_HIGH;
    got(request.walk(high | (climb.flags() & AllocFlags::CMA)))?;
    climb.emergencies += 1;
    let refused = climb.is_costly()
        || climb.has(Gfp::RETRY_MAYFAIL)
        || climb.has(Gfp::THISNODE)
        || request.limit < ZoneKind::Normal
        || climb.emergencies > MOST_EMERGENCIES;
    if refused {
        return give_up(AllocError::OutOfMemory);
    }
    if !climb.has(Gfp::FS) {
        // It reclaimed with one hand tied: that it found nothing says little. Others will do.
        pause(climb);
        return Step::Continue(());
    }
    if !owner.out_of_memory(request.order, request.limit, request.gfp) {
        return give_up(AllocError::OutOfMemory);
    }
    count(&request.inner.counters.oom_kill);
    if climb.has(Gfp::NOFAIL) {
        take_any(climb)?;
    }
    climb.reclaim.retries = Retries::new();
    Step::Continue(())
}
