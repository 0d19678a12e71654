//! Rungs that look again at free memory, with more permission each, and those that end the climb.

use pageblock_buddy::{Unreserve, Zone};
use pageblock_frame::{AllocFlags, Gfp, Order, Platform};

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

/// Reclaim and compaction were tried once: from now on mixing migrate types costs less than another try. Looks again at
/// once, before anything dearer is asked for.
pub(super) fn may_mix<P: Platform>(climb: &mut Climb<P>) -> Step {
    let refrained = climb.refrains();
    climb.mixes = true;
    if refrained { at_min(climb) } else { Step::Continue(()) }
}

/// High watermarks of free memory above which reclaim for the sake of pure pageblocks ends. With one, requests mix
/// frames that kswapd has just freed for a boost: `stress-highalloc` (1 GiB, thp) got 76, 87 and 96 percent rather than
/// 78, 90 and 98, `thpfioscale` 4 mixings rather than 0; with four neither. Under the load of
/// `tests/allocator/series.rs`, where nothing moves, four leave 178 mixings, eight 39.
const PLENTY: u64 = 6;

/// Where much is free, if only in pageblocks of other types, reclaim would add to it in vain: mixing comes first.
/// Otherwise a page cache would never use the frames that the kernel has left of its pageblocks.
pub(super) fn mix_if_plenty<P: Platform>(climb: &mut Climb<P>) -> Step {
    let (limit, flags) = (climb.request.limit, climb.flags());
    let plenty = |zone: &Zone<'_>| {
        let mark = zone.watermarks().high.saturating_mul(PLENTY).saturating_add(zone.boost());
        zone.frames_ok(Order::ZERO, mark, limit, flags)
    };
    if climb.refrains() && climb.request.zones().any(plenty) { may_mix(climb) } else { Step::Continue(()) }
}

/// All free frames, for callers that will free more than they take.
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

/// A caller that frees memory by using it does not wait for others, and one in the middle of reclaim does not begin
/// anew: the latter gets free frames (`PF_MEMALLOC`), or an error that names its state.
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

/// Gives pageblocks of the high-order atomic reserve to the request's migrate type, one by one, and tries again, until
/// there is none left.
pub(super) fn unreserve<P: Platform>(climb: &Climb<P>) -> Step {
    let request = &climb.request;
    while request.zones().any(|zone| zone.unreserve_highatomic::<P>(Unreserve::Last, request.migrate_type)) {
        at_min(climb)?;
    }
    Step::Continue(())
}

/// The last attempt of a request that must not fail: with access to half of the min reserve, which a boost, for kswapd
/// to free, does not raise.
pub(super) fn must_not_fail<P: Platform>(climb: &Climb<P>) -> Step {
    if !climb.has(Gfp::NOFAIL) {
        return Step::Continue(());
    }
    let flags = climb.flags() | AllocFlags::MIN_RESERVE | AllocFlags::UNBOOSTED;
    got(climb.request.walk(flags.difference(AllocFlags::NOFRAGMENT)))
}
