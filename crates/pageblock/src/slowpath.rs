//! When the first attempt fails: a ladder of measures, one function a rung.
//!
//! ```text
//! wake_kswapd        background reclaim is told, on every node of the zonelist
//! at_min             again, down to the min watermark and the reserves that the flags open
//! without_watermarks again with everything, for those who free memory by using it (MEMALLOC)
//! cannot_wait        who may not wait gives up here
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
pub(crate) fn climb<P: Platform>(request: &Request) -> Result<Pfn, AllocError> {
    let rungs: [fn(&Request) -> Step; 6] =
        [wake_kswapd::<P>, at_min::<P>, without_watermarks::<P>, cannot_wait, unreserve::<P>, must_not_fail::<P>];
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
fn wake_kswapd<P: Platform>(request: &Request) -> Step {
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
fn at_min<P: Platform>(request: &Request) -> Step {
    request.walk::<P>(request.gfp.slow_alloc_flags(request.order)).into()
}

/// Everything there is, for callers who will free more than they take.
fn without_watermarks<P: Platform>(request: &Request) -> Step {
    if !request.gfp.contains(Gfp::MEMALLOC) || request.gfp.contains(Gfp::NOMEMALLOC) {
        return Step::Next;
    }
    let kept = request.gfp.slow_alloc_flags(request.order) & (AllocFlags::CMA | AllocFlags::KSWAPD);
    request.walk::<P>(kept | AllocFlags::NO_WATERMARKS).into()
}

/// Everything from here on may take time.
fn cannot_wait(request: &Request) -> Step {
    if request.gfp.contains(Gfp::DIRECT_RECLAIM) { Step::Next } else { Step::GiveUp }
}

/// Gives one pageblock of the high-order atomic reserve to the request's migrate type, and tries again, until there is
/// none left.
fn unreserve<P: Platform>(request: &Request) -> Step {
    let given = request.zones().any(|zone| zone.unreserve_highatomic::<P>(Unreserve::Last, request.migrate_type));
    if !given {
        return Step::Next;
    }
    match at_min::<P>(request) {
        Step::Got(pfn) => Step::Got(pfn),
        _ => Step::Again,
    }
}

/// The last attempt of a request that must not fail: with access to half of the min reserve.
fn must_not_fail<P: Platform>(request: &Request) -> Step {
    if !request.gfp.contains(Gfp::NOFAIL) {
        return Step::Next;
    }
    let flags = request.gfp.slow_alloc_flags(request.order) | AllocFlags::MIN_RESERVE;
    request.walk::<P>(flags.difference(AllocFlags::CPUSET)).into()
}
