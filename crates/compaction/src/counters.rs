//! Counters with the names of `/proc/vmstat`.

use pageblock_frame::sync::{AtomicU64, Ordering};
use pageblock_frame::trace::RunCounts;
use pageblock_frame::vmstat;

use crate::request::Origin;

vmstat! {
    /// One zone's counters. Relaxed: each is exact, together they are not one moment.
    pub(crate) struct Counters;
    /// The counters at one moment. Displays as lines of `/proc/vmstat`.
    ///
    /// ```
    /// use pageblock_compaction::CompactionVmStat;
    /// let (mut sum, mut zone) = (CompactionVmStat::default(), CompactionVmStat::default());
    /// zone.stall = 2;
    /// sum.add(&zone);
    /// assert!(sum.to_string().contains("compact_stall 2\n"));
    /// ```
    pub struct CompactionVmStat {
        /// Frames moved.
        migrate_success = "pgmigrate_success",
        /// Frames that were isolated and not moved.
        migrate_fail = "pgmigrate_fail",
        /// Frames that migrate scanners looked at.
        migrate_scanned = "compact_migrate_scanned",
        /// Frames that free scanners looked at.
        free_scanned = "compact_free_scanned",
        /// Frames that both took out.
        isolated = "compact_isolated",
        /// Allocations that turned to compaction.
        stall = "compact_stall",
        /// Those that got nothing.
        fail = "compact_fail",
        /// Those that got a block.
        success = "compact_success",
        /// Times that the compaction thread was woken.
        daemon_wake = "compact_daemon_wake",
        /// Frames that its migrate scanner looked at.
        daemon_migrate_scanned = "compact_daemon_migrate_scanned",
        /// Frames that its free scanner looked at.
        daemon_free_scanned = "compact_daemon_free_scanned",
    }
}

impl CompactionVmStat {
    /// The benchmark collection's "compaction cost": a weighted sum, in millions, without the free scanner.
    ///
    /// ```
    /// use pageblock_compaction::CompactionVmStat;
    /// // The column "2-nothp" of *Memory compaction efficiency improvements* (2013).
    /// let mut seed = CompactionVmStat::default();
    /// (seed.migrate_scanned, seed.isolated, seed.migrate_success) = (42_290_478, 2_547_248, 1_177_325);
    /// assert_eq!(seed.cost(), 1566);
    /// ```
    #[must_use]
    pub const fn cost(&self) -> u64 {
        (7 * self.migrate_scanned + 19 * self.isolated + 1038 * self.migrate_success + 14 * self.migrate_fail)
            / 1_000_000
    }
}

impl Counters {
    pub(crate) fn add_run(&self, counts: &RunCounts, origin: Origin) {
        let add = |counter: &AtomicU64, n: u64| {
            if n != 0 {
                counter.fetch_add(n, Ordering::Relaxed);
            }
        };
        add(&self.migrate_scanned, counts.migrate_scanned);
        add(&self.free_scanned, counts.free_scanned);
        add(&self.isolated, counts.isolated);
        add(&self.migrate_success, counts.migrated);
        add(&self.migrate_fail, counts.failed);
        if matches!(origin, Origin::Kcompactd | Origin::Proactive) {
            add(&self.daemon_migrate_scanned, counts.migrate_scanned);
            add(&self.daemon_free_scanned, counts.free_scanned);
        }
    }
}
