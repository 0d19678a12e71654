//! What each patch of the series of 2013 (*Memory compaction efficiency improvements*) changes, seen from outside:
//! before and after.

use pageblock_compaction::{CompactOutcome, CompactionConfig, Compactor, Era, Origin, Patches, Priority, Request};
use pageblock_frame::migration::MigrateMode;
use pageblock_frame::trace::{CompactEvent, CompactResult, Event, ScanPositions};
use pageblock_frame::{MigrateType, Pfn};
use pageblock_testkit::host::record;

use crate::common::{P, Scene, order};

fn compactor(patches: Patches) -> Compactor {
    Compactor::new(CompactionConfig::linux_3_13(patches))
}

fn request() -> Request {
    Request::direct(order(9), MigrateType::Movable, Priority::SyncLight)
}

/// A run, and where its scanners began.
fn run(scene: &Scene, compactor: &Compactor, request: &Request) -> (CompactOutcome, Option<ScanPositions>) {
    let (outcome, events) = record(|| compactor.run::<P, _>(&scene.zone, &scene.owner, request));
    scene.verify();
    let begin =
        events.iter().find_map(|e| if let Event::Compaction(CompactEvent::Begin(at)) = e { Some(*at) } else { None });
    (outcome, begin)
}

fn skip_bits(scene: &Scene) -> Vec<bool> {
    let scan = scene.zone.scan::<P>(pageblock_buddy::Patience::Wait);
    (0..scan.blocks()).map(|block| scan.is_skipped(block)).collect()
}

/// Half of every pageblock is free, and nothing of the rest can move.
fn pinned(blocks: u64) -> Scene {
    let scene = Scene::new(blocks);
    scene.fill(MigrateType::Movable);
    scene.free_every(2);
    let pages: Vec<Pfn> = scene.owner.pages().keys().copied().collect();
    pages.into_iter().for_each(|pfn| assert!(scene.owner.pin(pfn, true)));
    scene
}

fn ends(scene: &Scene) -> (Pfn, Pfn) {
    (scene.zone.span().start, scene.zone.span().end)
}

fn positions(at: Option<ScanPositions>) -> (Pfn, Pfn) {
    at.map(|at| (at.migrate, at.free)).unwrap()
}

#[test]
fn patch_1_begin_and_end_are_events() {
    for patches in [Patches::NONE, Patches::first(1)] {
        let scene = pinned(8);
        let compactor = compactor(patches);
        let (_, events) = record(|| compactor.run::<P, _>(&scene.zone, &scene.owner, &request()));
        let is_frame = |e: &&Event| matches!(e, Event::Compaction(CompactEvent::Begin(_) | CompactEvent::End { .. }));
        assert_eq!(events.iter().filter(is_frame).count(), if patches.trace_runs { 2 } else { 0 });
    }
}

#[test]
fn patch_3_a_restart_takes_effect_at_once() {
    for reset_before_read in [false, true] {
        let scene = pinned(8);
        let compactor = compactor(Patches { reset_before_read, reset_on_meeting: false, ..Patches::ALL });
        assert_eq!(run(&scene, &compactor, &request()).0.result, CompactResult::Complete);
        // The scanners met; without patch 6 that is where the next run begins.
        let stale = positions(run(&scene, &compactor, &request()).1);
        assert_ne!(stale, ends(&scene));
        for _ in 0..6 {
            compactor.defer::<P>(&scene.zone, order(9));
        }
        while compactor.is_deferred::<P>(&scene.zone, order(9)) {}
        assert!(compactor.deferral().is_restarting(order(9)));
        let begin = positions(run(&scene, &compactor, &request()).1);
        if reset_before_read {
            assert_eq!(begin, ends(&scene));
        } else {
            assert_eq!(begin, stale, "one run is wasted on the old positions");
        }
    }
}

#[test]
fn patch_4_scanners_that_meet_are_seen_to() {
    for detect_meeting in [false, true] {
        let scene = Scene::new(8);
        scene.fill(MigrateType::Movable);
        scene.free_every(2);
        // There is something to move in the first pageblock, and nothing that may take it.
        let scan = scene.zone.scan::<P>(pageblock_buddy::Patience::Wait);
        (1..8).for_each(|block| assert!(!scan.set_skip(block)));
        let compactor = compactor(Patches { detect_meeting, reset_on_meeting: false, ..Patches::ALL });
        let (outcome, _) = run(&scene, &compactor, &request());
        assert_eq!(outcome.counts.migrated, 0);
        if detect_meeting {
            assert_eq!(outcome.result, CompactResult::Complete);
            assert!(compactor.reset_if_due::<P>(&scene.zone), "the reclaim thread clears the bits when it sleeps");
            let (outcome, begin) = run(&scene, &compactor, &request());
            assert_eq!((outcome.result, positions(begin)), (CompactResult::Success, ends(&scene)));
        } else {
            assert_eq!(outcome.result, CompactResult::Contended);
            assert!(!compactor.reset_if_due::<P>(&scene.zone), "nobody knows that they met");
            assert_eq!(run(&scene, &compactor, &request()).0.result, CompactResult::Contended);
        }
    }
}

#[test]
fn patch_5_synchronous_runs_look_where_asynchronous_ones_could_not() {
    for async_no_skip in [false, true] {
        // All pageblocks are the kernel's by type, but what is in them can move.
        let scene = Scene::new(8);
        scene.fill(MigrateType::Movable);
        scene.free_every(2);
        for block in 0..8 {
            let pfn = scene.zone.base().add(block * 512);
            scene.zone.set_block_type::<P>(pfn, MigrateType::Unmovable).unwrap();
        }
        let compactor = compactor(Patches { async_no_skip, reset_on_meeting: false, ..Patches::ALL });
        let (outcome, _) = run(&scene, &compactor, &Request { mode: MigrateMode::Async, ..request() });
        assert_eq!(outcome.counts.isolated, 0);
        assert_eq!(skip_bits(&scene), vec![!async_no_skip; 8]);
        // The position has not moved either way.
        let (outcome, begin) = run(&scene, &compactor, &request());
        assert_eq!(positions(begin).0, ends(&scene).0);
        assert_eq!(outcome.counts.isolated > 0, async_no_skip, "{outcome:?}");
    }
}

#[test]
fn patch_6_scanners_that_met_begin_anew() {
    for reset_on_meeting in [false, true] {
        let scene = pinned(8);
        let compactor = compactor(Patches { reset_on_meeting, ..Patches::ALL });
        assert_eq!(run(&scene, &compactor, &request()).0.result, CompactResult::Complete);
        let begin = positions(run(&scene, &compactor, &request()).1);
        assert_eq!(begin == ends(&scene), reset_on_meeting);
        // Skip bits stay until the reclaim thread sleeps.
        assert!(skip_bits(&scene).contains(&true));
        assert!(compactor.reset_if_due::<P>(&scene.zone));
        assert!(!skip_bits(&scene).contains(&true));
        assert!(!compactor.reset_if_due::<P>(&scene.zone));
    }
}

#[test]
fn the_reclaim_thread_arms_no_flush() {
    let scene = pinned(8);
    let compactor = compactor(Patches::ALL);
    let (outcome, _) = run(&scene, &compactor, &Request { origin: Origin::KswapdState, ..request() });
    assert_eq!(outcome.result, CompactResult::Complete);
    assert!(!compactor.reset_if_due::<P>(&scene.zone));
}

#[test]
fn since_3_16_each_mode_has_a_position() {
    for split_positions in [false, true] {
        let scene = pinned(8);
        let config = {
            let before = CompactionConfig::linux_3_13(Patches::first(5));
            CompactionConfig { era: Era { split_positions, ..before.era }, ..before }
        };
        let compactor = Compactor::new(config);
        let (outcome, _) = run(&scene, &compactor, &Request { mode: MigrateMode::Async, ..request() });
        assert_eq!(outcome.result, CompactResult::Complete);
        let begin = positions(run(&scene, &compactor, &request()).1).0;
        assert_eq!(begin == ends(&scene).0, split_positions, "{begin}");
    }
}
