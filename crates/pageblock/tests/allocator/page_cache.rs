//! A page cache that can be moved and given up, and what remains of it when the kernel takes memory page by page.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use pageblock::{Config, Experiment, Gfp, Next, NodeId, Order, Pfn, SlowPath, ZoneLimits, ZoneSpreading};
use pageblock_frame::ZoneKind;
use pageblock_frame::migration::{Migrate, MigrateMode, MoveError, PutBack, Refusal};
use pageblock_frame::reclaim::{Reclaim, Shrink, Shrunk};
use pageblock_testkit::owners::{Installed, Owned, Owners, calls, install};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::machine::{Booted, MIB, boot_on, memory, order};

type Machine = Owned<1>;

const NODE: NodeId = NodeId::new(0);

/// Which page is where, and in which order they go.
#[derive(Debug, Default)]
struct Table {
    pages: BTreeMap<Pfn, u64>,
    places: BTreeMap<u64, Pfn>,
    /// The oldest first.
    ages: VecDeque<u64>,
    lent: BTreeSet<Pfn>,
    /// Pages that were given up to somebody.
    given_up: u64,
    next: u64,
}

/// The cache: single movable frames.
struct PageCache {
    table: Mutex<Table>,
    frames: Mutex<Weak<Booted<Machine>>>,
    moves: Moves,
}

/// Whether pages can be moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Moves {
    Always,
    /// Each is pinned.
    Refused,
    /// There is nobody who would.
    Never,
}

impl PageCache {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap()
    }

    fn keep(&self, pfn: Pfn) {
        let mut table = self.table();
        let page = table.next;
        table.next += 1;
        assert!(table.pages.insert(pfn, page).is_none(), "{pfn} was handed out twice");
        table.places.insert(page, pfn);
        table.ages.push_back(page);
    }
}

// SAFETY: the table is changed under its lock in the call that answers; nothing is behind the frames.
unsafe impl Migrate for PageCache {
    fn isolate(&self, pfn: Pfn, _: Order, _: MigrateMode) -> Result<(), Refusal> {
        let mut table = self.table();
        if !table.pages.contains_key(&pfn) {
            return Err(Refusal::Unknown);
        }
        if self.moves == Moves::Refused {
            return Err(Refusal::Pinned);
        }
        if table.lent.insert(pfn) { Ok(()) } else { Err(Refusal::Busy) }
    }

    fn migrate(&self, from: Pfn, to: Pfn, _: Order, _: MigrateMode) -> Result<(), MoveError> {
        let mut table = self.table();
        assert!(table.lent.remove(&from));
        let page = table.pages.remove(&from).unwrap();
        assert!(table.pages.insert(to, page).is_none());
        table.places.insert(page, to);
        Ok(())
    }

    fn put_back(&self, pfn: Pfn, _: Order) -> PutBack {
        self.table().lent.remove(&pfn);
        PutBack::Kept
    }
}

impl Reclaim for PageCache {
    fn shrink(&self, round: &Shrink) -> Shrunk {
        let mut shrunk = Shrunk::default();
        let frames = self.frames.lock().unwrap().upgrade().unwrap();
        while shrunk.freed < round.frames && shrunk.scanned < 4 * round.frames {
            let mut table = self.table();
            let Some(page) = table.ages.pop_front() else { break };
            shrunk.scanned += 1;
            let pfn = table.places[&page];
            if table.lent.contains(&pfn) {
                table.ages.push_back(page);
                continue;
            }
            table.places.remove(&page);
            table.pages.remove(&pfn);
            table.given_up += 1;
            drop(table);
            // SAFETY: hosted frames have nothing behind them.
            unsafe { frames.free(pfn, Order::ZERO) }.unwrap();
            shrunk.freed += 1;
        }
        shrunk
    }

    fn reclaimable(&self, _: NodeId, _: ZoneKind) -> u64 {
        self.table().ages.len() as u64
    }
}

/// What became of the cache.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    /// Pages that are left.
    left: u64,
    given_up: u64,
    mixings: u64,
    /// Frames that the kernel took.
    taken: u64,
}

/// The machine, full of pages whose ages have nothing to do with their places.
struct Scene {
    frames: Arc<Booted<Machine>>,
    cache: Arc<PageCache>,
    woken: (u64, u64),
    _installed: Installed,
}

impl Scene {
    fn new(config: &Config) -> Self {
        Self::with(config, Moves::Always)
    }

    fn with(config: &Config, moves: Moves) -> Self {
        let cache = Arc::new(PageCache { table: Mutex::default(), frames: Mutex::default(), moves });
        let migrator = (moves != Moves::Never).then(|| cache.clone() as _);
        let installed = install(Owners { migrator, reclaimer: Some(cache.clone()) });
        let config = config.zones(ZoneLimits::single()).per_cpu_lists(None);
        let frames = Arc::new(boot_on(&memory(128 * MIB), &config).unwrap());
        *cache.frames.lock().unwrap() = Arc::downgrade(&frames);
        let mut scene = Self { frames, cache, woken: (0, 0), _installed: installed };
        for _ in 0..scene.frames.stats().managed * 2 {
            let page = scene.frames.alloc(Gfp::HIGHUSER_MOVABLE).unwrap().into_raw().pfn;
            scene.cache.keep(page);
            scene.threads();
        }
        let mut random = Xoshiro256PlusPlus::seed_from_u64(11);
        let mut ages: Vec<u64> = scene.cache.table().ages.drain(..).collect();
        ages.shuffle(&mut random);
        // In use: pages go and others come.
        scene.cache.table().ages = ages.into();
        for _ in 0..scene.frames.stats().managed {
            let page = scene.frames.alloc(Gfp::HIGHUSER_MOVABLE).unwrap().into_raw().pfn;
            scene.cache.keep(page);
            scene.threads();
            let mut table = scene.cache.table();
            let last = table.ages.len() - 1;
            table.ages.swap(random.random_range(0..=last), last);
        }
        scene
    }

    fn free(&self, pfn: Pfn) {
        // SAFETY: hosted frames have nothing behind them.
        unsafe { self.frames.free(pfn, Order::ZERO) }.unwrap();
    }

    /// kswapd and kcompactd run if somebody woke them.
    fn threads(&mut self) {
        let now = (calls().wake_kswapd, calls().wake_kcompactd);
        if now.0 != self.woken.0 {
            while self.frames.reclaim().step(NODE) == Next::Again {}
        }
        if now.1 != self.woken.1 {
            while self.frames.compaction().step(NODE) == Next::Again {}
        }
        self.woken = (calls().wake_kswapd, calls().wake_kcompactd);
    }

    fn outcome(&self, taken: u64) -> Outcome {
        let (table, stats) = (self.cache.table(), self.frames.stats());
        self.frames.check().unwrap();
        assert_eq!((stats.free + table.pages.len() as u64 + taken, stats.bad_frees), (stats.managed, 0));
        let mixings = self.frames.events().fragmenting();
        Outcome { left: table.pages.len() as u64, given_up: table.given_up, mixings, taken }
    }

    /// The kernel takes half of memory in blocks of the first so many orders. Threads run after each, or not at all.
    fn hog(&mut self, orders: u8, threads: bool) -> (Vec<Pfn>, Outcome) {
        let before = self.outcome(0);
        let goal = self.frames.stats().managed / 2;
        let (mut held, mut taken) = (Vec::new(), 0);
        while taken < goal {
            let order = order((held.len() % usize::from(orders)) as u8);
            held.push(self.frames.alloc_order(order, Gfp::KERNEL).unwrap().into_raw().pfn);
            taken += order.frames();
            if threads {
                self.threads();
            }
        }
        (held, self.outcome(taken).since(before))
    }

    /// Reads files twice as large as memory.
    fn read(&mut self, taken: u64, threads: bool) -> Outcome {
        let before = self.outcome(taken);
        for _ in 0..self.frames.stats().managed * 2 {
            let page = self.frames.alloc(Gfp::HIGHUSER_MOVABLE).unwrap().into_raw().pfn;
            self.cache.keep(page);
            if threads {
                self.threads();
            }
        }
        self.outcome(taken).since(before)
    }
}

impl Outcome {
    fn since(self, before: Self) -> Self {
        Self { given_up: self.given_up - before.given_up, mixings: self.mixings - before.mixings, ..self }
    }
}

fn both(spreading: ZoneSpreading) -> [Config; 2] {
    [SlowPath::Linux6_1, SlowPath::Linux3_13]
        .map(|form| Config::new().experiment(Experiment::SlowPath(form)).spreading(spreading))
}

/// What the kernel takes costs the page cache as much and no more, as what is left of its pageblocks is moved.
#[test]
fn a_kernel_that_grows_takes_whole_pageblocks_and_no_page_goes_in_vain() {
    for (config, mixing) in both(ZoneSpreading::Throughout).into_iter().zip(both(ZoneSpreading::On)) {
        for (orders, threads) in [(1, false), (1, true), (4, false), (4, true)] {
            let (_, ours) = Scene::new(&config).hog(orders, threads);
            let (_, on) = Scene::new(&mixing).hog(orders, threads);
            println!("{orders} {threads}: {ours:?}; mixing: {on:?}");
            assert!(ours.given_up * 100 < ours.taken * 105, "{ours:?}");
            assert!(ours.left * 20 > on.left * 19, "{ours:?} {on:?}");
            assert!(ours.mixings * 4 <= on.mixings, "{ours:?} {on:?}");
        }
    }
}

/// Where nothing can be moved, reclaim alone would free frames for pageblocks' sake without end.
#[test]
fn where_nothing_moves_no_more_is_given_up_than_where_types_mix() {
    for (config, mixing) in both(ZoneSpreading::Throughout).into_iter().zip(both(ZoneSpreading::On)) {
        for moves in [Moves::Never, Moves::Refused] {
            let (_, ours) = Scene::with(&config, moves).hog(1, false);
            let (_, on) = Scene::with(&mixing, moves).hog(1, false);
            println!("{moves:?}: {ours:?}; mixing: {on:?}");
            // A little more is kept free before it mixes.
            assert!(ours.left * 10 > on.left * 7, "{ours:?} {on:?}");
        }
    }
}

/// What the kernel leaves of its pageblocks is not lost for the page cache.
#[test]
fn a_kernel_that_shrinks_leaves_its_pageblocks_to_the_page_cache() {
    for (config, mixing) in both(ZoneSpreading::Throughout).into_iter().zip(both(ZoneSpreading::On)) {
        for threads in [false, true] {
            let [ours, on] = [&config, &mixing].map(|config| {
                let mut scene = Scene::new(config);
                let (mut held, _) = scene.hog(1, true);
                held.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(5));
                for pfn in held.split_off(scene.frames.stats().managed as usize / 16) {
                    scene.free(pfn);
                }
                scene.read(held.len() as u64, threads)
            });
            println!("{threads}: {ours:?}; mixing: {on:?}");
            // So much is free at least before anything mixes.
            assert!(ours.left * 5 > on.left * 4, "{ours:?} {on:?}");
        }
    }
}
