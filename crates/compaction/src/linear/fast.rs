//! The searches of 5.1: asking the free lists for promising pageblocks before walking.
//!
//! Linux's lists hold free blocks in order of use, ours are sets of pageblocks by their largest free block, in order of
//! address; a pageblock here stands for as many entries there as it has free blocks of that order.

use arrayvec::ArrayVec;
use pageblock_buddy::BlockView;
use pageblock_frame::migration::Migrate;
use pageblock_frame::sync::Ordering;
use pageblock_frame::{MigrateType, Order, Platform};

use super::scanners::Scanners;
use crate::cluster::{BLOCK, keep};
use crate::request::Origin;
use crate::suitable;

/// Pageblocks that a search of the free lists looks at.
type Listed = ArrayVec<u32, 64>;

/// List entries looked at after so many failures (`freelist_scan_limit()`).
const fn limit(failures: u32) -> usize {
    (if failures >= 32 { 0 } else { 32usize >> failures }) + 1
}

/// Movable pageblocks from `from` on that have a largest free block of this order.
fn listed<P: Platform, M: Migrate>(run: &Scanners<'_, '_, '_, P, M>, order: Order, from: u32, most: usize) -> Listed {
    let mut out = [0; 64];
    let out_of = out.get_mut(..most.min(64)).unwrap_or_default();
    let found = run.migration.scan.listed(MigrateType::Movable, order, from, out_of);
    let mut blocks = Listed::new();
    out.into_iter().take(found).for_each(|block| keep(&mut blocks, block));
    blocks
}

/// Whether the origin may use the free lists to find sources.
fn searches_lists<P: Platform, M: Migrate>(run: &Scanners<'_, '_, '_, P, M>) -> bool {
    let big = run.request.order.is_some_and(|order| order.as_u8() > 3);
    let mobile = run.request.migrate_type == MigrateType::Movable || run.request.origin == Origin::Kcompactd;
    let at_start = run.at.migrate == run.span.start || run.at.migrate.is_multiple_of(BLOCK);
    big && mobile && at_start && !run.request.full
}

/// Moves the migrate scanner to a movable pageblock near the low end that has something free already
/// (`fast_find_migrateblock()`). True if it did; the pageblock's skip bit is set then, and must not be asked.
pub(crate) fn find_source<P: Platform, M: Migrate>(run: &mut Scanners<'_, '_, '_, P, M>) -> bool {
    if !searches_lists(run) {
        return false;
    }
    let mut distance = run.at.free.saturating_sub(run.at.migrate) / 2;
    if run.at.migrate != run.span.start {
        distance /= 4;
    }
    let high = (run.at.migrate + distance) & !(BLOCK - 1);
    let failures = run.compactor.fast_failures.load(Ordering::Relaxed);
    let mut left = limit(failures);
    let top = run.request.order.unwrap_or(Order::ZERO).as_u8();
    for order in (3..top).rev().map(Order::saturating) {
        for block in listed(run, order, 0, left) {
            left = left.saturating_sub(1);
            let near =
                |view: &BlockView| view.block * BLOCK < high && view.block * BLOCK >= run.span.start && !view.skip;
            if run.migration.scan.view(block).is_some_and(|view| near(&view)) {
                run.migration.scan.set_skip(block);
                run.compactor.fast_failures.store(0, Ordering::Relaxed);
                run.at.migrate = block * BLOCK;
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
pub(crate) fn take_targets<P: Platform, M: Migrate>(run: &mut Scanners<'_, '_, '_, P, M>, need: usize) {
    let distance = run.at.free.saturating_sub(run.at.migrate);
    let low = (run.at.free - distance / 4) & !(BLOCK - 1);
    let least = (run.at.free - distance / 2) & !(BLOCK - 1);
    let at_start = run.at.free >= run.first_free;
    let failures = run.compactor.fast_failures.load(Ordering::Relaxed);
    let mut left = if at_start { BLOCK as usize / 2 } else { (limit(failures) / 2).max(1) };
    let wanted = run.request.order.unwrap_or(Order::ZERO);
    let mut best: Option<u32> = None;
    let mut highest = least;
    'orders: for order in (0..wanted.as_u8()).rev().map(Order::saturating) {
        for block in listed(run, order, least / BLOCK, left) {
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
    let far = |block: &u32| block * BLOCK > run.at.migrate && block * BLOCK < run.span.end;
    let allowed = suitable::may_take_targets(run.migration.scan.zone(), run.config(), wanted.frames());
    match best.filter(far).filter(|_| allowed) {
        Some(block) => {
            let got = run.take_targets(block, need);
            run.counts.isolated += got as u64;
            run.counts.free_scanned += got as u64;
            if run.targets.len() < need && !run.request.full {
                run.migration.scan.set_skip(block);
            }
        }
        None if at_start && highest > run.at.migrate => run.at.free = highest.min(run.at.free),
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
