//! Real interrupts: a POSIX timer's signal handler allocates and frees on the thread that it interrupts, at whatever
//! instruction that is.
//!
//! `PCP_INTERRUPTS=1000000 cargo test --release -p pageblock-pcp --test signals` interrupts a million times; without the
//! variable it is twenty thousand times.
#![cfg(all(target_os = "linux", not(loom)))]
#![expect(clippy::disallowed_types, reason = "counters of the test, not of the allocator")]

use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use pageblock_buddy::{Zone, ZoneConfig, ZoneStorage};
use pageblock_frame::{
    AllocFlags, Carver, CpuId, IrqState, MigrateType, NodeId, Order, Pfn, PfnRange, Platform, ZoneKind,
};
use pageblock_pcp::{PcpConfig, PcpLists, Reclaim};

const FRAMES: u64 = 1 << 14;
/// Least pause between two interrupts, in nanoseconds; up to eight times as much.
const PAUSE: u64 = 1_000;

/// One CPU: the thread that the timer interrupts. Its interrupts are signals.
#[derive(Debug)]
struct Machine;

static IRQS_OFF: AtomicBool = AtomicBool::new(false);

// SAFETY: 1. One thread works, and its signal handler on top of it. 2. While `IRQS_OFF` is set the handler returns at once.
// 3. Nothing is mapped.
unsafe impl Platform for Machine {
    const MAX_CPUS: usize = 1;

    fn phys_to_virt(_: u64) -> NonNull<u8> {
        NonNull::dangling()
    }

    fn irq_save() -> IrqState {
        usize::from(IRQS_OFF.swap(true, Ordering::SeqCst))
    }

    fn irq_restore(state: IrqState) {
        IRQS_OFF.store(state != 0, Ordering::SeqCst);
    }
}

struct Fixture {
    zone: Zone<'static>,
    lists: PcpLists<'static, Machine>,
}

static FIXTURE: OnceLock<Fixture> = OnceLock::new();

/// What the handler has done, and what it holds.
static INTERRUPTS: AtomicU64 = AtomicU64::new(0);
static BUSY: AtomicU64 = AtomicU64::new(0);
static MASKED: AtomicU64 = AtomicU64::new(0);
static HELD: [AtomicU32; 64] = [const { AtomicU32::new(u32::MAX) }; 64];
static NEXT: AtomicUsize = AtomicUsize::new(0);

const ORDERS: [u8; 8] = [0, 0, 0, 0, 1, 2, 3, 9];

fn order(choice: usize) -> Order {
    Order::new(ORDERS[choice % ORDERS.len()]).unwrap()
}

impl Fixture {
    fn new() -> Self {
        let span = PfnRange::new(Pfn::new(0), Pfn::new(FRAMES));
        let raw = vec![MaybeUninit::uninit(); ZoneStorage::bytes(span, Order::MAX)].leak();
        let storage = ZoneStorage::carve(span, Order::MAX, &mut Carver::new(raw)).unwrap();
        let zone = Zone::new::<Machine>(ZoneConfig::new(ZoneKind::Normal, NodeId::new(0), span), storage).unwrap();
        zone.release(span).unwrap();
        let config = PcpConfig::new();
        let raw = vec![MaybeUninit::uninit(); PcpLists::<Machine>::bytes(&config, span, 1)].leak();
        let lists = PcpLists::carve(config, &zone, 1, &mut Carver::new(raw)).unwrap();
        assert_eq!(lists.cpus(), 1);
        Self { zone, lists }
    }

    fn alloc(&self, order: Order, t: MigrateType) -> Option<Pfn> {
        self.lists.alloc(order, t).or_else(|| self.lists.alloc_slow(&self.zone, order, t, AllocFlags::empty()))
    }

    fn free(&self, pfn: Pfn, order: Order) {
        self.lists.free(&self.zone, pfn, order).unwrap();
    }
}

extern "C" fn interrupt(_signal: libc::c_int) {
    handle();
    // Only now, so that the thread below gets on, however slow signals are.
    arm(TIMER.load(Ordering::Relaxed) as libc::timer_t);
}

/// The running timer.
static TIMER: AtomicUsize = AtomicUsize::new(0);
static PAUSES: AtomicU64 = AtomicU64::new(1);

/// Sets the timer for one interrupt.
fn arm(timer: libc::timer_t) {
    let random = PAUSES.load(Ordering::Relaxed).wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    PAUSES.store(random, Ordering::Relaxed);
    let pause = libc::timespec { tv_sec: 0, tv_nsec: (PAUSE + (random >> 33) % (7 * PAUSE)) as libc::c_long };
    let spec = libc::itimerspec { it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 }, it_value: pause };
    // SAFETY: a plain call, allowed in signal handlers; after the timer is deleted it fails.
    unsafe { libc::timer_settime(timer, 0, &spec, std::ptr::null_mut()) };
}

/// Every second visit to a slot frees what the visit before has allocated; all use the lists if they may.
fn handle() {
    if IRQS_OFF.load(Ordering::SeqCst) {
        // A CPU with interrupts off would take it later.
        MASKED.fetch_add(1, Ordering::Relaxed);
        return;
    }
    let Some(fixture) = FIXTURE.get() else { return };
    INTERRUPTS.fetch_add(1, Ordering::Relaxed);
    let busy = fixture.lists.stacks().enter().is_none();
    BUSY.fetch_add(u64::from(busy), Ordering::Relaxed);
    let slot = NEXT.fetch_add(1, Ordering::Relaxed);
    let order = order(slot % HELD.len());
    let held = &HELD[slot % HELD.len()];
    match held.swap(u32::MAX, Ordering::Relaxed) {
        u32::MAX => {
            let t = MigrateType::ALL[slot % 3];
            if let Some(pfn) = fixture.alloc(order, t) {
                held.store(pfn.as_u64() as u32, Ordering::Relaxed);
            }
        }
        pfn => fixture.free(Pfn::new(pfn.into()), order),
    }
}

/// A timer that signals this thread.
struct Timer(libc::timer_t);

impl Timer {
    fn start() -> Self {
        // SAFETY: plain calls; the structures are zeroed as C would have them, and outlive the calls.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = interrupt as extern "C" fn(libc::c_int) as usize;
            action.sa_flags = libc::SA_RESTART;
            assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = libc::SIGUSR1;
            event.sigev_notify_thread_id = libc::gettid();
            let mut timer = std::mem::zeroed();
            assert_eq!(libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer), 0);
            TIMER.store(timer as usize, Ordering::Relaxed);
            arm(timer);
            Self(timer)
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: the timer is ours. A last signal may be on its way; from now on the handler is not to be called.
        unsafe {
            libc::signal(libc::SIGUSR1, libc::SIG_IGN);
            libc::timer_delete(self.0);
        }
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below as u64) as usize
    }
}

/// One operation of the interrupted thread: mostly allocations and frees, sometimes anything else that there is.
fn step(fixture: &Fixture, random: &mut Random, held: &mut Vec<(Pfn, Order)>) {
    let Fixture { zone, lists } = fixture;
    match random.next(1024) {
        0 => lists.handle_kick(zone),
        1 => drop(lists.drain_cpu(zone, CpuId::new(0))),
        2 => lists.set_reclaim(Reclaim::Active),
        3 => lists.set_reclaim(Reclaim::Idle),
        4 => {
            lists.begin_isolation(zone);
            lists.end_isolation();
        }
        5 => {
            lists.go_offline().unwrap();
            lists.take_over(zone, CpuId::new(0)).unwrap();
            lists.come_online().unwrap();
        }
        // These take the zone lock on behalf of somebody who does not name the platform.
        6 => assert!(zone.has_block(Order::ZERO, AllocFlags::empty())),
        7 => assert!(zone.counts().frames() <= FRAMES),
        n if n % 2 == 0 && held.len() < 2000 => {
            let order = order(random.next(64));
            let t = MigrateType::ALL[random.next(3)];
            held.extend(fixture.alloc(order, t).map(|pfn| (pfn, order)));
        }
        _ if !held.is_empty() => {
            let (pfn, order) = held.swap_remove(random.next(held.len()));
            fixture.free(pfn, order);
        }
        _ => {}
    }
}

#[test]
fn interrupts_at_any_instruction_lose_nothing() {
    let wanted = std::env::var("PCP_INTERRUPTS").ok().map_or(20_000, |count| count.parse().unwrap());
    let fixture = FIXTURE.get_or_init(Fixture::new);
    let mut random = Random(88172645463325252);
    let mut held = Vec::with_capacity(4096);
    let timer = Timer::start();
    while INTERRUPTS.load(Ordering::Relaxed) < wanted {
        for _ in 0..256 {
            step(fixture, &mut random, &mut held);
        }
    }
    drop(timer);
    let (interrupts, busy) = (INTERRUPTS.load(Ordering::Relaxed), BUSY.load(Ordering::Relaxed));
    println!(
        "{interrupts} interrupts, {busy} of them found the lists busy; {} came too early",
        MASKED.load(Ordering::Relaxed)
    );
    let by_handler: u64 = (0..HELD.len())
        .filter(|&slot| HELD[slot].load(Ordering::Relaxed) != u32::MAX)
        .map(|slot| order(slot).frames())
        .sum();
    let by_thread: u64 = held.iter().map(|block| block.1.frames()).sum();
    fixture.zone.check().unwrap();
    fixture.lists.check(&fixture.zone).unwrap();
    assert_eq!(fixture.zone.free_frames() + fixture.lists.frames() + by_handler + by_thread, FRAMES);
    for (pfn, order) in held {
        fixture.free(pfn, order);
    }
    for (slot, held) in HELD.iter().enumerate() {
        let pfn = held.load(Ordering::Relaxed);
        if pfn != u32::MAX {
            fixture.free(Pfn::new(pfn.into()), order(slot));
        }
    }
    fixture.lists.quiesce(&fixture.zone, 0).unwrap();
    assert_eq!(fixture.zone.free_frames(), FRAMES);
    // A few in a thousand hit a busy list: otherwise this has tested nothing.
    assert!(busy * 1000 >= interrupts, "{busy} of {interrupts}");
}
