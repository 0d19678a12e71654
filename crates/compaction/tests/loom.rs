//! A run against an allocation and a free on the same pageblock, in every interleaving with up to two preemptions: of
//! the zone here, through a per-CPU list in `lists`.
//!
//! Bounds: two pageblocks with fourteen frames, of which pairs are wanted; two threads. The run is the real one.
#![cfg(loom)]
#![expect(clippy::disallowed_types, reason = "counters that live outside the models")]

mod lists;

use pageblock_testkit::simulated::SimulatedZone;
use std::sync::atomic::{AtomicUsize, Ordering};

use loom::sync::{Arc, Mutex};
use loom::thread;
use pageblock_buddy::{Zone, ZoneConfig, ZoneStorage};
use pageblock_compaction::{CompactionConfig, Compactor, Priority, Request, Search};
use pageblock_frame::migration::{Migrate, MigrateMode, MoveError, PutBack, Refusal};
use pageblock_frame::{AllocFlags, Carver, MigrateType, NodeId, Order, Pfn, PfnRange, Platform, StateByte, ZoneKind};

struct Host;

// SAFETY: no CPU-local state and no interrupts in the model; nothing is behind the frames.
unsafe impl Platform for Host {
    const MAX_CPUS: usize = 2;
    const HAS_MEMORY: bool = false;

    fn phys_to_virt(_: u64) -> core::ptr::NonNull<u8> {
        core::ptr::NonNull::dangling()
    }
}

/// One movable page, wherever it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Page {
    At(Pfn),
    Lent(Pfn),
    /// Given up while lent.
    Dropped(Pfn),
    Gone,
}

/// Owns one movable page.
struct Owner(Mutex<Page>);

impl Owner {
    fn page(&self) -> loom::sync::MutexGuard<'_, Page> {
        self.0.lock().unwrap()
    }

    /// Gives the page up; frees it unless it is lent.
    fn drop_page(&self, zone: &Zone<'_>) {
        let mut page = self.page();
        match *page {
            Page::At(pfn) => {
                *page = Page::Gone;
                drop(page);
                zone.free_simulated::<Host>(pfn, Order::ZERO).expect("the owner's own page");
            }
            Page::Lent(pfn) => *page = Page::Dropped(pfn),
            Page::Dropped(_) | Page::Gone => unreachable!("dropped once"),
        }
    }
}

// SAFETY: the one page is in one state at a time, changed under the lock; a page that was given up is reported once.
unsafe impl Migrate for Owner {
    fn isolate(&self, pfn: Pfn, _: Order, _: MigrateMode) -> Result<(), Refusal> {
        let mut page = self.page();
        if *page != Page::At(pfn) {
            return Err(Refusal::Unknown);
        }
        *page = Page::Lent(pfn);
        Ok(())
    }

    fn migrate(&self, from: Pfn, to: Pfn, _: Order, _: MigrateMode) -> Result<(), MoveError> {
        let mut page = self.page();
        match *page {
            Page::Lent(pfn) if pfn == from => {
                *page = Page::At(to);
                Ok(())
            }
            Page::Dropped(pfn) if pfn == from => {
                *page = Page::Gone;
                Err(MoveError::Released)
            }
            _ => Err(MoveError::Failed),
        }
    }

    fn put_back(&self, pfn: Pfn, _: Order) -> PutBack {
        let mut page = self.page();
        match *page {
            Page::Dropped(dropped) if dropped == pfn => {
                *page = Page::Gone;
                PutBack::Released
            }
            _ => {
                *page = Page::At(pfn);
                PutBack::Kept
            }
        }
    }
}

/// Where two pageblocks meet.
const BORDER: u64 = 512;
/// Frames that nobody moves, every second of a run on one side of the border; the pair is on the other side.
const STONES: u64 = 6;
const FRAMES: u64 = 2 * STONES + 2;

/// On which side of the border the pair is. Linear scanners move upwards, and past the pageblock after the one they
/// come from; the search by occupancy moves anywhere.
#[derive(Clone, Copy)]
enum Pair {
    Below,
    Above,
}

/// A zone in which the one movable frame is all that keeps a pair from being free.
fn machine(pair: Pair) -> (Arc<Zone<'static>>, Arc<Owner>) {
    let (page, stones) = match pair {
        Pair::Below => (BORDER - 2, 2 * BORDER),
        Pair::Above => (BORDER, BORDER - 2 * STONES),
    };
    let runs = [PfnRange::from_len(Pfn::new(page), 2), PfnRange::from_len(Pfn::new(stones), 2 * STONES)];
    let span = PfnRange::new(runs[0].start.min(runs[1].start), runs[0].end.max(runs[1].end));
    let raw = vec![core::mem::MaybeUninit::uninit(); ZoneStorage::bytes(span, Order::MAX)].leak();
    let storage = ZoneStorage::carve(span, Order::MAX, &mut Carver::new(raw)).unwrap();
    let zone = Zone::new::<Host>(ZoneConfig::new(ZoneKind::Normal, NodeId::new(0), span), storage).unwrap();
    for run in runs {
        zone.release_simulated::<Host>(run).unwrap();
    }
    let page = Pfn::new(page);
    zone.alloc_at::<Host>(page, Order::ZERO).unwrap();
    for stone in (stones..stones + 2 * STONES).step_by(2) {
        zone.alloc_at::<Host>(Pfn::new(stone), Order::ZERO).unwrap();
        let unmovable = StateByte::allocated(Order::ZERO, MigrateType::Unmovable);
        zone.set_state_simulated::<Host>(Pfn::new(stone), unmovable);
    }
    (Arc::new(zone), Arc::new(Owner(Mutex::new(Page::At(page)))))
}

fn explore(executions: &'static AtomicUsize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.max_branches = 50_000;
    builder.check(move || {
        executions.fetch_add(1, Ordering::Relaxed);
        model();
    });
    println!("{} executions", executions.load(Ordering::Relaxed));
}

/// What must hold when all is quiet.
fn settled(zone: &Zone<'_>, owner: &Owner, held: u64) {
    assert_eq!(zone.check(), Ok(()));
    let page = match *owner.page() {
        Page::At(_) => 1,
        Page::Gone => 0,
        other => panic!("left {other:?}"),
    };
    assert_eq!(zone.free_frames() + STONES + page + held, FRAMES);
}

/// What the other thread did.
type Other = fn(&Zone<'_>, &Owner) -> u64;

/// How often the run got its pair, moved the page, and did neither.
struct Tally {
    executions: AtomicUsize,
    captured: AtomicUsize,
    moved: AtomicUsize,
    missed: AtomicUsize,
}

impl Tally {
    const fn new() -> Self {
        Self {
            executions: AtomicUsize::new(0),
            captured: AtomicUsize::new(0),
            moved: AtomicUsize::new(0),
            missed: AtomicUsize::new(0),
        }
    }
}

fn against(tally: &'static Tally, (config, pair): (CompactionConfig, Pair), other: Other) {
    explore(&tally.executions, move || {
        let (zone, owner) = machine(pair);
        let (zone2, owner2) = (zone.clone(), owner.clone());
        let thread = thread::spawn(move || other(&zone2, &owner2));
        let compactor = Compactor::new(CompactionConfig { largest_move: Order::ZERO, proactiveness: 0, ..config });
        let two = Order::new(1).unwrap();
        let request = Request::direct(two, MigrateType::Movable, Priority::SyncLight);
        let outcome = compactor.run::<Host, _>(&zone, &*owner, &request);
        let held = thread.join().unwrap();
        let captured = outcome.captured.map_or(0, |_| two.frames());
        tally.captured.fetch_add(usize::from(captured > 0), Ordering::Relaxed);
        tally.moved.fetch_add(outcome.counts.migrated as usize, Ordering::Relaxed);
        tally.missed.fetch_add(usize::from(outcome.counts.migrated == 0), Ordering::Relaxed);
        settled(&zone, &owner, held + captured);
    });
    for (what, count) in [("captured", &tally.captured), ("moved", &tally.moved), ("missed", &tally.missed)] {
        let count = count.load(Ordering::Relaxed);
        println!("{what}: {count}");
        assert!(count > 0 || (what == "captured" && !config.capture), "no execution in which the page was {what}");
    }
}

fn drop_page(zone: &Zone<'_>, owner: &Owner) -> u64 {
    owner.drop_page(zone);
    0
}

fn allocate(zone: &Zone<'_>, _: &Owner) -> u64 {
    // All that is to be had: targets, and perhaps the frame beside the page.
    let single = || zone.alloc::<Host>(Order::ZERO, MigrateType::Movable, AllocFlags::empty());
    std::iter::from_fn(single).count() as u64
}

#[test]
fn the_owner_drops_its_page_meanwhile() {
    static TALLY: Tally = Tally::new();
    against(&TALLY, (CompactionConfig::default(), Pair::Above), drop_page);
}

#[test]
fn somebody_allocates_meanwhile() {
    static TALLY: Tally = Tally::new();
    against(&TALLY, (CompactionConfig::default(), Pair::Above), allocate);
}

#[test]
fn linear_scanners_and_a_dropped_page() {
    static TALLY: Tally = Tally::new();
    against(
        &TALLY,
        (CompactionConfig { search: Search::Linear, ..CompactionConfig::linux_6_1() }, Pair::Below),
        drop_page,
    );
}

#[test]
fn linear_scanners_and_an_allocation() {
    static TALLY: Tally = Tally::new();
    against(
        &TALLY,
        (CompactionConfig { search: Search::Linear, ..CompactionConfig::linux_6_1() }, Pair::Below),
        allocate,
    );
}
