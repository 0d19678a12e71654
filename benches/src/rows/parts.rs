//! Instructions outside the path of every allocation: compaction's scanners, munlock, initialisation.

use pageblock_mlock::{Placement, SoftArea, Steps};

use crate::compaction;
use crate::machine::{Machine, map_of};
use crate::table::{Kind, Row};
use crate::tool::counted;

/// Frames of the machine that is initialised: 256 GiB.
const LARGE: u64 = 64 << 20;
const PAGEBLOCK: u64 = 512;

pub(super) fn rows() -> Vec<Row> {
    let row = |name: &str, run: fn() -> f64| Row::one(Kind::Instructions, name, run);
    let mut rows = vec![
        row("init.256G", init),
        row("compaction.scan_migrate", || scan(compaction::scan_migrate) - scan(compaction::scan_free)),
        row("compaction.scan_free", || scan(compaction::scan_free)),
        row("compaction.isolate", || difference(compaction::isolate, 32, 224)),
        row("mlock.default", || munlock(Steps::default())),
    ];
    for patches in 0..8 {
        rows.push(Row::one(Kind::Instructions, format!("mlock.step{patches}"), move || munlock(Steps::first(patches))));
    }
    rows
}

/// Instructions a pageblock from a memory map to the first allocation.
fn init() -> f64 {
    let map = map_of(LARGE);
    let storage = Box::leak(Box::<[u8]>::new_uninit_slice(Machine::<2>::metadata_bytes(&map)));
    let (ours, _) = counted(|| Machine::<2>::boot(&map, storage));
    ours as f64 / (LARGE / PAGEBLOCK) as f64
}

/// Cost of one more unit of length.
fn difference(work: fn(u64), short: u64, long: u64) -> f64 {
    let (less, ()) = counted(|| work(short));
    let (more, ()) = counted(|| work(long));
    (more - less) as f64 / (long - short) as f64
}

/// A pageblock, of runs over so many that cannot be emptied.
fn scan(runs: fn(u64)) -> f64 {
    difference(runs, 4, 24) / compaction::BLOCKS as f64
}

/// A page of a locked area: base pages of one node, on the unevictable list in order of addresses.
fn munlock(steps: Steps) -> f64 {
    const PAGES: u64 = 65_536;
    let tables = SoftArea::descriptors(Placement::OneNode, PAGES);
    let area = SoftArea::new(Placement::OneNode, PAGES, &tables);
    area.lock();
    let (ours, ()) = counted(|| area.unlock_with(PAGES, core::hint::black_box(steps)));
    assert_eq!(area.nr_mlock(), 0);
    ours as f64 / PAGES as f64
}
