//! Memory fragmented on purpose, and 2 MiB pages made of it while processes run on it.

use alloc::vec::Vec;

use pageblock::{Gfp, Hooks, Next, NodeId, Order, PAGE_SIZE, Pfn, Platform};
use pageblock_frame::PAGEBLOCK_ORDER;
use pageblock_frame::sync::Lock;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::boot::pvh::BootInfo;
use crate::held::Held;
use crate::mm::{self, FRAMES};
use crate::platform::Kernel;
use crate::space::SPACE;
use crate::{hammer, println};

/// 2 MiB pages that were made.
static HUGE: Lock<Vec<Held>> = Lock::new(Vec::new());
/// Of a hundred frames of the fill, how many the kernel holds for itself: they cannot move.
const KERNEL_SHARE: u64 = 5;
/// Of a hundred frames that are free, how many the fill takes.
const FILL: u64 = 90;
/// Requests in a row without a block after which no more is expected.
const PATIENCE: u32 = 4;

/// The node there is. Its compaction thread is the last CPU, asleep until it is woken.
const NODE: NodeId = NodeId::new(0);
/// How long an allocation waits for the compaction thread, in nanoseconds.
const WAIT_NS: u64 = 200_000_000;

/// The CPU that compacts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Compaction {
    /// The CPU that wants a block.
    Direct,
    /// The compaction thread, on a CPU of its own; there are at least two.
    Thread,
}

/// Fragments memory, compacts it, takes everything down.
///
/// # Panics
/// A process does not find its own writes, compaction makes nothing, or frames are missing in the end.
pub fn run(boot: &BootInfo, by: Compaction) {
    let (before, vmstat) = (mm::free_frames(), FRAMES.vmstat());
    let pages = before * FILL / 100;
    SPACE.open(pages, Pfn::new(boot.ram_end().div_ceil(PAGE_SIZE)));
    hammer::prepare(pages);
    HUGE.lock().reserve((before / PAGEBLOCK_ORDER.frames()) as usize);
    let kernel = fragment(pages);
    let without = count_huge();
    println!("compaction: {} of {before} frames free, {without} pages of 2 MiB among them", mm::free_frames());
    match by {
        Compaction::Direct => hammer::run(pages, || make_huge(take_and_compact)),
        Compaction::Thread => {
            hammer::set_daemon(Some(be_kcompactd));
            hammer::run(pages, || make_huge(ask_thread));
            hammer::set_daemon(None);
        }
    }
    let made = HUGE.lock().len() as u64;
    let vmstat = FRAMES.vmstat().since(&vmstat);
    let moved = vmstat.pgmigrate_success;
    println!("compaction: {made} pages of 2 MiB by moving {moved} frames, {} frames free", mm::free_frames());
    println!(
        "compaction: {} runs by requests, {} by the thread; {} frames looked at",
        vmstat.compact_stall, vmstat.compact_daemon_wake, vmstat.compact_migrate_scanned
    );
    mm::check();
    assert!(made > without, "compaction made nothing");
    core::mem::take(&mut *HUGE.lock()).into_iter().for_each(Held::give);
    hammer::discard(0..pages);
    kernel.into_iter().for_each(Held::give);
    hammer::release();
    SPACE.close();
    mm::check();
    let after = mm::free_frames();
    assert!(before == after, "{before} frames were free before the compaction, {after} are now");
    println!("compaction: all {after} frames are back");
}

/// Fills memory with pages of processes and frames of the kernel, in turn, and frees a random half of each. Returns
/// the kernel's blocks.
fn fragment(pages: u64) -> Vec<Held> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(4);
    let mut kernel = Vec::with_capacity((pages * KERNEL_SHARE / 100) as usize);
    for page in 0..pages {
        if page % 100 < KERNEL_SHARE && kernel.len() < kernel.capacity() {
            kernel.extend(Held::take(Order::ZERO, Gfp::KERNEL, page));
        } else if !hammer::populate(page) {
            break;
        }
    }
    hammer::discard((0..pages).filter(|_| random.next_u64() & 1 == 0));
    let mut kept = 0;
    for index in 0..kernel.len() {
        if random.next_u64() & 1 == 0 {
            kernel.swap(kept, index);
            kept += 1;
        }
    }
    kernel.drain(kept..).for_each(Held::give);
    kernel
}

/// Compacts every zone as `/proc/sys/vm/compact_memory` does.
pub fn compact_memory() {
    for zone in FRAMES.zones() {
        match FRAMES.compaction().zone(zone.node(), zone.kind()) {
            Ok(counts) => println!("zone {}: {} frames moved", zone.kind(), counts.migrated),
            Err(error) => println!("zone {}: {error}", zone.kind()),
        }
    }
}

/// How many 2 MiB pages can be had as it is.
fn count_huge() -> u64 {
    let mut blocks = Vec::new();
    while let Some(pfn) = mm::alloc(PAGEBLOCK_ORDER, Gfp::TRANSHUGE_LIGHT) {
        blocks.push(pfn);
    }
    for pfn in &blocks {
        assert!(mm::free(*pfn, PAGEBLOCK_ORDER).is_ok(), "just allocated");
    }
    blocks.len() as u64
}

/// Takes 2 MiB pages, and has `help` make one where none is free, until that gives no more.
fn make_huge(help: fn(u64) -> Option<Held>) {
    let mut failures = 0;
    while failures < PATIENCE {
        let serial = HUGE.lock().len() as u64;
        match take(serial).or_else(|| help(serial)) {
            Some(block) => HUGE.lock().push(block),
            None => failures += 1,
        }
    }
}

fn take(serial: u64) -> Option<Held> {
    Held::take(PAGEBLOCK_ORDER, Gfp::TRANSHUGE_LIGHT, serial)
}

/// The same by a request that waits: the allocator compacts until it has a block.
fn take_and_compact(serial: u64) -> Option<Held> {
    Held::take(PAGEBLOCK_ORDER, Gfp::TRANSHUGE, serial)
}

/// Wakes the compaction thread and waits for a block.
fn ask_thread(serial: u64) -> Option<Held> {
    FRAMES.compaction().wake(NODE, PAGEBLOCK_ORDER);
    let deadline = Kernel::hooks().now() + WAIT_NS;
    loop {
        let block = take(serial);
        if block.is_some() || Kernel::hooks().now() >= deadline {
            return block;
        }
        core::hint::spin_loop();
    }
}

/// One turn of the compaction thread: works until it may sleep.
fn be_kcompactd() {
    while FRAMES.compaction().step(NODE) == Next::Again {}
}
