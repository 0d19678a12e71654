//! Zonelists: in which order the zones of a machine are tried for a request from a node.

use arrayvec::ArrayVec;
use pageblock_frame::{MAX_NODES, MAX_ZONES};
use pageblock_frame::{NodeId, ZoneKind};

/// Distance from a node to itself (ACPI SLIT).
pub const LOCAL_DISTANCE: u8 = 10;
/// Distance between two nodes where nothing is known (`REMOTE_DISTANCE`).
pub const REMOTE_DISTANCE: u8 = 20;

/// How far the nodes of a machine are from each other.
///
/// ```
/// use pageblock_buddy::Distances;
/// use pageblock_frame::NodeId;
/// let near = Distances::new();
/// assert_eq!(near.between(NodeId::new(0), NodeId::new(0)), 10);
/// assert_eq!(near.between(NodeId::new(0), NodeId::new(1)), 20);
/// let slit = Distances::from_table(&[10, 40, 31, 10]).unwrap(); // two nodes, row by row
/// assert_eq!(slit.between(NodeId::new(1), NodeId::new(0)), 31);
/// assert!(Distances::from_table(&[10, 20, 20]).is_none()); // not square
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Distances {
    table: [[u8; MAX_NODES]; MAX_NODES],
}

impl Distances {
    /// 10 from a node to itself, 20 to every other.
    #[must_use]
    pub const fn new() -> Self {
        let mut table = [[REMOTE_DISTANCE; MAX_NODES]; MAX_NODES];
        let mut node = 0;
        while node < MAX_NODES {
            table[node][node] = LOCAL_DISTANCE;
            node += 1;
        }
        Self { table }
    }

    /// The distances of a square table, row by row (ACPI SLIT): `table[from * nodes + to]`. `None` if it is not square,
    /// has more nodes than [`MAX_NODES`], or says that some node is nearer to another than to itself.
    #[must_use]
    pub const fn from_table(table: &[u8]) -> Option<Self> {
        let nodes = (table.len() as u64).isqrt() as usize;
        if nodes * nodes != table.len() || nodes > MAX_NODES {
            return None;
        }
        let mut distances = Self::new();
        let mut at = 0;
        while at < table.len() {
            let (from, to) = (at / nodes, at % nodes);
            if table[at] < table[from * nodes + from] {
                return None;
            }
            distances.table[from][to] = table[at];
            at += 1;
        }
        Some(distances)
    }

    /// The distance from one node to another.
    #[must_use]
    pub fn between(&self, from: NodeId, to: NodeId) -> u8 {
        let row = self.table.get(from.index()).and_then(|row| row.get(to.index()));
        row.copied().unwrap_or(REMOTE_DISTANCE)
    }
}

impl Default for Distances {
    fn default() -> Self {
        Self::new()
    }
}

/// The order in which nodes fall back on one another, found for one node after the other, in ascending order
/// (`build_zonelists()`).
///
/// Nearer nodes come first; among equals one with a higher number than the asking node, then those that have been
/// chosen less often for others, so that several nodes do not all fall back on the same one.
///
/// ```
/// use pageblock_buddy::{Distances, NodeOrder};
/// use pageblock_frame::NodeId;
/// let nodes = [0, 1, 2].map(NodeId::new);
/// let mut order = NodeOrder::new(Distances::new());
/// assert_eq!(order.of(nodes[0], &nodes, |_| true)[..], [0, 1, 2].map(NodeId::new));
/// assert_eq!(order.of(nodes[1], &nodes, |_| true)[..], [1, 2, 0].map(NodeId::new));
/// ```
#[derive(Clone, Debug)]
pub struct NodeOrder {
    distances: Distances,
    /// How often each node was the first of its distance.
    load: [u32; MAX_NODES],
}

impl NodeOrder {
    /// Nothing chosen yet.
    #[must_use]
    pub const fn new(distances: Distances) -> Self {
        Self { distances, load: [0; MAX_NODES] }
    }

    /// The nodes of `nodes` in the order in which `local` turns to them, itself first. `has_cpus` tells which nodes
    /// have CPUs: memory without CPUs is preferred.
    pub fn of(
        &mut self,
        local: NodeId,
        nodes: &[NodeId],
        has_cpus: impl Fn(NodeId) -> bool,
    ) -> ArrayVec<NodeId, MAX_NODES> {
        let mut order = ArrayVec::new();
        let mut previous = local;
        let mut rest: ArrayVec<NodeId, MAX_NODES> = nodes.iter().copied().take(MAX_NODES).collect();
        if let Some(place) = rest.iter().position(|&node| node == local) {
            rest.remove(place);
            order.push(local);
        }
        while let Some(best) = rest.iter().copied().min_by_key(|&node| (self.score(local, node, &has_cpus), node)) {
            rest.retain(|node| *node != best);
            if self.distances.between(local, best) != self.distances.between(local, previous)
                && let Some(load) = self.load.get_mut(best.index())
            {
                *load += 1;
            }
            previous = best;
            // There are no more nodes than there is room.
            let _ = order.try_push(best);
        }
        order
    }

    /// The smaller the sooner (`find_next_best_node()`).
    fn score(&self, local: NodeId, node: NodeId, has_cpus: impl Fn(NodeId) -> bool) -> u32 {
        let mut score = u32::from(self.distances.between(local, node));
        score += u32::from(node < local);
        score += u32::from(has_cpus(node));
        let load = self.load.get(node.index()).copied().unwrap_or_default();
        score * MAX_NODES as u32 + load
    }
}

/// One entry of a [`Zonelist`].
///
/// ```
/// use pageblock_buddy::ZoneRef;
/// use pageblock_frame::ZoneKind;
/// assert_eq!(ZoneRef { zone: 2, kind: ZoneKind::Normal }.kind.name(), "Normal");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneRef {
    /// Index of the zone in the machine's list of zones.
    pub zone: u8,
    /// Its kind.
    pub kind: ZoneKind,
}

/// A populated zone of a machine: its kind, and the node that it is on.
///
/// ```
/// use pageblock_buddy::ZonePlace;
/// use pageblock_frame::{NodeId, ZoneKind};
/// assert_eq!(ZonePlace { kind: ZoneKind::Dma, node: NodeId::new(1) }.node.index(), 1);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZonePlace {
    /// Its kind.
    pub kind: ZoneKind,
    /// Its node.
    pub node: NodeId,
}

/// Zones in the order in which they are tried: node after node, on each from the highest kind to the lowest.
///
/// ```
/// use pageblock_buddy::{ZonePlace, Zonelist};
/// use pageblock_frame::{NodeId, ZoneKind};
/// let zones = [(ZoneKind::Dma, 0), (ZoneKind::Normal, 0), (ZoneKind::Normal, 1)];
/// let zones = zones.map(|(kind, node)| ZonePlace { kind, node: NodeId::new(node) });
/// let list = Zonelist::new(&[NodeId::new(1), NodeId::new(0)], &zones);
/// let tried = |limit| list.up_to(limit).map(|entry| entry.zone).collect::<Vec<_>>();
/// assert_eq!(tried(ZoneKind::Movable), [2, 1, 0]);
/// assert_eq!(tried(ZoneKind::Dma), [0]);
/// assert_eq!(list.preferred(ZoneKind::Normal), Some(2));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Zonelist {
    entries: ArrayVec<ZoneRef, MAX_ZONES>,
}

const _: () = assert!(MAX_ZONES <= u8::MAX as usize);

impl Zonelist {
    /// The list for nodes in this order; `zones` are the populated zones of the machine.
    #[must_use]
    pub fn new(nodes: &[NodeId], zones: &[ZonePlace]) -> Self {
        let mut entries = ArrayVec::new();
        for node in nodes {
            for kind in ZoneKind::ALL.into_iter().rev() {
                let place = zones.iter().position(|zone| *zone == ZonePlace { kind, node: *node });
                if let Some(zone) = place.and_then(|place| u8::try_from(place).ok()) {
                    // No more zones than there is room: each node and kind occurs once.
                    let _ = entries.try_push(ZoneRef { zone, kind });
                }
            }
        }
        Self { entries }
    }

    /// The zones that a request limited to `limit` may use, in order.
    #[inline]
    pub fn up_to(&self, limit: ZoneKind) -> impl Iterator<Item = ZoneRef> + '_ {
        self.entries.iter().copied().filter(move |entry| entry.kind <= limit)
    }

    /// The first of them: the preferred zone.
    #[must_use]
    pub fn preferred(&self, limit: ZoneKind) -> Option<u8> {
        self.up_to(limit).next().map(|entry| entry.zone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn orders(table: &[u8]) -> Vec<Vec<usize>> {
        let nodes: Vec<NodeId> = (0..(table.len() as f64).sqrt() as u8).map(NodeId::new).collect();
        let mut order = NodeOrder::new(Distances::from_table(table).unwrap());
        nodes.iter().map(|&local| order.of(local, &nodes, |_| true).iter().map(|n| n.index()).collect()).collect()
    }

    #[test]
    fn nearest_first() {
        // A ring of four: neighbours at 16, the opposite node at 22.
        let ring = [10, 16, 22, 16, 16, 10, 16, 22, 22, 16, 10, 16, 16, 22, 16, 10];
        for (local, order) in orders(&ring).iter().enumerate() {
            assert_eq!(order[0], local);
            assert_eq!(order[3], (local + 2) % 4);
        }
    }

    #[test]
    fn equals_are_spread() {
        let flat = [10, 20, 20, 20, 20, 10, 20, 20, 20, 20, 10, 20, 20, 20, 20, 10];
        let seconds: Vec<usize> = orders(&flat).iter().map(|order| order[1]).collect();
        assert_eq!(seconds, [1, 2, 3, 0], "each node is somebody's first choice");
    }

    #[test]
    fn memory_without_cpus_is_preferred() {
        let nodes = [0, 1, 2].map(NodeId::new);
        let mut order = NodeOrder::new(Distances::new());
        let found = order.of(nodes[0], &nodes, |node| node != nodes[2]);
        assert_eq!(found[1], nodes[2]);
    }

    #[test]
    fn impossible_tables_are_refused() {
        assert!(Distances::from_table(&[10, 9, 10, 10]).is_none());
        assert!(Distances::from_table(&[10; 17 * 17]).is_none());
        assert!(Distances::from_table(&[]).is_some());
    }
}
