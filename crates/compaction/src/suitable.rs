//! Whether a run would help, and whether it has.

use pageblock_buddy::{Servable, Zone, ZoneScan, fragmentation_index};
use pageblock_frame::trace::CompactResult;
use pageblock_frame::{AllocFlags, COSTLY_ORDER, Order, Platform, ZoneKind};

use crate::config::CompactionConfig;
use crate::request::Request;

/// Whether compacting the zone would help (`compaction_suitable()`): [`CompactResult::Continue`]; or not, since a
/// block can be had already (`Success`), since memory is short (`Skipped`), or since it is short rather than scattered
/// (`NotSuitableZone`).
#[must_use]
pub(crate) fn suitable<P: Platform>(zone: &Zone<'_>, config: &CompactionConfig, request: &Request) -> CompactResult {
    let Some(order) = request.order else { return CompactResult::Continue };
    let marks = zone.watermarks();
    let gap = 2 * order.frames();
    let costly = order > COSTLY_ORDER;
    if config.era().suitable_at_low() {
        if !zone.watermark_ok(Order::ZERO, marks.low + gap, ZoneKind::Dma, AllocFlags::empty()) {
            return CompactResult::Skipped;
        }
    } else {
        if zone.watermark_ok(order, zone.mark_for(request.flags), request.limit, request.flags) {
            return CompactResult::Success;
        }
        let (mark, gap) = if config.exact_need {
            (zone.mark_for(request.flags).saturating_sub(zone.boost()), order.frames())
        } else {
            (if costly { marks.low } else { marks.min }, gap)
        };
        if !zone.watermark_ok(Order::ZERO, mark + gap, request.limit, AllocFlags::CMA) {
            return CompactResult::Skipped;
        }
    }
    if costly || !config.era().index_for_costly_only() {
        let index = fragmentation_index(&zone.scan::<P>(pageblock_buddy::Patience::Wait).free_blocks(), order);
        if (0..=i64::from(config.extfrag_threshold)).contains(&index) {
            return CompactResult::NotSuitableZone;
        }
        if config.era().suitable_at_low()
            && index == -1000
            && zone.watermark_ok(order, marks.low + gap, ZoneKind::Dma, AllocFlags::empty())
        {
            return CompactResult::Success;
        }
    }
    CompactResult::Continue
}

/// Whether a block of the order can be had now: the second half of `compact_finished()`.
#[must_use]
pub(crate) fn is_served<P: Platform>(scan: &ZoneScan<'_, '_, P>, config: &CompactionConfig, request: &Request) -> bool {
    let Some(order) = request.order else { return false };
    if config.era().finished_asks_watermark() {
        let zone = scan.zone();
        let mark = zone.watermarks().low + order.frames();
        if !zone.watermark_ok(order, mark, ZoneKind::Dma, AllocFlags::empty()) {
            return false;
        }
        return matches!(scan.servable(order, request.migrate_type), Servable::Own | Servable::WholeBlock)
            || scan.free_blocks().iter().skip(order.index().max(9)).any(|&blocks| blocks > 0);
    }
    scan.servable(order, request.migrate_type) >= Servable::Claimable
}

/// True if the free scanner may take another `frames` frames (`__isolate_free_page()`'s watermark test).
#[must_use]
pub(crate) fn may_take_targets(zone: &Zone<'_>, config: &CompactionConfig, frames: u64) -> bool {
    let marks = zone.watermarks();
    if config.era().suitable_at_low() {
        zone.watermark_ok(Order::ZERO, marks.low + frames, ZoneKind::Dma, AllocFlags::empty())
    } else {
        zone.watermark_ok(Order::ZERO, marks.min + frames, ZoneKind::Dma, AllocFlags::CMA)
    }
}
