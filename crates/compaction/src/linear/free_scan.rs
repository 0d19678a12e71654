//! The free scanner: downwards through the zone, for frames to move to.

use pageblock_buddy::{BlockView, count_free_blocks};
use pageblock_frame::migration::{Migrate, MigrateMode};
use pageblock_frame::trace::{CompactEvent, Event};
use pageblock_frame::{Hooks, MigrateType, Order, PfnRange, Platform};

use super::fast;
use super::scanners::Scanners;
use crate::cluster::{BLOCK, CLUSTER};
use crate::config::Search;
use crate::suitable;

/// Sees to it that there are `need` targets in stock, if they can be had.
pub(crate) fn refill<P: Platform, M: Migrate>(run: &mut Scanners<'_, '_, '_, P, M>, need: usize) {
    use_withheld(run, need);
    if run.targets.len() >= need {
        return;
    }
    if run.config().era().whole_targets() {
        whole_blocks(run, need);
    } else {
        if run.config().search == Search::FreeLists && run.targets.is_empty() && run.request.order.is_some() {
            fast::take_targets(run, need);
        }
        partial_blocks(run, need);
    }
}

/// Takes targets from pageblocks that are withheld already, and restores those that have no more.
fn use_withheld<P: Platform, M: Migrate>(run: &mut Scanners<'_, '_, '_, P, M>, need: usize) {
    while run.targets.len() < need
        && let Some(block) = run.withheld.last()
    {
        if run.take_targets(block, need) == 0 {
            run.withheld.restore_last();
        }
    }
}

/// Whether a pageblock may give targets (`suitable_migration_target()`).
fn is_target<P: Platform, M: Migrate>(run: &Scanners<'_, '_, '_, P, M>, view: &BlockView) -> bool {
    if view.withheld || view.managed == 0 || view.migrate_type == MigrateType::HighAtomic {
        return false;
    }
    if view.skip && !run.request.full {
        return false;
    }
    if view.is_wholly_free() {
        return run.config().era().large_free_targets();
    }
    let movable = matches!(view.migrate_type, MigrateType::Movable | MigrateType::Cma);
    movable || (run.request.full && !run.config().era().large_free_targets())
}

fn remember<P: Platform, M: Migrate>(run: &mut Scanners<'_, '_, '_, P, M>, block: u32) {
    if !run.request.full || run.config().era().ignoring_sets_skip() {
        run.migration.scan.set_skip(block);
    }
    if !run.free_settled {
        run.compactor.remember_free((block * BLOCK).max(run.span.start));
    }
}

fn trace<P: Platform, M: Migrate>(run: &Scanners<'_, '_, '_, P, M>, block: u32, scanned: u64, taken: u64) {
    let zone = run.migration.scan.zone();
    let range = PfnRange::new(zone.pfn_of(block * BLOCK), zone.pfn_of(((block + 1) * BLOCK).min(run.span.end)));
    P::hooks().trace(&Event::Compaction(CompactEvent::IsolateFree { range, scanned, taken }));
}

/// The form of 3.13: whole pageblocks, every frame looked at.
fn whole_blocks<P: Platform, M: Migrate>(run: &mut Scanners<'_, '_, '_, P, M>, need: usize) {
    let detects = run.config().patches().detect_meeting();
    let low = if detects { (run.at.migrate / BLOCK + 1) * BLOCK } else { run.at.migrate.saturating_add(BLOCK) };
    let mut at = run.at.free & !(BLOCK - 1);
    let mut high = low.min(run.at.free);
    let mut below = false;
    while (if detects { at >= low } else { at > low }) && run.targets.len() < need {
        if at < run.span.end && take_whole_block(run, at / BLOCK, need) {
            high = high.max(at);
        }
        let Some(next) = at.checked_sub(BLOCK) else {
            below = true;
            break;
        };
        at = next;
        if run.migration.scan.is_contended() {
            run.contended = true;
            break;
        }
    }
    run.at.free =
        if detects && (below || at < low) { if below { run.span.start } else { at.max(run.span.start) } } else { high };
}

/// Withholds a pageblock and takes from it. True if it had something free.
fn take_whole_block<P: Platform, M: Migrate>(run: &mut Scanners<'_, '_, '_, P, M>, block: u32, need: usize) -> bool {
    let Some(view) = run.migration.scan.view(block) else { return false };
    if !is_target(run, &view) || run.withheld.is_full() {
        return false;
    }
    let order = run.request.order.unwrap_or(Order::ZERO);
    let allowed = suitable::may_take_targets(run.migration.scan.zone(), run.config(), order.frames());
    let map = run.migration.scan.map(block);
    let scanned = u64::from(BLOCK - u32::from(view.free) + count_free_blocks(&map));
    run.counts.free_scanned += scanned;
    let withheld = if allowed && view.free > 0 { run.withheld.withhold(block) } else { None };
    let taken = withheld.map_or(0, |view| u64::from(view.free));
    trace(run, block, scanned, taken);
    run.counts.isolated += taken;
    if taken == 0 {
        if withheld.is_some() {
            run.withheld.restore_last();
        }
        if allowed {
            remember(run, block);
        }
        return false;
    }
    run.free_settled |= run.config().era().remember_until_isolated();
    run.take_targets(block, need);
    true
}

/// The form of 6.1: as many frames as are needed, with a stride over barren pageblocks.
fn partial_blocks<P: Platform, M: Migrate>(run: &mut Scanners<'_, '_, '_, P, M>, need: usize) {
    let low = (run.at.migrate / BLOCK + 1) * BLOCK;
    let mut at = run.at.free & !(BLOCK - 1);
    while at >= low && run.targets.len() < need {
        let block = at / BLOCK;
        let view = run.migration.scan.view(block).filter(|view| at < run.span.end && is_target(run, view));
        if let Some(view) = view {
            let got = take_part(run, &view, need);
            if run.targets.len() >= need && got < u64::from(view.free) {
                run.at.free = at;
                return;
            }
            remember(run, block);
            run.stride = match (got, run.config().era().strided()) {
                (0, true) => (run.stride * 2).min(CLUSTER as u32),
                _ => 1,
            };
        }
        at = match at.checked_sub(BLOCK) {
            Some(next) => next,
            None => break,
        };
        if run.migration.scan.is_contended() && run.request.mode == MigrateMode::Async {
            run.contended = true;
            break;
        }
    }
    // The lowest pageblock may begin below the zone; a position never does.
    run.at.free = at.max(run.span.start);
}

/// The frames of a word that a scan with this stride, a power of two up to 32, looks at.
const fn strided(stride: u32) -> u64 {
    match stride {
        0 | 1 => u64::MAX,
        2 => 0x5555_5555_5555_5555,
        4 => 0x1111_1111_1111_1111,
        8 => 0x0101_0101_0101_0101,
        16 => 0x0001_0001_0001_0001,
        _ => 0x0000_0001_0000_0001,
    }
}

/// Takes the missing frames from a pageblock; returns how much that was.
fn take_part<P: Platform, M: Migrate>(run: &mut Scanners<'_, '_, '_, P, M>, view: &BlockView, need: usize) -> u64 {
    let order = run.request.order.unwrap_or(Order::ZERO);
    let allowed = suitable::may_take_targets(run.migration.scan.zone(), run.config(), order.frames());
    let map = run.migration.scan.map(view.block);
    let visited = strided(run.stride);
    let hit = map.iter().any(|word| word & visited != 0);
    let got = if allowed && hit { run.take_targets(view.block, need) as u64 } else { 0 };
    let looked = BLOCK - u32::from(view.free) + count_free_blocks(&map);
    let scanned = match got {
        0 => u64::from(looked / run.stride.max(1)),
        got => u64::from(looked) * got / u64::from(view.free).max(1),
    };
    run.counts.free_scanned += scanned;
    run.counts.isolated += got;
    trace(run, view.block, scanned, got);
    got
}
