//! The loops. What is random is decided before the loop starts.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use pageblock_frame::{MigrateType, Order};
use pageblock_testkit::host::Quiet;

use crate::allocators::OurZone;
use crate::{Frames, POOL};

/// Blocks that one bulk call moves.
pub const BATCH: usize = 63;

/// `pairs` times: allocate a block, free it.
#[inline(never)]
pub fn pairs<A: Frames>(allocator: &mut A, order: u8, pairs: u64) {
    for _ in 0..pairs {
        let block = allocator.alloc(order);
        allocator.free(block, order);
    }
}

/// The same with an order that is known when the program is compiled, as it mostly is.
#[inline(never)]
pub fn pairs_of<A: Frames, const ORDER: u8>(allocator: &mut A, pairs: u64) {
    for _ in 0..pairs {
        let block = allocator.alloc(ORDER);
        allocator.free(block, ORDER);
    }
}

/// Allocates a frame for every element.
#[inline(never)]
pub fn fill<A: Frames>(allocator: &mut A, frames: &mut [u32]) {
    for frame in frames {
        *frame = allocator.alloc(0) as u32;
    }
}

/// Frees all of them, in this order.
#[inline(never)]
pub fn empty<A: Frames>(allocator: &mut A, frames: &[u32]) {
    for &frame in frames {
        allocator.free(u64::from(frame), 0);
    }
}

/// Allocates a frame for every element, named as the allocator names it.
#[inline(never)]
pub fn fill_all<A: Frames>(allocator: &mut A, frames: &mut [u64]) {
    for frame in frames {
        *frame = allocator.alloc(0);
    }
}

/// Frees all of them, in this order.
#[inline(never)]
pub fn empty_all<A: Frames>(allocator: &mut A, frames: &[u64]) {
    for &frame in frames {
        allocator.free(frame, 0);
    }
}

/// Brings the frames into random order.
pub fn shuffle<T>(frames: &mut [T]) {
    use rand::seq::SliceRandom;
    frames.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(7));
}

/// One step of the mix: allocate a block of an order, or free the live block with a number.
#[derive(Clone, Copy, Debug)]
pub struct Step(u32);

const ALLOC: u32 = 1 << 31;

/// Decides the steps of a random mix: orders 0 to 3 with 80, 10, 5 and 5 %, every second step on average a free of
/// a random live block, live frames held at half of the pool.
#[derive(Debug)]
pub struct Mix {
    random: Xoshiro256PlusPlus,
    /// Orders of the live blocks, in the order in which the loop keeps them.
    live: Vec<u8>,
    frames: u64,
    target: u64,
}

impl Mix {
    /// A mix for a pool of `frames` frames, from a seed.
    #[must_use]
    pub fn new(frames: u64, seed: u64) -> Self {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        Self { random, live: Vec::with_capacity(frames as usize), frames: 0, target: frames / 2 }
    }

    /// Steps that fill the pool to half.
    pub fn fill(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        while self.frames < self.target {
            steps.push(self.alloc());
        }
        steps
    }

    /// The next `count` steps.
    pub fn steps(&mut self, count: usize) -> Vec<Step> {
        (0..count).map(|_| self.step()).collect()
    }

    fn step(&mut self) -> Step {
        // A coin, but never more than a thousandth of the pool away from half.
        let slack = self.target / 512;
        let grow = match self.frames {
            frames if frames > self.target + slack => false,
            frames if frames + slack < self.target => true,
            _ => self.random.random(),
        };
        if grow { self.alloc() } else { self.free() }
    }

    fn alloc(&mut self) -> Step {
        let order = match self.random.random_range(0..100u32) {
            0..80 => 0,
            80..90 => 1,
            90..95 => 2,
            _ => 3,
        };
        self.live.push(order);
        self.frames += 1 << order;
        Step(ALLOC | u32::from(order))
    }

    fn free(&mut self) -> Step {
        let victim = self.random.random_range(0..self.live.len());
        let order = self.live.swap_remove(victim);
        self.frames -= 1 << order;
        Step(victim as u32)
    }
}

/// A live block: what the allocator called it, and its order.
pub type Live = (u64, u8);

/// Does the steps.
///
/// # Panics
/// If the steps are not those that a [`Mix`] decided for this set of live blocks.
#[inline(never)]
pub fn mix<A: Frames>(allocator: &mut A, live: &mut Vec<Live>, steps: &[Step]) {
    for &Step(step) in steps {
        if step & ALLOC != 0 {
            let order = (step & 15) as u8;
            live.push((allocator.alloc(order), order));
        } else {
            let (block, order) = live.swap_remove(step as usize);
            allocator.free(block, order);
        }
    }
}

/// Allocates all frames of the zone with bulk calls, then frees them in the same order.
///
/// # Panics
/// If the zone does not give all its frames, or does not take them back.
#[inline(never)]
pub fn bulk(zone: &mut OurZone, frames: &mut [u32]) {
    let zone = zone.zone();
    for batch in frames.chunks_mut(BATCH) {
        let got = zone.alloc_bulk::<Quiet>(Order::ZERO, MigrateType::Movable, batch);
        assert_eq!(got, batch.len(), "all frames are free");
    }
    for batch in frames.chunks(BATCH) {
        let refused = zone.free_bulk::<Quiet>(Order::ZERO, batch);
        assert_eq!(refused, 0, "all frames came from here");
    }
}

/// Room for the frames of a pool, touched.
#[must_use]
pub fn frame_buffer() -> Vec<u32> {
    vec![u32::MAX; POOL as usize]
}

/// Room for what an allocator calls the frames of a pool, touched.
#[must_use]
pub fn frame_numbers() -> Vec<u64> {
    vec![u64::MAX; POOL as usize]
}
