//! A pageblock that could not be emptied is not read again for the same answer.

use pageblock_compaction::{CompactOutcome, CompactionConfig, Compactor, Priority, Request};
use pageblock_frame::MigrateType::{Movable, Unmovable};
use pageblock_frame::trace::CompactResult;

use crate::common::{self, Scene, order};

/// Pageblocks.
const BLOCKS: u64 = 8;

/// Half-full pageblocks, each with one frame that cannot move in its middle: the kernel's, or one that its owner does
/// not lend.
fn obstructed(kernels: bool) -> Scene {
    let scene = Scene::new(BLOCKS);
    scene.fill(Movable);
    let middle: Vec<_> = (0..BLOCKS).map(|block| scene.zone.base().add(block * 512 + 257)).collect();
    if kernels {
        scene.free_where(|pfn| middle.contains(&pfn));
        let taken: Vec<_> = middle.iter().map(|_| scene.alloc(0, Unmovable)).collect();
        assert!(taken.iter().all(Option::is_some));
    } else {
        assert!(middle.iter().all(|&pfn| scene.owner.pin(pfn, true)));
    }
    scene.free_where(|pfn| pfn.as_u64() % 2 == 0 && !middle.contains(&pfn));
    scene
}

fn run(scene: &Scene, compactor: &Compactor, request: &Request) -> CompactOutcome {
    let outcome = compactor.run::<common::P, _>(&scene.zone, &scene.owner, request);
    scene.verify();
    outcome
}

fn direct() -> Request {
    Request::direct(order(9), Movable, Priority::SyncLight)
}

#[test]
fn one_frame_is_looked_at_where_one_was_in_the_way() {
    for kernels in [true, false] {
        let scene = obstructed(kernels);
        let compactor = Compactor::new(CompactionConfig::default());
        let first = run(&scene, &compactor, &direct());
        assert_eq!((first.result, first.counts.migrated), (CompactResult::Complete, 0));
        assert!(first.counts.migrate_scanned >= 257 * BLOCKS, "{kernels}: {:?}", first.counts);
        // Nothing has changed: the notes hold.
        assert_eq!(run(&scene, &compactor, &direct()).counts.migrate_scanned, 0, "{kernels}");
        // As many frames are free as never before, and the same ones are in the way.
        scene.free_where(|pfn| pfn.as_u64() % 512 == 7);
        let again = run(&scene, &compactor, &direct());
        assert_eq!(
            (again.result, again.counts.migrated, again.counts.migrate_scanned),
            (CompactResult::Complete, 0, BLOCKS)
        );
        // A run that nobody asked for looks at those, too, and at no more.
        let ahead = run(&scene, &compactor, &Request::proactive());
        assert_eq!((ahead.counts.migrated, ahead.counts.migrate_scanned), (0, BLOCKS), "{kernels}");
    }
}

#[test]
fn a_page_that_is_not_lent_ends_the_reading_of_its_pageblock() {
    let scene = obstructed(false);
    let outcome = run(&scene, &Compactor::new(CompactionConfig::default()), &direct());
    assert_eq!((outcome.result, outcome.counts.migrated), (CompactResult::Complete, 0));
    // The page is the 258th: with it the 64 frames that are read together, and none behind them.
    assert_eq!(outcome.counts.migrate_scanned, 320 * BLOCKS);
}

#[test]
fn what_is_no_longer_in_the_way_is_seen() {
    let scene = obstructed(false);
    let compactor = Compactor::new(CompactionConfig::default());
    assert_eq!(run(&scene, &compactor, &direct()).result, CompactResult::Complete);
    // The number of free frames stays the same: only a run that believes no note can know.
    scene.owner.pin(scene.zone.base().add(3 * 512 + 257), false);
    assert_eq!(run(&scene, &compactor, &direct()).result, CompactResult::Complete);
    let ahead = run(&scene, &compactor, &Request::proactive());
    assert!(ahead.counts.migrated > 0 && scene.zone.counts().wholly_free == 1, "{:?}", ahead.counts);
}

#[test]
fn a_kernel_frame_that_is_freed_is_no_obstacle() {
    let scene = obstructed(true);
    let compactor = Compactor::new(CompactionConfig::default());
    assert_eq!(run(&scene, &compactor, &direct()).result, CompactResult::Complete);
    scene.free_where(|pfn| pfn == scene.zone.base().add(5 * 512 + 257));
    let outcome = run(&scene, &compactor, &direct());
    assert_eq!(outcome.captured, Some(scene.zone.base().add(5 * 512)));
}

/// A pageblock that cannot be emptied whole may well have room for smaller blocks.
#[test]
fn smaller_blocks_have_notes_of_their_own() {
    let scene = obstructed(true);
    let compactor = Compactor::new(CompactionConfig::default());
    assert_eq!(run(&scene, &compactor, &direct()).result, CompactResult::Complete);
    let small = Request::direct(order(4), Movable, Priority::SyncLight);
    assert_eq!(run(&scene, &compactor, &small).result, CompactResult::Success);
}
