//! Every protocol between CPUs, in every interleaving with up to two preemptions. Run:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p pageblock-pcp --test loom --release --target-dir target/loom
//! ```
//!
//! `LOOM_MAX_PREEMPTIONS=3` makes the bound three. Each model counts that what it is about has happened.
#![cfg(loom)]
#![expect(clippy::disallowed_types, reason = "counters that live outside the models")]

use pageblock_testkit::simulated::{SimulatedLists, SimulatedZone};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use loom::{sync::Arc, thread};
use pageblock_buddy::{FreeError, Zone, ZoneConfig, ZoneStorage};
use pageblock_frame::sync::PerCpuPtr;
use pageblock_frame::{AllocFlags, Carver, CpuId, MigrateType, NodeId, Order, Pfn, PfnRange, Platform, ZoneKind};
use pageblock_pcp::model::{BATCH, Depot, Hand};
use pageblock_pcp::{PcpConfig, PcpLists, PcpRef, ReclaimActivity, Sizing};

loom::thread_local! {
    static CPU: Cell<u32> = Cell::new(0);
    static WORD: Cell<PerCpuPtr> = Cell::new(PerCpuPtr::new());
}

#[derive(Debug)]
struct Machine<const HARD: bool>;

// SAFETY: each thread of a model first sets its CPU number, and forgets its word with it; nothing is mapped.
unsafe impl<const HARD: bool> Platform for Machine<HARD> {
    const MAX_CPUS: usize = 2;
    const HARDENED: bool = HARD;
    const CPU_WORD: bool = true;
    const HAS_MEMORY: bool = false;

    fn phys_to_virt(_: u64) -> NonNull<u8> {
        NonNull::dangling()
    }

    fn pin() -> CpuId {
        CpuId::new(CPU.with(Cell::get))
    }

    fn cpu_word() -> PerCpuPtr {
        WORD.with(Cell::get)
    }

    unsafe fn set_cpu_word(word: PerCpuPtr) {
        WORD.with(|own| own.set(word));
    }
}

const FRAMES: u64 = 8;
const NONE: AllocFlags = AllocFlags::empty();

/// Allocations and frees try the CPU's word first, which leads to the lists from a CPU's second operation on.
struct Fixture<const HARD: bool> {
    zone: &'static Zone<'static>,
    lists: &'static PcpLists<'static, Machine<HARD>>,
    way: PcpRef<Machine<HARD>>,
}

impl<const HARD: bool> Fixture<HARD> {
    /// A zone of eight frames, and lists with room for two blocks on two CPUs.
    fn new() -> Arc<Self> {
        let span = PfnRange::new(Pfn::new(0), Pfn::new(FRAMES));
        let raw = vec![core::mem::MaybeUninit::uninit(); ZoneStorage::bytes(span, Order::MAX)].leak();
        let storage = ZoneStorage::carve(span, Order::MAX, &mut Carver::new(raw)).unwrap();
        let config = ZoneConfig::new(ZoneKind::Normal, NodeId::new(0), span);
        let zone: &_ = Box::leak(Box::new(Zone::new::<Machine<HARD>>(config, storage).unwrap()));
        zone.release_simulated::<Machine<HARD>>(span).unwrap();
        let config = PcpConfig { sizing: Sizing::Fixed { batch: 1, high: 2 }, ..PcpConfig::new() };
        let lists: &_ = Box::leak(Box::new(PcpLists::model(config, zone, 2, 2)));
        let fixture = Self { zone, lists, way: PcpRef::new() };
        fixture.way.set_for_words(lists);
        fixture.on(1, |f| f.lists.handle_kick());
        fixture.on(0, |f| f.lists.handle_kick());
        Arc::new(fixture)
    }

    /// Runs as a CPU. Main does so only while no thread is that CPU.
    fn on<R>(&self, cpu: u32, work: impl FnOnce(&Self) -> R) -> R {
        let before = CPU.with(|current| current.replace(cpu));
        WORD.with(|word| word.set(PerCpuPtr::new()));
        let result = work(self);
        CPU.with(|current| current.set(before));
        WORD.with(|word| word.set(PerCpuPtr::new()));
        result
    }

    fn alloc(&self) -> Option<Pfn> {
        let t = MigrateType::Movable;
        self.way.alloc(Order::ZERO, t).or_else(|| self.lists.alloc_slow(Order::ZERO, t, NONE))
    }

    fn free(&self, pfn: Pfn) -> Result<(), FreeError> {
        // SAFETY: there is no memory behind the frames; the way leads to these lists.
        let freed = unsafe { self.way.free(pfn, Order::ZERO, || Some(self.lists)) };
        if freed { Ok(()) } else { self.lists.free_simulated(pfn, Order::ZERO) }
    }

    /// Every frame is free or on a list, and both agree.
    fn check(&self, held: u64) {
        assert_eq!(self.zone.free_frames() + self.lists.frames() + held, FRAMES);
        assert_eq!(self.zone.check(), Ok(()));
        assert_eq!(self.lists.check(), Ok(()));
    }
}

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.max_branches = 50_000; // a zone's check reads a state byte a frame, and a word of the summary a set
    builder.check(model);
}

fn spawn<const HARD: bool, R: 'static>(
    fixture: &Arc<Fixture<HARD>>,
    cpu: u32,
    work: impl FnOnce(&Fixture<HARD>) -> R + 'static,
) -> thread::JoinHandle<R> {
    let fixture = fixture.clone();
    thread::spawn(move || {
        CPU.with(|current| current.set(cpu));
        work(&fixture)
    })
}

fn happened(counters: &[(&str, &AtomicUsize)]) {
    for (what, count) in counters {
        assert!(count.load(Ordering::Relaxed) > 0, "no execution in which {what}");
    }
}

fn count(counter: &AtomicUsize) {
    counter.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn an_owner_against_a_drain_request() {
    static DURING: AtomicUsize = AtomicUsize::new(0);
    static AFTER: AtomicUsize = AtomicUsize::new(0);
    explore(|| {
        let fixture = Fixture::<false>::new();
        let first = fixture.alloc().unwrap();
        fixture.free(first).unwrap();
        let owner = spawn(&fixture, 0, |f| {
            let a = f.alloc().unwrap();
            f.free(a).unwrap();
        });
        fixture.on(1, |f| f.lists.drain_cpu(CpuId::new(0))).unwrap();
        owner.join().unwrap();
        // The request was answered in the middle, or is by the owner's next operation.
        count(if fixture.lists.wait(0).is_ok() { &DURING } else { &AFTER });
        fixture.check(0);
        let next = fixture.alloc().unwrap();
        assert_eq!(fixture.lists.wait(0), Ok(()), "the next operation answers");
        fixture.free(next).unwrap();
        fixture.check(0);
    });
    happened(&[("the owner answers while it works", &DURING), ("the owner answers later", &AFTER)]);
}

#[test]
fn a_drained_list_is_seen_empty() {
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    explore(|| {
        let fixture = Fixture::<false>::new();
        let first = fixture.alloc().unwrap();
        fixture.free(first).unwrap();
        let owner = spawn(&fixture, 0, |f| f.lists.handle_kick());
        fixture.on(1, |f| {
            let _ = f.lists.drain_cpu(CpuId::new(0));
            if f.lists.wait(0).is_ok() {
                // Without a lock: what the owner gave back happened before its answer.
                assert_eq!(f.zone.free_frames(), FRAMES);
                count(&SEEN);
            }
        });
        owner.join().unwrap();
        fixture.lists.handle_kick();
        assert_eq!(fixture.zone.free_frames(), FRAMES);
        fixture.check(0);
    });
    happened(&[("the requester sees the answer at once", &SEEN)]);
}

#[test]
fn two_owners_refill_from_one_zone() {
    static SPLIT: AtomicUsize = AtomicUsize::new(0);
    explore(|| {
        let fixture = Fixture::<false>::new();
        let other = spawn(&fixture, 1, |f| {
            let a = f.alloc().unwrap();
            (a, f.alloc().unwrap())
        });
        let (a, b) = fixture.on(0, |f| (f.alloc().unwrap(), f.alloc().unwrap()));
        let (c, d) = other.join().unwrap();
        let mut all = [a, b, c, d];
        all.sort();
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "{all:?}: no frame twice");
        if a.max(b) > c.min(d) && c.max(d) > a.min(b) {
            count(&SPLIT);
        }
        fixture.check(4);
        for pfn in all {
            fixture.on(0, |f| f.free(pfn)).unwrap();
        }
        fixture.check(0);
    });
    happened(&[("the owners' frames interleave", &SPLIT)]);
}

#[test]
fn an_offline_cpu_is_taken_over() {
    static TAKEN: AtomicUsize = AtomicUsize::new(0);
    static EARLY: AtomicUsize = AtomicUsize::new(0);
    static LATE: AtomicUsize = AtomicUsize::new(0);
    explore(|| {
        let fixture = Fixture::<false>::new();
        let owner = spawn(&fixture, 0, |f| {
            let a = f.alloc().unwrap();
            f.free(a).unwrap();
            f.lists.go_offline().unwrap();
            let b = f.alloc().unwrap(); // goes to the zone
            f.free(b).unwrap();
            f.lists.come_online().unwrap();
            let list = f.way.alloc(Order::ZERO, MigrateType::Movable);
            count(if list.is_none() { &TAKEN } else { &LATE });
            list.into_iter().for_each(|pfn| f.free(pfn).unwrap());
        });
        fixture.on(1, |f| {
            if f.lists.take_over(CpuId::new(0)).is_err() {
                count(&EARLY);
            }
        });
        owner.join().unwrap();
        fixture.check(0);
    });
    happened(&[
        ("the lists are taken over", &TAKEN),
        ("the owner is not offline yet", &EARLY),
        ("the owner finds its lists as it left them", &LATE),
    ]);
}

#[test]
fn a_frame_is_freed_on_another_cpu() {
    static REUSED: AtomicUsize = AtomicUsize::new(0);
    explore(|| {
        let fixture = Fixture::<false>::new();
        let mine = fixture.alloc().unwrap();
        let other = spawn(&fixture, 1, move |f| {
            f.free(mine).unwrap();
            f.alloc().unwrap()
        });
        let a = fixture.on(0, |f| f.alloc().unwrap());
        let b = other.join().unwrap();
        assert_ne!(a, b);
        if b == mine {
            count(&REUSED);
        }
        fixture.check(2);
        fixture.on(1, |f| f.free(a)).unwrap();
        fixture.on(0, |f| f.free(b)).unwrap();
        fixture.check(0);
    });
    happened(&[("the other CPU uses the frame", &REUSED)]);
}

#[test]
fn of_two_frees_at_once_the_hardened_mode_takes_one() {
    static FIRST: AtomicUsize = AtomicUsize::new(0);
    static SECOND: AtomicUsize = AtomicUsize::new(0);
    explore(|| {
        let fixture = Fixture::<true>::new();
        let pfn = fixture.alloc().unwrap();
        let other = spawn(&fixture, 1, move |f| f.free(pfn));
        let mine = fixture.on(0, |f| f.free(pfn));
        let theirs = other.join().unwrap();
        count(if mine.is_ok() { &FIRST } else { &SECOND });
        assert_ne!(mine.is_ok(), theirs.is_ok(), "exactly one free succeeds");
        assert!(matches!(mine.and(theirs), Err(FreeError::OnList | FreeError::NotAllocated)));
        fixture.check(0);
    });
    happened(&[("the first free wins", &FIRST), ("the second free wins", &SECOND)]);
}

#[test]
fn a_drain_against_isolation() {
    static KEPT_OUT: AtomicUsize = AtomicUsize::new(0);
    static BEFORE: AtomicUsize = AtomicUsize::new(0);
    explore(|| {
        let fixture = Fixture::<false>::new();
        let held = fixture.alloc().unwrap();
        let owner = spawn(&fixture, 0, move |f| {
            f.free(held).unwrap();
            f.alloc() // from the list if the isolation has not begun, never later
        });
        fixture.on(1, |f| {
            f.zone.isolate_block::<Machine<false>>(Pfn::new(0)).unwrap();
            f.lists.begin_isolation();
        });
        let got = owner.join().unwrap();
        count(if got.is_none() { &KEPT_OUT } else { &BEFORE });
        // All of the zone is isolated: nothing may come out any more, and what is freed stays in.
        assert_eq!(fixture.on(0, |f| f.alloc()), None);
        if let Some(pfn) = got {
            fixture.on(0, |f| f.free(pfn)).unwrap();
            assert_eq!(fixture.on(0, |f| f.alloc()), None);
        }
        assert_eq!(fixture.lists.wait(0), Ok(()));
        assert_eq!(fixture.lists.frames(), 0);
        fixture.on(1, |f| {
            f.zone.unisolate_block::<Machine<false>>(Pfn::new(0)).unwrap();
            f.lists.end_isolation();
        });
        assert_eq!(fixture.zone.free_frames(), FRAMES);
        let pfn = fixture.on(0, |f| f.alloc()).unwrap();
        fixture.on(0, |f| f.free(pfn)).unwrap();
        fixture.check(0);
    });
    happened(&[("the frame stays in the isolated block", &KEPT_OUT), ("the frame comes back before", &BEFORE)]);
}

/// A CPU that has answered a change of sizes has the sizes.
#[test]
fn an_owner_that_answers_sees_the_new_sizes() {
    static NEW: AtomicUsize = AtomicUsize::new(0);
    static OLD: AtomicUsize = AtomicUsize::new(0);
    explore(|| {
        let fixture = Fixture::<false>::new();
        let other = spawn(&fixture, 1, |f| f.lists.set_reclaim(ReclaimActivity::Active));
        // Two blocks, the room of a list, and a batch, which is one, while memory is reclaimed.
        let limit = fixture.on(0, |f| {
            f.lists.handle_kick();
            f.lists.own_limit().unwrap()
        });
        other.join().unwrap();
        count(if limit == 1 { &NEW } else { &OLD });
        assert!(limit == 1 || fixture.lists.awaits_resize(CpuId::new(0)), "answered with the old sizes");
    });
    happened(&[("the owner has the new sizes", &NEW), ("the owner was earlier", &OLD)]);
}

/// A CPU that only looks at an offline CPU's lists has left them before that CPU is back.
#[test]
fn a_look_at_an_offline_cpu_is_over_before_it_is_back() {
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    static ONLINE: AtomicUsize = AtomicUsize::new(0);
    explore(|| {
        let fixture = Fixture::<false>::new();
        let owner = spawn(&fixture, 0, |f| {
            let a = f.alloc().unwrap();
            f.free(a).unwrap();
            f.lists.go_offline().unwrap();
            // Waits for the look, if it is under way.
            f.lists.come_online().unwrap();
            let a = f.alloc().unwrap();
            f.free(a).unwrap();
        });
        let seen = fixture.on(1, |f| f.lists.look_offline(CpuId::new(0)));
        assert!(seen.is_none_or(|blocks| blocks == 1));
        count(if seen.is_some() { &SEEN } else { &ONLINE });
        owner.join().unwrap();
        fixture.check(0);
    });
    happened(&[("the look found the CPU offline", &SEEN), ("the look found it online", &ONLINE)]);
}

/// Two offline guards at once would be two owners of one list.
#[test]
fn of_two_takers_one_is_let_in() {
    static ONE: AtomicUsize = AtomicUsize::new(0);
    static BOTH: AtomicUsize = AtomicUsize::new(0);
    explore(|| {
        let fixture = Fixture::<false>::new();
        let first = fixture.alloc().unwrap();
        fixture.free(first).unwrap();
        fixture.lists.go_offline().unwrap();
        let other = spawn(&fixture, 1, |f| f.lists.take_over(CpuId::new(0)).is_ok());
        let mine = fixture.on(1, |f| f.lists.take_over(CpuId::new(0)).is_ok());
        let theirs = other.join().unwrap();
        assert!(mine || theirs);
        count(if mine && theirs { &BOTH } else { &ONE });
        fixture.check(0);
    });
    happened(&[("the takers meet", &ONE), ("one comes after the other", &BOTH)]);
}

#[test]
fn a_batch_is_handed_over_whole() {
    static GOT: AtomicUsize = AtomicUsize::new(0);
    static EARLY: AtomicUsize = AtomicUsize::new(0);
    explore(|| {
        let depot = Arc::new(Depot::new(2).unwrap());
        let other = {
            let depot = depot.clone();
            thread::spawn(move || {
                let mut hand = Hand::default();
                assert!(depot.push(&mut hand, 10) && depot.push(&mut hand, 20));
                hand
            })
        };
        let mut hand = Hand::default();
        let mut got: Vec<u32> = (0..2).filter_map(|_| depot.pop(&mut hand)).collect();
        let mut theirs = other.join().unwrap();
        count(if got.is_empty() { &EARLY } else { &GOT });
        got.extend(std::iter::from_fn(|| depot.pop(&mut theirs)));
        got.sort();
        assert_eq!(got, [10, 20], "each batch once");
        assert_eq!(depot.empties([hand, theirs]), 2);
    });
    happened(&[("a batch is popped while the other CPU pushes", &GOT), ("the stack is found empty", &EARLY)]);
}

/// A CPU that looked at the top of the stack must notice a pop and a push since then: the batch below has changed.
#[test]
fn a_batch_that_comes_back_is_not_mistaken() {
    static BETWEEN: AtomicUsize = AtomicUsize::new(0);
    static APART: AtomicUsize = AtomicUsize::new(0);
    explore(|| {
        let depot = Arc::new(Depot::new(3).unwrap());
        let mut hand = Hand::default();
        assert!(depot.push(&mut hand, 10) && depot.push(&mut hand, 20));
        let other = {
            let depot = depot.clone();
            thread::spawn(move || {
                let mut hand = Hand::default();
                let first = depot.pop(&mut hand);
                let second = depot.pop(&mut hand);
                // The batch that was on top, with the spare's number, is on top again; what was below is this CPU's.
                let back = first.is_some_and(|first| depot.push(&mut hand, first));
                (hand, [first.filter(|_| !back), second])
            })
        };
        let mine = depot.pop(&mut hand);
        let (mut theirs, kept) = other.join().unwrap();
        count(if kept.iter().flatten().count() == 1 && mine.is_some() { &BETWEEN } else { &APART });
        let mut all: Vec<u32> = kept.into_iter().chain([mine]).flatten().collect();
        all.extend(std::iter::from_fn(|| depot.pop(&mut theirs)));
        all.sort();
        assert_eq!(all, [10, 20], "each batch once");
        assert_eq!(depot.empties([hand, theirs]), 3);
    });
    happened(&[("the CPUs share the batches", &BETWEEN), ("one CPU has both", &APART)]);
}

/// Nothing of an isolated pageblock comes out of the depot or stays in it, although a CPU was about to push.
#[test]
fn a_hand_over_against_isolation() {
    static PUSHED: AtomicUsize = AtomicUsize::new(0);
    static DIRECT: AtomicUsize = AtomicUsize::new(0);
    explore(|| {
        let fixture = Fixture::<false>::new();
        let held: Vec<Pfn> = (0..=BATCH).map(|_| fixture.alloc().unwrap()).collect();
        fixture.lists.drain_all();
        fixture.on(0, |f| f.lists.handle_kick());
        let owner = spawn(&fixture, 0, move |f| {
            held.into_iter().for_each(|pfn| f.free(pfn).unwrap());
            f.lists.in_depot()
        });
        fixture.on(1, |f| {
            f.zone.isolate_block::<Machine<false>>(Pfn::new(0)).unwrap();
            f.lists.begin_isolation();
            assert_eq!(f.alloc(), None, "all of the zone is isolated");
        });
        let pushed = owner.join().unwrap() > 0;
        count(if pushed { &PUSHED } else { &DIRECT });
        fixture.on(0, |f| f.lists.handle_kick());
        assert_eq!((fixture.lists.wait(0), fixture.lists.frames()), (Ok(()), 0));
        assert_eq!(fixture.on(1, |f| f.alloc()), None);
        fixture.on(1, |f| {
            f.zone.unisolate_block::<Machine<false>>(Pfn::new(0)).unwrap();
            f.lists.end_isolation();
        });
        fixture.check(0);
    });
    happened(&[("a batch went into the depot", &PUSHED), ("all went to the zone", &DIRECT)]);
}

/// What one CPU frees another allocates, by way of the depot.
#[test]
fn a_batch_goes_from_cpu_to_cpu() {
    static OVER: AtomicUsize = AtomicUsize::new(0);
    static FRESH: AtomicUsize = AtomicUsize::new(0);
    explore(|| {
        let fixture = Fixture::<false>::new();
        let held: Vec<Pfn> = (0..=BATCH).map(|_| fixture.alloc().unwrap()).collect();
        let ours = held.clone();
        let owner = spawn(&fixture, 0, move |f| held.into_iter().for_each(|pfn| f.free(pfn).unwrap()));
        let got = fixture.on(1, |f| f.alloc().unwrap());
        owner.join().unwrap();
        count(if ours.contains(&got) { &OVER } else { &FRESH });
        fixture.check(1);
        fixture.on(1, |f| f.free(got)).unwrap();
        fixture.check(0);
    });
    happened(&[("the other CPU takes the batch over", &OVER), ("the other CPU asks the zone", &FRESH)]);
}
