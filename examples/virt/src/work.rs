//! Work of every CPU: blocks of mixed sizes, some of them freed by another CPU, while its timer allocates and frees,
//! too.

use core::fmt::{self, Display};

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use pageblock::{CpuId, Gfp, Order, Pfn};

use crate::memory::FRAMES;
use crate::must;

/// Frames that each CPU allocates.
const FRAMES_EACH: u64 = 1_000_000;
/// Blocks that a CPU holds at most.
const HELD: usize = 32;
/// Orders 0 to 9: up to 2 MiB.
const ORDERS: u32 = 10;
/// Every so many blocks one changes hands.
const HAND_OVER: u64 = 8;

static FRAMES_DONE: AtomicUsize = AtomicUsize::new(0);
static BLOCKS: AtomicUsize = AtomicUsize::new(0);
static REFUSED: AtomicUsize = AtomicUsize::new(0);
static WRONG: AtomicUsize = AtomicUsize::new(0);
static TICKS: AtomicUsize = AtomicUsize::new(0);
static TICK_BLOCKS: AtomicUsize = AtomicUsize::new(0);

/// Blocks on their way to another CPU, 0 where there is none.
static MAILBOXES: [AtomicUsize; 8] = [const { AtomicUsize::new(0) }; 8];

/// A block that is held: its first frame's number and, in the low four bits, its order. Never 0: no RAM of these boards
/// is at 0.
#[derive(Clone, Copy)]
struct Block(usize);

impl Block {
    fn alloc(order: Order, gfp: Gfp) -> Option<Self> {
        let raw = FRAMES.alloc_order(order, gfp).ok()?.into_raw();
        let block = Self((raw.pfn.as_u64() as usize) << 4 | raw.order.index());
        // A stamp that is there belongs to a present holder.
        count(&WRONG, usize::from(block.stamps().any(|stamp| stamp_at(stamp) == block.0)));
        block.stamps().for_each(|stamp| set_stamp(stamp, block.0));
        Some(block)
    }

    fn free(self) {
        count(&WRONG, usize::from(self.stamps().any(|stamp| stamp_at(stamp) != self.0)));
        self.stamps().for_each(|stamp| set_stamp(stamp, 0));
        // SAFETY: the block was taken out of its handle in `alloc`, and nothing uses it any more.
        must("free", unsafe { FRAMES.free(self.pfn(), self.order()) });
    }

    fn pfn(self) -> Pfn {
        Pfn::new((self.0 >> 4) as u64)
    }

    fn order(self) -> Order {
        Order::new((self.0 & 15) as u8).unwrap_or(Order::ZERO)
    }

    /// Where the block is stamped: in its first and its last frame.
    fn stamps(self) -> impl Iterator<Item = *mut usize> {
        let last = self.pfn().add(self.order().frames() - 1);
        [self.pfn(), last].into_iter().map(|pfn| core::ptr::with_exposed_provenance_mut(pfn.phys() as usize))
    }
}

fn stamp_at(stamp: *mut usize) -> usize {
    // SAFETY: in a frame of a block that this CPU holds.
    unsafe { stamp.read_volatile() }
}

fn set_stamp(stamp: *mut usize, value: usize) {
    // SAFETY: in a frame of a block that this CPU holds.
    unsafe { stamp.write_volatile(value) }
}

/// A CPU's random numbers (xorshift).
struct Random(u32);

impl Random {
    fn below(&mut self, end: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0 % end
    }
}

/// Allocates and frees until this CPU has had its frames.
pub fn run(cpu: CpuId) {
    let mut random = Random(cpu.index() as u32 + 1);
    let mut held = [None; HELD];
    let (mut frames, mut blocks) = (0, 0);
    while frames < FRAMES_EACH {
        let slot = &mut held[random.below(HELD as u32) as usize];
        slot.take().into_iter().for_each(Block::free);
        // The smaller of two: small blocks are asked for more often.
        let order = random.below(ORDERS).min(random.below(ORDERS));
        let order = Order::new(order as u8).unwrap_or(Order::ZERO);
        let gfp = if random.below(2) == 0 { Gfp::KERNEL } else { Gfp::HIGHUSER_MOVABLE };
        *slot = Block::alloc(order, gfp);
        if slot.is_none() {
            count(&REFUSED, 1);
            continue;
        }
        (frames, blocks) = (frames + order.frames(), blocks + 1);
        if blocks % HAND_OVER == 0 {
            let mailbox = &MAILBOXES[random.below(MAILBOXES.len() as u32) as usize];
            // Release and acquire: the stamps go with the block.
            let other = mailbox.swap(slot.map_or(0, |block| block.0), Ordering::AcqRel);
            *slot = (other != 0).then_some(Block(other));
        }
    }
    held.into_iter().flatten().for_each(Block::free);
    count(&FRAMES_DONE, frames as usize);
    count(&BLOCKS, blocks as usize);
}

/// Frees the blocks that no CPU has picked up.
pub fn empty_mailboxes() {
    let left = MAILBOXES.iter().map(|mailbox| mailbox.swap(0, Ordering::AcqRel)).filter(|block| *block != 0);
    left.map(Block).for_each(Block::free);
}

/// Work of a timer interrupt, on top of any work of its CPU.
pub fn tick() {
    static TURN: AtomicU32 = AtomicU32::new(0);
    count(&TICKS, 1);
    let order = Order::new((TURN.fetch_add(1, Ordering::Relaxed) % 4) as u8).unwrap_or(Order::ZERO);
    if let Some(block) = Block::alloc(order, Gfp::ATOMIC) {
        block.free();
        count(&TICK_BLOCKS, 1);
    }
}

fn count(counter: &AtomicUsize, by: usize) {
    counter.fetch_add(by, Ordering::Relaxed);
}

/// Stamps that were wrong, and requests of the work or of interrupts that were refused.
pub fn faults() -> usize {
    let read = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
    // A timer that never came has shown nothing.
    read(&WRONG) + read(&REFUSED) + usize::from(read(&TICK_BLOCKS) == 0)
}

/// All counters, to be printed when the work is over.
pub struct Totals;

impl Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let read = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        let (frames, blocks, refused) = (read(&FRAMES_DONE), read(&BLOCKS), read(&REFUSED));
        let (ticks, tick_blocks, wrong) = (read(&TICKS), read(&TICK_BLOCKS), read(&WRONG));
        write!(f, "{frames} frames in {blocks} blocks, {refused} refused, {wrong} wrong stamps; ")?;
        write!(f, "{ticks} interrupts with {tick_blocks} blocks")
    }
}
