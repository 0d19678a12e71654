//! Compaction as a rung, and on demand: large blocks out of scattered memory, and nothing lost.

use std::sync::Arc;

use pageblock::{
    AllocError, CompactError, CompactionConfig, Config, ContigError, Experiment, Gfp, MigrateType, Next, NodeId, Order,
    PageAllocator, PcpConfig, Pfn, PfnRange, SlowPath, ZoneKind, ZoneLimits,
};
use pageblock_frame::FrameState;
use pageblock_frame::migration::MigrateMode;
use pageblock_frame::trace::{CompactEvent, Event};
use pageblock_testkit::host::record;
use pageblock_testkit::movables::{Disowned, Movables};
use pageblock_testkit::owners::{Installed, Owned, Owners, calls, install};

use crate::machine::{Booted, MIB, boot_on, memory};

type Machine = Owned<1>;

const HUGE: Order = Order::saturating(9);

/// An allocator whose movable frames belong to one owner.
struct Scene<const N: usize = 1> {
    frames: Booted<Owned<N>>,
    owner: Arc<Movables>,
    _installed: Installed,
}

impl<const N: usize> Scene<N> {
    fn new(config: &Config) -> Self {
        let owner = Arc::new(Movables::new());
        let installed = install(Owners { migrator: Some(owner.clone()), reclaimer: None });
        let frames = boot_on(&memory(64 * MIB), &config.zones(ZoneLimits::single())).unwrap();
        Self { frames, owner, _installed: installed }
    }

    /// Fills memory with movable frames and gives all but each `n`th back.
    fn scatter(&self, n: u64) {
        let mut tag = 0;
        while let Ok(frame) = self.frames.alloc(Gfp::HIGHUSER_MOVABLE) {
            let raw = frame.into_raw();
            let (pfn, order) = (raw.pfn, raw.order);
            self.owner.own(pfn, order, tag);
            tag += 1;
        }
        let pages: Vec<Pfn> = self.owner.pages().keys().copied().collect();
        for pfn in pages.into_iter().filter(|pfn| pfn.as_u64() % n != 0) {
            self.discard(pfn);
        }
        self.frames.drain();
        self.check();
    }

    fn discard(&self, pfn: Pfn) {
        assert_eq!(self.owner.disown(pfn), Disowned::Now);
        // SAFETY: hosted frames have nothing behind them.
        unsafe { self.frames.free(pfn, Order::ZERO) }.unwrap();
    }

    /// Every frame is free, the owner's, or in one of `held` huge blocks.
    fn check_with(&self, held: u64) {
        self.frames.check().unwrap();
        self.frames.check_lists().unwrap();
        let stats = self.frames.stats();
        assert_eq!(stats.free + self.owner.pages().len() as u64 + held * 512, stats.managed);
        assert_eq!((self.owner.lent(), self.owner.collisions(), stats.bad_frees), (0, 0, 0));
        for (pfn, page) in self.owner.pages().iter() {
            let zone = self.frames.zone_of(*pfn).unwrap();
            let state = zone.state_of(*pfn).unwrap();
            assert!(matches!(state, FrameState::Allocated(order, _) if order == page.order), "{pfn}: {state:?}");
        }
    }

    fn check(&self) {
        self.check_with(0);
    }

    /// Huge blocks until one is refused, checked after each.
    fn take_huge(&self, gfp: Gfp) -> Vec<Pfn> {
        let mut held = Vec::new();
        while let Ok(block) = self.frames.alloc_order(HUGE, gfp) {
            held.push(block.into_raw().pfn);
            self.check_with(held.len() as u64);
        }
        held
    }
}

fn compactions(events: &[Event]) -> usize {
    events.iter().filter(|event| matches!(event, Event::Compaction(CompactEvent::TryToCompact { .. }))).count()
}

#[test]
fn scattered_memory_serves_huge_blocks_in_every_form() {
    for config in [Config::new(), Config::linux_6_1(), Config::linux_3_13()] {
        for per_cpu_lists in [None, Some(PcpConfig::new())] {
            let scene = Scene::<1>::new(&config.per_cpu_lists(per_cpu_lists));
            scene.scatter(4);
            assert!(scene.frames.alloc_order(HUGE, Gfp::TRANSHUGE_LIGHT).is_err(), "there is none before");
            let moved = scene.take_huge(Gfp::HIGHUSER_MOVABLE);
            assert!(moved.len() > 8, "{} blocks of about 24 possible: {config:?}", moved.len());
            for pfn in moved {
                // SAFETY: hosted frames have nothing behind them.
                unsafe { scene.frames.free(pfn, HUGE) }.unwrap();
            }
            scene.check();
        }
    }
}

#[test]
fn a_run_of_pageblocks_is_emptied() {
    let scene = Scene::<1>::new(&Config::new());
    scene.scatter(4);
    let run = scene.frames.request().gfp(Gfp::HIGHUSER_MOVABLE).contiguous(4096).unwrap();
    assert_eq!((run.pfns().len(), run.pfns().start.as_u64() % 4096), (4096, 0));
    scene.check_with(8);
    drop(run);
    scene.check();
}

#[test]
fn the_default_makes_nearly_all_blocks_that_there_can_be() {
    let scene = Scene::<1>::new(&Config::new());
    scene.scatter(4);
    let free = scene.frames.stats().free;
    let held = scene.take_huge(Gfp::HIGHUSER_MOVABLE).len() as u64;
    assert!(held * 512 * 10 >= free * 8, "{held} blocks out of {free} free frames");
}

#[test]
fn who_cannot_wait_or_frees_memory_by_using_it_compacts_nothing() {
    let scene = Scene::<1>::new(&Config::new());
    scene.scatter(4);
    for gfp in [Gfp::ATOMIC, Gfp::NOWAIT, Gfp::TRANSHUGE_LIGHT, Gfp::KERNEL | Gfp::MEMALLOC, Gfp::NOIO - Gfp::IO] {
        let (result, events) = record(|| scene.frames.alloc_order(HUGE, gfp).map(drop));
        assert_eq!((result, compactions(&events)), (Err(AllocError::OutOfMemory), 0), "{gfp:?}");
    }
    scene.check();
}

#[test]
fn nothing_is_compacted_where_it_is_switched_off() {
    let scene = Scene::<1>::new(&Config::new().without_compaction());
    scene.scatter(4);
    let (result, events) = record(|| scene.frames.alloc_order(HUGE, Gfp::HIGHUSER_MOVABLE).map(drop));
    assert_eq!((result, compactions(&events)), (Err(AllocError::OutOfMemory), 0));
    assert_eq!(scene.frames.compaction().all(), Err(CompactError::NoMigrator));
    let range = PfnRange::from_len(Pfn::new(4096), 512);
    assert_eq!(scene.frames.alloc_contig_range(range, MigrateMode::Sync).unwrap_err(), AllocError::NoMigrator);
}

#[test]
fn a_huge_page_that_would_be_nice_to_have_gives_up_when_compaction_is_deferred() {
    for form in [SlowPath::Linux6_1, SlowPath::Linux3_13] {
        let scene = Scene::<1>::new(&Config::new().experiment(Experiment::SlowPath(form)));
        scene.scatter(4);
        let pages: Vec<Pfn> = scene.owner.pages().keys().copied().collect();
        pages.iter().for_each(|pfn| assert!(scene.owner.pin(*pfn, true)));
        let huge = Gfp::TRANSHUGE | Gfp::NORETRY;
        // Fails synchronously, and so begins deferral.
        let (result, events) = record(|| scene.frames.alloc_order(HUGE, Gfp::HIGHUSER_MOVABLE).map(drop));
        assert!(result.is_err() && compactions(&events) >= 2, "{form:?}");
        let (result, events) = record(|| scene.frames.alloc_order(HUGE, huge).map(drop));
        assert!(result.is_err());
        assert_eq!(compactions(&events), 1, "{form:?}: it fails at once");
        scene.check();
    }
}

#[test]
fn compaction_on_demand_gathers_what_is_free() {
    let scene = Scene::<1>::new(&Config::new());
    scene.scatter(4);
    let whole =
        |frames: &PageAllocator<Machine>| frames.zones().next().unwrap().counts().by_order[9..].iter().sum::<u64>();
    let before = whole(&scene.frames);
    let counts = scene.frames.compaction().zone(NodeId::new(0), ZoneKind::Normal).unwrap();
    assert!(counts.migrated > 0);
    assert!(whole(&scene.frames) > before);
    scene.check();
    assert_eq!(scene.frames.compaction().zone(NodeId::new(0), ZoneKind::Dma), Err(CompactError::NoSuchZone));
    assert_eq!(scene.frames.compaction().node(NodeId::new(3)), Err(CompactError::NoSuchZone));
    assert!(scene.frames.compaction().node(NodeId::new(0)).is_ok());
    scene.check();
}

#[test]
fn a_range_is_emptied_and_taken_and_given_back() {
    let scene = Scene::<1>::new(&Config::new());
    scene.scatter(2);
    let range = PfnRange::new(Pfn::new(4096 + 17), Pfn::new(4096 + 1500));
    let run = scene.frames.alloc_contig_range(range, MigrateMode::Sync).unwrap();
    assert_eq!(run.pfns(), range);
    assert!(scene.owner.pages().keys().all(|pfn| !range.contains(*pfn)));
    scene.frames.check().unwrap();
    drop(run);
    scene.check();
    let pinned = *scene.owner.pages().keys().nth(1000).unwrap();
    scene.owner.pin(pinned, true);
    let range = PfnRange::from_len(pinned, 1);
    let refused = scene.frames.alloc_contig_range(range, MigrateMode::Sync).unwrap_err();
    assert_eq!(refused, ContigError::Unmovable(pinned).into());
    let beyond = PfnRange::from_len(Pfn::new(1 << 20), 5);
    assert_eq!(scene.frames.alloc_contig_range(beyond, MigrateMode::Sync).unwrap_err(), ContigError::OutOfRange.into());
    scene.check();
}

#[test]
fn kcompactd_works_for_whoever_cannot_wait() {
    let scene = Scene::<1>::new(
        &Config::new()
            .experiment(Experiment::Compaction(CompactionConfig { proactiveness: 0, ..CompactionConfig::new() })),
    );
    scene.scatter(4);
    let node = NodeId::new(0);
    assert_eq!(scene.frames.compaction().step(node), Next::Sleep { until: None });
    assert!(scene.frames.alloc_order(HUGE, Gfp::NOWAIT | Gfp::MOVABLE).is_err());
    assert_eq!(calls().wake_kcompactd, 1);
    while scene.frames.compaction().step(node) == Next::Again {
        scene.check();
    }
    let block = scene.frames.alloc_order(HUGE, Gfp::NOWAIT | Gfp::MOVABLE).unwrap();
    assert_eq!(block.order(), HUGE);
    drop(block);
    assert_eq!(scene.frames.compaction().step(NodeId::new(63)), Next::Sleep { until: None });
    scene.check();
}

#[test]
fn frames_on_lists_are_gathered_too() {
    // A machine of its own: its CPU 0 is nobody else's.
    let scene = Scene::<2>::new(&Config::new().cpus(1));
    scene.scatter(4);
    // Free, but on this CPU's list.
    let listed: Vec<_> =
        (0..200).map(|_| scene.frames.alloc(Gfp::KERNEL | Gfp::MOVABLE).unwrap().into_raw().pfn).collect();
    for pfn in listed {
        // SAFETY: hosted frames have nothing behind them.
        unsafe { scene.frames.free(pfn, Order::ZERO) }.unwrap();
    }
    assert!(scene.frames.stats().listed > 0);
    let block = scene.frames.alloc_order(HUGE, Gfp::HIGHUSER_MOVABLE).unwrap();
    assert_eq!((block.order(), scene.frames.stats().listed), (HUGE, 0));
    let zone = scene.frames.zone_of(block.pfn()).unwrap();
    assert_eq!(zone.state_of(block.pfn()), Some(FrameState::Allocated(HUGE, Some(MigrateType::Movable))));
    drop(block);
    scene.check();
}
