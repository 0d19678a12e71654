//! What a run looks at, asks, remembers and reports, in figures.

use pageblock_testkit::simulated::SimulatedZone;
use std::cell::RefCell;
use std::collections::BTreeMap;

use pageblock_buddy::Watermarks;
use pageblock_compaction::{
    CompactionConfig, CompactionVmStat, Compactor, ContigError, Era, Patches, Priority, Request, Search,
};
use pageblock_frame::MigrateType::{Movable, Unmovable};
use pageblock_frame::migration::{Migrate, MigrateMode, MoveError, PutBack, Refusal};
use pageblock_frame::trace::{CompactEvent, CompactResult, Event, ScanPositions};
use pageblock_frame::{Order, Pfn, PfnRange, StateByte, ZoneKind};
use pageblock_testkit::host::record;

use crate::common::{P, Scene, order};

const LINEAR: CompactionConfig = CompactionConfig { search: Search::Linear, ..CompactionConfig::linux_6_1() };

/// A migrator that is busy with some pages and fails to move others; it counts the requests for each page.
struct Reluctant<'a> {
    scene: &'a Scene,
    busy: Vec<Pfn>,
    fails: Vec<Pfn>,
    asked: RefCell<BTreeMap<Pfn, u32>>,
}

impl<'a> Reluctant<'a> {
    fn new(scene: &'a Scene) -> Self {
        Self { scene, busy: Vec::new(), fails: Vec::new(), asked: RefCell::default() }
    }
}

// SAFETY: `Movables` answers, or the page is left as it is; nothing is behind the frames.
unsafe impl Migrate for Reluctant<'_> {
    fn isolate(&self, pfn: Pfn, order: Order, mode: MigrateMode) -> Result<(), Refusal> {
        *self.asked.borrow_mut().entry(pfn).or_default() += 1;
        if self.busy.contains(&pfn) { Err(Refusal::Busy) } else { self.scene.owner.isolate(pfn, order, mode) }
    }

    fn migrate(&self, from: Pfn, to: Pfn, order: Order, mode: MigrateMode) -> Result<(), MoveError> {
        if self.fails.contains(&from) {
            return Err(MoveError::Failed);
        }
        self.scene.owner.migrate(from, to, order, mode)
    }

    fn put_back(&self, pfn: Pfn, order: Order) -> PutBack {
        self.scene.owner.put_back(pfn, order)
    }
}

/// Frame `offset` of a pageblock.
fn frame(scene: &Scene, block: u64, offset: u64) -> Pfn {
    scene.zone.base().add(block * 512 + offset)
}

fn block_of(scene: &Scene, pfn: Pfn) -> u64 {
    (pfn.as_u64() - scene.zone.base().as_u64()) / 512
}

/// Where the last of some runs began.
fn began(events: &[Event]) -> ScanPositions {
    let at = |event: &Event| match event {
        Event::Compaction(CompactEvent::Begin(at)) => Some(*at),
        _ => None,
    };
    events.iter().rev().find_map(at).expect("a run began")
}

/// Positions from which the second of two runs begins.
fn second_run(scene: &Scene, compactor: &Compactor, request: &Request) -> ScanPositions {
    let ((), events) = record(|| {
        for _ in 0..2 {
            // A block that was captured stays in use, so that the second run has something to do.
            let _ = compactor.run::<P, _>(&scene.zone, &scene.owner, request);
        }
    });
    let begins = events.iter().filter(|event| matches!(event, Event::Compaction(CompactEvent::Begin(_)))).count();
    assert_eq!(begins, 2);
    began(&events)
}

#[test]
fn a_page_that_fails_to_move_is_named() {
    let scene = Scene::new(4);
    scene.fill(Movable);
    scene.free_where(|pfn| block_of(&scene, pfn) >= 2);
    let stays = frame(&scene, 0, 77);
    let migrator = Reluctant { fails: vec![stays], ..Reluctant::new(&scene) };
    let compactor = Compactor::new(CompactionConfig::default());
    let range = PfnRange::from_len(scene.zone.base(), 512);
    let result = compactor.alloc_contig_range::<P, _>(&scene.zone, &migrator, range, MigrateMode::Sync);
    assert_eq!(result, Err(ContigError::Unmovable(stays)));
    // Once in each of the rounds, in each of which it stayed.
    assert_eq!(compactor.vmstat().migrate_fail, 5);
    assert_eq!(migrator.asked.borrow()[&stays], 5);
    scene.verify();
}

#[test]
fn pageblocks_without_movable_pages_are_scanned_a_block_at_a_time() {
    for (config, single) in
        [(LINEAR, 64), (CompactionConfig { era: Era { jump_free_blocks: false, ..LINEAR.era }, ..LINEAR }, 256)]
    {
        let scene = Scene::new(5);
        // Two pageblocks with one block: the first is left out for its head, the second has nothing but tails. Then
        // singles, every eight frames four free.
        let large = scene.zone.base();
        scene.zone.alloc_at::<P>(large, order(10)).unwrap();
        scene.zone.set_state_simulated::<P>(large, StateByte::allocated(order(10), Unmovable));
        scene.fill(Unmovable);
        scene.free_where(|pfn| pfn.as_u64() % 8 < 4);
        let outcome = Compactor::new(config).run::<P, _>(&scene.zone, &scene.owner, &Request::command());
        // The free scanner begins in the last pageblock, where the migrate scanner ends.
        assert_eq!(outcome.counts.migrate_scanned, 512 + 2 * (256 + single));
        assert_eq!((outcome.counts.isolated, outcome.counts.migrated), (0, 0));
    }
}

#[test]
fn the_migrate_scanner_begins_behind_pageblocks_that_it_may_not_use() {
    let scene = Scene::new(8);
    scene.fill(Movable);
    scene.free_every(2);
    for block in 0..8 {
        scene.zone.set_block_type::<P>(frame(&scene, block, 0), Unmovable).unwrap();
    }
    // The sixth patch would forget positions when the scanners meet.
    let compactor = Compactor::new(CompactionConfig { patches: Patches::first(5), ..LINEAR });
    let request = Request::direct(order(9), Movable, Priority::Async);
    let at = second_run(&scene, &compactor, &request);
    assert!(at.migrate >= frame(&scene, 4, 0), "{at}");
}

#[test]
fn the_free_scanner_begins_below_pageblocks_that_gave_nothing() {
    let scene = Scene::new(12);
    scene.fill(Movable);
    scene.free_where(|pfn| pfn.as_u64() % 2 == 0 && block_of(&scene, pfn) < 10);
    let compactor = Compactor::new(LINEAR);
    let request = Request::direct(order(9), Movable, Priority::SyncLight);
    let at = second_run(&scene, &compactor, &request);
    assert!(at.free <= frame(&scene, 10, 0), "{at}");
    assert_eq!(at.zone, scene.zone.span());
}

#[test]
fn only_a_full_run_looks_into_pageblocks_with_skip_bits() {
    for (full, moves) in [(false, false), (true, true)] {
        let scene = Scene::new(8);
        scene.fill(Movable);
        scene.free_every(2);
        let scan = scene.zone.scan::<P>(pageblock_buddy::Patience::Wait);
        (0..8).for_each(|block| _ = scan.set_skip(block));
        let request = Request { full, ..Request::direct(order(9), Movable, Priority::SyncLight) };
        let outcome = Compactor::new(LINEAR).run::<P, _>(&scene.zone, &scene.owner, &request);
        assert_eq!(outcome.counts.migrated > 0, moves, "full: {full}, {outcome:?}");
    }
}

#[test]
fn a_pageblock_with_a_busy_page_is_not_chosen_again() {
    let scene = Scene::new(8);
    scene.fill(Movable);
    scene.free_every(2);
    let busy: Vec<_> = (0..8).map(|block| frame(&scene, block, 101)).collect();
    let migrator = Reluctant { busy: busy.clone(), ..Reluctant::new(&scene) };
    let request = Request::direct(order(9), Movable, Priority::SyncLight);
    let outcome = Compactor::new(CompactionConfig::default()).run::<P, _>(&scene.zone, &migrator, &request);
    assert_eq!((outcome.result, outcome.counts.migrated), (CompactResult::Complete, 0));
    // Once as its pageblock is read, and once more when notes are looked at.
    let asked = migrator.asked.borrow();
    assert!(
        busy.iter().all(|pfn| (1..=2).contains(&asked[pfn])),
        "{:?}",
        busy.iter().map(|pfn| asked[pfn]).collect::<Vec<_>>()
    );
    scene.verify();
}

#[test]
fn a_group_with_a_pageblock_that_cannot_be_emptied_is_left_before_a_page_is_asked_for() {
    let scene = Scene::new(8);
    scene.fill(Movable);
    // A kernel's frame in the second pageblock of each pair.
    let kernels: Vec<_> = (0..4).map(|pair| frame(&scene, 2 * pair + 1, 300)).collect();
    scene.free_where(|pfn| kernels.contains(&pfn));
    for pfn in kernels.iter().copied() {
        scene.zone.alloc_at::<P>(pfn, Order::ZERO).unwrap();
        scene.zone.set_state_simulated::<P>(pfn, StateByte::allocated(Order::ZERO, Unmovable));
    }
    scene.free_where(|pfn| pfn.as_u64() % 2 == 1);
    let migrator = Reluctant::new(&scene);
    let request = Request::direct(order(10), Movable, Priority::SyncLight);
    let outcome = Compactor::new(CompactionConfig::default()).run::<P, _>(&scene.zone, &migrator, &request);
    assert_eq!((outcome.result, outcome.counts.migrated), (CompactResult::Complete, 0));
    assert!(outcome.counts.migrate_scanned > 0);
    assert!(migrator.asked.borrow().is_empty(), "{:?}", migrator.asked.borrow());
}

/// Half-blocks, five of which are free and no two of them buddies.
fn five_free(o: u8) -> Scene {
    let scene = Scene::new(16);
    while scene.alloc(o, Movable).is_some() {}
    scene.free_where(|pfn| (pfn.as_u64() - 0x1000) >> o < 10 && pfn.as_u64() >> o & 1 == 0);
    assert_eq!(scene.zone.free_frames(), 5 << o);
    scene
}

/// A block that is there; memory that is short; memory that is scattered. How scattered, only costly orders ask.
#[test]
fn whether_a_run_would_help_is_told_by_marks_and_by_fragmentation() {
    let compactor = Compactor::new(CompactionConfig::linux_6_1());
    let of = |scene: &Scene, o| compactor.suitable::<P>(&scene.zone, order(o), ZoneKind::Normal);
    let marks = |min, low| Watermarks { min, low, high: low };
    assert_eq!(of(&Scene::new(4), 9), CompactResult::Success);
    let full = Scene::new(4);
    full.fill(Movable);
    assert_eq!((of(&full, 9), of(&full, 2)), (CompactResult::Skipped, CompactResult::Skipped));
    full.free_every(2);
    assert_eq!((of(&full, 9), of(&full, 2)), (CompactResult::Skipped, CompactResult::Continue));
    // Index 300 of 1000: short rather than scattered, which counts for a costly order only.
    let (large, small) = (five_free(8), five_free(2));
    assert_eq!((large.zone.free_frames() > 2 * 512, of(&large, 9)), (true, CompactResult::Skipped));
    assert_eq!(of(&small, 3), CompactResult::Continue);
    // Scattered: half of the memory in single frames. A costly order asks for the low mark, another for the least one.
    let scattered = Scene::new(16);
    scattered.fill(Movable);
    scattered.free_every(2);
    assert_eq!(of(&scattered, 9), CompactResult::Continue);
    scattered.zone.set_watermarks(marks(0, 3072));
    assert_eq!((of(&scattered, 9), of(&scattered, 3)), (CompactResult::Skipped, CompactResult::Continue));
    scattered.zone.set_watermarks(marks(0, 3071));
    assert_eq!(of(&scattered, 9), CompactResult::Continue);
    scattered.zone.set_watermarks(marks(4096 - 16, 4096 - 16));
    assert_eq!(of(&scattered, 3), CompactResult::Skipped);
}

#[test]
fn each_part_of_the_cost_has_its_weight() {
    let of = |change: fn(&mut CompactionVmStat)| {
        let mut stat = CompactionVmStat::default();
        change(&mut stat);
        stat.cost()
    };
    assert_eq!(of(|stat| stat.migrate_scanned = 1_000_000), 7);
    assert_eq!(of(|stat| stat.isolated = 1_000_000), 19);
    assert_eq!(of(|stat| stat.migrate_success = 1_000_000), 1038);
    assert_eq!(of(|stat| stat.migrate_fail = 1_000_000), 14);
    assert_eq!(of(|stat| (stat.isolated, stat.migrate_fail) = (1_000_000, 1_000_000)), 33);
}

#[test]
fn a_reference_answers_as_its_migrator() {
    fn is_busy(migrator: impl Migrate) -> bool {
        migrator.too_many_isolated()
    }
    assert!(!is_busy(&Scene::new(1).owner));
}
