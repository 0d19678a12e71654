//! The first rung: the background threads are told.

use pageblock_frame::trace::Event;
use pageblock_frame::{Gfp, Platform};

use super::Climb;

/// Tells the threads of each node, once, that its zones ran short (`wake_all_kswapds()`).
pub(super) fn wake_threads<P: Platform>(climb: &Climb<P>) {
    let request = &climb.request;
    if !climb.has(Gfp::KSWAPD_RECLAIM) {
        return;
    }
    request.reset_fair_in_slowpath();
    let mut last = None;
    for zone in request.zones().filter(|zone| zone.managed() > 0) {
        if last != Some(zone.node()) {
            last = Some(zone.node());
            P::trace(&Event::WakeKswapd { node: zone.node(), zone: zone.kind(), order: request.order });
            P::wake_kswapd(zone.node());
            if P::migrator().is_some()
                && P::reclaimer().is_none()
                && let Some(threads) = request.inner.threads.get(zone.node().index())
            {
                // Nobody else will.
                threads.kcompactd.wake::<P>(request.order, request.limit);
            }
        }
    }
}
