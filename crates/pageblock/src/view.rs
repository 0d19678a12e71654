//! A zone as reclaim sees it.

use arrayvec::ArrayVec;
use pageblock_buddy::{WatermarkTest, Zone};
use pageblock_frame::MAX_ZONES;
use pageblock_frame::sync::Pinned;
use pageblock_frame::trace::CompactResult;
use pageblock_frame::{Hooks, NodeId, Order, Platform, ZoneKind};
use pageblock_reclaim::{MarkTest, Marks, ReclaimZone};

use crate::inner::Inner;

/// A zone together with the allocator's state beside it.
pub(crate) struct View<P: Platform> {
    pub(crate) zone: &'static Zone<'static>,
    inner: &'static Inner<P>,
}

/// The zones of a request, in the order in which they are tried.
pub(crate) type Zones<P> = ArrayVec<View<P>, MAX_ZONES>;
/// The zones of a node, ascending.
pub(crate) type NodeZones<P> = ArrayVec<View<P>, { ZoneKind::COUNT }>;

impl<P: Platform> Inner<P> {
    pub(crate) fn views(
        &'static self,
        zones: impl Iterator<Item = &'static Zone<'static>>,
    ) -> impl Iterator<Item = View<P>> {
        zones.map(move |zone| View { zone, inner: self })
    }

    pub(crate) fn zones_of(&self, node: NodeId) -> impl Iterator<Item = &'static Zone<'static>> + use<P> {
        self.zones.iter().filter(move |zone| zone.node() == node)
    }

    pub(crate) fn node_views(&'static self, node: NodeId) -> NodeZones<P> {
        self.views(self.zones_of(node)).take(ZoneKind::COUNT).collect()
    }
}

impl<P: Platform> ReclaimZone for View<P> {
    fn node(&self) -> NodeId {
        self.zone.node()
    }

    fn kind(&self) -> ZoneKind {
        self.zone.kind()
    }

    fn managed(&self) -> u64 {
        self.zone.managed()
    }

    fn present(&self) -> u64 {
        self.zone.present()
    }

    /// With the frames on this CPU's list: an owner's frees go there first, and must not be taken for a lie.
    fn free(&self) -> u64 {
        let pinned = Pinned::<P>::new();
        let listed = self.inner.lists_of(self.zone).map_or(0, |lists| lists.frames_on(pinned.cpu()));
        drop(pinned);
        self.zone.free_frames().saturating_add(listed)
    }

    fn marks(&self) -> Marks {
        let marks = self.zone.watermarks();
        Marks { min: marks.min, low: marks.low, high: marks.high }
    }

    fn boost(&self) -> u64 {
        self.zone.boost()
    }

    fn subtract_boost(&self, frames: u64) {
        self.zone.lower_boost(frames);
    }

    fn watermark_ok(&self, test: &MarkTest) -> bool {
        let MarkTest { order, mark, limit, flags, extra } = *test;
        let test = WatermarkTest { order, mark, limit, flags };
        self.zone.watermark_ok_with(self.zone.free_frames().saturating_add(extra), &test)
    }

    fn compaction_suitable(&self, order: Order, limit: ZoneKind) -> Option<CompactResult> {
        P::hooks().migrator()?;
        let at = self.inner.compact_zone(self.zone)?;
        Some(at.compactor.suitable::<P>(at.zone, order, limit))
    }
}
