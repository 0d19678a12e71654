//! Rungs that look again at what there is, with more permission each, and those that end the climb.

use pageblock_buddy::Unreserve;
use pageblock_frame::{AllocFlags, Gfp, Platform};

use super::{Climb, ReclaimScope, Step, give_up, got};
use crate::counters::count;
use crate::error::AllocError;

/// The same as [`at_min`]; a request that may stall rather than mix does so now, once.
pub(super) fn first_attempt<P: Platform>(climb: &Climb<P>) -> Step {
    let request = &climb.request;
    got(request.walk(climb.flags() | request.stall_flag()))
}

/// Down to the min watermark, and below as far as the flags permit.
pub(super) fn at_min<P: Platform>(climb: &Climb<P>) -> Step {
    got(climb.request.walk(climb.flags()))
}

/// Everything there is, for callers who will free more than they take.
pub(super) fn without_watermarks<P: Platform>(climb: &Climb<P>) -> Step {
    if climb.has(Gfp::MEMALLOC) && !climb.has(Gfp::NOMEMALLOC) { take_any(climb) } else { Step::Continue(()) }
}

pub(super) fn take_any<P: Platform>(climb: &Climb<P>) -> Step {
    let kept = climb.flags() & (AllocFlags::CMA | AllocFlags::KSWAPD);
    got(climb.request.walk(kept | AllocFlags::NO_WATERMARKS))
}

/// Everything from here on may take time.
pub(super) fn cannot_wait<P: Platform>(climb: &Climb<P>) -> Step {
    if climb.has(Gfp::DIRECT_RECLAIM) { Step::Continue(()) } else { give_up(AllocError::OutOfMemory) }
}

/// Who frees memory by using it does not wait for others who do, and who is in the middle of reclaim does not begin anew: the
/// latter gets what is there (`PF_MEMALLOC`), or is told what it did.
pub(super) fn cannot_reclaim<P: Platform>(climb: &Climb<P>) -> Step {
    if climb.has(Gfp::MEMALLOC) {
        return give_up(AllocError::OutOfMemory);
    }
    if ReclaimScope::enter(climb.request.inner).is_some() {
        return Step::Continue(());
    }
    if !climb.has(Gfp::NOMEMALLOC) {
        take_any(climb)?;
    }
    count(&climb.request.inner.counters.recursions);
    give_up(AllocError::Recursion)
}

/// Gives pageblocks of the high-order atomic reserve to the request's migrate type, one by one, and tries again, until there
/// is none left.
pub(super) fn unreserve<P: Platform>(climb: &Climb<P>) -> Step {
    let request = &climb.request;
    while request.zones().any(|zone| zone.unreserve_highatomic::<P>(Unreserve::Last, request.migrate_type)) {
        at_min(climb)?;
    }
    Step::Continue(())
}

/// The last attempt of a request that must not fail: with access to half of the min reserve.
pub(super) fn must_not_fail<P: Platform>(climb: &Climb<P>) -> Step {
    if !climb.has(Gfp::NOFAIL) {
        return Step::Continue(());
    }
    let flags = climb.flags() | AllocFlags::MIN_RESERVE;
    got(climb.request.walk(flags.difference(AllocFlags::CPUSET | AllocFlags::NOFRAGMENT)))
}
