//! Memory filled by the page cache, and the consequence: allocations succeed because the cache gives way, to the
//! reclaim thread ahead of need, or to the allocating task.
//!
//! The thread (kswapd) is the last CPU, if there is more than one.

use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use pageblock::{Gfp, Next, NodeId, Order, PAGE_SIZE, Pfn};
use pageblock_frame::sync::{AtomicBool, AtomicU64, Lock};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use x86_64::instructions::interrupts;

use crate::arch::{apic, cpu};
use crate::boot::pvh::BootInfo;
use crate::cache::CACHE;
use crate::held::Held;
use crate::mm::{self, FRAMES};
use crate::platform::wake_last;
use crate::{println, work};

const NODE: NodeId = NodeId::new(0);
/// Period of the thread's tick in nanoseconds: it ends sleeps that have an end.
const TICK_NS: u32 = 1_000_000;
/// Pages of the file for each frame that is free.
const FILE_BY_FREE: u64 = 2;
/// Of a hundred frames, how many the kernel takes for itself in the end.
const HOG: u64 = 50;
/// Blocks that each CPU holds at most while the file is in use.
const SLOTS: usize = 128;

/// Whether the thread lives.
static RUNNING: AtomicBool = AtomicBool::new(false);
/// The thread is asleep.
static ASLEEP: AtomicBool = AtomicBool::new(false);
/// Calls of [`wake`].
static WAKES: AtomicU64 = AtomicU64::new(0);
/// Times that the thread began to work.
static TURNS: AtomicU64 = AtomicU64::new(0);
static ROUNDS: AtomicU64 = AtomicU64::new(0);
static PAGES: AtomicU64 = AtomicU64::new(0);
/// Frames that the kernel takes in the end. Its own room is taken before memory is full.
static HOGGED: Lock<Vec<Held>> = Lock::new(Vec::new());
/// Allocations that failed.
static FAILURES: AtomicU64 = AtomicU64::new(0);

/// The allocator wants the reclaim thread.
pub fn wake() {
    if RUNNING.load(Ordering::Acquire) {
        WAKES.fetch_add(1, Ordering::Relaxed);
        wake_last();
    }
}

/// Fills memory with the file, uses it while `rounds` operations a CPU come and go, takes half of memory for the
/// kernel, gives all back.
///
/// # Panics
/// A page or a block is damaged, an allocation fails, a watermark is not restored, or frames are missing in the end.
pub fn run(boot: &BootInfo, rounds: u64) {
    mm::drain();
    let before = mm::free_frames();
    let pages = before * FILE_BY_FREE;
    ROUNDS.store(rounds, Ordering::Relaxed);
    PAGES.store(pages, Ordering::Relaxed);
    CACHE.open(pages, Pfn::new(boot.ram_end().div_ceil(PAGE_SIZE)));
    HOGGED.lock().reserve(before as usize * HOG as usize / 100 / 3);
    RUNNING.store(has_thread(), Ordering::Release);
    work::run_on_all(job);
    report(before);
    let failures = FAILURES.load(Ordering::Relaxed);
    assert!(failures == 0, "{failures} allocations failed while {} pages could be dropped", CACHE.resident());
    print_vmstat();
    let counts = CACHE.close();
    println!(
        "reclaim: {} pages read, {} written back, {} moved, {} given up to kswapd, {} to others",
        counts.read, counts.written, counts.moved, counts.to_kswapd, counts.to_direct
    );
    let vmstat = FRAMES.vmstat();
    let agrees = (vmstat.pgsteal_kswapd, vmstat.pgsteal_direct) == (counts.to_kswapd, counts.to_direct);
    assert!(agrees, "the allocator has counted otherwise: {} and {}", vmstat.pgsteal_kswapd, vmstat.pgsteal_direct);
    assert!(counts.written > 0 && counts.to_kswapd + counts.to_direct > before, "there was no pressure");
    *HOGGED.lock() = Vec::new();
    mm::drain();
    mm::check();
    let after = mm::free_frames();
    assert!(before == after, "{before} frames were free before the reclaim, {after} are now");
    println!("reclaim: all {after} frames are back");
}

fn has_thread() -> bool {
    cpu::online().count() > 1
}

fn is_thread(index: usize) -> bool {
    has_thread() && cpu::online().map(|cpu| cpu.id().index()).max() == Some(index)
}

fn job(index: usize) {
    if is_thread(index) {
        return be_kswapd();
    }
    let mut random = Xoshiro256PlusPlus::seed_from_u64(index as u64 + 7);
    if index == 0 {
        fill();
    }
    use_file(index, &mut random);
    if index == 0 {
        hog();
        stop_thread();
    }
}

/// Reads the file once: it is larger than memory, so that its beginning gives way to its end.
fn fill() {
    let mut woken = false;
    for page in 0..PAGES.load(Ordering::Relaxed) {
        count(CACHE.read(page));
        if !woken && WAKES.load(Ordering::Relaxed) > 0 {
            woken = true;
            println!("reclaim: {} pages in memory when kswapd is first woken", CACHE.resident());
        }
    }
    println!("reclaim: {} pages in memory after a pass, {} frames free", CACHE.resident(), mm::free_frames());
}

/// Notes whether an allocation succeeded.
fn count(success: bool) -> bool {
    if !success {
        FAILURES.fetch_add(1, Ordering::Relaxed);
    }
    success
}

/// Reads and writes random pages, and takes and gives blocks for the kernel.
fn use_file(index: usize, random: &mut Xoshiro256PlusPlus) {
    let pages = PAGES.load(Ordering::Relaxed);
    let mut slots: Vec<Option<Held>> = (0..SLOTS).map(|_| None).collect();
    for round in 0..ROUNDS.load(Ordering::Relaxed) {
        let (kind, pick) = (random.next_u64(), random.next_u64());
        match kind % 8 {
            0..4 => {
                count(CACHE.read(pick % pages));
            }
            4..6 => {
                count(CACHE.write(pick % pages));
            }
            _ => {
                let slot = &mut slots[pick as usize % SLOTS];
                match slot.take() {
                    Some(block) => block.give(),
                    None => *slot = block((kind >> 8) as u8 % 4, round << 4 | index as u64),
                }
            }
        }
    }
    slots.into_iter().flatten().for_each(Held::give);
}

/// A block for the kernel, which cannot be moved or given up.
fn block(order: u8, serial: u64) -> Option<Held> {
    let held = Held::take(Order::new(order)?, Gfp::KERNEL, serial);
    count(held.is_some());
    held
}

/// Takes a good part of memory for the kernel, and gives it back.
fn hog() {
    let frames = FRAMES.stats().managed * HOG / 100;
    let mut blocks = HOGGED.lock();
    let mut taken = 0;
    while taken < frames {
        let order = blocks.len() as u8 % 4;
        blocks.extend(block(order, taken));
        taken += 1 << order;
    }
    println!("reclaim: {taken} frames for the kernel, {} pages left in memory", CACHE.resident());
    blocks.drain(..).for_each(Held::give);
}

/// The reclaim thread: works until it may sleep, and sleeps until it is woken.
fn be_kswapd() {
    apic::start_timer(TICK_NS);
    while RUNNING.load(Ordering::Acquire) {
        if FRAMES.reclaim().step(NODE) == Next::Again {
            TURNS.fetch_add(u64::from(ASLEEP.swap(false, Ordering::AcqRel)), Ordering::Relaxed);
            continue;
        }
        // A wake-up cannot fall between the look and the sleep.
        interrupts::disable();
        if FRAMES.reclaim().may_sleep(NODE) && RUNNING.load(Ordering::Acquire) {
            ASLEEP.store(true, Ordering::Release);
            interrupts::enable_and_hlt();
        } else {
            interrupts::enable();
        }
    }
    apic::stop_timer();
}

/// Lets the thread come to rest, and ends it.
fn stop_thread() {
    while has_thread() && !(ASLEEP.load(Ordering::Acquire) && FRAMES.reclaim().may_sleep(NODE)) {
        core::hint::spin_loop();
    }
    RUNNING.store(false, Ordering::Release);
    wake_last();
}

/// The allocator's own counts.
fn print_vmstat() {
    let rows = FRAMES.vmstat().rows();
    let told =
        ["pgsteal_kswapd", "pgsteal_direct", "pageoutrun", "compact_stall", "compact_success", "watermark_boost"];
    for (name, number) in rows.iter().filter(|row| told.contains(&row.0)) {
        println!("reclaim: {name} {number}");
    }
}

/// Says how the thread did, and looks at the watermarks that it had to restore.
fn report(before: u64) {
    let restored = FRAMES.zones().any(|zone| zone.free_frames() > zone.watermarks().high);
    let (wakes, turns) = (WAKES.load(Ordering::Relaxed), TURNS.load(Ordering::Relaxed));
    println!("reclaim: kswapd woken {wakes} times, {turns} turns; {} of {before} frames free", mm::free_frames());
    assert!(restored || !has_thread(), "no zone is above its high watermark");
}
