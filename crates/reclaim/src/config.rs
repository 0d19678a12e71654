//! The behaviour of each era as values.

/// What the LRU lists are kept by.
///
/// ```
/// assert_eq!(pageblock_reclaim::Config::linux_3_16().lists, pageblock_reclaim::ListsBy::Zone);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListsBy {
    /// One set a zone (Linux before 4.8): zones are reclaimed one by one, from the lowest up.
    Zone,
    /// One set a node (since): zones age together.
    Node,
}

/// Whose lowmem reserve kswapd adds to the high watermark when it asks whether a zone needs reclaim.
///
/// The allocator stops at low + reserve. A kswapd that leaves the reserve out stops at high, which is less wherever
/// the reserve is larger than high - low: such a zone is full to one and balanced to the other, and is never used
/// again (seed 003).
///
/// ```
/// assert_eq!(pageblock_reclaim::Config::seed_003().class_zone, pageblock_reclaim::ClassZone::Ignored);
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
/// assert_eq!(pageblock_reclaim::Config::default().balanced, pageblock_reclaim::BalancedRule::AnyZone);
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
    /// The low watermark, or a hundredth of the zone, rounded up, if that is less (`zone_balance_gap()`, 3.16). What
    /// tasks take while higher zones are reclaimed does not end the work on lower ones at the instant they reach high.
    LowOrOnePercent,
}

/// Everything about reclaim that has differed between versions.
///
/// ```
/// use pageblock_reclaim::Config;
/// assert_eq!(Config::default(), Config::linux_6_1());
/// assert!(!Config::linux_3_16().boost && Config::linux_6_1().boost);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// What the LRU lists are kept by.
    pub lists: ListsBy,
    /// Whose reserve kswapd respects.
    pub class_zone: ClassZone,
    /// How much further than high it goes.
    pub balance_gap: BalanceGap,
    /// When it is done.
    pub balanced: BalancedRule,
    /// It reclaims what fragmentation boosted the watermarks by, without writing, and takes that boost back (5.0).
    pub boost: bool,
    /// Runs without any success after which a node is given up until another actor has success there
    /// (`MAX_RECLAIM_RETRIES`; 4.12); 0: never.
    pub max_kswapd_failures: u32,
    /// A zone of which six times its reclaimable frames were scanned in vain counts as balanced, and is left alone but
    /// for the first round of a run (`all_unreclaimable`, before 4.12).
    pub tracks_unreclaimable: bool,
    /// kswapd compacts the node itself (before 4.6) rather than waking kcompactd.
    pub compacts: bool,
    /// Requests of up to the costly order reclaim for as long as it takes (before 4.7), rather than until 16 passes
    /// without progress.
    pub retries_for_ever: bool,
    /// A direct pass that freed nothing counts as progress unless all zones are given up (before 4.12).
    pub retries_until_all_unreclaimable: bool,
}

impl Config {
    /// Linux 6.1.
    #[must_use]
    pub const fn linux_6_1() -> Self {
        Self {
            lists: ListsBy::Node,
            class_zone: ClassZone::Requested,
            balance_gap: BalanceGap::None,
            balanced: BalancedRule::AnyZone,
            boost: true,
            max_kswapd_failures: 16,
            tracks_unreclaimable: false,
            compacts: false,
            retries_for_ever: false,
            retries_until_all_unreclaimable: false,
        }
    }

    /// Linux 4.20 with the series of seed 002: boost, as in 5.0.
    #[must_use]
    pub const fn linux_4_20() -> Self {
        Self::linux_6_1()
    }

    /// Linux 3.16, the baseline of seed 003.
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

    /// Linux 3.13, the baseline of *Memory compaction efficiency improvements* (2013). In what is modelled here it
    /// behaves as 3.16.
    #[must_use]
    pub const fn linux_3_13() -> Self {
        Self::linux_3_16()
    }

    /// Linux 3.16 with the draft of seed 003, which dropped the balance gap and, with it, the class zone.
    #[must_use]
    pub const fn seed_003() -> Self {
        Self { class_zone: ClassZone::Ignored, balance_gap: BalanceGap::None, ..Self::linux_3_16() }
    }
}

impl Default for Config {
    /// The best known of everything.
    fn default() -> Self {
        Self::linux_6_1()
    }
}
