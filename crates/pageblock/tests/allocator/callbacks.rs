//! Every hook and every call of the reclaimer unwinds, uses the allocator, or takes so long that another CPU does
//! everything meanwhile, at each of its calls in turn: no frame is lost, nothing stays locked or switched off, and the
//! next calls work.

use std::cell::{Cell, RefCell};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;

use pageblock::trace::Event;
use pageblock::{
    Config, CpuId, Frames, Gfp, Hooks, IrqState, Migrate, MigrateMode, MigrateType, MoveError, Next, NodeId, Order,
    PageAllocator, Pfn, PfnRange, Platform, PutBack, RawFrames, Reclaim, Refusal, Region, Shrink, Shrunk, ZoneKind,
    ZoneLimits,
};
use pageblock_buddy::Unreserve;
use pageblock_testkit::host::{Host, is_balanced};

use crate::pressure::{SINGLE, mixed_up};

type Cpu = Host<11>;

/// What a callback does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    Unwind,
    Reenter,
    /// It returns when another CPU has done everything.
    Last,
}

thread_local! {
    /// The call that acts, counted down, and how.
    static NEXT: Cell<Option<(u32, Act)>> = const { Cell::new(None) };
    static ACTED: Cell<u32> = const { Cell::new(0) };
    static RECLAIMS: Cell<bool> = const { Cell::new(false) };
    /// There is a migrator, which refuses everything.
    static MIGRATES: Cell<bool> = const { Cell::new(false) };
    /// This is the CPU that works while another is in a callback.
    static MUST_NOT_WAIT: Cell<bool> = const { Cell::new(false) };
    static MACHINE: Cell<Option<&'static PageAllocator<Startled>>> = const { Cell::new(None) };
    static CACHE: RefCell<Vec<Frames<'static, Startled>>> = const { RefCell::new(Vec::new()) };
}

/// Each callback comes here first.
fn called() {
    let Some((left, act)) = NEXT.get() else { return };
    if left > 0 {
        return NEXT.set(Some((left - 1, act)));
    }
    NEXT.set(None);
    ACTED.set(ACTED.get() + 1);
    match act {
        // Without the message that a panic would print.
        Act::Unwind => resume_unwind(Box::new("injected")),
        Act::Reenter => use_it(MACHINE.get().unwrap()),
        Act::Last => {
            let machine = MACHINE.get().unwrap();
            let other = std::thread::spawn(move || {
                MUST_NOT_WAIT.set(true);
                use_it(machine);
                let held = machine.alloc_many(40, Gfp::ATOMIC, &mut [RawFrames::EMPTY; 40]).map(|set| set.frames());
                assert!(held.is_err() || held == Ok(40));
                machine.cpus().go_offline().unwrap();
                machine.check().unwrap();
                machine.cpus().come_online().unwrap();
            });
            other.join().expect("a CPU works while another is in a callback");
        }
    }
}

/// What a callback, or a later call, does with the allocator.
fn use_it(machine: &PageAllocator<Startled>) {
    drop(machine.alloc_order(Order::saturating(1), Gfp::ATOMIC));
    drop(machine.alloc_order(Order::HUGE, Gfp::KERNEL | Gfp::NORETRY));
    machine.drain();
    let _ = machine.compaction().all();
    let _ = machine.reclaim().step(NodeId::new(0));
}

#[derive(Debug)]
struct Startled;

// SAFETY: all that is promised is promised by `Host`, to which these calls go.
unsafe impl Platform for Startled {
    const MAX_CPUS: usize = Cpu::MAX_CPUS;
    const HAS_MEMORY: bool = false;

    fn phys_to_virt(address: u64) -> NonNull<u8> {
        Cpu::phys_to_virt(address)
    }

    fn pin() -> CpuId {
        Cpu::pin()
    }

    unsafe fn unpin() {
        // SAFETY: the caller's promise is passed on.
        unsafe { Cpu::unpin() };
    }

    fn irq_save() -> IrqState {
        Cpu::irq_save()
    }

    unsafe fn irq_restore(state: IrqState) {
        // SAFETY: the caller's promise is passed on.
        unsafe { Cpu::irq_restore(state) };
    }

    fn hooks() -> impl Hooks {
        Self
    }
}

impl Hooks for Startled {
    fn now(&self) -> u64 {
        called();
        1
    }

    fn kick(&self, _: CpuId) -> bool {
        called();
        false
    }

    fn wake_kswapd(&self, _: NodeId) {
        called();
    }

    fn wake_kcompactd(&self, _: NodeId) {
        called();
    }

    fn wait_until(&self, _: NodeId, _: u64) {
        called();
    }

    fn wake_waiters(&self, _: NodeId) {
        called();
    }

    fn wait_for_lock(&self, _: usize, attempt: &mut dyn FnMut() -> bool) {
        assert!(!MUST_NOT_WAIT.get(), "a lock is held over a callback");
        while !attempt() {}
    }

    fn migrator(&self) -> Option<&'static (dyn Migrate + Sync)> {
        MIGRATES.get().then_some(&Self)
    }

    fn reclaimer(&self) -> Option<&'static (dyn Reclaim + Sync)> {
        Some(&Self)
    }

    fn enter_reclaim(&self) -> bool {
        !RECLAIMS.replace(true)
    }

    fn leave_reclaim(&self) {
        RECLAIMS.set(false);
        called();
    }

    fn trace(&self, _: &Event) {
        called();
    }
}

// SAFETY: nothing is given away: every answer is a refusal.
unsafe impl Migrate for Startled {
    fn isolate(&self, _: Pfn, _: Order, _: MigrateMode) -> Result<(), Refusal> {
        called();
        Err(Refusal::Unknown)
    }

    fn migrate(&self, _: Pfn, _: Pfn, _: Order, _: MigrateMode) -> Result<(), MoveError> {
        Err(MoveError::Failed)
    }

    fn put_back(&self, _: Pfn, _: Order) -> PutBack {
        PutBack::Kept
    }
}

impl Reclaim for Startled {
    fn shrink(&self, round: &Shrink) -> Shrunk {
        called();
        let mut shrunk = Shrunk { scanned: round.frames, freed: 0 };
        for _ in 0..round.frames.min(32) {
            shrunk.freed += CACHE.with_borrow_mut(Vec::pop).map_or(0, |frames| frames.order().frames());
        }
        shrunk
    }

    fn reclaimable(&self, _: NodeId, _: ZoneKind) -> u64 {
        called();
        CACHE.with_borrow(|cache| cache.len() as u64)
    }

    fn out_of_memory(&self, _: Order, _: ZoneKind, _: Gfp) -> bool {
        called();
        false
    }

    fn is_dying(&self) -> bool {
        called();
        false
    }
}

/// Lives for ever, as a kernel's does: the cache outlives a test that fails.
fn boot() -> &'static PageAllocator<Startled> {
    let map = [Region::usable(0..8 << 20)];
    let config = Config::new().zones(ZoneLimits::single());
    let bytes = PageAllocator::<Startled>::metadata_bytes(map, &config).unwrap();
    let machine = Box::leak(Box::new(PageAllocator::new()));
    machine.init_simulated(map, &config, vec![MaybeUninit::uninit(); bytes].leak()).unwrap();
    machine
}

/// Fills the cache down to where requests have to reclaim.
fn fill(machine: &'static PageAllocator<Startled>) {
    while let Ok(frames) = machine.alloc(Gfp::HIGHUSER_MOVABLE - Gfp::RECLAIM) {
        CACHE.with_borrow_mut(|cache| cache.push(frames));
    }
}

/// Requests under pressure and the reclaim thread, one after the other, each of which may unwind.
fn work(machine: &PageAllocator<Startled>) {
    let attempt = |work: &dyn Fn()| _ = catch_unwind(AssertUnwindSafe(work));
    attempt(&|| drop(machine.alloc_order(Order::saturating(2), Gfp::KERNEL)));
    attempt(&|| _ = machine.reclaim().step(NodeId::new(0)));
    attempt(&|| drop(machine.alloc_order(Order::saturating(4), Gfp::KERNEL | Gfp::NORETRY)));
    attempt(&|| drop(machine.alloc_order(Order::saturating(9), Gfp::KERNEL | Gfp::RETRY_MAYFAIL)));
    attempt(&|| drop(machine.alloc_exact(5, Gfp::KERNEL)));
    attempt(&|| drop(machine.alloc_order(Order::saturating(1), Gfp::ATOMIC)));
    attempt(&|| drop(machine.alloc_many(21, Gfp::KERNEL, &mut [RawFrames::EMPTY; 21])));
    attempt(&|| drop(machine.alloc_order(Order::saturating(2), Gfp::KERNEL).map(|block| block.split(Order::ZERO))));
    attempt(&|| drop(machine.commit(2, Gfp::KERNEL).map(|mut promise| [promise.alloc(), promise.alloc()])));
    attempt(&|| {
        let mut out = [Pfn::new(0); 70];
        let got = machine.alloc_bulk(Gfp::KERNEL, &mut out).unwrap_or(0);
        // SAFETY: handed out above; there is no memory behind the frames.
        let free = |pfn: &Pfn| unsafe { machine.free(*pfn, Order::ZERO) }.unwrap();
        NEXT.set(None);
        out.iter().take(got).for_each(free);
    });
    attempt(&|| _ = machine.drain());
}

/// Each `stride`-th of the calls acts, one after the other.
fn each_call(act: Act, stride: usize) {
    let machine = boot();
    MACHINE.set(Some(machine));
    ACTED.set(0);
    for call in (0..2000).step_by(stride) {
        fill(machine);
        let before = ACTED.get();
        NEXT.set(Some((call, act)));
        work(machine);
        NEXT.set(None);
        assert!(is_balanced(), "call {call}: pinned, or interrupts are off");
        assert_eq!(machine.check(), Ok(()), "call {call}");
        let held = CACHE.with_borrow(|cache| cache.len() as u64);
        let stats = machine.stats();
        assert_eq!(stats.free + held, stats.managed, "call {call}: frames are lost");
        // A scope of reclaim that was left open would refuse it.
        assert!(!RECLAIMS.get(), "call {call}: reclaims for ever");
        assert_ne!(
            machine.reclaim().step(NodeId::new(0)),
            Next::Sleep { until: None },
            "call {call}: the seat is lost"
        );
        if ACTED.get() == before {
            break;
        }
    }
    assert!(ACTED.get() >= 30, "{} calls acted", ACTED.get());
    CACHE.take();
    MACHINE.set(None);
    machine.drain();
    assert_eq!(machine.stats().free, machine.stats().managed);
}

#[test]
fn no_call_that_unwinds_takes_anything_with_it() {
    each_call(Act::Unwind, 1);
}

#[test]
fn no_call_that_uses_the_allocator_harms_it() {
    each_call(Act::Reenter, 1);
}

#[test]
fn no_call_that_takes_long_keeps_another_cpu() {
    each_call(Act::Last, 3);
}

#[test]
fn a_block_on_its_way_to_the_caller_is_freed_if_the_last_hook_unwinds() {
    MIGRATES.set(true);
    let machine = boot();
    let range = PfnRange::new(Pfn::new(1024), Pfn::new(1536));
    let requests: [&dyn Fn(); 4] = [
        &|| drop(machine.request().align(Order::saturating(4)).alloc().unwrap()),
        &|| drop(machine.alloc_exact(5, Gfp::KERNEL).unwrap()),
        &|| drop(machine.alloc_exact(600, Gfp::KERNEL).unwrap()),
        &|| drop(machine.alloc_contig_range(range, MigrateMode::Sync).unwrap()),
    ];
    for (number, request) in requests.into_iter().enumerate() {
        for call in 0.. {
            NEXT.set(Some((call, Act::Unwind)));
            let result = catch_unwind(AssertUnwindSafe(request));
            NEXT.set(None);
            assert_eq!(machine.stats().free, machine.stats().managed, "call {call} of request {number}");
            let Err(payload) = result else {
                assert!(call > 0, "request {number} calls nothing");
                break;
            };
            assert_eq!(payload.downcast_ref(), Some(&"injected"), "request {number} is refused");
        }
    }
    machine.check().unwrap();
}

#[test]
fn a_block_that_boosts_its_zone_is_freed_if_the_wake_up_unwinds() {
    for call in 0.. {
        let (machine, normal) = mixed_up::<Startled>(&SINGLE);
        let free = machine.stats().free;
        NEXT.set(Some((call, Act::Unwind)));
        let unwound = catch_unwind(AssertUnwindSafe(|| drop(machine.alloc(Gfp::KERNEL).unwrap()))).is_err();
        NEXT.set(None);
        assert_eq!((machine.stats().free, machine.check()), (free, Ok(())), "call {call}");
        if !unwound {
            assert!(call > 1 && normal.boost() > 0, "the boost wakes nothing");
            break;
        }
    }
}

#[test]
fn no_lock_is_held_over_the_news_of_a_reserve() {
    let machine = boot();
    MACHINE.set(Some(machine));
    // SAFETY: nothing is freed through it.
    let [zone] = (unsafe { machine.raw_zones() }) else { panic!("one zone") };
    ACTED.set(0);
    NEXT.set(Some((0, Act::Last)));
    assert!(zone.reserve_highatomic::<Startled>(zone.span().start));
    NEXT.set(Some((0, Act::Last)));
    assert!(zone.unreserve_highatomic::<Startled>(Unreserve::Last, MigrateType::Movable));
    NEXT.set(None);
    MACHINE.set(None);
    assert_eq!((ACTED.get(), machine.check()), (2, Ok(())));
}
