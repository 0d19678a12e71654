//! How memory is reclaimed, as a value.

#[cfg(feature = "history")]
use crate::history::{BalanceGap, BalancedRule, ClassZone, ListsBy};

/// When kswapd works, and when a request stops.
///
/// ```
/// use pageblock_reclaim::ReclaimConfig;
/// assert_eq!(ReclaimConfig::default(), ReclaimConfig::linux_6_1());
/// assert!(ReclaimConfig::new().boost);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReclaimConfig {
    /// Unit that has its own LRU lists.
    #[cfg(feature = "history")]
    pub lists: ListsBy,
    /// Zone of which kswapd respects the reserve.
    #[cfg(feature = "history")]
    pub class_zone: ClassZone,
    /// How much further than high it goes.
    #[cfg(feature = "history")]
    pub balance_gap: BalanceGap,
    /// When it is done.
    #[cfg(feature = "history")]
    pub balanced: BalancedRule,
    /// It reclaims as much as fragmentation boosted the watermarks by, without writing, and takes that boost back
    /// (5.0).
    pub boost: bool,
    /// Runs without any success after which a node is given up until another actor has success there
    /// (`MAX_RECLAIM_RETRIES`; 4.12); 0: never.
    pub max_kswapd_failures: u32,
    /// A zone of which six times its reclaimable frames were scanned in vain counts as balanced, and is left alone but
    /// for the first round of a run (`all_unreclaimable`, before 4.12).
    #[cfg(feature = "history")]
    pub tracks_unreclaimable: bool,
    /// kswapd compacts the node itself (before 4.6) rather than waking kcompactd.
    #[cfg(feature = "history")]
    pub compacts: bool,
    /// Requests of up to the costly order reclaim for as long as it takes (before 4.7), rather than until 16 passes
    /// without progress.
    #[cfg(feature = "history")]
    pub retries_for_ever: bool,
    /// A direct pass that freed nothing counts as progress unless all zones are given up (before 4.12).
    #[cfg(feature = "history")]
    pub retries_until_all_unreclaimable: bool,
}

impl ReclaimConfig {
    /// The best known of everything.
    #[must_use]
    pub const fn new() -> Self {
        Self::linux_6_1()
    }

    /// Linux 6.1.
    #[must_use]
    pub const fn linux_6_1() -> Self {
        Self {
            #[cfg(feature = "history")]
            lists: ListsBy::Node,
            #[cfg(feature = "history")]
            class_zone: ClassZone::Requested,
            #[cfg(feature = "history")]
            balance_gap: BalanceGap::None,
            #[cfg(feature = "history")]
            balanced: BalancedRule::AnyZone,
            boost: true,
            max_kswapd_failures: 16,
            #[cfg(feature = "history")]
            tracks_unreclaimable: false,
            #[cfg(feature = "history")]
            compacts: false,
            #[cfg(feature = "history")]
            retries_for_ever: false,
            #[cfg(feature = "history")]
            retries_until_all_unreclaimable: false,
        }
    }
}

impl Default for ReclaimConfig {
    fn default() -> Self {
        Self::new()
    }
}
