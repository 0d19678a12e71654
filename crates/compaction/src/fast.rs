//! The searches of 5.1: asking the free lists for promising pageblocks before walking.
//!
//! Linux's lists hold free blocks in order of use, ours are sets of pageblocks by their largest free block, in order of
//! address; a pageblock here stands for as many entries there as it has free blocks of that order.

use pageblock_buddy::BlockView;
use pageblock_frame::migration::Migrate;
use pageblock_frame::sync::Ordering;
use pageblock_frame::{MigrateType, Order, Platform};

use crate::free_scan::{Listed, take};
use crate::linear::{BLOCK, Run};
use crate::migrate_scan::searches_lists;
use crate::moving::keep;
use crate::suitable;

/// List entries looked at after so many failures (`freelist_scan_limit()`).
const fn limit(failures: u32) -> usize {
    (if failures >= 32 { 0 } else { 32usize >> failures }) + 1
}

/// Movable pageblocks from `from` on whose largest free block has this order.
fn listed<P: Platform, M: Migrate>(run: &Run<'_, '_, '_, P, M>, order: Order, (from, most): (u32, usize)) -> Listed {
    let mut out = [0; 64];
    let out_of = out.get_mut(..most.min(64)).unwrap_or_default();
    let found = run.mover.scan.listed((MigrateType::Movable, order), from, out_of);
    let mut blocks = Listed::new();
    out.into_iter().take(found).for_each(|block| keep(&mut blocks, block));
    blocks
}

/// Moves the migrate scanner to a movable pageblock near the low end that has something free already
/// (`fast_find_migrateblock()`). True if it did; the pageblock's skip bit is set then, and must not be asked.
pub(crate) fn find_source<P: Platform, M: Migrate>(run: &mut Run<'_, '_, '_, P, M>) -> bool {
    if !searches_lists(run) {
        return false;
    }
    let mut distance = run.free.saturating_sub(run.migrate) / 2;
    if run.migrate != run.span.0 {
        distance /= 4;
    }
    let high = (run.migrate + distance) & !(BLOCK - 1);
    let failures = run.compactor.fast_failures.load(Ordering::Relaxed);
    let mut left = limit(failures);
    let top = run.request.order.unwrap_or(Order::ZERO).as_u8();
    for order in (3..top).rev().map(Order::saturating) {
        for block in listed(run, order, (0, left)) {
            left = left.saturating_sub(1);
            let near = |view: &BlockView| view.block * BLOCK < high && view.block * BLOCK >= run.span.0 && !view.skip;
            if run.mover.scan.view(block).is_some_and(|view| near(&view)) {
                run.mover.scan.set_skip(block);
                run.compactor.fast_failures.store(0, Ordering::Relaxed);
                run.migrate = block * BLOCK;
                return true;
            }
        }
        if left == 0 {
            break;
        }
    }
    run.compactor.fast_failures.store(failures.saturating_add(1), Ordering::Relaxed);
    false
}

/// Takes targets from a movable pageblock near the high end (`fast_isolate_freepages()`).
pub(crate) fn take_targets<P: Platform, M: Migrate>(run: &mut Run<'_, '_, '_, P, M>, need: usize) {
    let distance = run.free.saturating_sub(run.migrate);
    let low = (run.free - distance / 4) & !(BLOCK - 1);
    let least = (run.free - distance / 2) & !(BLOCK - 1);
    let at_start = run.free >= run.first_free;
    let failures = run.compactor.fast_failures.load(Ordering::Relaxed);
    let mut left = if at_start { BLOCK as usize / 2 } else { (limit(failures) / 2).max(1) };
    let wanted = run.request.order.unwrap_or(Order::ZERO);
    let mut best: Option<u32> = None;
    let mut highest = least;
    'orders: for order in (0..wanted.as_u8()).rev().map(Order::saturating) {
        for block in listed(run, order, (least / BLOCK, left)) {
            left = left.saturating_sub(1);
            run.counts.free_scanned += 1;
            let at = block * BLOCK;
            highest = highest.max(at);
            if at >= low {
                best = Some(block);
                break 'orders;
            }
            if at >= least && best.is_none_or(|known| known < block) {
                best = Some(block);
                left /= 2;
            }
            if left == 0 {
                break 'orders;
            }
        }
    }
    let far = |block: &u32| block * BLOCK > run.migrate && block * BLOCK < run.span.1;
    let allowed = suitable::may_take_targets(run.mover.scan.zone(), run.config(), wanted.frames());
    match best.filter(far).filter(|_| allowed) {
        Some(block) => {
            let got = take(run, block, need);
            run.counts.isolated += got as u64;
            run.counts.free_scanned += got as u64;
            if run.stock.len() < need && !run.request.full {
                run.mover.scan.set_skip(block);
            }
        }
        None if at_start && highest > run.migrate => run.free = highest.min(run.free),
        None => {}
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    #[test]
    fn limit_falls_with_failures() {
        let limits = [0, 1, 2, 3, 4, 5, 6, 7, 63, u32::MAX].map(super::limit);
        assert_eq!(limits, [33, 17, 9, 5, 3, 2, 1, 1, 1, 1]);
    }
}
