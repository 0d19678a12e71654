//! The first rung: the background threads are told.

use pageblock_buddy::Zone;
use pageblock_frame::trace::Event;
use pageblock_frame::{Gfp, Hooks, Order, Platform, ZoneKind};
use pageblock_reclaim::Wake;

use crate::inner::Inner;
use crate::request::Request;

/// Tells the threads of each node, once, that its zones ran short (`wake_all_kswapds()`).
pub(super) fn wake_threads<P: Platform>(request: &Request<P>) {
    if !request.gfp.contains(Gfp::KSWAPD_RECLAIM) {
        return;
    }
    request.reset_fair_in_slowpath();
    let mut last = None;
    for zone in request.zones().filter(|zone| zone.managed() > 0) {
        if last != Some(zone.node()) {
            last = Some(zone.node());
            let woken = wake_kswapd(request.inner, zone, request.order, request.limit);
            // Where reclaim is of no use, and the request cannot compact for itself, or no hook reclaims.
            let alone = P::hooks().reclaimer().is_none();
            if P::hooks().migrator().is_some() && !woken && (alone || !request.gfp.contains(Gfp::DIRECT_RECLAIM)) {
                wake_kcompactd(request.inner, zone, request.order, request.limit);
            }
        }
    }
}

/// Wakes the reclaim thread of a zone's node unless there is enough free for `order` in zones up to `limit`. True if it
/// works, or will.
pub(crate) fn wake_kswapd<P: Platform>(
    inner: &'static Inner<P>,
    zone: &'static Zone<'static>,
    order: Order,
    limit: ZoneKind,
) -> bool {
    let node = zone.node();
    let event = Event::WakeKswapd { node, zone: zone.kind(), order };
    let Some((owner, kswapd)) = P::hooks().reclaimer().zip(inner.kswapds.get(node.index())) else {
        // A kernel may have a thread of its own making.
        P::hooks().trace(&event);
        P::hooks().wake_kswapd(node);
        return false;
    };
    match kswapd.wake_if_short::<P, _>(&inner.node_views(node), owner, order, limit) {
        Wake::Woken => {
            P::hooks().trace(&event);
            true
        }
        Wake::Awake => true,
        Wake::Balanced | Wake::Hopeless => false,
    }
}

pub(crate) fn wake_kcompactd<P: Platform>(inner: &Inner<P>, zone: &Zone<'_>, order: Order, limit: ZoneKind) {
    if let Some(kcompactd) = inner.kcompactds.get(zone.node().index()) {
        kcompactd.wake::<P>(order, limit);
    }
}
