//! A node's background threads, as state machines: a kernel's thread, or a loop on a CPU of its own, drives them.

use arrayvec::ArrayVec;
use pageblock_compaction::{CompactZone, Kcompactd, Kswapd, Next};
use pageblock_frame::{NodeId, Platform, ZoneKind};

use crate::PageAllocator;
use crate::inner::Inner;
use crate::slowpath::{ReclaimScope, SPINS, drain_zones};

/// What the threads of one node share with those who wake them.
#[derive(Debug)]
pub(crate) struct NodeThreads {
    pub(crate) kcompactd: Kcompactd,
}

impl NodeThreads {
    pub(crate) fn new(node: NodeId) -> Self {
        Self { kcompactd: Kcompactd::new(node) }
    }
}

/// True if the threads of this platform have anything to do.
pub(crate) fn are_needed<P: Platform>() -> bool {
    P::migrator().is_some() || P::reclaimer().is_some()
}

/// What a thread does that has nothing to do, and never will.
const NEVER: Next = Next::Sleep { until: None };

impl<P: Platform> PageAllocator<P> {
    /// One step of a node's compaction thread (`kcompactd`), to be called by whoever has the thread until it says
    /// [`Next::Sleep`]; then again when [`Platform::wake_kcompactd`] is called, or the time has come. Only one caller a node at a
    /// time.
    ///
    /// ```
    /// use pageblock::{Next, NodeId, PageAllocator};
    /// use pageblock_testkit::host::Quiet;
    /// // This platform has nobody who could move memory.
    /// assert_eq!(PageAllocator::<Quiet>::new().kcompactd_step(NodeId::new(0)), Next::Sleep { until: None });
    /// ```
    pub fn kcompactd_step(&self, node: NodeId) -> Next {
        let Some(owner) = P::migrator() else { return NEVER };
        let Ok(inner) = self.inner() else { return NEVER };
        let Some(threads) = inner.threads.get(node.index()) else { return NEVER };
        let Some(_scope) = ReclaimScope::enter(inner) else { return NEVER };
        let of_node = || inner.zones.iter().filter(|zone| zone.node() == node);
        if threads.kcompactd.is_wanted() {
            drain_zones(inner, of_node(), SPINS);
        }
        let zones: NodeZones = of_node().filter_map(|zone| inner.compact_zone(zone)).take(ZoneKind::COUNT).collect();
        threads.kcompactd.step::<P, _>(&zones, &owner, Kswapd::Asleep, P::now())
    }

    /// Asks a node's compaction thread for a block of `order`, for a request that has not failed yet. Nothing happens on a
    /// platform without a migrator.
    pub fn wake_kcompactd(&self, node: NodeId, order: pageblock_frame::Order) {
        if P::migrator().is_none() {
            return;
        }
        let threads = self.inner().ok().and_then(|inner: &'static Inner<P>| inner.threads.get(node.index()));
        if let Some(threads) = threads {
            threads.kcompactd.wake::<P>(order, ZoneKind::Movable);
        }
    }
}

type NodeZones = ArrayVec<CompactZone<'static, 'static>, { ZoneKind::COUNT }>;
