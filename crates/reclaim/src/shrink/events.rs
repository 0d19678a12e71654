//! Counts of scans, with the names of `/proc/vmstat`.

use pageblock_frame::sync::{AtomicU64, Ordering};
use pageblock_frame::vmstat;

vmstat! {
    /// Counters of a shrinker. Relaxed: each is exact, together they are not one moment.
    pub(crate) struct Events;
    /// Counts of scans, in frames. Displays as lines of `/proc/vmstat`. Pages that moved between lists for other
    /// reasons are counted by the lists ([`pageblock_lru::Event`]): Linux's `pgactivate` and `pgdeactivate` are the
    /// sums.
    ///
    /// ```
    /// let stat = pageblock_reclaim::ShrinkStat::default();
    /// assert!(stat.to_string().contains("pgrefill 0\n"));
    /// ```
    pub struct ShrinkStat {
        /// Found in use at the tail of an inactive list, and moved to the active one.
        activate = "pgactivate",
        /// Moved from the tail of an active list to the inactive one.
        deactivate = "pgdeactivate",
        /// Looked at on active lists.
        refill = "pgrefill",
        /// Which reclaim began to write.
        written = "nr_vmscan_write",
        /// Marked to go as soon as they are written.
        immediate = "nr_vmscan_immediate_reclaim",
        /// That other caches looked at, in objects.
        slabs_scanned = "slabs_scanned",
        /// Times that a round waited for write-back.
        stalls = "nr_vmscan_stall",
    }
}

pub(crate) fn add(counter: &AtomicU64, frames: u64) {
    if frames > 0 {
        counter.fetch_add(frames, Ordering::Relaxed);
    }
}
