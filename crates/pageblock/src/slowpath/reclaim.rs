//! Direct reclaim: the request makes owners give memory up.

use pageblock_buddy::Unreserve;
use pageblock_frame::MAX_ZONES;
use pageblock_frame::{Hooks, Order, Platform};
use pageblock_reclaim::{Direct, Progress, Retries};

use super::attempts::at_min;
use super::lists::drain_all_lists;
use super::{Climb, Depth, Step};
use crate::counters::count_for;
use crate::view::Zones;

/// Result of direct reclaim for a request so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reclaimed {
    /// Of the last pass.
    pub(super) progress: Progress,
    /// Frames freed by all passes.
    pub(super) total: u64,
    /// Passes in vain.
    pub(super) retries: Retries,
}

impl<P: Platform> Climb<P> {
    /// The zones of the request, for reclaim.
    pub(super) fn views(&self) -> Zones<P> {
        self.request.inner.views(self.request.zones()).take(MAX_ZONES).collect()
    }
}

/// Makes owners free memory, and tries again if that was of use (`__alloc_pages_direct_reclaim()`). Waits for kswapd
/// first if the reserve is nearly used up.
pub(super) fn reclaim<P: Platform>(climb: &mut Climb<P>) -> Step {
    reclaim_for(climb, climb.request.order)
}

/// The same, until a block of this order can be made of free frames.
pub(super) fn reclaim_for<P: Platform>(climb: &mut Climb<P>, order: Order) -> Step {
    climb.reclaim.progress = Progress::default();
    let inner = climb.request.inner;
    let Some((owner, first)) = P::hooks().reclaimer().zip(inner.kswapds.first()) else { return Step::Continue(()) };
    let (limit, gfp) = (climb.request.limit, climb.request.gfp);
    count_for(&inner.counters.allocstall, limit);
    let zones = climb.views();
    if let Some(node) = zones.first().map(|view| view.zone.node())
        && let Some(kswapd) = inner.kswapds.get(node.index())
    {
        kswapd.throttle::<P, _>(&inner.node_views(node), owner, limit, gfp);
    }
    // Not before the wait: many may wait at once, and none of them is in reclaim.
    let Some(depth) = Depth::enter(inner) else { return Step::Continue(()) };
    let task = Direct { zones: &zones, nodes: inner.kswapds, owner, order, limit, gfp };
    let progress = task.run::<P>(first.config());
    drop(depth);
    climb.reclaim.progress = progress;
    climb.reclaim.total = climb.reclaim.total.saturating_add(progress.reclaimed);
    if !progress.is_some() {
        return Step::Continue(());
    }
    at_min(climb)?;
    // The freed frames may be where this request cannot see them.
    let request = &climb.request;
    let _ = request.zones().any(|zone| zone.unreserve_highatomic::<P>(Unreserve::ButOne, request.migrate_type));
    drain_all_lists(climb)?;
    at_min(climb)
}
