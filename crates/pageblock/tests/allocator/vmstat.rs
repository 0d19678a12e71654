//! Counters against events, and both under owners who break their word: nothing hangs, panics or is lost.

use std::sync::{Arc, Mutex, Weak};

use pageblock::{
    AllocError, Config, Experiment, Gfp, Next, NodeId, Order, PcpConfig, Pfn, PfnRange, SlowPath, VmStat, ZoneLimits,
};
use pageblock_frame::migration::{IsolateRequest, Migrate, MigrateMode, Move, MoveError, PutBack, Refusal};
use pageblock_frame::trace::Event;
use pageblock_testkit::caches::{self, Allocator, Cache};
use pageblock_testkit::host::record;
use pageblock_testkit::movables::{Disowned, Fault, Faulty, Movables};
use pageblock_testkit::owners::{Installed, Owned, Owners, install};
use proptest::prelude::*;

use crate::machine::{Booted, MIB, boot_on, memory};

type Machine = Owned<1>;
type Frames = Booted<Machine>;

const NODE: NodeId = NodeId::new(0);

/// Movable memory under an owner that follows a script of faults.
struct Scripted {
    movables: Arc<Movables>,
    script: Mutex<Vec<Fault>>,
    frames: Mutex<Weak<Frames>>,
}

impl Scripted {
    fn with<R>(&self, act: impl FnOnce(&Faulty<'_>) -> R) -> R {
        let script = std::mem::take(&mut *self.script.lock().unwrap());
        let frames = self.frames.lock().unwrap().clone();
        let faulty = Faulty::new(&self.movables, script, move || {
            if let Some(frames) = frames.upgrade() {
                drop(frames.alloc(Gfp::KERNEL));
                drop(frames.alloc_order(Order::saturating(9), Gfp::HIGHUSER_MOVABLE));
                let _ = frames.compaction().all();
            }
        });
        let result = act(&faulty);
        *self.script.lock().unwrap() = faulty.into_script();
        result
    }
}

// SAFETY: every call goes to `Faulty`, whose answers that break a promise give frames away behind which there is
// nothing.
unsafe impl Migrate for Scripted {
    fn isolate(&self, pfn: Pfn, order: Order, mode: MigrateMode) -> Result<(), Refusal> {
        self.with(|owner| owner.isolate(pfn, order, mode))
    }
    fn migrate(&self, from: Pfn, to: Pfn, order: Order, mode: MigrateMode) -> Result<(), MoveError> {
        self.with(|owner| owner.migrate(from, to, order, mode))
    }
    fn put_back(&self, pfn: Pfn, order: Order) -> PutBack {
        self.with(|owner| owner.put_back(pfn, order))
    }
    fn isolate_batch(&self, requests: &mut [IsolateRequest], mode: MigrateMode) {
        self.with(|owner| owner.isolate_batch(requests, mode));
    }
    fn migrate_batch(&self, moves: &mut [Move], mode: MigrateMode) {
        self.with(|owner| owner.migrate_batch(moves, mode));
    }
    fn too_many_isolated(&self) -> bool {
        self.with(|owner| owner.too_many_isolated())
    }
    fn interrupt(&self) -> pageblock_frame::migration::Interrupt {
        self.with(|owner| owner.interrupt())
    }
}

struct Over(Weak<Frames>);

impl Allocator for Over {
    fn free(&self, pfn: Pfn) {
        if let Some(frames) = self.0.upgrade() {
            // SAFETY: hosted frames have nothing behind them.
            unsafe { frames.free(pfn, Order::ZERO) }.unwrap();
        }
    }
    fn reenter(&self) {
        if let Some(frames) = self.0.upgrade() {
            drop(frames.alloc_order(Order::saturating(4), Gfp::HIGHUSER_MOVABLE));
            frames.reclaim().step(NODE);
        }
    }
}

/// An allocator with both kinds of owners, neither of whom can be trusted.
struct Scene {
    frames: Arc<Frames>,
    cache: Arc<Cache>,
    movables: Arc<Movables>,
    held: Vec<(Pfn, Order)>,
    tags: u64,
    _installed: Installed,
}

impl Scene {
    fn new(config: &Config, moving: Vec<Fault>, giving: Vec<caches::Fault>) -> Self {
        let movables = Arc::new(Movables::new());
        let scripted =
            Arc::new(Scripted { movables: movables.clone(), script: Mutex::new(moving), frames: Mutex::default() });
        let cache = Arc::new(Cache::new(giving));
        let owners = Owners { migrator: Some(scripted.clone()), reclaimer: Some(cache.clone()) };
        let installed = install(owners);
        let config = config.zones(ZoneLimits::single()).min_free_kbytes(Some(512));
        let frames = Arc::new(boot_on(&memory(16 * MIB), &config).unwrap());
        cache.over(Over(Arc::downgrade(&frames)));
        *scripted.frames.lock().unwrap() = Arc::downgrade(&frames);
        Self { frames, cache, movables, held: Vec::new(), tags: 0, _installed: installed }
    }

    fn held_frames(&self) -> u64 {
        let movable: u64 = self.movables.pages().values().map(|page| page.order.frames()).sum();
        self.held.iter().map(|(_, order)| order.frames()).sum::<u64>() + self.cache.len() as u64 + movable
    }

    fn check(&self) {
        self.frames.check().unwrap();
        self.frames.check_lists().unwrap();
        let stats = self.frames.stats();
        assert_eq!((stats.free + self.held_frames(), self.movables.lent()), (stats.managed, 0));
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Hold(order, gfp) => {
                if let Ok(block) = self.frames.alloc_order(Order::saturating(order), gfp) {
                    let raw = block.into_raw();
                    self.held.push((raw.pfn, raw.order));
                }
            }
            Op::Move(gfp) => {
                if let Ok(frame) = self.frames.alloc(gfp | Gfp::HIGHUSER_MOVABLE) {
                    let raw = frame.into_raw();
                    let (pfn, order) = (raw.pfn, raw.order);
                    self.movables.own(pfn, order, self.tags);
                    self.tags += 1;
                }
            }
            Op::Cache(count) => {
                for _ in 0..count {
                    let Ok(frame) = self.frames.alloc(Gfp::HIGHUSER) else { break };
                    self.cache.keep(frame.into_raw().pfn);
                }
            }
            Op::Free(which) => {
                if !self.held.is_empty() {
                    let (pfn, order) = self.held.swap_remove(which % self.held.len());
                    // SAFETY: hosted frames have nothing behind them.
                    unsafe { self.frames.free(pfn, order) }.unwrap();
                }
            }
            Op::Discard(which) => {
                let pfn = self.movables.pages().keys().nth(which % 2048).copied();
                if let Some(pfn) = pfn.filter(|pfn| self.movables.disown(*pfn) == Disowned::Now) {
                    // SAFETY: as above.
                    unsafe { self.frames.free(pfn, Order::ZERO) }.unwrap();
                }
            }
            Op::Contig(start, len) => {
                drop(self.frames.alloc_contig_range(PfnRange::from_len(Pfn::new(start), len), MigrateMode::SyncLight))
            }
            Op::Threads => {
                let run = |step: &dyn Fn() -> Next| (0..2000).take_while(|_| step() == Next::Again).count();
                assert!(run(&|| self.frames.reclaim().step(NODE)) < 2000, "kswapd comes to rest");
                assert!(run(&|| self.frames.compaction().step(NODE)) < 2000, "kcompactd comes to rest");
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Hold(u8, Gfp),
    Move(Gfp),
    Cache(usize),
    Free(usize),
    Discard(usize),
    Contig(u64, u64),
    Threads,
}

fn gfp() -> impl Strategy<Value = Gfp> {
    let base = prop::sample::select(vec![
        Gfp::KERNEL,
        Gfp::KERNEL | Gfp::RECLAIMABLE,
        Gfp::HIGHUSER_MOVABLE,
        Gfp::ATOMIC,
        Gfp::NOWAIT,
        Gfp::NOIO,
        Gfp::NOFS,
        Gfp::TRANSHUGE,
        Gfp::TRANSHUGE_LIGHT,
    ]);
    let how = prop::sample::select(vec![
        Gfp::empty(),
        Gfp::NORETRY,
        Gfp::RETRY_MAYFAIL,
        Gfp::NOFAIL,
        Gfp::HIGH,
        Gfp::MEMALLOC,
        Gfp::THISNODE,
        Gfp::THISNODE | Gfp::NORETRY | Gfp::NOWARN,
    ]);
    (base, how).prop_map(|(base, how)| base | how)
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0u8..=10, gfp()).prop_map(|(order, gfp)| Op::Hold(order, gfp)),
        6 => gfp().prop_map(|gfp| Op::Move(gfp - Gfp::RECLAIMABLE - Gfp::MEMALLOC)),
        4 => (1usize..600).prop_map(Op::Cache),
        3 => any::<usize>().prop_map(Op::Free),
        3 => any::<usize>().prop_map(Op::Discard),
        1 => (0u64..4096, 1u64..600).prop_map(|(start, len)| Op::Contig(start, len)),
        2 => Just(Op::Threads),
    ]
}

fn config() -> impl Strategy<Value = Config> {
    let presets = vec![Config::new(), Config::linux_6_1(), Config::linux_4_20(4), Config::linux_3_13()];
    let lists = vec![None, Some(PcpConfig::new())];
    let form = prop::sample::select(vec![None, Some(SlowPath::Linux3_13), Some(SlowPath::Linux6_1)]);
    (prop::sample::select(presets), prop::sample::select(lists), form).prop_map(|(config, lists, form)| {
        let config = config.per_cpu_lists(lists).cpus(64);
        form.map_or(config, |form| config.experiment(Experiment::SlowPath(form)))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Random pressure, and owners who make no progress, too much, lie, call back in, fail. Every step ends within a
    /// bounded number of calls, and every frame is accounted for after it. (Owners who lie about moves lose frames of
    /// their own: those faults are tested with compaction itself.)
    #[test]
    fn whatever_owners_do_no_frame_is_lost(
        config in config(),
        moving in prop::collection::vec(prop::sample::select(Fault::honest()), 0..400),
        giving in prop::collection::vec(prop::sample::select(caches::Fault::ALL), 0..400),
        ops in prop::collection::vec(op(), 1..60),
    ) {
        let mut scene = Scene::new(&config, moving, giving);
        // Most of the memory is in use from the start.
        scene.step(Op::Cache(1500));
        for _ in 0..1500 {
            scene.step(Op::Move(Gfp::empty()));
        }
        for op in ops {
            let before = scene.cache.calls().shrink;
            scene.step(op);
            let requests = if let Op::Cache(count) = op { count as u64 } else { 8 };
            prop_assert!(scene.cache.calls().shrink - before <= 256 * 13 * 8 * requests, "{:?}", op);
            scene.check();
        }
        let stat = scene.frames.vmstat();
        prop_assert_eq!(stat.pgalloc_normal - stat.pgfree, scene.held_frames());
    }
}

fn events_of<R>(action: impl FnOnce() -> R) -> (R, u64, u64) {
    let (result, events) = record(action);
    let given =
        events.iter().map(|event| if let Event::Alloc { order, .. } = event { order.frames() } else { 0 }).sum();
    let taken = events.iter().map(|event| if let Event::Free { order, .. } = event { order.frames() } else { 0 }).sum();
    (result, given, taken)
}

#[test]
fn counters_agree_with_events_whatever_way_frames_take() {
    for lists in [None, Some(PcpConfig::new()), Some(PcpConfig::linux_6_1())] {
        let scene = Scene::new(&Config::new().per_cpu_lists(lists), vec![], vec![]);
        let frames = &scene.frames;
        let before = frames.vmstat();
        let ((), given, taken) = events_of(|| {
            let single: Vec<_> = (0..300).map(|_| frames.alloc(Gfp::KERNEL).unwrap()).collect();
            let blocks: Vec<_> =
                (0..10).map(|o| frames.alloc_order(Order::saturating(o), Gfp::USER).unwrap()).collect();
            let mut bulk = [Pfn::new(0); 200];
            assert_eq!(frames.alloc_bulk(Gfp::HIGHUSER_MOVABLE, &mut bulk), Ok(200));
            drop((single, blocks));
            for pfn in bulk {
                // SAFETY: hosted frames have nothing behind them.
                unsafe { frames.free(pfn, Order::ZERO) }.unwrap();
            }
        });
        let now = frames.vmstat().since(&before);
        assert_eq!((now.pgalloc_normal, now.pgfree), (given, taken));
        assert_eq!((given, now.nr_free_pages + now.nr_pcp_pages), (taken, frames.stats().managed));
        assert_eq!(now.pgalloc_dma + now.pgalloc_dma32 + now.pgalloc_movable, 0);
    }
}

#[test]
fn every_part_is_in_the_listing() {
    let mut scene = Scene::new(&Config::new(), vec![], vec![]);
    scene.step(Op::Cache(600));
    for _ in 0..4000 {
        scene.step(Op::Move(Gfp::empty()));
    }
    for which in 0..2000 {
        scene.step(Op::Discard(which));
    }
    scene.step(Op::Threads);
    let huge = scene.frames.alloc_order(Order::saturating(9), Gfp::HIGHUSER_MOVABLE | Gfp::RETRY_MAYFAIL);
    assert!(huge.is_ok());
    drop(huge);
    let stat = scene.frames.vmstat();
    let text = stat.to_string();
    for (name, number) in stat.rows() {
        assert!(text.lines().any(|line| line == format!("{name} {number}")), "{name}");
    }
    let some = [stat.pgalloc_normal, stat.pgfree, stat.pgscan_kswapd + stat.pgscan_direct, stat.pageoutrun];
    assert!(some.iter().all(|number| *number > 0), "{text}");
    let compaction = [stat.compact_migrate_scanned, stat.compact_isolated, stat.pgmigrate_success];
    assert!(compaction.iter().all(|number| *number > 0), "{text}");
    let sum = scene.frames.compaction().stats();
    assert_eq!(
        [stat.pgmigrate_success, stat.pgmigrate_fail, stat.compact_migrate_scanned, stat.compact_free_scanned],
        [sum.migrate_success, sum.migrate_fail, sum.migrate_scanned, sum.free_scanned]
    );
    assert_eq!(
        [stat.compact_isolated, stat.compact_stall, stat.compact_fail, stat.compact_success],
        [sum.isolated, sum.stall, sum.fail, sum.success]
    );
    assert_eq!(
        [stat.compact_daemon_wake, stat.compact_daemon_migrate_scanned, stat.compact_daemon_free_scanned],
        [sum.daemon_wake, sum.daemon_migrate_scanned, sum.daemon_free_scanned]
    );
    assert_eq!(stat.since(&stat).pgalloc_normal, 0);
    assert_eq!(VmStat::default().to_string().lines().count(), stat.rows().len());
}

#[test]
fn without_memory_all_is_zero() {
    let frames = pageblock::PageAllocator::<Machine>::new();
    assert_eq!(frames.vmstat(), VmStat::default());
    assert_eq!(frames.alloc(Gfp::KERNEL).unwrap_err(), AllocError::NotInitialised);
}
