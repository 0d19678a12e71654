//! Direct attempts over zones, deferral, and the compaction thread.

use pageblock_compaction::{
    CompactZone, CompactionConfig, Compactor, DirectRequest, Got, Kcompactd, KswapdState, Next, Patches, Priority,
    accountable, compact_zones, settle,
};
use pageblock_frame::trace::{CompactEvent, CompactResult, Event};
use pageblock_frame::{Gfp, MigrateType, NodeId, ZoneKind};
use pageblock_testkit::host::record;
use pageblock_testkit::simulated::SimulatedZone;

use crate::common::{P, Scene, order};

fn scattered(blocks: u64) -> Scene {
    let scene = Scene::new(blocks);
    scene.fill(MigrateType::Movable);
    scene.free_every(2);
    scene
}

/// As good as nothing movable: every second frame is the kernel's.
fn hopeless(blocks: u64) -> Scene {
    let scene = Scene::new(blocks);
    scene.fill(MigrateType::Unmovable);
    scene.free_every(2);
    scene
}

#[test]
fn the_second_zone_serves() {
    let (first, second) = (hopeless(8), scattered(8));
    let compactors = [Compactor::new(CompactionConfig::default()), Compactor::new(CompactionConfig::default())];
    let zones = [
        CompactZone { zone: &first.zone, compactor: &compactors[0] },
        CompactZone { zone: &second.zone, compactor: &compactors[1] },
    ];
    let request = DirectRequest::new(order(9), Gfp::HIGHUSER_MOVABLE, Priority::SyncLight);
    let outcome = compact_zones::<P, _>(zones, &request, &second.owner);
    assert_eq!(outcome.result, CompactResult::Success);
    settle::<P>(zones[1], &request, &outcome, Got::Block);
    assert!(second.zone.free_simulated::<P>(outcome.captured.unwrap(), order(9)).is_ok());
    assert_eq!((compactors[1].vmstat().stall, compactors[1].vmstat().success), (1, 1));
    // The first zone failed and is left alone for a while.
    assert!(compactors[0].deferral().is_deferred(order(9)));
    assert!(!compactors[1].deferral().is_deferred(order(9)));
}

#[test]
fn failures_space_out() {
    let scene = hopeless(8);
    let compactor = Compactor::new(CompactionConfig::linux_6_1());
    let zone = CompactZone { zone: &scene.zone, compactor: &compactor };
    let request = DirectRequest::new(order(9), Gfp::HIGHUSER_MOVABLE, Priority::SyncLight);
    let mut ran = Vec::new();
    for attempt in 0..130 {
        let outcome = compact_zones::<P, _>([zone], &request, &scene.owner);
        if outcome.result != CompactResult::Deferred {
            ran.push(attempt);
        }
    }
    assert_eq!(ran, [0, 2, 6, 14, 30, 62, 126]);
    // Full priority does not ask.
    let full = DirectRequest { priority: Priority::SyncFull, ..request };
    assert_ne!(compact_zones::<P, _>([zone], &full, &scene.owner).result, CompactResult::Deferred);
}

#[test]
fn before_3_18_only_the_allocation_counts() {
    let scene = hopeless(8);
    let compactor = Compactor::new(CompactionConfig::linux_3_13(Patches::ALL));
    let zone = CompactZone { zone: &scene.zone, compactor: &compactor };
    let request = DirectRequest::new(order(9), Gfp::HIGHUSER_MOVABLE, Priority::SyncLight);
    let outcome = compact_zones::<P, _>([zone], &request, &scene.owner);
    assert!(!compactor.deferral().is_deferred(order(9)));
    settle::<P>(zone, &request, &outcome, Got::Nothing);
    assert!(compactor.deferral().is_deferred(order(9)));
    // What was deferred is no stall.
    settle::<P>(
        zone,
        &request,
        &pageblock_compaction::CompactOutcome::unstarted(CompactResult::Deferred),
        Got::Nothing,
    );
    assert_eq!((compactor.vmstat().stall, compactor.vmstat().fail), (1, 1));
}

#[test]
fn before_3_18_a_block_of_any_zone_ends_the_preferred_zones_deferral() {
    let (first, second) = (hopeless(8), scattered(8));
    let old = || Compactor::new(CompactionConfig::linux_3_13(Patches::ALL));
    let compactors = [old(), old()];
    let zones = [
        CompactZone { zone: &first.zone, compactor: &compactors[0] },
        CompactZone { zone: &second.zone, compactor: &compactors[1] },
    ];
    for compactor in &compactors {
        compactor.defer::<P>(&first.zone, order(9));
        assert!(compactor.deferral().is_deferred(order(9)));
    }
    // The next attempt is one that counts.
    let request = DirectRequest::new(order(9), Gfp::HIGHUSER_MOVABLE, Priority::SyncLight);
    let outcome = compact_zones::<P, _>(zones, &request, &second.owner);
    assert_eq!(outcome.result, CompactResult::Success);
    settle::<P>(accountable(zones[0], Some(zones[1])), &request, &outcome, Got::Block);
    let (considered, shift, failed) = compactors[0].deferral().state();
    assert_eq!((considered, shift, failed), (0, 0, order(10)));
    // The zone that served has a deferral that nobody asks, and nobody changes.
    assert_eq!(compactors[1].deferral().state().1, 1);
}

#[test]
fn the_thread_makes_a_block_and_sleeps() {
    let scene = scattered(16);
    let compactor = Compactor::new(CompactionConfig { proactiveness: 0, ..CompactionConfig::default() });
    let zones = [CompactZone { zone: &scene.zone, compactor: &compactor }];
    let thread = Kcompactd::new(NodeId::new(0));
    let step = |now| thread.step::<P, _>(&zones, &scene.owner, KswapdState::Asleep, now);
    assert_eq!(step(0), Next::Sleep { until: None });
    assert_eq!(scene.zone.counts().wholly_free, 0);
    thread.wake::<P>(order(9), ZoneKind::Normal);
    thread.wake::<P>(order(4), ZoneKind::Movable);
    let (steps, events) = record(|| (0..10).map(step).take_while(|next| *next == Next::Again).count());
    assert_eq!(steps, 1);
    assert!(scene.zone.counts().wholly_free >= 1);
    assert!(!thread.is_wanted());
    let names: Vec<_> = events
        .iter()
        .filter_map(|event| if let Event::Compaction(event) = event { Some(event.name()) } else { None })
        .filter(|name| name.contains("kcompactd"))
        .collect();
    assert_eq!(names, ["mm_compaction_kcompactd_wake", "mm_compaction_kcompactd_sleep"]);
    assert_eq!(compactor.vmstat().daemon_wake, 1);
    assert!(compactor.vmstat().daemon_migrate_scanned > 0);
    scene.verify();
}

#[test]
fn proactive_compaction_follows_the_score() {
    let scene = scattered(32);
    let compactor = Compactor::new(CompactionConfig { proactiveness: 20, ..CompactionConfig::default() });
    let zones = [CompactZone { zone: &scene.zone, compactor: &compactor }];
    let thread = Kcompactd::new(NodeId::new(0));
    // Memory is short: not now.
    assert_eq!(
        thread.step::<P, _>(&zones, &scene.owner, KswapdState::Awake, 1),
        Next::Sleep { until: Some(500_000_001) }
    );
    assert_eq!(scene.zone.counts().wholly_free, 0);
    // Too early.
    let _ = thread.step::<P, _>(&zones, &scene.owner, KswapdState::Asleep, 2);
    assert_eq!(scene.zone.counts().wholly_free, 0);
    // All free frames were scattered: compacted until a fifth of them is in whole pageblocks.
    let next = thread.step::<P, _>(&zones, &scene.owner, KswapdState::Asleep, 600_000_000);
    assert_eq!(next, Next::Sleep { until: Some(1_100_000_000) });
    assert_eq!(scene.zone.counts().wholly_free, 4);
    scene.verify();
    // Below the mark nothing is done.
    let moved = compactor.vmstat().migrate_success;
    let _ = thread.step::<P, _>(&zones, &scene.owner, KswapdState::Asleep, 2_000_000_000);
    assert_eq!(compactor.vmstat().migrate_success, moved);
}

#[test]
fn proactive_compaction_backs_off() {
    let scene = hopeless(32);
    let compactor = Compactor::new(CompactionConfig::linux_6_1());
    let zones = [CompactZone { zone: &scene.zone, compactor: &compactor }];
    let thread = Kcompactd::new(NodeId::new(0));
    let next = thread.step::<P, _>(&zones, &scene.owner, KswapdState::Asleep, 0);
    assert_eq!(next, Next::Sleep { until: Some(32_000_000_000) });
    thread.look_now();
    assert_ne!(thread.step::<P, _>(&zones, &scene.owner, KswapdState::Asleep, 5), next);
}

/// The default repeats a look in vain when another pageblock's worth is free in parts, and not before.
#[test]
fn a_look_in_vain_is_repeated_when_more_is_free() {
    let scene = hopeless(32);
    let compactor = Compactor::new(CompactionConfig::default());
    let zones = [CompactZone { zone: &scene.zone, compactor: &compactor }];
    let thread = Kcompactd::new(NodeId::new(0));
    let runs_at = |second: u64| {
        let now = second * 1_000_000_000;
        let (next, events) = record(|| thread.step::<P, _>(&zones, &scene.owner, KswapdState::Asleep, now));
        assert_eq!(next, Next::Sleep { until: Some(now + 500_000_000) });
        events.iter().filter(|event| matches!(event, Event::Compaction(CompactEvent::Begin(_)))).count()
    };
    assert_eq!([runs_at(0), runs_at(1), runs_at(60)], [1, 0, 0]);
    let free = scene.zone.free_frames();
    scene.free_where(|pfn| pfn.as_u64() % 64 == 1);
    assert_eq!((scene.zone.free_frames() - free, runs_at(61)), (256, 0), "half a pageblock");
    scene.free_where(|pfn| pfn.as_u64() % 64 == 3);
    assert_eq!([runs_at(62), runs_at(63)], [1, 0]);
}

#[test]
fn a_run_prints_as_a_trace() {
    let scene = scattered(8);
    let compactor = Compactor::new(CompactionConfig::linux_3_13(Patches::ALL));
    let request = pageblock_compaction::Request::direct(order(9), MigrateType::Movable, Priority::Async);
    let (_, events) = record(|| compactor.run::<P, _>(&scene.zone, &scene.owner, &request));
    let events: Vec<CompactEvent> =
        events.iter().filter_map(|e| if let Event::Compaction(e) = e { Some(*e) } else { None }).collect();
    let begin = events.iter().find(|e| matches!(e, CompactEvent::Begin(_))).unwrap();
    assert_eq!(
        begin.in_3_13().to_string(),
        "mm_compaction_begin: zone_start=4096 migrate_start=4096 free_start=8192 zone_end=8192"
    );
    let end = events.last().unwrap();
    assert!(end.to_string().starts_with("mm_compaction_end: zone_start=0x1000 migrate_pfn="), "{end}");
    assert!(end.to_string().ends_with("zone_end=0x2000, mode=async status=success"), "{end}");
    assert_eq!(end.in_3_13().to_string(), "mm_compaction_end: status=2");
    let CompactEvent::End { counts, .. } = end else { panic!("{end}") };
    let moved: u64 =
        events.iter().map(|e| if let CompactEvent::Migrate { migrated, .. } = e { *migrated } else { 0 }).sum();
    assert_eq!(moved, counts.migrated);
}
