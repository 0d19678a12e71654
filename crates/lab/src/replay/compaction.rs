//! Compaction of our machine: the compactors of its zones and the threads of its nodes, as the allocator has them.

use pageblock_buddy::Zone;
use pageblock_compaction::{
    CompactZone, Compactor, Config, DirectRequest, Got, Kcompactd, Kswapd, Next, Priority, VmStat, compact_zones,
    settle,
};
use pageblock_frame::{Gfp, NodeId, Order, ZoneKind};

use super::machine::{Cpu, Machine};
use super::places::Owner;

/// What compaction keeps of the machine.
#[derive(Debug)]
pub(crate) struct Compaction {
    /// One a zone, in the order of the zones.
    compactors: Vec<Compactor>,
    threads: Vec<Kcompactd>,
}

impl Compaction {
    /// Of a machine with these zones, under the default's rules but for two. What a run has made stays in the zone: the request that
    /// follows takes it. And kernel pageblocks are left to the kernel's requests, which the trace has as many of as Linux had: movable
    /// pages in them gain one pageblock in seventy, and triple the fallbacks (`thp-pressure`: 960 wholly free and 18 fallbacks rather
    /// than 947 and 6).
    pub(crate) fn new(zones: &[Zone<'_>]) -> Self {
        let config = Config { capture: false, foreign_targets: false, ..Config::new() };
        let nodes = zones.iter().map(|zone| zone.node().index() + 1).max().unwrap_or(1);
        let threads = (0..nodes).map(|node| Kcompactd::new(NodeId::new(node as u8))).collect();
        Self { compactors: zones.iter().map(|_| Compactor::new(config)).collect(), threads }
    }

    /// What has been counted in all zones.
    pub(crate) fn vmstat(&self) -> VmStat {
        let mut sum = VmStat::default();
        self.compactors.iter().for_each(|compactor| sum.add(&compactor.vmstat()));
        sum
    }

    /// A task compacts for a request, if it may and if there is no block for it.
    pub(crate) fn direct(
        &self,
        machine: &Machine<'_>,
        (order, gfp, node): (Order, Gfp, NodeId),
        priority: Priority,
        owner: &Owner<'_>,
    ) {
        if order == Order::ZERO || !gfp.contains(Gfp::DIRECT_RECLAIM) {
            return;
        }
        let request = DirectRequest::new(order, gfp, priority);
        let zones = || machine.list(node).iter().filter_map(|&index| self.at(machine, index));
        let outcome = compact_zones::<Cpu, _>(zones(), &request, owner);
        let fits = |at: &CompactZone<'_, '_>| {
            let mark = at.zone.mark_for(request.flags);
            at.zone.watermark_ok(order, mark, request.limit, request.flags)
        };
        let found = zones().filter(|at| at.zone.kind() <= request.limit).find(fits);
        let got = if found.is_some() { Got::Block } else { Got::Nothing };
        if let Some(at) = found.or_else(|| zones().next()) {
            settle::<Cpu>(at, &request, &outcome, got);
        }
    }

    /// A node's thread compacts for a block, until it sleeps.
    pub(crate) fn thread(
        &self,
        machine: &Machine<'_>,
        node: NodeId,
        (order, limit): (Order, ZoneKind),
        owner: &Owner<'_>,
    ) {
        if let Some(thread) = self.threads.get(node.index()) {
            thread.wake::<Cpu>(order, limit);
            self.run(thread, &self.zones_of(machine, node), owner);
        }
    }

    /// Every node's thread looks at its zones unasked, and compacts what is scattered.
    pub(crate) fn look(&self, machine: &Machine<'_>, owner: &Owner<'_>) {
        for (thread, node) in self.threads.iter().zip(0..) {
            thread.look_now();
            self.run(thread, &self.zones_of(machine, NodeId::new(node)), owner);
        }
    }

    fn run(&self, thread: &Kcompactd, zones: &[CompactZone<'_, '_>], owner: &Owner<'_>) {
        while thread.step::<Cpu, _>(zones, owner, Kswapd::Asleep, 0) == Next::Again {}
    }

    fn zones_of<'a, 'm>(&'a self, machine: &'a Machine<'m>, node: NodeId) -> Vec<CompactZone<'a, 'm>> {
        let all = (0..self.compactors.len()).filter_map(|index| self.at(machine, index));
        all.filter(|at| at.zone.node() == node).collect()
    }

    fn at<'a, 'm>(&'a self, machine: &'a Machine<'m>, index: usize) -> Option<CompactZone<'a, 'm>> {
        Some(CompactZone { zone: machine.zones().get(index)?, compactor: self.compactors.get(index)? })
    }
}
