//! The columns of the table: Linux 3.13 with the first so many patches, and our default.

use std::str::FromStr;

use anyhow::anyhow;
use pageblock::{Config, Experiment, FairPolicy, SlowPath};
use pageblock_compaction::{Config as Compaction, Patches};

use super::scale::{CPUS, Scale};
use crate::machine::costs::{DIRTY_EXPIRE, JOURNAL_HOLD};
use crate::machine::owner::LruScope;
use crate::machine::{Setup, zones_of};

/// One column.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Column {
    /// 3.13-rc2 with the first so many patches of the series.
    Patches(u8),
    /// The same without the fair-zone policy, as before 3.12: the series suspects that it makes the faults worse. Not
    /// in its tables.
    Unfair(u8),
    /// This project's default.
    Default,
}

impl Column {
    /// All, in the order of the table.
    pub(crate) const ALL: [Self; 6] =
        [Self::Patches(2), Self::Patches(3), Self::Patches(4), Self::Patches(5), Self::Patches(6), Self::Default];

    /// Those that are only run if they are asked for.
    pub(crate) const UNFAIR: [Self; 5] =
        [Self::Unfair(2), Self::Unfair(3), Self::Unfair(4), Self::Unfair(5), Self::Unfair(6)];

    /// As a heading.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Patches(patches) => patches.to_string(),
            Self::Unfair(patches) => format!("{patches}-unfair"),
            Self::Default => "default".to_owned(),
        }
    }

    /// The machine: DMA, DMA32 with 2.6 of 3.8 GiB, Normal with the rest.
    pub(super) fn setup(self, scale: Scale, seed: u64) -> Setup {
        let (config, lru) = match self {
            Self::Patches(patches) => (linux_3_13(patches), LruScope::Zone),
            Self::Unfair(patches) => {
                (linux_3_13(patches).experiment(Experiment::FairZones(FairPolicy::Off)), LruScope::Zone)
            }
            Self::Default => (Config::new(), LruScope::Node),
        };
        let config = config.zones(zones_of(scale.memory(), 684)).min_free_kbytes(Some(scale.raised_min_free()));
        let setup = Setup::new(scale.memory(), CPUS, config, lru).seed(seed);
        Setup { journal_hold: scale.of(JOURNAL_HOLD), dirty_expire: scale.of(DIRTY_EXPIRE), ..setup }
    }

    /// The rules by which the watermarks are set anew before phase 3.
    pub(super) const fn is_ours(self) -> bool {
        matches!(self, Self::Default)
    }
}

fn linux_3_13(patches: u8) -> Config {
    let compaction = Compaction::linux_3_13(Patches::first(patches));
    Config::linux_3_13()
        .experiment(Experiment::Compaction(compaction))
        .experiment(Experiment::SlowPath(SlowPath::Linux3_13))
}

impl FromStr for Column {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> anyhow::Result<Self> {
        let found = Self::ALL.into_iter().chain(Self::UNFAIR).find(|column| column.name() == name);
        found.ok_or_else(|| anyhow!("expected 2 to 6, 2-unfair to 6-unfair or default, found `{name}`"))
    }
}
