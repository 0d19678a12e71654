//! The columns of the table: Linux 3.13 with the first so many patches, and our default.

use std::str::FromStr;

use anyhow::anyhow;
use pageblock::{Config, Experiment, FairPolicy, SlowPath};
use pageblock_compaction::{CompactionConfig as Compaction, Patches};

use super::scale::{CPUS, Scale};
use crate::machine::costs::{DIRTY_EXPIRE, JOURNAL_HOLD};
use crate::machine::owner::LruScope;
use crate::machine::{Setup, zones_of};
use crate::workload::options::{Hardware, StepSet};

/// One column.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Column {
    /// 3.13-rc2 with the first so many patches of the series.
    Patches(u8),
    /// The same without the fair-zone policy, as before 3.12: the series suspects that it makes the faults worse. Not
    /// in its tables.
    Unfair(u8),
    /// 3.13-rc2 with just these patches.
    Steps(StepSet),
    /// What this project does by default.
    Default,
}

impl Column {
    /// All, in the order of the table.
    pub(crate) const ALL: [Self; 6] =
        [Self::Patches(2), Self::Patches(3), Self::Patches(4), Self::Patches(5), Self::Patches(6), Self::Default];

    /// Those that are only run if they are asked for.
    pub(crate) const FEWER: [Self; 2] = [Self::Patches(0), Self::Patches(1)];
    /// See there.
    pub(crate) const UNFAIR: [Self; 5] =
        [Self::Unfair(2), Self::Unfair(3), Self::Unfair(4), Self::Unfair(5), Self::Unfair(6)];

    /// As a heading.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Patches(patches) => patches.to_string(),
            Self::Unfair(patches) => format!("{patches}-unfair"),
            Self::Steps(steps) => steps.name(),
            Self::Default => "default".to_owned(),
        }
    }

    /// The machine: DMA, DMA32 with 2.6 of 3.8 GiB, Normal with the rest.
    pub(super) fn setup(self, scale: Scale, seed: u64, hardware: Hardware) -> Setup {
        let (config, lru) = match self {
            Self::Patches(patches) => (linux_3_13(Patches::first(patches)), LruScope::Zone),
            Self::Unfair(patches) => {
                let config = linux_3_13(Patches::first(patches));
                (config.experiment(Experiment::FairZones(FairPolicy::Off)), LruScope::Zone)
            }
            Self::Steps(steps) => (linux_3_13(only(steps)), LruScope::Zone),
            Self::Default => (Config::new(), LruScope::Node),
        };
        let zones = zones_of(scale.memory(), hardware.dma32_or(684));
        let config = config.zones(zones).min_free_kbytes(Some(scale.raised_min_free()));
        let setup = Setup::new(scale.memory(), hardware.cpus_or(CPUS), config, lru).seed(seed);
        Setup { journal_hold: scale.of(JOURNAL_HOLD), dirty_expire: scale.of(DIRTY_EXPIRE), ..setup }
    }

    /// The rules by which the watermarks are set anew before phase 3.
    pub(super) const fn is_ours(self) -> bool {
        matches!(self, Self::Default)
    }
}

/// Just these patches.
fn only(steps: StepSet) -> Patches {
    Patches {
        trace_runs: steps.has(1),
        defer_helper: steps.has(2),
        reset_before_read: steps.has(3),
        detect_meeting: steps.has(4),
        async_no_skip: steps.has(5),
        reset_on_meeting: steps.has(6),
    }
}

fn linux_3_13(patches: Patches) -> Config {
    let compaction = Compaction::linux_3_13(patches);
    Config::linux_3_13()
        .experiment(Experiment::Compaction(compaction))
        .experiment(Experiment::SlowPath(SlowPath::Linux3_13))
}

impl FromStr for Column {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> anyhow::Result<Self> {
        let found = Self::ALL.into_iter().chain(Self::FEWER).chain(Self::UNFAIR).find(|column| column.name() == name);
        found.ok_or_else(|| anyhow!("expected 0 to 6, 2-unfair to 6-unfair or default, found `{name}`"))
    }
}
