//! Memory filled to the last frame, by all CPUs, and given back.

use core::sync::atomic::Ordering;

use pageblock_frame::sync::AtomicU64;
use pageblock_frame::{Gfp, Order, Pfn};

use crate::arch::cpu;
use crate::arch::paging::phys_ptr;
use crate::{mm, println, work};

/// Frames that all CPUs took together.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// A frame in a chain of frames: the chain is kept in the memory that it consists of.
#[repr(C)]
struct Link {
    next: u64,
    own: u64,
    check: u64,
}

const CHECK: u64 = 0x5ca1_ab1e_0ddb_a115;

/// The chain of each CPU.
static CHAINS: [AtomicU64; cpu::MAX_CPUS] = [const { AtomicU64::new(0) }; cpu::MAX_CPUS];

/// Fills memory on all CPUs to the last frame, reserves included, and empties it again.
///
/// # Panics
/// A frame was handed out twice, something was left, or frames are missing in the end.
pub fn run() {
    mm::drain();
    let before = mm::free_frames();
    TAKEN.store(0, Ordering::Relaxed);
    work::run_on_all(|index| CHAINS[index].store(fill_chain(), Ordering::Relaxed));
    let (left, taken) = (mm::free_frames(), TAKEN.load(Ordering::Relaxed));
    println!("exhaustion: {taken} of {before} frames taken, {left} left");
    assert!(taken + left == before, "{} frames are nowhere", before - taken - left);
    mm::check();
    work::run_on_all(|index| drain_chain(CHAINS[index].swap(0, Ordering::Relaxed)));
    mm::check();
    let after = mm::free_frames();
    assert!(before == after, "{before} frames were free before the exhaustion, {after} are now");
    println!("exhaustion: all {after} frames are back");
}

/// Takes frames until there are none; returns the head of the chain, 0 for an empty one.
fn fill_chain() -> u64 {
    let mut head = 0;
    let mut count = 0;
    while let Some(pfn) = mm::alloc(Order::ZERO, Gfp::KERNEL | Gfp::MEMALLOC | Gfp::NOWARN) {
        let phys = pfn.phys();
        // SAFETY: the frame was just allocated.
        unsafe { phys_ptr::<Link>(phys).write_volatile(Link { next: head, own: phys, check: phys ^ CHECK }) };
        head = phys;
        count += 1;
    }
    TAKEN.fetch_add(count, Ordering::Relaxed);
    head
}

/// Follows a chain and frees it.
fn drain_chain(mut head: u64) {
    while head != 0 {
        // SAFETY: a frame of the chain, which this CPU holds.
        let link = unsafe { phys_ptr::<Link>(head).read_volatile() };
        assert!(link.own == head && link.check == head ^ CHECK, "frame {head:#x} is held twice");
        if let Err(error) = mm::free(Pfn::new(head >> 12), Order::ZERO) {
            panic!("free of frame {head:#x} refused: {error}");
        }
        head = link.next;
    }
}
