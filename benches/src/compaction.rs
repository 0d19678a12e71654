//! States of a zone in which the scanners of compaction are counted.

use pageblock_buddy::{Patience, Zone};
use pageblock_compaction::{CompactionConfig, Compactor, Priority, Request};
use pageblock_frame::migration::{Migrate, MigrateMode, MoveError, PutBack, Refusal};
use pageblock_frame::{AllocFlags, MigrateType, Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, Pfn};
use pageblock_testkit::host::{Quiet, Stored};
use pageblock_testkit::simulated::SimulatedZone;

use crate::allocators::empty_zone;

/// Pageblocks that the scanners go over.
pub const BLOCKS: u64 = 1024;

/// Half-free pageblocks in which isolation is counted.
pub const HALF_FREE: u64 = 256;

/// Owns nothing that can move.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stone;

#[expect(unsafe_code, reason = "a migrator\'s answers give frames away")]
// SAFETY: it refuses every block, so that none is given away.
unsafe impl Migrate for Stone {
    fn isolate(&self, _: Pfn, _: Order, _: MigrateMode) -> Result<(), Refusal> {
        Err(Refusal::Pinned)
    }

    fn migrate(&self, _: Pfn, _: Pfn, _: Order, _: MigrateMode) -> Result<(), MoveError> {
        Err(MoveError::Failed)
    }

    fn put_back(&self, _: Pfn, _: Order) -> PutBack {
        PutBack::Kept
    }
}

/// A zone of [`BLOCKS`] movable pageblocks full of single frames that cannot be moved, and of so many more with every
/// second one free: there is room, but no pageblock can be emptied.
///
/// # Panics
/// If the zone does not come out like that.
#[must_use]
pub fn unsuitable(half_free: u64) -> Stored<Zone<'static>> {
    let frames = (BLOCKS + half_free) * PAGEBLOCK_FRAMES;
    let stored = empty_zone(frames);
    let zone: &Zone<'_> = &stored;
    assert_eq!(zone.release_simulated::<Quiet>(zone.span()), Ok(frames));
    let single = || zone.alloc::<Quiet>(Order::ZERO, MigrateType::Unmovable, AllocFlags::empty());
    assert_eq!(core::iter::from_fn(single).count() as u64, frames);
    for block in 0..BLOCKS + half_free {
        let pfn = zone.base().add(block * PAGEBLOCK_FRAMES);
        assert_eq!(zone.set_block_type::<Quiet>(pfn, MigrateType::Movable), Ok(()));
    }
    for pfn in (BLOCKS * PAGEBLOCK_FRAMES..frames).step_by(2) {
        assert_eq!(zone.free_simulated::<Quiet>(Pfn::new(pfn), Order::ZERO), Ok(()));
    }
    stored
}

/// Looks for a pageblock to empty, `runs` times, without the notes of earlier runs: every pageblock is read through.
/// The look that chooses them is counted by [`scan_free`].
///
/// # Panics
/// If a run finds something to move.
pub fn scan_migrate(runs: u64) {
    let zone = unsuitable(6);
    let compactor = Compactor::new(CompactionConfig::default());
    let request = Request::direct(PAGEBLOCK_ORDER, MigrateType::Movable, Priority::SyncLight);
    for _ in 0..runs {
        zone.scan::<Quiet>(Patience::Wait).clear_notes();
        let outcome = compactor.run::<Quiet, _>(&zone, &Stone, &request);
        assert_eq!(outcome.counts.migrated, 0);
        assert!(outcome.counts.migrate_scanned >= (BLOCKS - 8) * PAGEBLOCK_FRAMES);
    }
}

/// The same with the notes of earlier runs: every pageblock is looked at, as a source and as a target, and none is
/// read.
///
/// # Panics
/// If a run finds something to move.
pub fn scan_free(runs: u64) {
    let zone = unsuitable(6);
    let compactor = Compactor::new(CompactionConfig::default());
    let request = Request::direct(PAGEBLOCK_ORDER, MigrateType::Movable, Priority::SyncLight);
    let first = compactor.run::<Quiet, _>(&zone, &Stone, &request);
    assert!(first.counts.migrate_scanned >= (BLOCKS - 8) * PAGEBLOCK_FRAMES);
    for _ in 0..runs {
        let outcome = compactor.run::<Quiet, _>(&zone, &Stone, &request);
        assert_eq!((outcome.counts.migrated, outcome.counts.migrate_scanned), (0, 0));
    }
}

/// Isolates all free frames of half-free pageblocks, every second frame, into the map of their bits: one pageblock
/// after another.
///
/// # Panics
/// If they are not all isolated.
pub fn isolate(blocks: u64) {
    let zone = unsuitable(HALF_FREE);
    let scan = zone.scan::<Quiet>(Patience::Wait);
    for block in BLOCKS..BLOCKS + blocks {
        let Some(map) = scan.isolate(core::hint::black_box(block as u32)) else { panic!("withheld already") };
        assert_eq!(core::hint::black_box(map)[7], 0x5555_5555_5555_5555);
    }
    let left = zone.free_frames();
    assert_eq!(left, (HALF_FREE - blocks) * PAGEBLOCK_FRAMES / 2);
}
