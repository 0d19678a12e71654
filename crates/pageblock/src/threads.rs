//! A node's background threads, as state machines: a kernel's thread, or a loop on a CPU of its own, drives them.

use arrayvec::ArrayVec;
use pageblock_compaction::{CompactZone, KswapdState, Next, Request};
use pageblock_frame::reclaim::Reclaim as Owner;
use pageblock_frame::{Hooks, NodeId, Order, Platform, ZoneKind};
use pageblock_pcp::ReclaimActivity;
use pageblock_reclaim::{Kswapd, KswapdNext, NAP};

use crate::PageAllocator;
use crate::compaction::Compaction;
use crate::inner::Inner;
use crate::slowpath::{ReclaimScope, SPINS, drain_zones};

/// The answer to a thread that never has work.
const NEVER: Next = Next::Sleep { until: None };

/// The answer to a thread that was called in the middle of reclaim.
fn later<P: Platform>() -> Next {
    Next::Sleep { until: Some(P::hooks().now().saturating_add(NAP)) }
}

type CompactZones = ArrayVec<CompactZone<'static, 'static>, { ZoneKind::COUNT }>;

impl<P: Platform> PageAllocator<P> {
    /// The reclaim threads.
    #[must_use]
    pub const fn reclaim(&self) -> ReclaimThreads<'_, P> {
        ReclaimThreads { frames: self }
    }
}

/// The reclaim thread of each node ([`PageAllocator::reclaim`]).
///
/// ```
/// use pageblock::{NodeId, PageAllocator};
/// use pageblock::hosted::Simulated;
/// assert!(PageAllocator::<Simulated>::new().reclaim().may_sleep(NodeId::new(0)));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ReclaimThreads<'a, P: Platform> {
    frames: &'a PageAllocator<P>,
}

impl<P: Platform> ReclaimThreads<'_, P> {
    /// One step of a node's reclaim thread (`kswapd`): one round, of bounded length. To be called by the kernel's
    /// thread until it says [`Next::Sleep`]; then again when [`Hooks::wake_kswapd`] is called, or the time has come.
    /// Only one caller a node at a time. Before it sleeps it resets skip bits that compaction must not keep for ever,
    /// and wakes the compaction thread for the block that was wanted.
    ///
    /// ```
    /// use pageblock::{Next, NodeId, PageAllocator};
    /// use pageblock::hosted::Simulated;
    /// // This platform has no reclaimer.
    /// assert_eq!(PageAllocator::<Simulated>::new().reclaim().step(NodeId::new(0)), Next::Sleep { until: None });
    /// ```
    pub fn step(self, node: NodeId) -> Next {
        let Some(owner) = P::hooks().reclaimer() else { return NEVER };
        let Ok(inner) = self.frames.inner() else { return NEVER };
        let Some(kswapd) = inner.kswapds.get(node.index()) else { return NEVER };
        let Some(scope) = ReclaimScope::enter_thread(inner) else { return later::<P>() };
        let turn = take_turn(inner, kswapd, owner);
        drop(scope);
        match turn {
            KswapdNext::Sleep { until } => Next::Sleep { until },
            _ => Next::Again,
        }
    }

    /// True if no request has reached a node's reclaim thread since it last looked: between a step that said
    /// [`Next::Sleep`] and the sleep itself, a kernel looks here once more.
    #[must_use]
    pub fn may_sleep(self, node: NodeId) -> bool {
        let kswapd = self.frames.inner().ok().and_then(|inner| inner.kswapds.get(node.index()));
        kswapd.is_none_or(Kswapd::may_sleep)
    }
}

/// A step, and its work for compaction and the per-CPU lists.
fn take_turn<P: Platform>(inner: &'static Inner<P>, kswapd: &Kswapd, owner: &'static (dyn Owner + Sync)) -> KswapdNext {
    let node = kswapd.node();
    let reclaiming = |kind: ZoneKind| kswapd.is_reclaiming(kind);
    let before = ZoneKind::ALL.map(reclaiming);
    let turn = kswapd.step::<P, _>(&inner.node_views(node), owner, P::hooks().now());
    if ZoneKind::ALL.map(reclaiming) != before {
        keep_lists_short(inner, kswapd);
    }
    match turn {
        KswapdNext::Compact { order, limit } => compact(inner, node, order, limit),
        KswapdNext::WakeKcompactd { order, limit } => {
            if P::hooks().migrator().is_some()
                && let Some(kcompactd) = inner.kcompactds.get(node.index())
            {
                kcompactd.wake::<P>(order, limit);
            }
        }
        KswapdNext::ResetSkipBits => {
            for at in compact_zones(inner, node) {
                at.compactor.reset_if_due::<P>(at.zone);
            }
        }
        _ => {}
    }
    turn
}

/// While a zone is reclaimed, freed frames should not be hoarded (`ZONE_RECLAIM_ACTIVE`).
fn keep_lists_short<P: Platform>(inner: &'static Inner<P>, kswapd: &Kswapd) {
    for zone in inner.zones_of(kswapd.node()) {
        let active = if kswapd.is_reclaiming(zone.kind()) { ReclaimActivity::Active } else { ReclaimActivity::Idle };
        if let Some(lists) = inner.lists_of(zone) {
            lists.set_reclaim(active);
        }
    }
}

/// Compaction by kswapd itself (before 4.6).
fn compact<P: Platform>(inner: &'static Inner<P>, node: NodeId, order: Order, limit: ZoneKind) {
    let Some(owner) = P::hooks().migrator() else { return };
    drain_zones(inner, inner.zones_of(node), 0);
    for at in compact_zones(inner, node).iter().filter(|at| at.zone.kind() <= limit) {
        if at.compactor.is_deferred::<P>(at.zone, order) {
            continue;
        }
        // Nothing is captured for a thread that wants no block for itself.
        let outcome = at.compactor.run::<P, _>(at.zone, &owner, &Request { limit, ..Request::kswapd(order) });
        if outcome.result == pageblock_frame::trace::CompactResult::Success {
            at.compactor.defer_reset::<P>(at.zone, order, pageblock_compaction::Proof::Watermark);
        }
    }
}

fn compact_zones<P: Platform>(inner: &'static Inner<P>, node: NodeId) -> CompactZones {
    if P::hooks().migrator().is_none() {
        return CompactZones::new();
    }
    inner.zones_of(node).filter_map(|zone| inner.compact_zone(zone)).take(ZoneKind::COUNT).collect()
}

/// The compaction thread of each node.
impl<P: Platform> Compaction<'_, P> {
    /// One step of a node's compaction thread (`kcompactd`), to be called by the kernel's thread until it says
    /// [`Next::Sleep`]; then again when [`Hooks::wake_kcompactd`] is called, or the time has come. Only one caller a
    /// node at a time.
    ///
    /// ```
    /// use pageblock::{Next, NodeId, PageAllocator};
    /// use pageblock::hosted::Simulated;
    /// // This platform has no migrator.
    /// assert_eq!(PageAllocator::<Simulated>::new().compaction().step(NodeId::new(0)), Next::Sleep { until: None });
    /// ```
    pub fn step(self, node: NodeId) -> Next {
        let Some(owner) = P::hooks().migrator() else { return NEVER };
        let Ok(inner) = self.frames.inner() else { return NEVER };
        let Some(kcompactd) = inner.kcompactds.get(node.index()) else { return NEVER };
        let Some(_scope) = ReclaimScope::enter_thread(inner) else { return later::<P>() };
        if kcompactd.is_wanted() {
            drain_zones(inner, inner.zones_of(node), SPINS);
        }
        let reclaims =
            P::hooks().reclaimer().is_some() && inner.kswapds.get(node.index()).is_some_and(Kswapd::is_awake);
        let kswapd = if reclaims { KswapdState::Awake } else { KswapdState::Asleep };
        kcompactd.step::<P, _>(&compact_zones(inner, node), &owner, kswapd, P::hooks().now())
    }

    /// Asks a node's compaction thread for a block of `order`, for a request that has not failed yet. Nothing happens
    /// on a platform without a migrator.
    pub fn wake(self, node: NodeId, order: Order) {
        if P::hooks().migrator().is_none() {
            return;
        }
        let kcompactd = self.frames.inner().ok().and_then(|inner| inner.kcompactds.get(node.index()));
        if let Some(kcompactd) = kcompactd {
            kcompactd.wake::<P>(order, ZoneKind::Movable);
        }
    }
}
