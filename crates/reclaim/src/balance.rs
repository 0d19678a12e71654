//! Whether a zone or a node has enough free memory: pure rules over numbers.

use pageblock_frame::trace::CompactResult;
use pageblock_frame::{Order, ZoneKind};

use crate::config::ReclaimConfig;
use crate::kswapd::Wanted;
use crate::zone::{MarkTest, ReclaimZone, WithBoost};

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
pub(crate) fn zone_balanced<Z: ReclaimZone>(
    config: &ReclaimConfig,
    zone: &Z,
    order: Order,
    gap: u64,
    limit: ZoneKind,
) -> bool {
    let mark = zone.with_boost().high.saturating_add(gap);
    if !zone.watermark_ok(&MarkTest::new(order, mark, limit)) {
        return false;
    }
    // 3.16 keeps reclaiming until compaction has enough to work with.
    let asks = config.by_zone() && order > Order::ZERO;
    !(asks && zone.compaction_suitable(order, limit) == Some(CompactResult::Skipped))
}

/// Whether a node is balanced for blocks of `order` in zones up to `limit` (`pgdat_balanced()`). `given_up` says of a
/// zone that nothing can be reclaimed there. A node without such zones is.
pub(crate) fn node_balanced<Z: ReclaimZone>(
    config: &ReclaimConfig,
    zones: &[Z],
    wanted: Wanted,
    given_up: impl Fn(&Z) -> bool,
) -> bool {
    let Wanted { order, limit } = wanted;
    let mut eligible = zones.iter().filter(|zone| zone.kind() <= limit && zone.managed() > 0).peekable();
    if eligible.peek().is_none() {
        return true;
    }
    let class = config.judged_limit(limit);
    let balanced = |zone: &Z| zone_balanced(config, zone, order, 0, class);
    #[cfg(feature = "history")]
    if !config.any_zone_is_enough() {
        return crate::history::enough_zones(config, eligible, order, |zone: &Z| given_up(zone) || balanced(zone));
    }
    #[cfg(not(feature = "history"))]
    let _ = given_up;
    eligible.any(balanced)
}

/// Whether tasks may go on to reclaim for themselves, or should wait for kswapd first: more than half of the min
/// watermarks of the zones up to Normal is free (`allow_direct_reclaim()`, 6.1). `reclaimable` says how many frames of
/// a zone could be freed.
pub(crate) fn reserve_ok<Z: ReclaimZone>(zones: &[Z], reclaimable: impl Fn(&Z) -> u64) -> bool {
    let (mut min, mut free) = (0u64, 0u64);
    let counted = |zone: &&Z| zone.kind() <= ZoneKind::Normal && zone.managed() > 0 && reclaimable(zone) > 0;
    for zone in zones.iter().filter(counted) {
        min = min.saturating_add(zone.with_boost().min);
        free = free.saturating_add(zone.free());
    }
    min == 0 || free > min / 2
}
