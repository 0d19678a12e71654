//! Processes: every CPU but the first reads and writes the pages of the [`Space`] without pause, and knows the values
//! it must find. While they run, frames are moved from under them.

use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use pageblock_frame::sync::{AtomicBool, AtomicU64, Lock};
use pageblock_frame::{Gfp, Order};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::arch::apic;
use crate::arch::cpu::{self, MAX_CPUS};
use crate::space::{SPACE, address, is_mapped};
use crate::{mm, println, work};

/// Last value of each CPU in each page.
static EXPECTED: [Lock<Vec<u32>>; MAX_CPUS] = [const { Lock::new(Vec::new()) }; MAX_CPUS];
/// A process sleeps after this many accesses, until the next tick: there may be fewer processors than CPUs.
const BURST: u64 = 200;
/// Period of the tick in nanoseconds.
const TICK_NS: u32 = 1_000_000;
static RUNNING: AtomicBool = AtomicBool::new(false);
static PAGES: AtomicU64 = AtomicU64::new(0);
/// Accesses by all CPUs.
static ACCESSES: AtomicU64 = AtomicU64::new(0);
/// Work of the first CPU meanwhile.
static MEANWHILE: Lock<fn()> = Lock::new(|| {});
/// Work of the last CPU instead of being a process: called again and again, with sleep in between.
static DAEMON: Lock<Option<fn()>> = Lock::new(None);

/// Word of a page that says which page it is; the words behind it belong to one CPU each.
const NAME: usize = 0;
const MAGIC: u64 = 0x7061_6765_0000_0000;

fn word(page: u64, index: usize) -> *mut u64 {
    address(page).as_mut_ptr::<u64>().wrapping_add(index)
}

/// Maps `page` to a new frame and writes its name. False if there is no memory.
pub fn populate(page: u64) -> bool {
    let Some(pfn) = mm::alloc(Order::ZERO, Gfp::HIGHUSER_MOVABLE | Gfp::NOWARN) else { return false };
    // SAFETY: just allocated.
    unsafe { core::ptr::write_bytes(crate::arch::paging::phys_ptr::<u8>(pfn.phys()), 0, 4096) };
    SPACE.map(page, pfn);
    // SAFETY: mapped a moment ago.
    unsafe { word(page, NAME).write_volatile(MAGIC | page) };
    true
}

/// Unmaps pages and frees their frames, where they have one.
pub fn discard(pages: impl Iterator<Item = u64>) {
    SPACE.unmap(pages, crate::space::free);
}

/// Makes room for the processes' records of `pages` pages, before memory runs short. The pages are
/// populated after this.
pub fn prepare(pages: u64) {
    for cpu in cpu::online() {
        *EXPECTED[cpu.id().index()].lock() = vec![0; pages as usize];
    }
}

/// Gives back the room that [`prepare`] took.
pub fn release() {
    EXPECTED.iter().for_each(|expected| *expected.lock() = Vec::new());
}

/// One access: the page's name, and this CPU's counter in it, which must be this CPU's last value.
fn access(page: u64, index: usize, expected: &mut u32) {
    let (name, counter) = (word(page, NAME), word(page, 1 + index));
    // SAFETY: the page is mapped while the processes run, or on the move: then the access waits.
    unsafe {
        let found = name.read_volatile();
        assert!(found == MAGIC | page, "page {page} is called {found:#x}");
        let count = counter.read_volatile();
        assert!(count == u64::from(*expected), "page {page}: CPU {index} left {expected} and finds {count}");
        counter.write_volatile(count + 1);
    }
    *expected += 1;
}

fn daemon_of(index: usize) -> Option<fn()> {
    let last = cpu::online().map(|cpu| cpu.id().index()).max();
    DAEMON.lock().filter(|_| last == Some(index))
}

/// Sleeps between calls until an interrupt: a kick, or the tick.
fn be_daemon(daemon: fn()) {
    apic::start_timer(TICK_NS);
    while RUNNING.load(Ordering::Acquire) {
        daemon();
        x86_64::instructions::hlt();
    }
    apic::stop_timer();
}

/// Makes the last CPU a daemon from the next [`run`] on; it needs another one beside the first.
pub fn set_daemon(daemon: Option<fn()>) {
    *DAEMON.lock() = daemon;
}

fn job(index: usize) {
    if index == 0 {
        let meanwhile = *MEANWHILE.lock();
        meanwhile();
        RUNNING.store(false, Ordering::Release);
        return;
    }
    if let Some(daemon) = daemon_of(index) {
        return be_daemon(daemon);
    }
    let pages = PAGES.load(Ordering::Relaxed);
    let mut expected = EXPECTED[index].lock();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(index as u64);
    apic::start_timer(TICK_NS);
    while RUNNING.load(Ordering::Acquire) {
        let page = random.next_u64() % pages;
        if is_mapped(page) {
            access(page, index, &mut expected[page as usize]);
            let accesses = ACCESSES.fetch_add(1, Ordering::Relaxed);
            if accesses.is_multiple_of(BURST) {
                x86_64::instructions::hlt();
            }
        }
    }
    apic::stop_timer();
}

/// Waits until the processes have done `accesses` more: for the work that runs meanwhile. Returns at once where there
/// are none.
pub fn wait(accesses: u64) {
    let end = ACCESSES.load(Ordering::Relaxed) + accesses;
    while cpu::online().count() > 1 && ACCESSES.load(Ordering::Relaxed) < end {
        core::hint::spin_loop();
    }
}

/// Runs `meanwhile` on this CPU, which is the first, while all others use the first `pages` pages of the space. Pages
/// may come and go only when the processes do not run.
///
/// # Panics
/// A process does not find its own writes.
pub fn run(pages: u64, meanwhile: fn()) {
    PAGES.store(pages, Ordering::Relaxed);
    ACCESSES.store(0, Ordering::Relaxed);
    *MEANWHILE.lock() = meanwhile;
    RUNNING.store(true, Ordering::Release);
    work::run_on_all(job);
    println!("processes: {} accesses, all found what they left", ACCESSES.load(Ordering::Relaxed));
}

/// The counters of all CPUs fit behind the name.
const _: () = assert!(MAX_CPUS < 512);
