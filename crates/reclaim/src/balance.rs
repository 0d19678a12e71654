//! Whether a zone or a node has enough free memory: pure rules over numbers.

use pageblock_frame::trace::CompactResult;
use pageblock_frame::{Order, ZoneKind};

use crate::config::{BalanceGap, BalancedRule, ClassZone, Config, ListsBy};
use crate::zone::{MarkTest, Marks, WithBoost, ZoneView};

/// The index that adds no reserve: no zone keeps anything from requests for the lowest.
pub(crate) const NO_RESERVE: ZoneKind = ZoneKind::Dma;

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
    /// The zone whose reserve counts while zones up to `end` are reclaimed for requests limited to `requested`.
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

/// Blocks of an order that compaction needs in free frames before it can make one, doubled (`compact_gap()`).
///
/// ```
/// use pageblock_frame::Order;
/// assert_eq!(pageblock_reclaim::compact_gap(Order::new(9).unwrap()), 1024);
/// ```
#[must_use]
pub const fn compact_gap(order: Order) -> u64 {
    order.frames().saturating_mul(2)
}

/// Whether a zone has its high watermark and `gap` more, against requests limited to `limit` (`zone_balanced()`).
pub(crate) fn zone_balanced<Z: ZoneView>(config: &Config, zone: &Z, order: Order, gap: u64, limit: ZoneKind) -> bool {
    let mark = zone.with_boost().high.saturating_add(gap);
    if !zone.watermark_ok(&MarkTest::new(order, mark, limit)) {
        return false;
    }
    // 3.16 keeps reclaiming until compaction has enough to work with.
    let asks = config.lists == ListsBy::Zone && order > Order::ZERO;
    !(asks && zone.compaction_suitable(order, limit) == Some(CompactResult::Skipped))
}

/// Whether a node is balanced for blocks of `order` in zones up to `limit` (`pgdat_balanced()`). `given_up` says of a
/// zone that nothing can be reclaimed there. A node without such zones is.
pub(crate) fn node_balanced<Z: ZoneView>(
    config: &Config,
    zones: &[Z],
    (order, limit): (Order, ZoneKind),
    given_up: impl Fn(&Z) -> bool,
) -> bool {
    let mut eligible = zones.iter().filter(|zone| zone.kind() <= limit && zone.managed() > 0).peekable();
    if eligible.peek().is_none() {
        return true;
    }
    // Before 4.8 each zone was judged by its own index, against which it keeps nothing.
    let class = if config.class_zone == ClassZone::Requested { limit } else { NO_RESERVE };
    let balanced = |zone: &Z| zone_balanced(config, zone, order, 0, class);
    let balanced_or_given_up = |zone: &Z| given_up(zone) || balanced(zone);
    match (config.balanced, order) {
        (BalancedRule::AnyZone, _) => eligible.any(balanced),
        (BalancedRule::AllZones, _) | (BalancedRule::Quarter, Order::ZERO) => eligible.all(balanced_or_given_up),
        (BalancedRule::Quarter, _) => {
            let (mut managed, mut enough) = (0u64, 0u64);
            for zone in eligible {
                managed = managed.saturating_add(zone.managed());
                if balanced_or_given_up(zone) {
                    enough = enough.saturating_add(zone.managed());
                }
            }
            enough >= managed / 4
        }
    }
}

/// Whether tasks may go on to reclaim for themselves, or should wait for kswapd first: more than half of the min
/// watermarks of the zones up to Normal is free (`allow_direct_reclaim()`, 6.1). `reclaimable` says how many frames of
/// a zone could be freed.
pub(crate) fn reserve_ok<Z: ZoneView>(zones: &[Z], reclaimable: impl Fn(&Z) -> u64) -> bool {
    let (mut min, mut free) = (0u64, 0u64);
    let counted = |zone: &&Z| zone.kind() <= ZoneKind::Normal && zone.managed() > 0 && reclaimable(zone) > 0;
    for zone in zones.iter().filter(counted) {
        min = min.saturating_add(zone.with_boost().min);
        free = free.saturating_add(zone.free());
    }
    min == 0 || free > min / 2
}
