//! Whole runs on zones in known states, for every configuration.

use crate::common::{self, Scene, all_configs, order};
use pageblock_buddy::Patience;
use pageblock_compaction::{CompactionConfig, Compactor, Origin, Patches, Priority, Request};
use pageblock_frame::MigrateType::{Movable, Unmovable};
use pageblock_frame::Pfn;
use pageblock_frame::trace::CompactResult;
use pageblock_testkit::simulated::SimulatedZone;

#[test]
fn a_scattered_zone_yields_a_huge_block() {
    for (name, config) in all_configs() {
        let scene = Scene::new(32);
        scene.fill(Movable);
        scene.free_every(2);
        assert_eq!(scene.zone.free_frames(), 32 * 256);
        let before = scene.contents();
        let compactor = Compactor::new(config);
        let request = Request::direct(order(9), Movable, Priority::SyncFull);
        let outcome = compactor.run::<common::P, _>(&scene.zone, &scene.owner, &request);
        scene.verify();
        assert_eq!(outcome.result, CompactResult::Success, "{name}: {outcome:?}");
        match outcome.captured {
            Some(pfn) => {
                assert!(pfn.is_aligned(order(9)));
                scene.zone.free_simulated::<common::P>(pfn, order(9)).unwrap();
            }
            None => assert!(!config.capture, "{name}"),
        }
        assert!(scene.zone.counts().wholly_free > 0, "{name}");
        assert_eq!(scene.contents(), before, "{name}: contents must survive");
        assert_eq!(scene.owner.lent(), 0, "{name}");
        assert_eq!(scene.zone.free_frames(), 32 * 256, "{name}");
        let stat = compactor.vmstat();
        assert!(stat.migrate_success > 0 && stat.isolated >= 2 * stat.migrate_success, "{name}: {stat:?}");
    }
}

#[test]
fn unmovable_memory_stays() {
    for (name, config) in all_configs() {
        let scene = Scene::new(16);
        scene.fill(Unmovable);
        scene.free_every(2);
        let before: Vec<_> = scene.held.borrow().clone();
        let compactor = Compactor::new(config);
        let outcome = compactor.run::<common::P, _>(
            &scene.zone,
            &scene.owner,
            &Request::direct(order(9), Movable, Priority::SyncLight),
        );
        scene.verify();
        assert_ne!(outcome.result, CompactResult::Success, "{name}");
        assert_eq!((outcome.captured, outcome.counts.migrated), (None, 0), "{name}");
        assert_eq!(*scene.held.borrow(), before);
    }
}

#[test]
fn every_order_can_be_made() {
    for (name, config) in all_configs() {
        for o in 1..=10 {
            let scene = Scene::new(32);
            scene.fill(Movable);
            scene.free_every(2);
            let request = Request::direct(order(o), Movable, Priority::SyncFull);
            let outcome = Compactor::new(config).run::<common::P, _>(&scene.zone, &scene.owner, &request);
            scene.verify();
            // At order 1 the fragmentation index is exactly the threshold: 3.13 does not try.
            if config == CompactionConfig::default() || (2..=9).contains(&o) {
                assert_eq!(outcome.result, CompactResult::Success, "{name} order {o}: {outcome:?}");
            }
            if let Some(pfn) = outcome.captured {
                assert!(pfn.is_aligned(order(o)), "{name}");
                scene.zone.free_simulated::<common::P>(pfn, order(o)).unwrap();
            }
            scene.verify();
        }
    }
}

#[test]
fn the_default_moves_the_least() {
    // One pageblock with 8 movable frames among half-full ones: only those 8 need to move.
    let scene = Scene::new(32);
    scene.fill(Movable);
    scene.free_every(2);
    let base = scene.zone.base();
    scene.free_where(|pfn| (20..21).contains(&((pfn.as_u64() - base.as_u64()) / 512)) && pfn.as_u64() % 64 != 1);
    let compactor = Compactor::new(CompactionConfig::default());
    let request = Request::direct(order(9), Movable, Priority::Async);
    let outcome = compactor.run::<common::P, _>(&scene.zone, &scene.owner, &request);
    scene.verify();
    assert_eq!(outcome.captured, Some(base.add(20 * 512)));
    assert_eq!(outcome.counts.migrated, 8);
    assert_eq!(outcome.counts.migrate_scanned, 512);
}

#[test]
fn a_command_compacts_until_nothing_is_gained() {
    let scene = Scene::new(32);
    scene.fill(Movable);
    scene.free_every(2);
    let compactor = Compactor::new(CompactionConfig::default());
    let outcome = compactor.run::<common::P, _>(&scene.zone, &scene.owner, &Request::command());
    scene.verify();
    assert_eq!(outcome.result, CompactResult::Complete);
    assert_eq!(scene.zone.counts().wholly_free, 16);
    // A second run has nothing to do.
    let again = compactor.run::<common::P, _>(&scene.zone, &scene.owner, &Request::command());
    assert_eq!((again.result, again.counts.migrated), (CompactResult::Complete, 0));
}

#[test]
fn a_pinned_frame_keeps_its_pageblock() {
    let scene = Scene::new(8);
    scene.fill(Movable);
    scene.free_every(2);
    let pinned: Vec<_> = scene.owner.pages().keys().copied().filter(|pfn| pfn.as_u64() % 512 == 1).collect();
    assert_eq!(pinned.len(), 8);
    for &pfn in &pinned {
        scene.owner.pin(pfn, true);
    }
    let compactor = Compactor::new(CompactionConfig::default());
    let request = Request::direct(order(9), Movable, Priority::SyncFull);
    let outcome = compactor.run::<common::P, _>(&scene.zone, &scene.owner, &request);
    scene.verify();
    assert_eq!((outcome.result, outcome.counts.migrated), (CompactResult::Complete, 0));
    scene.owner.pin(pinned[5], false);
    let outcome = compactor.run::<common::P, _>(&scene.zone, &scene.owner, &request);
    scene.verify();
    assert_eq!(outcome.captured, Some(scene.zone.base().add(5 * 512)));
}

#[test]
fn patches_one_and_two_change_no_result() {
    let run = |patches| {
        let scene = Scene::new(32);
        scene.fill(Movable);
        scene.free_every(2);
        let compactor = Compactor::new(CompactionConfig::linux_3_13(Patches::first(patches)));
        let outcome = compactor.run::<common::P, _>(
            &scene.zone,
            &scene.owner,
            &Request { origin: Origin::KswapdState, ..Request::direct(order(9), Movable, Priority::SyncLight) },
        );
        (outcome, scene.contents_by_place())
    };
    assert_eq!(run(0), run(1));
    assert_eq!(run(1), run(2));
}

/// 8 pageblocks: one half full of movable pages, six full of them, one of the kernel's with `free` frames left.
fn crowded(free: u64) -> Scene {
    let scene = Scene::new(8);
    scene.fill(Movable);
    let first = 0x1000;
    let within = |pfn: u64, block: u64| (pfn - first) / 512 == block;
    scene.free_where(|pfn| within(pfn.as_u64(), 7));
    scene.zone.set_block_type::<common::P>(Pfn::new(first + 7 * 512), Unmovable).unwrap();
    while scene.held.borrow().len() < 512 {
        scene.alloc(0, Unmovable).unwrap();
    }
    scene.free_where(|pfn| within(pfn.as_u64(), 7) && pfn.as_u64() % 512 < free);
    scene.free_where(|pfn| within(pfn.as_u64(), 0) && pfn.as_u64() % 2 == 0);
    assert_eq!(scene.zone.free_frames(), 256 + free);
    scene
}

#[test]
fn pageblocks_of_other_types_are_filled_when_movable_ones_are_full() {
    for (free, foreign_targets) in [(300, true), (300, false), (200, true)] {
        let scene = crowded(free);
        let expected = foreign_targets && free >= 256;
        let compactor = Compactor::new(CompactionConfig { foreign_targets, ..CompactionConfig::new() });
        let request = Request::direct(order(9), Movable, Priority::SyncLight);
        let outcome = compactor.run::<common::P, _>(&scene.zone, &scene.owner, &request);
        scene.verify();
        assert_eq!(outcome.captured.is_some(), expected, "{free} free, {foreign_targets}: {outcome:?}");
        assert_eq!(outcome.counts.migrated, if expected { 256 } else { 0 });
        assert_eq!(
            scene.zone.scan::<common::P>(Patience::Wait).view(7).unwrap().migrate_type,
            Unmovable,
            "whoever moves in changes nothing about whose it is"
        );
    }
}

/// The same scene unasked: no request gains by it, and types would be mixed.
#[test]
fn proactive_runs_fill_no_pageblocks_of_other_types() {
    let scene = crowded(300);
    let compactor = Compactor::new(CompactionConfig::new());
    let outcome = compactor.run::<common::P, _>(&scene.zone, &scene.owner, &Request::proactive());
    assert_eq!((outcome.result, outcome.counts.migrated), (CompactResult::Complete, 0));
    scene.verify();
}

#[test]
fn a_run_by_occupancy_needs_no_more_than_the_block() {
    for (exact_need, expected) in [(true, CompactResult::Success), (false, CompactResult::Skipped)] {
        let scene = Scene::new(8);
        scene.fill(Movable);
        scene.free_where(|pfn| (pfn.as_u64() - 0x1000) / 512 < 3 && pfn.as_u64() % 2 == 0);
        let marks = pageblock_buddy::Watermarks { min: 200, low: 250, high: 300 };
        scene.zone.set_watermarks(marks);
        let compactor = Compactor::new(CompactionConfig { exact_need, ..CompactionConfig::new() });
        let request = Request::direct(order(9), Movable, Priority::SyncLight);
        let outcome = compactor.run::<common::P, _>(&scene.zone, &scene.owner, &request);
        scene.verify();
        assert_eq!(outcome.result, expected);
        assert!(scene.zone.free_frames() > marks.min);
    }
}
