//! Reclaim as old kernels did it (feature `history`): zone by zone, with gaps and reserves that have come and gone.
//!
//! Without the feature `no_history.rs` stands here.

use pageblock_frame::{Order, ZoneKind};

use crate::config::ReclaimConfig;
use crate::shrink::{Refaults, ShrinkConfig};
use crate::zone::{Marks, ReclaimZone};

/// The index that adds no reserve: no zone keeps anything from requests for the lowest.
pub(crate) const NO_RESERVE: ZoneKind = ZoneKind::Dma;

/// Unit that has its own LRU lists.
///
/// ```
/// assert_eq!(pageblock_reclaim::ReclaimConfig::linux_3_16().lists, pageblock_reclaim::ListsBy::Zone);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListsBy {
    /// One set a zone (Linux before 4.8): zones are reclaimed one by one, from the lowest up.
    Zone,
    /// One set a node (since): zones age together.
    Node,
}

/// Zone of which kswapd adds the lowmem reserve to the high watermark when it asks whether a zone needs reclaim.
///
/// The allocator stops at low + reserve. A kswapd that leaves the reserve out stops at high, which is less wherever
/// the reserve is larger than high - low: such a zone is full to one and balanced to the other, and is never used
/// again (*Fair zone policy*).
///
/// ```
/// assert_eq!(pageblock_reclaim::ReclaimConfig::draft_2014_v4r8().class_zone, pageblock_reclaim::ClassZone::Ignored);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClassZone {
    /// None (the draft of *Fair zone policy*).
    Ignored,
    /// That against requests for the highest zone that is short (3.16).
    EndZone,
    /// That against the requests that woke it (since 4.8).
    Requested,
}

/// When a node counts as balanced.
///
/// ```
/// assert_eq!(pageblock_reclaim::ReclaimConfig::default().balanced, pageblock_reclaim::BalancedRule::AnyZone);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BalancedRule {
    /// Every zone is, whatever the order (before 2.6.38).
    AllZones,
    /// For single frames every zone; for larger blocks, zones that hold a quarter of the frames (3.16).
    Quarter,
    /// Any zone that the request may use (since 4.8).
    AnyZone,
}

/// Frames by which lower zones are reclaimed beyond their high watermark.
///
/// ```
/// use pageblock_reclaim::{BalanceGap, Marks};
/// let marks = Marks { min: 1778, low: 2222, high: 2667 };
/// assert_eq!(BalanceGap::LowOrOnePercent.frames(marks, 1_270_000), 2222);
/// assert_eq!(BalanceGap::None.frames(marks, 1_270_000), 0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BalanceGap {
    /// None (since 4.8).
    None,
    /// The low watermark, or a hundredth of the zone, if that is less (`zone_balance_gap()`, 3.16). Frames that
    /// tasks take while higher zones are reclaimed do not end the work on lower ones at the instant they reach high.
    LowOrOnePercent,
}

impl BalanceGap {
    /// The gap of a zone with these watermarks (boost included, where there is one) and so many managed frames.
    #[must_use]
    pub const fn frames(self, marks: Marks, managed: u64) -> u64 {
        match self {
            Self::None => 0,
            Self::LowOrOnePercent => {
                let percent = managed.div_ceil(100);
                if marks.low < percent { marks.low } else { percent }
            }
        }
    }
}

impl ClassZone {
    /// The zone of which the reserve counts while zones up to `end` are reclaimed for requests limited to `requested`.
    ///
    /// ```
    /// use pageblock_frame::ZoneKind::{Dma, Dma32, Normal};
    /// use pageblock_reclaim::ClassZone;
    /// assert_eq!(ClassZone::EndZone.limit(Normal, Dma32), Normal);
    /// assert_eq!(ClassZone::Ignored.limit(Normal, Dma32), Dma); // of no zone is anything kept from these
    /// ```
    #[must_use]
    pub const fn limit(self, end: ZoneKind, requested: ZoneKind) -> ZoneKind {
        match self {
            Self::Ignored => NO_RESERVE,
            Self::EndZone => end,
            Self::Requested => requested,
        }
    }
}

impl ReclaimConfig {
    /// Linux 4.20 with the series of *Fragmentation avoidance and stalls*: boost, as in 5.0.
    #[must_use]
    pub const fn linux_4_20() -> Self {
        Self::linux_6_1()
    }

    /// Linux 3.16, the baseline of *Fair zone policy*.
    #[must_use]
    pub const fn linux_3_16() -> Self {
        Self {
            lists: ListsBy::Zone,
            class_zone: ClassZone::EndZone,
            balance_gap: BalanceGap::LowOrOnePercent,
            balanced: BalancedRule::Quarter,
            boost: false,
            max_kswapd_failures: 0,
            tracks_unreclaimable: true,
            compacts: true,
            retries_for_ever: true,
            retries_until_all_unreclaimable: true,
        }
    }

    /// Linux 3.13, the baseline of *Memory compaction efficiency improvements* (2013). In the parts modelled here it
    /// behaves as 3.16.
    #[must_use]
    pub const fn linux_3_13() -> Self {
        Self::linux_3_16()
    }

    /// Linux 3.16 with the draft of *Fair zone policy* (v4r8), which dropped the balance gap and, with it, the class
    /// zone.
    #[must_use]
    pub const fn draft_2014_v4r8() -> Self {
        Self { class_zone: ClassZone::Ignored, balance_gap: BalanceGap::None, ..Self::linux_3_16() }
    }

    /// Lists, and so rounds, are a zone's.
    pub(crate) const fn by_zone(&self) -> bool {
        matches!(self.lists, ListsBy::Zone)
    }

    /// The zone of which the reserve counts while zones up to `end` are reclaimed for requests limited to `requested`.
    pub(crate) const fn limit_in_round(&self, end: ZoneKind, requested: ZoneKind) -> ZoneKind {
        self.class_zone.limit(end, requested)
    }

    /// The zone whose reserve counts where one is judged for requests limited to `requested`: before 4.8 each was
    /// judged by its own index, against which it keeps nothing.
    pub(crate) const fn judged_limit(&self, requested: ZoneKind) -> ZoneKind {
        if matches!(self.class_zone, ClassZone::Requested) { requested } else { NO_RESERVE }
    }

    /// Frames by which a zone is reclaimed beyond its high watermark.
    pub(crate) const fn gap(&self, marks: Marks, managed: u64) -> u64 {
        self.balance_gap.frames(marks, managed)
    }

    /// One balanced zone makes a balanced node.
    pub(crate) const fn any_zone_is_enough(&self) -> bool {
        matches!(self.balanced, BalancedRule::AnyZone)
    }

    pub(crate) const fn tracks_unreclaimable(&self) -> bool {
        self.tracks_unreclaimable
    }

    pub(crate) const fn compacts(&self) -> bool {
        self.compacts
    }

    pub(crate) const fn retries_for_ever(&self) -> bool {
        self.retries_for_ever
    }

    pub(crate) const fn retries_until_all_unreclaimable(&self) -> bool {
        self.retries_until_all_unreclaimable
    }
}

/// Whether enough of the zones are balanced, or given up: all, or for larger blocks zones that hold a quarter of the
/// frames.
pub(crate) fn enough_zones<'z, Z: ReclaimZone + 'z>(
    config: &ReclaimConfig,
    mut eligible: impl Iterator<Item = &'z Z>,
    order: Order,
    balanced: impl Fn(&Z) -> bool,
) -> bool {
    if config.balanced != BalancedRule::Quarter || order == Order::ZERO {
        return eligible.all(balanced);
    }
    let (mut managed, mut enough) = (0u64, 0u64);
    for zone in eligible {
        managed = managed.saturating_add(zone.managed());
        if balanced(zone) {
            enough = enough.saturating_add(zone.managed());
        }
    }
    enough >= managed / 4
}

impl ShrinkConfig {
    /// Linux 3.13.
    #[must_use]
    pub const fn linux_3_13() -> Self {
        let refaults = Refaults::Ignored;
        Self { anon_active_at_once: true, files_half_active: true, park_dirty: false, refaults, ..Self::linux_6_1() }
    }

    /// Linux 3.16: it recognises a working set.
    #[must_use]
    pub const fn linux_3_16() -> Self {
        Self { refaults: Refaults::ActiveFiles, ..Self::linux_3_13() }
    }
}
