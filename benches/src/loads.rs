//! Loads: which blocks are asked for and given back, decided before the loop that is measured.

use std::collections::VecDeque;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::Frames;
use crate::machine::become_cpu;

/// Which orders a load asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Orders {
    /// 80, 10, 5 and 5 % of orders 0 to 3.
    Small,
    /// Large folios: 60 % of order 0, 10 % each of 2 to 4, 2 % each of 5 to 9.
    Folios,
}

impl Orders {
    fn pick(self, random: &mut Xoshiro256PlusPlus) -> u8 {
        let percent = random.random_range(0..100_u8);
        match self {
            Self::Small => match percent {
                0..80 => 0,
                80..90 => 1,
                90..95 => 2,
                _ => 3,
            },
            Self::Folios => match percent {
                0..60 => 0,
                60..90 => 2 + (percent - 60) / 10,
                _ => 5 + (percent - 90) / 2,
            },
        }
    }
}

/// How long blocks live.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lifetimes {
    /// Any live block is freed.
    Random,
    /// Four of five blocks live for 64 further allocations, the others as with [`Lifetimes::Random`].
    MostlyShort,
}

/// Further allocations for which a short-lived block lives.
const SHORT: u64 = 64;

/// One step: a block of an order is allocated into a slot, or the block in a slot is freed.
#[derive(Clone, Copy, Debug)]
pub struct Step(u32);

const ALLOC: u32 = 1 << 31;
const SLOT: u32 = (1 << 27) - 1;

impl Step {
    #[inline(always)]
    const fn slot(self) -> usize {
        (self.0 & SLOT) as usize
    }

    #[inline(always)]
    const fn order(self) -> u8 {
        (self.0 >> 27 & 15) as u8
    }

    #[inline(always)]
    const fn is_alloc(self) -> bool {
        self.0 & ALLOC != 0
    }
}

/// Decides the steps of a load on a pool: live frames are held in a band around the occupancy, each step inside the
/// band is an allocation or a free by the toss of a coin. Steps are decided some at a time, so that a refused request
/// counts as not live afterwards.
#[derive(Debug)]
pub struct Load {
    random: Xoshiro256PlusPlus,
    orders: Orders,
    lifetimes: Lifetimes,
    /// Frames to be live.
    target: u64,
    frames: u64,
    allocations: u64,
    /// Slots and orders of the blocks that live for as long as chance wants.
    lasting: Vec<Step>,
    /// Where in `lasting` a slot's block is, if it is there.
    places: Vec<u32>,
    /// Those that die soon, with the number of allocations at which they do.
    short: VecDeque<(u64, Step)>,
    vacant: Vec<u32>,
    /// Content of each slot.
    blocks: Vec<u64>,
    /// Requests that were refused.
    refused: u64,
}

/// Content of a slot after a refused allocation.
const NONE: u64 = u64::MAX;

/// Steps that are decided at once.
const CHUNK: usize = 256;

impl Load {
    /// A load that keeps `percent` of `frames` frames live.
    #[must_use]
    pub fn new(orders: Orders, lifetimes: Lifetimes, frames: u64, percent: u64) -> Self {
        Self {
            random: Xoshiro256PlusPlus::seed_from_u64(1),
            orders,
            lifetimes,
            target: frames * percent / 100,
            frames: 0,
            allocations: 0,
            lasting: Vec::new(),
            places: Vec::new(),
            short: VecDeque::new(),
            vacant: Vec::new(),
            blocks: Vec::new(),
            refused: 0,
        }
    }

    /// Requests that were refused since this was last asked.
    pub fn take_refused(&mut self) -> u64 {
        core::mem::take(&mut self.refused)
    }

    /// Fills the pool to the occupancy.
    pub fn fill<A: Frames>(&mut self, allocator: &mut A, cpus: Turns) {
        let mut turn = Turn::default();
        let (mut most, mut fruitless) = (0, 0);
        // An allocator may be unable to reach the occupancy.
        while self.frames < self.target && fruitless < 1000 {
            let steps = self.steps(CHUNK);
            self.run_in_turn(allocator, &steps, cpus, &mut turn);
            fruitless = if self.frames > most { 0 } else { fruitless + 1 };
            most = most.max(self.frames);
        }
        become_cpu(0);
    }

    /// Does so many steps.
    pub fn work<A: Frames>(&mut self, allocator: &mut A, count: usize, cpus: Turns) {
        let mut turn = Turn::default();
        for done in (0..count).step_by(CHUNK) {
            let steps = self.steps(CHUNK.min(count - done));
            self.run_in_turn(allocator, &steps, cpus, &mut turn);
        }
        become_cpu(0);
    }

    /// Does so many steps on one CPU, each chunk of them by `run`, which is given the slots.
    pub fn work_by(&mut self, count: usize, mut run: impl FnMut(&mut [u64], &[Step]) -> u64) {
        for done in (0..count).step_by(CHUNK) {
            let steps = self.steps(CHUNK.min(count - done));
            let refused = run(&mut self.blocks, &steps);
            self.settle(refused, &steps);
        }
    }

    /// Does steps that were decided before, on the CPU that the thread is.
    pub fn run<A: Frames>(&mut self, allocator: &mut A, steps: &[Step]) {
        let refused = run(allocator, &mut self.blocks, steps);
        self.settle(refused, steps);
    }

    fn run_in_turn<A: Frames>(&mut self, allocator: &mut A, steps: &[Step], cpus: Turns, turn: &mut Turn) {
        let mut refused = 0;
        if cpus.cpus == 1 {
            refused = run(allocator, &mut self.blocks, steps);
        } else {
            for &next in steps {
                turn.next(cpus);
                refused += step(allocator, &mut self.blocks, next);
            }
        }
        self.settle(refused, steps);
    }

    /// Blocks that were refused are not live.
    fn settle(&mut self, refused: u64, steps: &[Step]) {
        self.refused += refused;
        if refused == 0 {
            return;
        }
        for step in steps.iter().filter(|step| step.is_alloc()) {
            if self.blocks.get(step.slot()) != Some(&NONE) {
                continue;
            }
            let is_it = |block: &Step| block.slot() == step.slot();
            let place = self.places.get(step.slot()).map_or(usize::MAX, |&place| place as usize);
            if self.lasting.get(place).is_some_and(is_it) {
                let block = self.remove(place);
                self.free(block);
            } else if let Some(place) = self.short.iter().rposition(|(_, block)| is_it(block))
                && let Some((_, block)) = self.short.remove(place)
            {
                self.free(block);
            }
            // Else it was to be freed by a later one of these steps.
        }
    }

    /// The next `count` steps.
    pub fn steps(&mut self, count: usize) -> Vec<Step> {
        (0..count).map(|_| self.step()).collect()
    }

    /// Live frames are below the band.
    const fn is_below(&self) -> bool {
        self.frames + self.target / 512 < self.target
    }

    fn step(&mut self) -> Step {
        if let Some(step) = self.due() {
            return step;
        }
        let grow = match self.frames {
            frames if frames > self.target + self.target / 512 => false,
            _ if self.is_below() => true,
            _ => self.random.random(),
        };
        if grow || self.lasting.is_empty() { self.alloc() } else { self.free_any() }
    }

    /// The free of a short-lived block that is due.
    fn due(&mut self) -> Option<Step> {
        let &(end, block) = self.short.front()?;
        if end > self.allocations {
            return None;
        }
        self.short.pop_front();
        Some(self.free(block))
    }

    fn alloc(&mut self) -> Step {
        let order = self.orders.pick(&mut self.random);
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.blocks.push(NONE);
            self.places.push(0);
            self.blocks.len() as u32 - 1
        });
        assert!(slot <= SLOT, "a step has room for the numbers of 2^27 slots");
        let block = Step(slot | u32::from(order) << 27);
        self.frames += 1 << order;
        self.allocations += 1;
        if self.lifetimes == Lifetimes::MostlyShort && self.random.random_range(0..5_u8) < 4 {
            self.short.push_back((self.allocations + SHORT, block));
        } else {
            if let Some(place) = self.places.get_mut(block.slot()) {
                *place = self.lasting.len() as u32;
            }
            self.lasting.push(block);
        }
        Step(block.0 | ALLOC)
    }

    fn free_any(&mut self) -> Step {
        let victim = self.random.random_range(0..self.lasting.len());
        let block = self.remove(victim);
        self.free(block)
    }

    /// Takes a block out of those that last.
    fn remove(&mut self, place: usize) -> Step {
        let block = self.lasting.swap_remove(place);
        if let Some(moved) = self.lasting.get(place)
            && let Some(its) = self.places.get_mut(moved.slot())
        {
            *its = place as u32;
        }
        block
    }

    fn free(&mut self, block: Step) -> Step {
        self.frames -= 1 << block.order();
        self.vacant.push(block.slot() as u32);
        block
    }
}

/// A load for each CPU, on parts of the pool of the same size: blocks are freed on the CPU that has allocated them.
#[derive(Debug)]
pub struct OwnLoads(Vec<Load>);

impl OwnLoads {
    /// As [`Load::new`], for so many CPUs.
    #[must_use]
    pub fn new(orders: Orders, lifetimes: Lifetimes, frames: u64, percent: u64, cpus: u32) -> Self {
        let load = |cpu| Load {
            random: Xoshiro256PlusPlus::seed_from_u64(cpu),
            ..Load::new(orders, lifetimes, frames / u64::from(cpus), percent)
        };
        Self((0..cpus.into()).map(load).collect())
    }

    /// Each CPU in turn does so many steps, until all have filled their parts.
    pub fn fill<A: Frames>(&mut self, allocator: &mut A, turn: usize) {
        let mut fruitless = 0;
        while fruitless < 1000 && self.0.iter().any(Load::is_below) {
            let before: u64 = self.0.iter().map(|load| load.frames).sum();
            self.round(allocator, turn);
            let after: u64 = self.0.iter().map(|load| load.frames).sum();
            fruitless = if after > before { 0 } else { fruitless + 1 };
        }
        become_cpu(0);
    }

    /// So many steps in all, each CPU in turn some of them.
    pub fn work<A: Frames>(&mut self, allocator: &mut A, count: usize, turn: usize) {
        for _ in (0..count).step_by(self.0.len() * turn) {
            self.round(allocator, turn);
        }
        become_cpu(0);
    }

    fn round<A: Frames>(&mut self, allocator: &mut A, turn: usize) {
        for (cpu, load) in (0..).zip(&mut self.0) {
            become_cpu(cpu);
            let steps = load.steps(turn);
            load.run(allocator, &steps);
        }
    }

    /// Requests that were refused since this was last asked.
    pub fn take_refused(&mut self) -> u64 {
        self.0.iter_mut().map(Load::take_refused).sum()
    }
}

/// CPUs that work in turn, one thread being all of them.
#[derive(Clone, Copy, Debug)]
pub struct Turns {
    /// How many.
    pub cpus: u32,
    /// Steps of each before it is the next one's turn.
    pub steps: u32,
}

impl Turns {
    /// One CPU.
    pub const ONE: Self = Self { cpus: 1, steps: u32::MAX };
}

/// The CPU that has its turn.
#[derive(Debug, Default)]
struct Turn {
    cpu: u32,
    steps: u32,
}

impl Turn {
    fn next(&mut self, turns: Turns) {
        if self.steps == turns.steps {
            self.cpu = (self.cpu + 1) % turns.cpus;
            self.steps = 0;
            become_cpu(self.cpu);
        }
        self.steps += 1;
    }
}

/// Does one step; 1 if it was refused. A refused allocation leaves its slot empty, and the free of an empty slot does
/// nothing.
#[inline(always)]
fn step<A: Frames>(allocator: &mut A, blocks: &mut [u64], step: Step) -> u64 {
    let Some(slot) = blocks.get_mut(step.slot()) else { return 0 };
    if step.is_alloc() {
        let block = allocator.alloc(step.order());
        *slot = block.unwrap_or(NONE);
        return u64::from(block.is_none());
    }
    if *slot != NONE {
        allocator.free(*slot, step.order());
    }
    0
}

/// Does the steps on the CPU that the thread is; how many were refused.
#[inline(never)]
pub fn run<A: Frames>(allocator: &mut A, blocks: &mut [u64], steps: &[Step]) -> u64 {
    let mut refused = 0;
    for &next in steps {
        refused += step(allocator, blocks, next);
    }
    refused
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Emulated;

    #[test]
    fn loads_stay_at_their_occupancy_and_the_allocator_agrees() {
        for (orders, percent) in [(Orders::Small, 50), (Orders::Folios, 98)] {
            for lifetimes in [Lifetimes::Random, Lifetimes::MostlyShort] {
                let mut machine = Emulated::<2>::new(crate::POOL);
                let mut load = Load::new(orders, lifetimes, crate::POOL, percent);
                load.fill(&mut machine, Turns { cpus: 2, steps: 64 });
                load.work(&mut machine, 30_000, Turns { cpus: 2, steps: 64 });
                assert!(
                    load.frames.abs_diff(load.target) < crate::POOL / 128,
                    "{orders:?} {lifetimes:?}: {}",
                    load.frames
                );
                let stats = machine.allocator().stats();
                assert_eq!(stats.free, stats.managed - load.frames);
            }
        }
    }

    #[test]
    fn loads_of_many_cpus_fill_their_parts() {
        let mut machine = Emulated::<8>::new(crate::POOL);
        let mut loads = OwnLoads::new(Orders::Small, Lifetimes::Random, crate::POOL, 50, 8);
        loads.fill(&mut machine, 1);
        loads.work(&mut machine, 10_000, 1);
        let frames: u64 = loads.0.iter().map(|load| load.frames).sum();
        assert!(frames.abs_diff(crate::POOL / 2) < crate::POOL / 128, "{frames}");
        let stats = machine.allocator().stats();
        assert_eq!(stats.free, stats.managed - frames);
    }
}
