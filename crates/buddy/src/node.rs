//! Nodes: the frames that their zones keep free, all of a machine's zones together.

use pageblock_frame::{NodeId, ZoneKind};

use crate::zonelist::{NodeOrder, ZonePlace, Zonelist};
use crate::{LOWMEM_RESERVE_RATIO, Watermarks, Zone, lowmem_reserves, min_free_kbytes};

/// By which rule the watermarks follow from `min_free_kbytes`.
///
/// ```
/// assert_eq!(pageblock_buddy::WatermarkRule::default(), pageblock_buddy::WatermarkRule::Scaled);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum WatermarkRule {
    /// low and high are one and two steps above min, a step being a quarter of min or the scale factor's share of the
    /// zone, whichever is more (Linux 4.6).
    #[default]
    Scaled,
    /// low and high are 1.25 and 1.5 times min (before).
    Fixed,
}

/// Frames that the zones of a machine keep free, as an administrator sets it.
///
/// ```
/// use pageblock_buddy::Reserves;
/// assert_eq!(Reserves::new().min_free_kbytes, None); // follows from the memory there is
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reserves {
    /// `vm.min_free_kbytes`, in KiB; computed from the size of memory if `None`.
    pub min_free_kbytes: Option<u64>,
    /// `vm.watermark_scale_factor`, in ten-thousandths of a zone.
    pub watermark_scale_factor: u64,
    /// `vm.lowmem_reserve_ratio`, by kind of zone; 0 keeps nothing back.
    pub lowmem_reserve_ratio: [u64; ZoneKind::COUNT],
    /// How low and high follow from min.
    pub rule: WatermarkRule,
}

impl Reserves {
    /// Linux's defaults since 4.6.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            min_free_kbytes: None,
            watermark_scale_factor: 10,
            lowmem_reserve_ratio: LOWMEM_RESERVE_RATIO,
            rule: WatermarkRule::Scaled,
        }
    }

    /// Sets the watermarks and lowmem reserves of all zones of a machine from their managed frames
    /// (`init_per_zone_wmark_min()`). Returns the `min_free_kbytes` that they follow from.
    pub fn apply(&self, zones: &[Zone<'_>]) -> u64 {
        let total: u64 = zones.iter().map(Zone::managed).sum();
        // Frames that a user's request may use, beyond the high watermarks, which are 0 at first.
        let user = zones.iter().filter(|zone| zone.kind() <= ZoneKind::Normal);
        let lowmem: u64 = user.map(|zone| zone.managed().saturating_sub(zone.watermarks().high)).sum();
        let computed = min_free_kbytes(lowmem * 4);
        let kbytes = self.min_free_kbytes.unwrap_or(computed);
        for zone in zones {
            let managed = zone.managed();
            zone.set_watermarks(match self.rule {
                WatermarkRule::Scaled => Watermarks::compute(managed, total, kbytes, self.watermark_scale_factor),
                WatermarkRule::Fixed => Watermarks::compute_3_13(managed, total, kbytes),
            });
            let of_node = |kind| {
                let same = |other: &&Zone<'_>| other.node() == zone.node() && other.kind() == kind;
                zones.iter().find(same).map_or(0, Zone::managed)
            };
            let reserves = lowmem_reserves(ZoneKind::ALL.map(of_node), self.lowmem_reserve_ratio);
            zone.set_lowmem_reserve(reserves[zone.kind().index()]);
        }
        kbytes
    }
}

impl Default for Reserves {
    fn default() -> Self {
        Self::new()
    }
}

/// A memory node: where its requests go.
///
/// ```
/// use pageblock_buddy::{Distances, Node, NodeOrder, ZonePlace};
/// use pageblock_frame::{NodeId, ZoneKind};
/// let nodes = [0, 1].map(NodeId::new);
/// let zones = [(ZoneKind::Dma, nodes[0]), (ZoneKind::Normal, nodes[0]), (ZoneKind::Normal, nodes[1])];
/// let zones = zones.map(|(kind, node)| ZonePlace { kind, node });
/// let node = Node::new(nodes[1], &nodes, &zones, &mut NodeOrder::new(Distances::new()), |_| true);
/// assert_eq!(node.fallback.preferred(ZoneKind::Dma), Some(0)); // on the other node
/// assert_eq!(node.this_node.preferred(ZoneKind::Dma), None);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Its number.
    pub id: NodeId,
    /// All nodes' zones, nearest first (`ZONELIST_FALLBACK`).
    pub fallback: Zonelist,
    /// Its own zones only (`ZONELIST_NOFALLBACK`, for [`Gfp::THISNODE`](pageblock_frame::Gfp::THISNODE)).
    pub this_node: Zonelist,
}

impl Node {
    /// Node `id` of a machine with these nodes and populated zones. Make all nodes of a machine in ascending order with
    /// the same `order`.
    pub fn new(
        id: NodeId,
        nodes: &[NodeId],
        zones: &[ZonePlace],
        order: &mut NodeOrder,
        has_cpus: impl Fn(NodeId) -> bool,
    ) -> Self {
        let by_distance = order.of(id, nodes, has_cpus);
        Self { id, fallback: Zonelist::new(&by_distance, zones), this_node: Zonelist::new(&[id], zones) }
    }
}
