//! The scanner on one CPU, and another that allocates and frees frames of the same pageblock through its own list.
//!
//! The page and one frame make the pair that is wanted; the frame begins on CPU 0's list. CPU 1 asks for that list,
//! as the facade does before it takes a range, and works on whether or not CPU 0 has answered.

use pageblock_testkit::simulated::{SimulatedLists, SimulatedZone};
use std::cell::Cell;
use std::sync::atomic::AtomicBool;

use pageblock_buddy::Patience;
use pageblock_compaction::ContigError;
use pageblock_frame::CpuId;
use pageblock_frame::migration::Interrupt;
use pageblock_pcp::{PcpConfig, PcpLists, Sizing};

use super::*;

loom::thread_local! {
    static CPU: Cell<u32> = Cell::new(0);
}

struct TwoCpus;

// SAFETY: every thread of a model has a CPU number of its own; there are no interrupts; nothing is behind the frames.
unsafe impl Platform for TwoCpus {
    const MAX_CPUS: usize = 2;
    const HAS_MEMORY: bool = false;

    fn phys_to_virt(_: u64) -> core::ptr::NonNull<u8> {
        core::ptr::NonNull::dangling()
    }

    fn pin() -> CpuId {
        CpuId::new(CPU.with(Cell::get))
    }
}

/// The pair: a page that can move, and what CPU 0 has on its list.
const PAIR: PfnRange = PfnRange::from_len(Pfn::new(BORDER), 2);
const LISTED: Pfn = Pfn::new(BORDER + 1);
/// The pageblock in which the pair is, and nothing else.
const BLOCK: u32 = 1;

struct Fixture {
    zone: Arc<Zone<'static>>,
    owner: Arc<Owner>,
    lists: PcpLists<'static, TwoCpus>,
    /// The scanner has withheld the pageblock, and is not done. Outside the model, as are the other two.
    withheld: AtomicBool,
    /// CPU 0 had yet to answer when the scanner looked last.
    waited: AtomicBool,
    /// It has answered since then, and the pageblock was withheld all the time.
    answered: AtomicBool,
    /// How often it has looked.
    looks: AtomicUsize,
}

/// After so many looks the scanner's caller has had enough.
const MOST_LOOKS: usize = 2;

impl Fixture {
    fn new() -> Arc<Self> {
        let (zone, owner) = machine(Pair::Above);
        let config = PcpConfig { sizing: Sizing::Fixed { batch: 1, high: 2 }, ..PcpConfig::new() };
        // SAFETY: the fixture keeps the zone as long as the lists.
        let lists = PcpLists::model(config, unsafe { &*Arc::as_ptr(&zone) }, 2, 2);
        let no = || AtomicBool::new(false);
        let fixture =
            Self { zone, owner, lists, withheld: no(), waited: no(), answered: no(), looks: AtomicUsize::new(0) };
        fixture.on(1, |f| f.lists.handle_kick());
        fixture.on(0, |f| {
            f.lists.handle_kick();
            f.zone.alloc_at::<TwoCpus>(LISTED, Order::ZERO).unwrap();
            f.free(LISTED);
        });
        assert_eq!(fixture.lists.frames_on(CpuId::new(0)), 1);
        Arc::new(fixture)
    }

    /// Runs as a CPU; as CPU 0 only while no thread is that.
    fn on<R>(&self, cpu: u32, work: impl FnOnce(&Self) -> R) -> R {
        let before = CPU.with(|current| current.replace(cpu));
        let result = work(self);
        CPU.with(|current| current.set(before));
        result
    }

    fn alloc(&self) -> Option<Pfn> {
        let t = MigrateType::Movable;
        let slow = || self.lists.alloc_slow(Order::ZERO, t, AllocFlags::empty());
        self.lists.alloc(Order::ZERO, t).or_else(slow)
    }

    fn free(&self, pfn: Pfn) {
        self.lists.free_simulated(pfn, Order::ZERO).expect("the caller's own frame");
    }

    /// Looks, in a call of the scanner's, whether CPU 0 has answered.
    fn look(&self) {
        self.withheld.store(true, Ordering::Relaxed);
        let waits = self.lists.wait(0).is_err();
        if self.waited.swap(waits, Ordering::Relaxed) && !waits {
            self.answered.store(true, Ordering::Relaxed);
        }
    }

    /// Every frame is in one place, and all accounts say so.
    fn settled(&self, held: u64) {
        assert_eq!(self.lists.check(), Ok(()));
        settled(&self.zone, &self.owner, held + self.lists.frames());
    }

    /// All that CPU 0 can still get: none of it is in the pair.
    fn nothing_of_the_pair(&self) {
        let rest: Vec<_> = self.on(0, |f| std::iter::from_fn(|| f.alloc()).collect());
        assert!(rest.iter().all(|&pfn| !PAIR.contains(pfn)), "{rest:?}: a list handed out what the scanner has");
        self.on(0, |f| rest.into_iter().for_each(|pfn| f.free(pfn)));
    }
}

/// The page's owner, and a look at CPU 0's list each time that the scanner asks whether to go on, which it does with
/// the pageblock withheld. Other frames are none of its own: it refuses them.
// SAFETY: the page's owner decides, and keeps the promises.
unsafe impl Migrate for Fixture {
    fn isolate(&self, pfn: Pfn, order: Order, mode: MigrateMode) -> Result<(), Refusal> {
        self.owner.isolate(pfn, order, mode)
    }

    fn migrate(&self, from: Pfn, to: Pfn, order: Order, mode: MigrateMode) -> Result<(), MoveError> {
        self.owner.migrate(from, to, order, mode)
    }

    fn put_back(&self, pfn: Pfn, order: Order) -> PutBack {
        self.owner.put_back(pfn, order)
    }

    fn interrupt(&self) -> Interrupt {
        self.look();
        if self.looks.fetch_add(1, Ordering::Relaxed) < MOST_LOOKS { Interrupt::None } else { Interrupt::Fatal }
    }
}

/// What CPU 0 does meanwhile: takes the frame, from its list unless that has been asked for, gives it back, and takes
/// one to keep. With that, whether the pageblock was withheld as it took it.
fn take_give_take(f: &Fixture) -> (Option<Pfn>, bool) {
    if let Some(pfn) = f.alloc() {
        f.free(pfn);
    }
    keep(f)
}

/// As [`take_give_take`], but the kick arrives while it holds the frame: the list is emptied then, and the frame
/// comes back later.
fn take_kick_give_take(f: &Fixture) -> (Option<Pfn>, bool) {
    if let Some(pfn) = f.alloc() {
        f.lists.handle_kick();
        f.free(pfn);
    }
    keep(f)
}

fn keep(f: &Fixture) -> (Option<Pfn>, bool) {
    let before = f.withheld.load(Ordering::Relaxed);
    let kept = f.alloc();
    (kept, before && f.withheld.load(Ordering::Relaxed))
}

fn spawn<R: 'static>(fixture: &Arc<Fixture>, work: fn(&Fixture) -> R) -> thread::JoinHandle<R> {
    let fixture = fixture.clone();
    thread::spawn(move || fixture.on(0, work))
}

fn count(counter: &AtomicUsize, happened: bool) {
    counter.fetch_add(usize::from(happened), Ordering::Relaxed);
}

fn happened(counters: &[(&str, &AtomicUsize)]) {
    for (what, count) in counters {
        let count = count.load(Ordering::Relaxed);
        println!("{what}: {count}");
        assert!(count > 0, "no execution in which {what}");
    }
}

/// Takes the pair as the facade does for `alloc_contig_range`: nothing goes onto lists, what is there is asked for,
/// and CPU 0 answers in its own time.
fn take_pair(f: &Fixture) -> Result<(), ContigError> {
    let compactor =
        Compactor::new(CompactionConfig { largest_move: Order::ZERO, proactiveness: 0, ..CompactionConfig::default() });
    f.lists.begin_isolation();
    let result = compactor.alloc_contig_range::<TwoCpus, _>(&f.zone, f, PAIR, MigrateMode::SyncLight);
    f.withheld.store(false, Ordering::Relaxed);
    f.lists.end_isolation();
    result
}

#[test]
fn a_range_is_emptied_while_a_list_has_a_frame_of_it() {
    static EXECUTIONS: AtomicUsize = AtomicUsize::new(0);
    static TAKEN: AtomicUsize = AtomicUsize::new(0);
    static GIVEN_UP: AtomicUsize = AtomicUsize::new(0);
    static ANSWERED: AtomicUsize = AtomicUsize::new(0);
    static ELSEWHERE: AtomicUsize = AtomicUsize::new(0);
    explore(&EXECUTIONS, || {
        let fixture = Fixture::new();
        let other = spawn(&fixture, take_give_take);
        let result = fixture.on(1, take_pair);
        let (kept, meanwhile) = other.join().unwrap();
        let taken = if result.is_ok() { PAIR.len() } else { 0 };
        count(&TAKEN, result.is_ok());
        count(&GIVEN_UP, result.is_err());
        count(&ANSWERED, fixture.answered.load(Ordering::Relaxed));
        // Counted only if the scanner kept the range: else it may just have given the pageblock back.
        count(&ELSEWHERE, meanwhile && result.is_ok() && kept.is_some_and(|pfn| !PAIR.contains(pfn)));
        assert!(matches!(result, Ok(()) | Err(ContigError::Unmovable(_) | ContigError::Interrupted)), "{result:?}");
        fixture.settled(taken + u64::from(kept.is_some()));
        if result.is_ok() {
            assert!(kept.is_none_or(|pfn| !PAIR.contains(pfn)), "{kept:?} is the scanner's");
            fixture.nothing_of_the_pair();
            fixture.zone.free_range_simulated::<TwoCpus>(PAIR).unwrap();
        }
        fixture.on(0, |f| kept.into_iter().for_each(|pfn| f.free(pfn)));
        fixture.settled(0);
    });
    happened(&[
        ("the range was taken", &TAKEN),
        ("a frame of the range stayed in use or on the list", &GIVEN_UP),
        ("the list was emptied while the pageblock was withheld", &ANSWERED),
        ("an allocation was served elsewhere while the pageblock was withheld", &ELSEWHERE),
    ]);
}

/// What the scanner has of the pair after it has withheld the pageblock, asked for the list and moved nothing.
fn withhold(f: &Fixture) -> bool {
    let scan = f.zone.scan::<TwoCpus>(Patience::Wait);
    assert!(scan.withhold(BLOCK).is_some());
    f.withheld.store(true, Ordering::Relaxed);
    f.lists.begin_isolation();
    f.lists.wait(0).is_ok()
}

#[test]
fn a_withheld_pageblock_gets_its_frames_back_and_keeps_them() {
    static EXECUTIONS: AtomicUsize = AtomicUsize::new(0);
    static AT_ONCE: AtomicUsize = AtomicUsize::new(0);
    static LATER: AtomicUsize = AtomicUsize::new(0);
    static INSIDE: AtomicUsize = AtomicUsize::new(0);
    static ELSEWHERE: AtomicUsize = AtomicUsize::new(0);
    explore(&EXECUTIONS, || {
        let fixture = Fixture::new();
        let other = spawn(&fixture, take_kick_give_take);
        let answered = fixture.on(1, withhold);
        let (kept, meanwhile) = other.join().unwrap();
        count(if answered { &AT_ONCE } else { &LATER }, true);
        let inside = kept.is_some_and(|pfn| PAIR.contains(pfn));
        count(&INSIDE, inside);
        count(&ELSEWHERE, meanwhile && !inside);
        // What it kept of the pageblock goes back past the list; if CPU 0 has not answered, it does so now.
        fixture.on(0, |f| kept.into_iter().for_each(|pfn| f.free(pfn)));
        fixture.nothing_of_the_pair();
        assert_eq!(fixture.lists.wait(0), Ok(()));
        // The last frame of the pair is the page, which its owner gives up: then the scanner has all of it.
        fixture.owner.drop_page(&fixture.zone);
        let scan = fixture.zone.scan::<TwoCpus>(Patience::Wait);
        assert_eq!(scan.capture(BLOCK * 512, Order::new(1).unwrap(), MigrateType::Movable), Some(PAIR.start));
        fixture.lists.end_isolation();
        fixture.settled(PAIR.len());
        fixture.nothing_of_the_pair();
        fixture.zone.free_simulated::<TwoCpus>(PAIR.start, Order::new(1).unwrap()).unwrap();
        fixture.settled(0);
    });
    happened(&[
        ("the list was emptied at once", &AT_ONCE),
        ("the list was emptied later", &LATER),
        ("the other CPU kept a frame of the pageblock", &INSIDE),
        ("an allocation was served elsewhere while the pageblock was withheld", &ELSEWHERE),
    ]);
}
