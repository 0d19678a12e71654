//! Rules of a machine: Linux 3.16, and variants of it.

use pageblock::{Config, Experiment, FairPolicy};
use pageblock_reclaim::{BalanceGap, ClassZone, ReclaimConfig, ShrinkConfig};
use serde::Serialize;

use crate::machine::owner::LruScope;

/// One set of rules.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Variant {
    /// Linux 3.16 without the fair-zone policy
    FairOff,
    /// With that of 3.12
    Fair312,
    /// With that of 3.13
    Fair313,
    /// Linux 3.16 itself, with the policy of 3.15: the base of the others
    Linux316,
    /// With that of 3.17
    Fair317,
    /// Linux 3.16 with a kswapd that ignores the class zone
    NoClassZone,
    /// Linux 3.16 without the balance gap
    NoGap,
    /// Linux 3.16 with neither
    Neither,
    /// The series that Fair zone policy (2014) measured: neither, and its form of the fair-zone policy
    Series,
    /// The same with the class zone restored
    SeriesClassZone,
    /// Our default: LRU lists of the node
    Default,
}

impl Variant {
    /// Those that are named, in the order of the table; all if none is.
    pub(crate) fn chosen(only: &[Self]) -> Vec<Self> {
        Self::ALL.into_iter().filter(|variant| only.is_empty() || only.contains(variant)).collect()
    }

    /// All of them.
    pub(crate) const ALL: [Self; 11] = [
        Self::FairOff,
        Self::Fair312,
        Self::Fair313,
        Self::Linux316,
        Self::Fair317,
        Self::NoClassZone,
        Self::NoGap,
        Self::Neither,
        Self::Series,
        Self::SeriesClassZone,
        Self::Default,
    ];

    /// Those that were published, and ours.
    pub(crate) const MEASURED: [Self; 5] =
        [Self::FairOff, Self::Linux316, Self::Series, Self::SeriesClassZone, Self::Default];

    /// The allocator's rules.
    pub(crate) fn config(self) -> Config {
        let linux = Config::linux_3_16();
        let reclaim = ReclaimConfig::linux_3_16();
        let no_class_zone = ReclaimConfig { class_zone: ClassZone::Ignored, ..reclaim };
        let no_gap = ReclaimConfig { balance_gap: BalanceGap::None, ..reclaim };
        match self {
            Self::FairOff => linux.experiment(Experiment::FairZones(FairPolicy::Off)),
            Self::Fair312 => linux.experiment(Experiment::FairZones(FairPolicy::Linux3_12)),
            Self::Fair313 => linux.experiment(Experiment::FairZones(FairPolicy::Linux3_13)),
            Self::Linux316 => linux,
            Self::Fair317 => linux.experiment(Experiment::FairZones(FairPolicy::Linux3_17)),
            Self::NoClassZone => linux.experiment(Experiment::Reclaim(no_class_zone)),
            Self::NoGap => linux.experiment(Experiment::Reclaim(no_gap)),
            Self::Neither => linux.experiment(Experiment::Reclaim(ReclaimConfig::draft_2014_v4r8())),
            Self::Series => linux
                .experiment(Experiment::Reclaim(ReclaimConfig::draft_2014_v4r8()))
                .experiment(Experiment::FairZones(FairPolicy::SeriesV4R8)),
            Self::SeriesClassZone => {
                linux.experiment(Experiment::Reclaim(no_gap)).experiment(Experiment::FairZones(FairPolicy::SeriesV4R8))
            }
            Self::Default => Config::default(),
        }
    }

    /// How its lists are scanned.
    pub(crate) fn shrink(self) -> ShrinkConfig {
        if matches!(self, Self::Default) { ShrinkConfig::default() } else { ShrinkConfig::linux_3_16() }
    }

    /// Owner of its LRU lists.
    pub(crate) const fn lru(self) -> LruScope {
        if matches!(self, Self::Default) { LruScope::Node } else { LruScope::Zone }
    }
}
