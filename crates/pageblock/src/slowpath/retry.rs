//! Whether a request goes round once more.

use pageblock_buddy::{WatermarkTest, Zone};
use pageblock_compaction::Priority;
use pageblock_frame::trace::CompactResult;
use pageblock_frame::{AllocFlags, Hooks, Order, Platform};
use pageblock_reclaim::{Attempt, compact_gap};

use super::Climb;

/// Compactions that may succeed without a block in the end, before the priority rises (`MAX_COMPACT_RETRIES`).
const MOST_COMPACTIONS: u32 = 16;

/// Whether another pass of reclaim may succeed where the last one failed (`should_reclaim_retry()`): there were not too
/// many in vain, and if all that could be freed were free, some zone could serve.
pub(super) fn reclaim_again<P: Platform>(climb: &mut Climb<P>) -> bool {
    let inner = climb.request.inner;
    let Some((owner, first)) = P::hooks().reclaimer().zip(inner.kswapds.first()) else { return false };
    let attempt = Attempt {
        order: climb.request.order,
        limit: climb.request.limit,
        flags: climb.flags(),
        progress: climb.reclaim.progress,
    };
    let zones = climb.views();
    climb.reclaim.retries.again(first.config(), &zones, owner, &attempt)
}

/// Whether another compaction may succeed where the last one failed (`should_compact_retry()`). Raises the priority.
/// Without free frames to move to it is of no use, so that where memory is reclaimed that must have made progress.
pub(super) fn compact_again<P: Platform>(climb: &mut Climb<P>) -> bool {
    if P::hooks().migrator().is_none() || climb.request.order == Order::ZERO || !climb.may_compact() {
        return false;
    }
    if P::hooks().reclaimer().is_some() && !climb.reclaim.progress.is_some() {
        return false;
    }
    match climb.compacted {
        CompactResult::Success => {
            climb.compactions += 1;
            let most = if climb.is_costly() { MOST_COMPACTIONS / 4 } else { MOST_COMPACTIONS };
            climb.compactions <= most || raise(climb)
        }
        CompactResult::Skipped => reclaim_would_do(climb),
        _ => raise(climb),
    }
}

/// Whether compaction could begin if all reclaimable frames were free (`compaction_zonelist_suitable()`).
fn reclaim_would_do<P: Platform>(climb: &Climb<P>) -> bool {
    let Some(owner) = P::hooks().reclaimer() else { return false };
    let request = &climb.request;
    let would_do = |zone: &'static Zone<'static>| {
        let marks = zone.watermarks();
        let mark = if climb.is_costly() { marks.low } else { marks.min } + zone.boost();
        let extra = owner.reclaimable(zone.node(), zone.kind()).min(zone.managed()) / u64::from(request.order.as_u8());
        let free = zone.free_frames().saturating_add(extra);
        let mark = mark.saturating_add(compact_gap(request.order));
        let test = WatermarkTest { order: Order::ZERO, mark, limit: request.limit, flags: AllocFlags::CMA };
        zone.watermark_ok_with(free, &test)
    };
    request.zones().filter(|zone| zone.managed() > 0).any(would_do)
}

/// The next attempt is more determined, if one can be.
fn raise<P: Platform>(climb: &mut Climb<P>) -> bool {
    let next = match climb.priority {
        Priority::Async => Priority::SyncLight,
        Priority::SyncLight if !climb.is_costly() => Priority::SyncFull,
        Priority::SyncLight | Priority::SyncFull => return false,
    };
    climb.priority = next;
    climb.compactions = 0;
    true
}
