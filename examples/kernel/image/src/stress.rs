//! All CPUs at once: random allocation and free, blocks handed from CPU to CPU, and on each CPU a timer interrupt that
//! allocates and frees as well, whatever it interrupted.

use core::sync::atomic::Ordering;

use pageblock_frame::sync::{AtomicBool, AtomicU64};
use pageblock_frame::{CpuId, Gfp, Order};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::arch::{apic, cpu};
use crate::held::{Held, Place};
use crate::mm::{self, FRAMES};
use crate::{println, work};

/// Blocks that a CPU holds at most.
const SLOTS: usize = 256;
/// Blocks that a CPU's interrupt holds at most.
const IRQ_SLOTS: usize = 16;
/// Blocks on their way between CPUs.
const EXCHANGE: usize = 64;
/// Default period of the timer interrupt in microseconds.
pub const TICK_US: u64 = 200;

/// Blocks and counts of one CPU. Only that CPU and its interrupts write.
struct Worker {
    slots: [Place; SLOTS],
    irq_slots: [Place; IRQ_SLOTS],
    allocs: AtomicU64,
    failures: AtomicU64,
    crossed: AtomicU64,
    irq_allocs: AtomicU64,
    irq_failures: AtomicU64,
    /// Interrupts that came in the middle of a call of the allocator.
    irq_inside: AtomicU64,
}

impl Worker {
    const fn new() -> Self {
        Self {
            slots: [const { Place::new() }; SLOTS],
            irq_slots: [const { Place::new() }; IRQ_SLOTS],
            allocs: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            crossed: AtomicU64::new(0),
            irq_allocs: AtomicU64::new(0),
            irq_failures: AtomicU64::new(0),
            irq_inside: AtomicU64::new(0),
        }
    }
}

static WORKERS: [Worker; cpu::MAX_CPUS] = [const { Worker::new() }; cpu::MAX_CPUS];
static IN_TRANSIT: [Place; EXCHANGE] = [const { Place::new() }; EXCHANGE];
/// Whether the interrupts take part.
static RUNNING: AtomicBool = AtomicBool::new(false);
/// Operations between two disturbances of the per-CPU lists.
const DRAIN_EVERY: u64 = 250;
static DRAINS: AtomicU64 = AtomicU64::new(0);
static ROUNDS: AtomicU64 = AtomicU64::new(0);
static PERIOD_US: AtomicU64 = AtomicU64::new(TICK_US);

fn bump(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// One in two is a single frame; one in a hundred is as large as it gets.
fn random_order(random: u64) -> Order {
    let order = match random % 100 {
        0..50 => 0,
        50..80 => 1 + random / 100 % 3,
        80..95 => 4 + random / 100 % 5,
        95..99 => 9,
        _ => 10,
    };
    Order::new(order as u8).unwrap_or(Order::ZERO)
}

fn random_gfp(random: u64) -> Gfp {
    match random % 8 {
        0..4 => Gfp::HIGHUSER_MOVABLE,
        4..6 => Gfp::KERNEL,
        6 => Gfp::KERNEL | Gfp::RECLAIMABLE,
        _ => Gfp::KERNEL | Gfp::DMA32,
    }
}

/// Runs `rounds` operations on every CPU, interrupted every `tick_us` microseconds.
///
/// # Panics
/// A block turns out to be damaged or is refused, or frames are missing in the end.
pub fn run(rounds: u64, tick_us: u64) {
    let (before, vmstat) = (mm::free_frames(), FRAMES.vmstat());
    ROUNDS.store(rounds, Ordering::Relaxed);
    PERIOD_US.store(tick_us, Ordering::Relaxed);
    RUNNING.store(true, Ordering::Relaxed);
    work::run_on_all(job);
    RUNNING.store(false, Ordering::Relaxed);
    IN_TRANSIT.iter().filter_map(|place| place.swap(None)).for_each(Held::give);
    print_counts(FRAMES.vmstat().since(&vmstat).pcp_busy);
    mm::drain();
    mm::check();
    let after = mm::free_frames();
    assert!(before == after, "{before} frames were free before the stress, {after} are now");
    println!("stress: all {after} frames are back");
}

fn job(index: usize) {
    let worker = &WORKERS[index];
    let mut random = Xoshiro256PlusPlus::seed_from_u64(index as u64 + 1);
    apic::start_timer(PERIOD_US.load(Ordering::Relaxed) as u32 * 1000);
    for round in 0..ROUNDS.load(Ordering::Relaxed) {
        step(worker, &mut random, round << 4 | index as u64);
        if round % DRAIN_EVERY == DRAIN_EVERY - 1 {
            disturb(index, round / DRAIN_EVERY);
        }
    }
    apic::stop_timer();
    worker.slots.iter().chain(&worker.irq_slots).filter_map(|place| place.swap(None)).for_each(Held::give);
}

/// Disturbances of the per-CPU lists: the first CPU has all others empty theirs, by an interrupt; the others go
/// offline, and come back.
fn disturb(index: usize, turn: u64) {
    if index == 0 {
        DRAINS.fetch_add(1, Ordering::Relaxed);
        // A CPU that does not answer in time does so later.
        let _ = FRAMES.drain();
    } else if turn % 8 == index as u64 {
        let cpu = CpuId::new(index as u32);
        assert!(FRAMES.cpus().go_offline().is_ok(), "CPU {index} does not go offline");
        // The first CPU may be emptying the lists at this moment.
        let _ = FRAMES.cpus().take_over(cpu);
        let online = FRAMES.cpus().come_online();
        assert!(online.is_ok(), "CPU {index} does not come back: {online:?}");
    }
}

fn step(worker: &Worker, random: &mut Xoshiro256PlusPlus, serial: u64) {
    let (pick, kind) = (random.next_u64(), random.next_u64());
    let place = &worker.slots[pick as usize % SLOTS];
    match place.swap(None) {
        // One block in four goes to its finder, and the former one is freed here.
        Some(block) if pick >> 32 & 3 == 0 => {
            if let Some(other) = IN_TRANSIT[kind as usize % EXCHANGE].swap(Some(block)) {
                bump(&worker.crossed);
                other.give();
            }
        }
        Some(block) => block.give(),
        None => {
            let block = Held::take(random_order(kind), random_gfp(kind >> 32), serial);
            bump(if block.is_some() { &worker.allocs } else { &worker.failures });
            place.swap(block);
        }
    }
}

/// The timer's part: one free and one allocation, as a network driver would.
pub fn on_tick(index: usize, tick: u64) {
    if !RUNNING.load(Ordering::Relaxed) {
        return;
    }
    let worker = &WORKERS[index];
    if cpu::this().in_allocator.load(Ordering::Relaxed) {
        bump(&worker.irq_inside);
    }
    let place = &worker.irq_slots[tick as usize % IRQ_SLOTS];
    if let Some(block) = place.swap(None) {
        block.give();
    }
    let order = Order::new((tick / 3 % 3) as u8).unwrap_or(Order::ZERO);
    let block = Held::take(order, Gfp::ATOMIC, tick << 4 | index as u64);
    bump(if block.is_some() { &worker.irq_allocs } else { &worker.irq_failures });
    place.swap(block);
}

fn print_counts(busy: u64) {
    let kicks: u64 = cpu::online().map(|cpu| cpu.kicks.load(Ordering::Relaxed)).sum();
    println!("stress: lists emptied {} times by {kicks} kicks", DRAINS.load(Ordering::Relaxed));
    println!("stress: lists found in use {busy} times by interrupts, which were served by the zone");
    for cpu in cpu::online() {
        let worker = &WORKERS[cpu.id().index()];
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        println!(
            "stress: cpu {}: {} allocations, {} refused, {} freed for others; in interrupts {}, {} refused, {} inside the \
             allocator",
            cpu.id().index(),
            count(&worker.allocs),
            count(&worker.failures),
            count(&worker.crossed),
            count(&worker.irq_allocs),
            count(&worker.irq_failures),
            count(&worker.irq_inside)
        );
    }
}
