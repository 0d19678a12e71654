//! The monitor's blocks: chains of blocks, kept in the blocks themselves.

use core::sync::atomic::Ordering;

use pageblock::{Gfp, Order, PAGE_SIZE, Pfn};
use pageblock_frame::sync::{AtomicU64, Lock};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::arch::paging::phys_ptr;
use crate::boot::pvh::BootInfo;
use crate::monitor::{Words, number};
use crate::space::SPACE;
use crate::{hammer, mm, println};

/// The head of a block in the chain.
#[derive(Clone, Copy)]
#[repr(C)]
struct Link {
    next: Option<Block>,
}

#[derive(Clone, Copy)]
struct Block {
    pfn: Pfn,
    order: Order,
}

/// Blocks that are held, the latest first.
struct Chain {
    head: Option<Block>,
    len: u64,
}

static HELD: Lock<Chain> = Lock::new(Chain { head: None, len: 0 });

impl Chain {
    fn push(&mut self, block: Block) {
        // SAFETY: the block was just allocated, and its first word is the chain's.
        unsafe { phys_ptr::<Link>(block.pfn.phys()).write(Link { next: self.head }) };
        self.head = Some(block);
        self.len += 1;
    }

    fn pop(&mut self) -> Option<Block> {
        let block = self.head?;
        // SAFETY: the block is on the chain, so `push` wrote its link.
        self.head = unsafe { phys_ptr::<Link>(block.pfn.phys()).read() }.next;
        self.len -= 1;
        Some(block)
    }
}

fn give(block: Block) {
    if let Err(error) = mm::free(block.pfn, block.order) {
        println!("free of {:?} refused: {error}", block.pfn);
    }
}

/// `alloc ORDER [COUNT]`.
pub fn alloc(mut words: Words<'_>) {
    let Some(order) = words.next().and_then(|word| word.parse().ok()).and_then(Order::new) else {
        println!("alloc ORDER [COUNT]: orders are 0 to {}", Order::MAX.as_u8());
        return;
    };
    let mut chain = HELD.lock();
    for _ in 0..number(&mut words, 1) {
        match mm::alloc(order, Gfp::HIGHUSER_MOVABLE) {
            Some(pfn) => chain.push(Block { pfn, order }),
            None => {
                println!("no block of order {}", order.as_u8());
                break;
            }
        }
    }
    println!("{} blocks held, {} frames free", chain.len, mm::free_frames());
}

/// `free [COUNT]`: without a number, everything.
pub fn free(mut words: Words<'_>) {
    let mut chain = HELD.lock();
    for _ in 0..number(&mut words, u64::MAX) {
        match chain.pop() {
            Some(block) => give(block),
            None => break,
        }
    }
    println!("{} blocks held, {} frames free", chain.len, mm::free_frames());
}

/// Pages of the space that the monitor fills; 0 while it is closed.
static FILLED: AtomicU64 = AtomicU64::new(0);

/// Fills most of memory with pages of processes, and frees a random half: plenty is free, nothing large is. The second
/// time, frees the rest.
pub fn fragment(boot: &BootInfo) {
    let filled = FILLED.swap(0, Ordering::Relaxed);
    if filled > 0 {
        hammer::discard(0..filled);
        SPACE.close();
    } else {
        let pages = mm::free_frames() * 9 / 10;
        SPACE.open(pages, Pfn::new(boot.ram_end().div_ceil(PAGE_SIZE)));
        let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
        let _ = (0..pages).all(hammer::populate);
        hammer::discard((0..pages).filter(|_| random.next_u64() & 1 == 0));
        FILLED.store(pages, Ordering::Relaxed);
    }
    println!("{} frames free", mm::free_frames());
}
