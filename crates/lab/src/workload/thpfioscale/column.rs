//! The columns of the table and the machines of its blocks.

use pageblock::{Config, NodeId, Region, RegionKind};
use serde::Serialize;

use crate::machine::owner::LruScope;
use crate::machine::{Drive, Setup, zones_of};

/// Memory of the published machines, per node.
const WHOLE: u64 = 32 << 30;
/// Part of it below 4 GiB, in thousandths, less a hole of 1 GiB for devices.
const DMA32: u64 = 94;
/// `min_free_kbytes` as khugepaged raises it on the published machine: two pageblocks and nine for migrate types, for
/// each of three zones.
const RAISED: u64 = (2 + 9) * 3 * 2048;

/// Rules of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(crate) enum Column {
    /// 4.20-rc1.
    #[serde(rename = "vanilla")]
    Vanilla,
    /// Zone spreading.
    #[serde(rename = "patch 1")]
    Spreading,
    /// And boost.
    #[serde(rename = "patches 1-3")]
    Boost,
    /// And stalls.
    #[serde(rename = "patches 1-4")]
    Stall,
    /// This project's default.
    #[serde(rename = "default")]
    Default,
}

impl Column {
    /// All, in the order of the table.
    pub(crate) const ALL: [Self; 5] = [Self::Vanilla, Self::Spreading, Self::Boost, Self::Stall, Self::Default];

    /// As a heading.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Vanilla => "vanilla",
            Self::Spreading => "patch 1",
            Self::Boost => "patches 1-3",
            Self::Stall => "patches 1-4",
            Self::Default => "default",
        }
    }

    const fn config(self) -> Config {
        match self {
            Self::Vanilla => Config::linux_4_20(0),
            Self::Spreading => Config::linux_4_20(1),
            Self::Boost => Config::linux_4_20(3),
            Self::Stall => Config::linux_4_20(4),
            Self::Default => Config::new(),
        }
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
    pub(crate) const fn key(self) -> &'static str {
        match (self.nodes, self.advised) {
            (1, false) => "skylake1s_default",
            (1, true) => "skylake1s_madvhugepage",
            (_, false) => "haswell2s_default",
            (_, true) => "haswell2s_madvhugepage",
        }
    }

    /// For people.
    pub(crate) const fn title(self) -> &'static str {
        match (self.nodes, self.advised) {
            (1, false) => "One node, 4 readers and 1 thread",
            (1, true) => "One node, 4 readers and 1 thread, huge pages advised",
            (_, false) => "Two nodes, 4 readers and 5 threads",
            (_, true) => "Two nodes, 4 readers and 5 threads, huge pages advised",
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
    pub(crate) fn setup(self, column: Column, memory: u64, seed: u64) -> Setup {
        let nodes = u64::from(self.nodes);
        let kbytes = (RAISED as u128 * memory as u128 / WHOLE as u128) as u64;
        let usual = pageblock_buddy::min_free_kbytes(memory * nodes / 1024);
        let config = column.config().zones(zones_of(memory, DMA32)).min_free_kbytes(Some(usual.max(kbytes)));
        let mut setup = Setup::new(memory * nodes, self.cpus() * u32::from(self.nodes), config, LruScope::Node);
        let region = |node: u64| {
            let whole = Region::new(node * memory, (node + 1) * memory, RegionKind::Usable);
            whole.with_node(NodeId::new(node as u8))
        };
        setup.memory.regions = (0..nodes).map(region).collect();
        setup.memory.cpu_nodes = (0..nodes).flat_map(|n| vec![NodeId::new(n as u8); self.cpus() as usize]).collect();
        setup.marks_second_use = true;
        setup.is_xfs = true;
        // The series does not name the disk. With a spinning one the readers get through a hundredth of this in the
        // time that writing took, memory stays in the order in which it was written, and an eighth of the huge pages
        // comes without advice: in the series it was 1 percent.
        setup.drive = Drive::Flash;
        setup.seed(seed)
    }
}
