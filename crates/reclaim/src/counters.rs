//! Counters with the names of `/proc/vmstat`.

use pageblock_frame::reclaim::{Actor, Shrunk};
use pageblock_frame::sync::{AtomicU64, Ordering};
use pageblock_frame::vmstat;

vmstat! {
    /// One node's counters. Relaxed: each is exact, together they are not one moment.
    pub(crate) struct Counters;
    /// The counters of a node's reclaim at one moment. Displays as lines of `/proc/vmstat`.
    ///
    /// ```
    /// use pageblock_reclaim::ReclaimVmStat;
    /// let (mut sum, mut node) = (ReclaimVmStat::default(), ReclaimVmStat::default());
    /// node.scan_kswapd = 40;
    /// sum.add(&node);
    /// assert!(sum.to_string().contains("pgscan_kswapd 40\n"));
    /// ```
    pub struct ReclaimVmStat {
        /// Frames that kswapd's rounds looked at.
        scan_kswapd = "pgscan_kswapd",
        /// Frames that tasks' own rounds looked at.
        scan_direct = "pgscan_direct",
        /// Frames that kswapd's rounds freed.
        steal_kswapd = "pgsteal_kswapd",
        /// Frames that tasks' own rounds freed.
        steal_direct = "pgsteal_direct",
        /// Times that a task began to reclaim for itself.
        allocstall = "allocstall",
        /// Times that a task waited for kswapd because the reserve was nearly used up.
        throttled = "pgscan_direct_throttle",
        /// Runs of kswapd.
        pageoutrun = "pageoutrun",
        /// Naps of kswapd that a new request cut short.
        low_hit_quickly = "kswapd_low_wmark_hit_quickly",
        /// Naps after which the node was out of balance again.
        high_hit_quickly = "kswapd_high_wmark_hit_quickly",
    }
}

impl Counters {
    pub(crate) fn round(&self, actor: Actor, shrunk: Shrunk) {
        let (scan, steal) = match actor {
            Actor::Kswapd => (&self.scan_kswapd, &self.steal_kswapd),
            Actor::Direct => (&self.scan_direct, &self.steal_direct),
        };
        scan.fetch_add(shrunk.scanned, Ordering::Relaxed);
        steal.fetch_add(shrunk.freed, Ordering::Relaxed);
    }
}

/// Adds one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
