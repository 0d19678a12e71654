//! Presets of old kernels (feature `history`).

use crate::config::{CompactionConfig, Search};
use crate::era::{Era, Patches};

impl Patches {
    /// Before the series.
    pub const NONE: Self = Self::first(0);
    /// After the series.
    pub const ALL: Self = Self::first(6);

    /// With the first `patches` of the series.
    #[must_use]
    pub const fn first(patches: u8) -> Self {
        Self {
            trace_runs: patches >= 1,
            defer_helper: patches >= 2,
            reset_before_read: patches >= 3,
            detect_meeting: patches >= 4,
            async_no_skip: patches >= 5,
            reset_on_meeting: patches >= 6,
        }
    }
}

impl CompactionConfig {
    /// Linux 3.13-rc2 with these patches: the columns of *Memory compaction efficiency improvements* (2013).
    ///
    /// ```
    /// use pageblock_compaction::{CompactionConfig, Patches};
    /// let before = CompactionConfig::linux_3_13(Patches::first(2));
    /// let after = CompactionConfig::linux_3_13(Patches::ALL);
    /// assert!(!before.patches.reset_on_meeting && after.patches.reset_on_meeting);
    /// assert_eq!(CompactionConfig { patches: Patches::ALL, ..before }, after);
    /// ```
    #[must_use]
    pub const fn linux_3_13(patches: Patches) -> Self {
        let era = Era {
            split_positions: false,
            remember_until_isolated: true,
            tail_sets_skip: true,
            first_block_quirk: true,
            ignoring_sets_skip: true,
            aligned_free_start: false,
            large_free_targets: true,
            whole_targets: true,
            jump_free_blocks: false,
            meet_by_block: false,
            finish_block: false,
            skip_on_failure: false,
            strided: false,
            defer_each_zone: false,
            index_for_costly_only: false,
            finished_asks_watermark: true,
            restart_needs_flush: false,
            suitable_at_low: true,
        };
        let (search, capture, proactiveness) = (Search::Linear, false, 0);
        Self { search, patches, era, capture, proactiveness, ..Self::linux_6_1() }
    }
}
