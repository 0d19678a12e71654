//! When the first attempt fails: a ladder of measures, one function a rung.
//!
//! ```text
//! wake_kswapd        background reclaim is told, on every node of the zonelist
//! at_min             again, down to the min watermark and the reserves that the flags open
//! without_watermarks again with everything, for those who free memory by using it (MEMALLOC)
//! drain_own_lists    the free blocks that this CPU keeps to itself go back, and again
//! cannot_wait        who may not wait gives up here
//! drain_all_lists    those that the other CPUs keep, too
//! unreserve          a pageblock of the high-order atomic reserve is given to the rest, and again
//! must_not_fail      again with half of the min reserve (NOFAIL)
//! ```
//!
//! Mirrors `__alloc_pages_slowpath()` (6.1), without what needs a `Reclaim` or a `Migrate`.

use pageblock_buddy::Unreserve;
use pageblock_frame::trace::Event;
use pageblock_frame::{AllocFlags, Gfp, Pfn, Platform};

use crate::error::AllocError;
use crate::request::Request;

/// What a rung achieved.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The block.
    Got(Pfn),
    /// Nothing; the next rung may.
    Next,
    /// Something changed: this rung once more.
    Again,
    /// Nothing, and the caller wants no more.
    GiveUp,
}

impl From<Option<Pfn>> for Step {
    fn from(pfn: Option<Pfn>) -> Self {
        pfn.map_or(Self::Next, Self::Got)
    }
}

/// Climbs until a rung has the block.
#[cold]
pub(crate) fn climb<P: Platform>(request: &Request<P>) -> Result<Pfn, AllocError> {
    let rungs: [fn(&Request<P>) -> Step; 8] = [
        wake_kswapd,
        at_min,
        without_watermarks,
        drain_own_lists,
        cannot_wait,
        drain_all_lists,
        unreserve,
        must_not_fail,
    ];
    let mut request = *request;
    if request.gfp.contains(Gfp::ATOMIC_BIT | Gfp::DIRECT_RECLAIM) {
        // A contradiction: who may reclaim can wait.
        request.gfp.remove(Gfp::ATOMIC_BIT);
    }
    for rung in rungs {
        loop {
            match rung(&request) {
                Step::Got(pfn) => return Ok(pfn),
                Step::Next => break,
                Step::Again => {}
                Step::GiveUp => return Err(AllocError::OutOfMemory),
            }
        }
    }
    Err(AllocError::OutOfMemory)
}

/// Tells the reclaim thread of each node, once, that its zones ran short (`wake_all_kswapds()`).
fn wake_kswapd<P: Platform>(request: &Request<P>) -> Step {
    if !request.gfp.contains(Gfp::KSWAPD_RECLAIM) {
        return Step::Next;
    }
    let mut last = None;
    for zone in request.zones().filter(|zone| zone.managed() > 0) {
        if last != Some(zone.node()) {
            last = Some(zone.node());
            P::trace(&Event::WakeKswapd { node: zone.node(), zone: zone.kind(), order: request.order });
            P::wake_kswapd(zone.node());
        }
    }
    Step::Next
}

/// Down to the min watermark, and below as far as the flags permit.
fn at_min<P: Platform>(request: &Request<P>) -> Step {
    request.walk(request.gfp.slow_alloc_flags(request.order)).into()
}

/// Everything there is, for callers who will free more than they take.
fn without_watermarks<P: Platform>(request: &Request<P>) -> Step {
    if !request.gfp.contains(Gfp::MEMALLOC) || request.gfp.contains(Gfp::NOMEMALLOC) {
        return Step::Next;
    }
    let kept = request.gfp.slow_alloc_flags(request.order) & (AllocFlags::CMA | AllocFlags::KSWAPD);
    request.walk(kept | AllocFlags::NO_WATERMARKS).into()
}

/// Rounds that a request waits for other CPUs to empty their lists.
const DRAIN_SPINS: u64 = 1 << 12;

/// What this CPU's lists hold may be of another order, or make a larger block.
fn drain_own_lists<P: Platform>(request: &Request<P>) -> Step {
    let cpu = P::pin();
    let held = request.zones().any(|zone| request.inner.lists_of(zone).is_some_and(|lists| lists.frames_on(cpu) > 0));
    if held {
        for zone in request.zones() {
            // Refused for a CPU without lists.
            let _ = request.inner.lists_of(zone).map(|lists| lists.drain_cpu(zone, cpu));
        }
    }
    P::unpin();
    if held { at_min(request) } else { Step::Next }
}

/// The other CPUs are asked for what they hold, and have a moment to answer (`drain_all_pages()`).
fn drain_all_lists<P: Platform>(request: &Request<P>) -> Step {
    let held = request.zones().any(|zone| request.inner.lists_of(zone).is_some_and(|lists| lists.frames() > 0));
    if !held {
        return Step::Next;
    }
    for zone in request.zones() {
        if let Some(lists) = request.inner.lists_of(zone)
            && lists.drain_all(zone) > 0
        {
            // Who has not answered by then does not help this request.
            let _ = lists.wait(DRAIN_SPINS);
        }
    }
    at_min(request)
}

/// Everything from here on may take time.
fn cannot_wait<P: Platform>(request: &Request<P>) -> Step {
    if request.gfp.contains(Gfp::DIRECT_RECLAIM) { Step::Next } else { Step::GiveUp }
}

/// Gives one pageblock of the high-order atomic reserve to the request's migrate type, and tries again, until there is
/// none left.
fn unreserve<P: Platform>(request: &Request<P>) -> Step {
    let given = request.zones().any(|zone| zone.unreserve_highatomic::<P>(Unreserve::Last, request.migrate_type));
    if !given {
        return Step::Next;
    }
    match at_min(request) {
        Step::Got(pfn) => Step::Got(pfn),
        _ => Step::Again,
    }
}

/// The last attempt of a request that must not fail: with access to half of the min reserve.
fn must_not_fail<P: Platform>(request: &Request<P>) -> Step {
    if !request.gfp.contains(Gfp::NOFAIL) {
        return Step::Next;
    }
    let flags = request.gfp.slow_alloc_flags(request.order) | AllocFlags::MIN_RESERVE;
    request.walk(flags.difference(AllocFlags::CPUSET)).into()
}
