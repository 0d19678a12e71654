//! Every call of the migrator fails, unwinds or re-enters, one at a time: no frame is lost, no lock is held, and the
//! next run works.

use pageblock_testkit::simulated::SimulatedZone;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use pageblock_compaction::{
    CompactZone, CompactionConfig, Compactor, DirectRequest, Kcompactd, KswapdState, Next, Origin, Priority, Request,
    compact_zones,
};
use pageblock_frame::migration::{Interrupt, Migrate, MigrateMode, MoveError, PutBack, Refusal};
use pageblock_frame::trace::Event;
use pageblock_frame::{AllocFlags, Gfp, Hooks, MigrateType, NodeId, Order, Pfn, PfnRange, Platform, ZoneKind};
use pageblock_testkit::movables::{Disowned, Movables};

use crate::common::{P, Scene, all_configs, order};
use crate::faults::sound;

/// What happens in one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    /// The call unwinds before it has done anything.
    Unwind,
    /// It answers that it cannot.
    Fail,
    /// It does its work, gives the block up, and says so where it can.
    GiveUp,
    /// It allocates, frees, compacts the zone and takes a range before it does its work.
    Reenter,
}

/// A migrator whose call number `at` is special.
struct Injector<'a> {
    scene: &'a Scene,
    at: u64,
    act: Act,
    calls: Cell<u64>,
}

impl<'a> Injector<'a> {
    fn new(scene: &'a Scene, at: u64, act: Act) -> Self {
        Self { scene, at, act, calls: Cell::new(0) }
    }

    fn inner(&self) -> &'a Movables {
        &self.scene.owner
    }

    /// The act of this call, if it is the special one.
    fn enter(&self) -> Option<Act> {
        if self.calls.replace(self.calls.get() + 1) != self.at {
            return None;
        }
        match self.act {
            // Without the message that a panic would print.
            Act::Unwind => std::panic::resume_unwind(Box::new("injected")),
            Act::Reenter => self.reenter(),
            Act::Fail | Act::GiveUp => {}
        }
        Some(self.act)
    }

    fn reenter(&self) {
        let zone = &self.scene.zone;
        let got = zone.alloc::<P>(order(0), MigrateType::Unmovable, AllocFlags::empty());
        let inner = Compactor::new(CompactionConfig::default());
        let outcome = inner.run::<P, _>(zone, self.inner(), &Request::command());
        assert_eq!(outcome.captured, None);
        let range = PfnRange::from_len(zone.base().add(512), 512);
        if inner.alloc_contig_range::<P, _>(zone, self.inner(), range, MigrateMode::Sync).is_ok() {
            zone.free_range_simulated::<P>(range).unwrap();
        }
        got.into_iter().for_each(|pfn| zone.free_simulated::<P>(pfn, order(0)).unwrap());
    }
}

// SAFETY: `Movables` answers; a failure is answered without asking it. Nothing is behind the frames.
unsafe impl Migrate for Injector<'_> {
    fn isolate(&self, pfn: Pfn, order: Order, mode: MigrateMode) -> Result<(), Refusal> {
        match self.enter() {
            Some(Act::Fail) => Err(Refusal::Busy),
            _ => self.inner().isolate(pfn, order, mode),
        }
    }

    fn migrate(&self, from: Pfn, to: Pfn, order: Order, mode: MigrateMode) -> Result<(), MoveError> {
        match self.enter() {
            Some(Act::Fail) => return Err(MoveError::Failed),
            Some(Act::GiveUp) => assert_eq!(self.inner().disown(from), Disowned::Later),
            _ => {}
        }
        self.inner().migrate(from, to, order, mode)
    }

    fn put_back(&self, pfn: Pfn, order: Order) -> PutBack {
        if self.enter() == Some(Act::GiveUp) {
            assert_eq!(self.inner().disown(pfn), Disowned::Later);
        }
        self.inner().put_back(pfn, order)
    }

    fn too_many_isolated(&self) -> bool {
        self.enter() == Some(Act::Fail)
    }

    fn interrupt(&self) -> Interrupt {
        if self.enter() == Some(Act::Fail) { Interrupt::Fatal } else { Interrupt::None }
    }
}

/// Blocks of two orders, half of them freed; one page in 61 is pinned, so that isolated pages are put back.
fn scene() -> Scene {
    let scene = Scene::new(6);
    while scene.alloc(0, MigrateType::Movable).is_some() && scene.alloc(1, MigrateType::Movable).is_some() {}
    scene.free_where(|pfn| pfn.as_u64() / 4 % 2 == 0 || pfn.as_u64() % 512 > 300);
    let pages: Vec<_> = scene.owner.pages().keys().copied().collect();
    for pfn in pages.into_iter().filter(|pfn| pfn.as_u64() % 61 == 7 && pfn.as_u64() % 1024 > 512) {
        scene.owner.pin(pfn, true);
    }
    scene
}

/// A page that was isolated when a call unwound is put back, or was moved; the migrator knows of it.
fn recovered(scene: &Scene, unwound: bool, name: &str) {
    sound(scene);
    scene.verify();
    assert_eq!(scene.owner.collisions(), 0, "{name}");
    // The call that unwound may be the one that ends an isolation: then the page stays marked in the migrator's own
    // table.
    assert!(scene.owner.lent() <= usize::from(unwound), "{name}: {} pages stay isolated", scene.owner.lent());
    let owned: u64 = scene.owner.pages().values().map(|page| page.order.frames()).sum();
    assert_eq!(scene.zone.free_frames() + owned, scene.zone.managed(), "{name}: frames that neither side has");
}

/// Runs `work` with each call special in turn, until it makes no such call. Returns how many calls there were.
fn each_call(name: &str, act: Act, step: u64, work: impl Fn(&Scene, &Injector<'_>)) -> u64 {
    let mut at = 0;
    loop {
        let scene = scene();
        let injector = Injector::new(&scene, at, act);
        let result = catch_unwind(AssertUnwindSafe(|| work(&scene, &injector)));
        let calls = injector.calls.get();
        assert_eq!(result.is_err(), act == Act::Unwind && calls > at, "{name}, call {at}");
        recovered(&scene, result.is_err(), &format!("{name}, call {at}"));
        // What the fault has left behind keeps nothing from working.
        let pages: Vec<_> = scene.owner.pages().iter().map(|(pfn, page)| (*pfn, page.order)).collect();
        for (pfn, _) in pages.iter() {
            scene.owner.pin(*pfn, false);
            scene.owner.put_back(*pfn, order(0));
        }
        let after = Compactor::new(CompactionConfig::default());
        let range = PfnRange::from_len(scene.zone.base().add(1024), 512);
        let taken = after.alloc_contig_range::<P, _>(&scene.zone, &scene.owner, range, MigrateMode::Sync);
        assert_eq!(taken, Ok(()), "{name}, call {at}");
        scene.zone.free_range_simulated::<P>(range).unwrap();
        recovered(&scene, false, name);
        if calls <= at {
            return calls;
        }
        at += step;
    }
}

fn direct() -> Request {
    Request { captures: true, ..Request::direct(order(9), MigrateType::Movable, Priority::SyncLight) }
}

const ACTS: [Act; 4] = [Act::Unwind, Act::Fail, Act::GiveUp, Act::Reenter];

#[test]
fn runs_survive_every_call() {
    for (name, config) in all_configs() {
        for act in ACTS {
            let request = Request { origin: Origin::Command, mode: MigrateMode::Sync, ..Request::command() };
            let calls = each_call(&format!("{name}, {act:?}"), act, 41, |scene, migrator| {
                let _ = Compactor::new(config).run::<P, _>(&scene.zone, migrator, &request);
            });
            assert!(calls > 30, "{name}: {calls} calls show nothing");
        }
    }
}

#[test]
fn the_default_run_survives_every_call() {
    for act in ACTS {
        let calls = each_call(&format!("{act:?}"), act, 1, |scene, migrator| {
            let outcome = Compactor::new(CompactionConfig::default()).run::<P, _>(&scene.zone, migrator, &direct());
            outcome.captured.into_iter().for_each(|pfn| scene.zone.free_simulated::<P>(pfn, order(9)).unwrap());
        });
        assert!(calls > 30, "{calls} calls show nothing");
    }
}

#[test]
fn a_range_survives_every_call() {
    for act in ACTS {
        each_call(&format!("{act:?}"), act, 1, |scene, migrator| {
            let range = PfnRange::from_len(scene.zone.base().add(1000), 600);
            let compactor = Compactor::new(CompactionConfig::default());
            if compactor.alloc_contig_range::<P, _>(&scene.zone, migrator, range, MigrateMode::Sync).is_ok() {
                scene.zone.free_range_simulated::<P>(range).unwrap();
            }
        });
    }
}

#[test]
fn the_thread_survives_every_call() {
    for act in ACTS {
        each_call(&format!("{act:?}"), act, 11, |scene, migrator| {
            let compactor = Compactor::new(CompactionConfig::default());
            let zones = [CompactZone { zone: &scene.zone, compactor: &compactor }];
            let thread = Kcompactd::new(NodeId::new(0));
            thread.wake::<P>(order(9), ZoneKind::Movable);
            let steps = std::iter::from_fn(|| {
                Some(catch_unwind(AssertUnwindSafe(|| thread.step::<P, _>(&zones, migrator, KswapdState::Asleep, 0))))
            });
            let mut unwound = None;
            for step in steps.take(10) {
                match step {
                    Ok(Next::Sleep { .. }) => {
                        assert!(!thread.is_wanted(), "the request was served, or given up");
                        break;
                    }
                    Ok(Next::Again) => {}
                    Err(payload) => unwound = Some(payload),
                }
            }
            assert!(!thread.is_wanted(), "the thread never went to sleep");
            if let Some(payload) = unwound {
                std::panic::resume_unwind(payload);
            }
        });
    }
}

/// A migrator that frees, in `put_back` itself, the page that it is given back, or says that it gave it up.
struct Impatient<'a> {
    scene: &'a Scene,
    says: PutBack,
}

// SAFETY: a page is freed, or said to be given up, in the one call that ends its isolation.
unsafe impl Migrate for Impatient<'_> {
    fn isolate(&self, pfn: Pfn, order: Order, mode: MigrateMode) -> Result<(), Refusal> {
        self.scene.owner.isolate(pfn, order, mode)
    }

    fn migrate(&self, _: Pfn, _: Pfn, _: Order, _: MigrateMode) -> Result<(), MoveError> {
        Err(MoveError::Failed)
    }

    fn put_back(&self, pfn: Pfn, order: Order) -> PutBack {
        assert_eq!(self.scene.owner.put_back(pfn, order), PutBack::Kept);
        assert_eq!(self.scene.owner.disown(pfn), Disowned::Now);
        if self.says == PutBack::Kept {
            self.scene
                .zone
                .free_simulated::<P>(pfn, order)
                .expect("the block is allocated again when `put_back` is called");
        }
        self.says
    }
}

#[test]
fn a_block_is_allocated_again_before_its_migrator_is_told() {
    for says in [PutBack::Kept, PutBack::Released] {
        for (name, config) in all_configs() {
            let scene = scene();
            let free = scene.zone.free_frames();
            let migrator = Impatient { scene: &scene, says };
            let _ = Compactor::new(config).run::<P, _>(&scene.zone, &migrator, &Request::command());
            recovered(&scene, false, &format!("{name}, {says:?}"));
            assert!(scene.zone.free_frames() > free, "{name}: no block was put back, which shows nothing");
        }
    }
}

thread_local! {
    /// Events until the hook unwinds.
    static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
}

/// A platform with a trace hook that unwinds once.
struct Startled;

// SAFETY: one CPU, no interrupts, no memory behind the frames.
unsafe impl Platform for Startled {
    const MAX_CPUS: usize = 1;
    const HAS_MEMORY: bool = false;

    fn phys_to_virt(_: u64) -> NonNull<u8> {
        NonNull::dangling()
    }

    fn hooks() -> impl Hooks {
        Tracer
    }
}

struct Tracer;

impl Hooks for Tracer {
    fn trace(&self, _: &Event) {
        let left = LEFT.get();
        LEFT.set(left.and_then(|left| left.checked_sub(1)));
        if left == Some(0) {
            std::panic::resume_unwind(Box::new("injected"));
        }
    }
}

/// Also the events after the capture, of the run and of the deferral that ends.
#[test]
fn no_event_that_unwinds_takes_a_block_with_it() {
    let mut captured = 0;
    for at in 0.. {
        let scene = scene();
        let compactor = Compactor::new(CompactionConfig::default());
        let direct = DirectRequest::new(order(9), Gfp::HIGHUSER_MOVABLE, Priority::SyncLight);
        LEFT.set(Some(at));
        let result = catch_unwind(AssertUnwindSafe(|| {
            let zones = [CompactZone { zone: &scene.zone, compactor: &compactor }];
            compact_zones::<Startled, _>(zones, &direct, &scene.owner)
        }));
        let over = LEFT.replace(None).is_some();
        if let Ok(outcome) = &result
            && let Some(pfn) = outcome.captured
        {
            captured += 1;
            scene.zone.free_simulated::<P>(pfn, order(9)).unwrap();
        }
        recovered(&scene, result.is_err(), &format!("event {at}"));
        if over {
            break;
        }
        assert!(result.is_err(), "event {at}");
    }
    assert_eq!(captured, 1, "only the run without a fault ends with its block");
}
