//! The columns of the table and the machines of its blocks.

use std::str::FromStr;

use anyhow::anyhow;
use clap::Args;
use pageblock::{Config, Experiment, NodeId, Region, RegionKind, ZoneSpreading};
use pageblock_buddy::BoostRule;
use serde::Serialize;

use super::ThpfioscaleArgs;
use crate::machine::costs::{LOG_PERIOD, MILLISECOND};
use crate::machine::owner::LruScope;
use crate::machine::{Drive, Setup, Shrinking, zones_of};
use crate::workload::options::StepSet;

/// Below which order requests stall, as posted.
const STALL_ORDER: u8 = 4;

/// Memory of the published machines, per node.
const WHOLE: u64 = 32 << 30;
/// Part of it below 4 GiB, in thousandths, less a hole of 1 GiB for devices.
const DMA32: u64 = 94;
/// The same on the machine of the measured Linux 6.1: 160 MiB of `max-ram-below-4g`, of which DMA has a part, less what
/// the firmware and the kernel hold there.
const DMA32_THERE: u64 = 45;
/// `min_free_kbytes` as khugepaged raises it on the published machine: two pageblocks and nine for migrate types, for
/// each of three zones.
const RAISED: u64 = (2 + 9) * 3 * 2048;

/// What the machine follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Column {
    /// 4.20-rc1.
    Vanilla,
    /// Zone spreading.
    Spreading,
    /// And boost.
    Boost,
    /// And stalls.
    Stall,
    /// Just these patches.
    Steps(StepSet),
    /// Linux 6.1 without boost, on a machine with one CPU like the one that it was measured on.
    Linux61Unboosted,
    /// The same as it is.
    Linux61,
    /// Our default on that machine.
    DefaultThere,
    /// This project's default.
    Default,
}

/// What the series lets an administrator set.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Tunables {
    /// Below which order requests stall under patch 4, 0 for none [default: 4, as posted]
    #[arg(long, value_name = "ORDER", value_parser = clap::value_parser!(u8).range(0..=11))]
    pub(crate) stall_order: Option<u8>,
    /// Longest stall under patch 4 in milliseconds [default: 20, as posted; it was 100 before]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) stall_limit: Option<u64>,
}

impl Column {
    /// Those of the measured Linux 6.1.
    const MEASURED: [Self; 3] = [Self::Linux61Unboosted, Self::Linux61, Self::DefaultThere];

    /// All of the series, in the order of the table.
    pub(crate) const ALL: [Self; 5] = [Self::Vanilla, Self::Spreading, Self::Boost, Self::Stall, Self::Default];

    /// As a heading.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Vanilla => "vanilla".to_owned(),
            Self::Spreading => "patch 1".to_owned(),
            Self::Boost => "patches 1-3".to_owned(),
            Self::Stall => "patches 1-4".to_owned(),
            Self::Steps(steps) => steps.name(),
            Self::Default => "default".to_owned(),
            Self::Linux61Unboosted => "6.1 boost 0".to_owned(),
            Self::Linux61 => "6.1".to_owned(),
            Self::DefaultThere => "default there".to_owned(),
        }
    }

    /// True if requests stall.
    pub(crate) fn stalls(self) -> bool {
        matches!(self, Self::Stall) || matches!(self, Self::Steps(steps) if steps.has(4))
    }

    fn config(self, tunables: Tunables) -> Config {
        let config = match self {
            Self::Vanilla => Config::linux_4_20(0),
            Self::Spreading => Config::linux_4_20(1),
            Self::Boost => Config::linux_4_20(3),
            Self::Stall => Config::linux_4_20(4),
            Self::Steps(steps) => only(steps),
            Self::Linux61Unboosted => Config::linux_6_1().experiment(Experiment::Boost(BoostRule::off())),
            Self::Linux61 => Config::linux_6_1(),
            Self::Default | Self::DefaultThere => return Config::new(),
        };
        if !self.stalls() {
            return config;
        }
        let config = tunables.stall_order.map_or(config, |order| config.experiment(Experiment::StallOrder(order)));
        tunables.stall_limit.map_or(config, |limit| config.experiment(Experiment::StallLimit(limit * MILLISECOND)))
    }
}

/// Linux 4.20 with just these patches.
fn only(steps: StepSet) -> Config {
    let config = Config::linux_4_20(0);
    let config = if steps.has(1) { config.spreading(ZoneSpreading::On) } else { config };
    let config = if steps.has(3) { config.experiment(Experiment::Boost(BoostRule::posted())) } else { config };
    if steps.has(4) { config.experiment(Experiment::StallOrder(STALL_ORDER)) } else { config }
}

impl FromStr for Column {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> anyhow::Result<Self> {
        let mut all = Self::ALL.into_iter().chain(Self::MEASURED);
        let found = all.find(|column| column.name().replace(' ', "-") == name);
        found.ok_or_else(|| {
            anyhow!("expected vanilla, patch-1, patches-1-3, patches-1-4, default, 6.1-boost-0, 6.1 or default-there, found `{name}`")
        })
    }
}

impl Serialize for Column {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name())
    }
}

/// A block of the table: a machine, and whether huge pages are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Block {
    /// 1 or 2.
    pub(crate) nodes: u8,
    /// `MADV_HUGEPAGE`: faults may reclaim and compact.
    pub(crate) advised: bool,
}

impl Block {
    /// In the order of the series.
    pub(crate) const ALL: [Self; 4] = [
        Self { nodes: 1, advised: false },
        Self { nodes: 1, advised: true },
        Self { nodes: 2, advised: false },
        Self { nodes: 2, advised: true },
    ];

    /// As in the published tables.
    pub(crate) const fn name(self) -> &'static str {
        match (self.nodes, self.advised) {
            (1, false) => "one node",
            (1, true) => "one node, advised",
            (_, false) => "two nodes",
            (_, true) => "two nodes, advised",
        }
    }

    /// Threads that touch huge pages: (CPUs of a node - 4) / 4.
    pub(crate) const fn threads(self) -> u32 {
        if self.nodes == 1 { 1 } else { 5 }
    }

    /// CPUs of each node.
    const fn cpus(self) -> u32 {
        4 + 4 * self.threads()
    }

    /// The machine, with so much memory on each node.
    pub(crate) fn setup(self, column: Column, args: &ThpfioscaleArgs, seed: u64) -> Setup {
        let measured = Column::MEASURED.contains(&column);
        let (memory, cpus) = (args.memory.bytes, args.hardware.cpus_or(if measured { 1 } else { self.cpus() }));
        let nodes = u64::from(self.nodes);
        let kbytes = (RAISED as u128 * memory as u128 / WHOLE as u128) as u64;
        let usual = pageblock_buddy::min_free_kbytes(memory * nodes / 1024);
        let zones = zones_of(memory, args.hardware.dma32_or(if measured { DMA32_THERE } else { DMA32 }));
        let config = column.config(args.tunables).zones(zones).min_free_kbytes(Some(usual.max(kbytes)));
        let mut setup = Setup::new(memory * nodes, cpus * u32::from(self.nodes), config, LruScope::Node);
        let region = |node: u64| {
            let whole = Region::new(node * memory, (node + 1) * memory, RegionKind::Usable);
            whole.with_node(NodeId::new(node as u8))
        };
        setup.memory.regions = (0..nodes).map(region).collect();
        setup.memory.cpu_nodes = (0..nodes).flat_map(|n| vec![NodeId::new(n as u8); cpus as usize]).collect();
        setup.marks_second_use = true;
        setup.is_xfs = true;
        // The work lasts as long as memory is large; so do the periods of timers.
        setup.log_period = (u128::from(LOG_PERIOD) * u128::from(memory) / u128::from(WHOLE)) as u64;
        if !measured && column != Column::Default {
            setup.shrinking = Shrinking::ByPriority;
        }
        // The series does not name the disk. With a spinning one the readers get through a hundredth of this in the
        // time that writing took, memory stays in the order in which it was written, and an eighth of the huge pages
        // comes without advice: in the series it was 1 percent.
        setup.drive = Drive::Flash;
        setup.seed(seed)
    }
}
