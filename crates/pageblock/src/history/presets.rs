//! Configurations by Linux release: those on which the published figures were measured.

use pageblock_buddy::{BoostRule, FairPolicy, Policy, WatermarkRule};
use pageblock_compaction::{CompactionConfig, Era, Patches, Search};
use pageblock_pcp::PcpConfig;
use pageblock_reclaim::ReclaimConfig;

use super::SlowPath;
use crate::config::{Config, ZoneSpreading};
use crate::dirty::DirtyLimit;

/// The stall order that the patch of 2018 sets: one above the costly order.
const STALL_ORDER: u8 = pageblock_frame::COSTLY_ORDER.as_u8() + 1;

/// Compaction between the series of 2013 and that of 2018 and 2019.
const COMPACTION_4_20: CompactionConfig = CompactionConfig {
    search: Search::Linear,
    era: Era {
        remember_until_isolated: true,
        tail_sets_skip: true,
        finish_block: false,
        strided: false,
        restart_needs_flush: false,
        ..Era::today()
    },
    capture: false,
    proactiveness: 0,
    ..CompactionConfig::linux_6_1()
};

/// The series of 2013, positions of their own for asynchronous runs, aligned starts, targets no larger than needed.
const COMPACTION_3_16: CompactionConfig = {
    let before = CompactionConfig::linux_3_13(Patches::ALL);
    let era = Era {
        split_positions: true,
        ignoring_sets_skip: false,
        aligned_free_start: true,
        large_free_targets: false,
        whole_targets: false,
        ..before.era
    };
    CompactionConfig { era, ..before }
};

impl Config {
    /// As Linux 6.18: as 6.1, with per-CPU lists that follow events in lengths and refills (6.7), and with fallbacks
    /// that claim a pageblock or take the smallest block (6.15).
    #[must_use]
    pub const fn linux_6_18() -> Self {
        Self { pcp: Some(PcpConfig::linux_6_7()), policy: Policy::linux_6_18(), ..Self::linux_6_1() }
    }

    /// As Linux 4.20-rc1 with the first 0 to 4 patches of the series of 2018 against fragmentation (*Fragmentation
    /// avoidance and stalls*), as posted: zone spreading; accessors for watermarks, which change nothing; watermark
    /// boost; stalls.
    ///
    /// ```
    /// use pageblock::{Config, ConfigError};
    /// assert_ne!(Config::linux_4_20(4), Config::linux_4_20(3));
    /// assert_eq!(Config::linux_4_20(5).check(), Err(ConfigError::Patches { given: 5 }));
    /// ```
    #[must_use]
    pub const fn linux_4_20(patches: u8) -> Self {
        let mut config = Self { pcp: Some(PcpConfig::order_zero()), ..Self::linux_6_1() };
        config.history.patches = patches;
        config.reclaim = ReclaimConfig::linux_4_20();
        config.spreading = if patches >= 1 { ZoneSpreading::On } else { ZoneSpreading::Off };
        config.boost = if patches >= 3 { BoostRule::posted() } else { BoostRule::off() };
        config.history.stall_order = if patches >= 4 { STALL_ORDER } else { 0 };
        config.compaction = Some(COMPACTION_4_20);
        config
    }

    /// As Linux 3.16, the baseline of *Fair zone policy*: as 3.13, with turns of zones that begin anew before kswapd is
    /// woken, and compaction with the series of 2013 and its successors.
    ///
    /// ```
    /// use pageblock::{Config, Experiment, FairPolicy};
    /// let older = Config::linux_3_16().experiment(Experiment::FairZones(FairPolicy::Linux3_13));
    /// assert_ne!(older, Config::linux_3_16());
    /// ```
    #[must_use]
    pub const fn linux_3_16() -> Self {
        let mut config = Self { compaction: Some(COMPACTION_3_16), ..Self::linux_3_13() };
        config.history.fair = FairPolicy::Linux3_15;
        config
    }

    /// As Linux 3.13: zones take turns, no high-order atomic reserve, no zone spreading, no boost, fixed distances
    /// between watermarks.
    #[must_use]
    pub const fn linux_3_13() -> Self {
        let mut config = Self { policy: Policy::linux_3_13(), spreading: ZoneSpreading::Off, ..Self::new() };
        config.pcp = Some(PcpConfig::order_zero());
        config.compaction = Some(CompactionConfig::linux_3_13(Patches::NONE));
        config.reclaim = ReclaimConfig::linux_3_13();
        config.history.slow_path = SlowPath::Linux3_13;
        config.history.fair = FairPolicy::Linux3_13;
        config.dirty_limit = DirtyLimit::Zones { percent: 20 };
        config.boost = BoostRule::off();
        config.reserves.rule = WatermarkRule::Fixed;
        // A ratio below 1 counted as 1 then, and Movable's was 32; it has no zone above it to be kept from.
        config.reserves.lowmem_reserve_ratio = [256, 256, 32, 32];
        config
    }
}
