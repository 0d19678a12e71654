//! Forms of old kernels and of patches that were never merged, to reproduce their figures.
//!
//! Compiled with the feature `history` only. Without it `no_history.rs` stands here: the same names, and nothing behind
//! them, so that an ordinary request asks no policy that is off.
//!
//! * `fair.rs`: zones that take turns (*Fair zone policy*, Linux 3.12 to 4.7)
//! * `stall.rs`: a request waits rather than mix migrate types (*Fragmentation avoidance and stalls*, patch 4)
//! * `linux_3_13.rs`: the slow path of that release
//! * `presets.rs`: configurations by release

mod fair;
mod presets;
mod stall;

use pageblock_buddy::FairPolicy;
use pageblock_frame::{Gfp, Order};

use crate::error::ConfigError;
pub use stall::{STALL_BUCKETS, STALL_LIMIT, Stalls};

/// The order in which a request takes its measures when the first attempt fails.
///
/// ```
/// use pageblock::{Config, Experiment, SlowPath};
/// let modern = Config::new().experiment(Experiment::SlowPath(SlowPath::Linux6_1));
/// assert_eq!(modern, Config::new());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlowPath {
    /// Compaction asynchronously before everything else, for every high order; then reclaim; then, for orders that are
    /// not costly, again and again; compaction synchronously at last. A request without
    /// [`Gfp::KSWAPD_RECLAIM`](crate::Gfp) gives up as soon as compaction is deferred or contended (the huge pages of
    /// that time).
    Linux3_13,
    /// Compaction first only where reclaim would be of little use; then rounds of reclaim and compaction, the latter
    /// with rising determination, for as long as either promises something.
    Linux6_1,
}

/// Patches of the series of 2018.
const MAX_PATCHES: u8 = 4;

/// The settings that only history has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Settings {
    pub(crate) slow_path: SlowPath,
    pub(crate) fair: FairPolicy,
    /// Requests stall before they mix below this order; 0: none does.
    pub(crate) stall_order: u8,
    /// Longest stall, in nanoseconds.
    pub(crate) stall_limit: u64,
    /// Patches of the series of 2018 that a preset asked for.
    pub(crate) patches: u8,
}

impl Settings {
    pub(crate) const fn new() -> Self {
        let (slow_path, fair) = (SlowPath::Linux6_1, FairPolicy::Off);
        Self { slow_path, fair, stall_order: 0, stall_limit: STALL_LIMIT, patches: 0 }
    }

    /// For `ZoneConfig`.
    pub(crate) const fn stall_order(&self) -> u8 {
        self.stall_order
    }

    /// Refuses values out of range.
    pub(crate) fn check(&self, max_order: Order) -> Result<(), ConfigError> {
        let most = max_order.as_u8() + 1;
        if self.stall_order > most {
            return Err(ConfigError::FragmentStallOrder { given: self.stall_order, most });
        }
        if self.patches > MAX_PATCHES {
            return Err(ConfigError::Patches { given: self.patches });
        }
        Ok(())
    }
}

/// The state of an allocator that belongs to them.
#[derive(Debug)]
pub(crate) struct History {
    settings: Settings,
    stalls: stall::StallCounters,
}

impl History {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { settings, stalls: stall::StallCounters::new() }
    }

    /// Every request asks which zone's turn it is, and is charged: none takes the shortest way to its list.
    pub(crate) const fn zones_take_turns(&self) -> bool {
        self.settings.fair.is_on()
    }

    /// The ladder of Linux 3.13 rather than that of 6.1.
    pub(crate) fn old_slow_path(&self) -> bool {
        self.settings.slow_path == SlowPath::Linux3_13
    }

    /// Flags that a request must have for memory to be moved on its behalf: pages in the way may have to be written
    /// first.
    pub(crate) const fn compaction_needs(&self) -> Gfp {
        match self.settings.slow_path {
            SlowPath::Linux3_13 => Gfp::IO.union(Gfp::FS),
            SlowPath::Linux6_1 => Gfp::IO,
        }
    }

    /// Stalls since boot.
    pub(crate) fn stall_count(&self) -> u64 {
        self.stalls.read().count
    }
}
