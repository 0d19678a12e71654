//! The dearest single call for orders 0 to 3, over all loops and in replays of recorded traces.

use crate::loads::{Lifetimes, Load, Orders, Turns};
use crate::loops;
use crate::machine::Emulated;
use crate::rows::facade::{BULK, Freeing};
use crate::table::{Kind, Row};
use crate::tool::instructions;
use crate::traces::{Replay, Trace, found};
use crate::{Frames, POOL};

/// Steps of loads.
const STEPS: usize = 500_000;

pub(super) fn rows() -> Vec<Row> {
    let mut loops = loops();
    for (name, folder) in found() {
        loops.push((name, Box::new(move || replay(&folder))));
    }
    loops
        .into_iter()
        .map(|(name, run)| {
            let names = ["alloc", "free"].map(|call| format!("facade.dearest.{name}.{call}")).to_vec();
            Row { kind: Kind::Instructions, names, run: Box::new(move || run().to_vec()) }
        })
        .collect()
}

type Loop = (String, Box<dyn Fn() -> [f64; 2]>);

fn loops() -> Vec<Loop> {
    let mut all: Vec<Loop> = Vec::new();
    for (name, orders) in [("mix03", Orders::Small), ("mixlf", Orders::Folios)] {
        for percent in [50, 90, 98] {
            all.push((format!("{name}.{percent}"), Box::new(move || mix(orders, percent))));
        }
    }
    all.push(("bulk_order".to_owned(), Box::new(|| bulk(Freeing::InOrder))));
    all.push(("bulk_reverse".to_owned(), Box::new(|| bulk(Freeing::Reverse))));
    all.push(("bulk_random".to_owned(), Box::new(|| bulk(Freeing::Random))));
    all.push(("pc".to_owned(), Box::new(produce_and_consume)));
    all.push(("sawtooth".to_owned(), Box::new(sawtooth)));
    all
}

/// An allocator of which every call is counted.
struct Metered<A> {
    allocator: A,
    /// Instructions that `counted` takes for one.
    alloc: u64,
    free: u64,
}

impl<A: Frames> Frames for Metered<A> {
    fn new(frames: u64) -> Self {
        Self { allocator: A::new(frames), alloc: 0, free: 0 }
    }

    fn alloc(&mut self, order: u8) -> Option<u64> {
        if order > 3 {
            return self.allocator.alloc(order);
        }
        let start = instructions();
        let block = self.allocator.alloc(order);
        self.alloc = self.alloc.max(instructions() - start);
        block
    }

    fn free(&mut self, block: u64, order: u8) {
        if order > 3 {
            return self.allocator.free(block, order);
        }
        let start = instructions();
        self.allocator.free(block, order);
        self.free = self.free.max(instructions() - start);
    }
}

type Ours = Metered<Emulated<2>>;

impl<A> Metered<A> {
    /// The dearest allocation and the dearest free.
    fn dearest(&self) -> [f64; 2] {
        // A reading takes as many instructions as it takes.
        let asking = instructions();
        let asking = instructions() - asking;
        [self.alloc, self.free].map(|dearest| dearest.saturating_sub(asking) as f64)
    }
}

fn mix(orders: Orders, percent: u64) -> [f64; 2] {
    let mut allocator = Ours::new(POOL);
    let mut load = Load::new(orders, Lifetimes::Random, POOL, percent);
    load.fill(&mut allocator, Turns::ONE);
    load.work(&mut allocator, STEPS, Turns::ONE);
    allocator.dearest()
}

fn bulk(freeing: Freeing) -> [f64; 2] {
    let mut allocator = Ours::new(POOL);
    let mut frames = loops::frame_numbers(BULK);
    loops::fill(&mut allocator, &mut frames);
    freeing.arrange(&mut frames);
    loops::empty(&mut allocator, &frames);
    allocator.dearest()
}

fn produce_and_consume() -> [f64; 2] {
    let mut allocator = Ours::new(POOL);
    loops::produce_and_consume(&mut allocator, 512);
    allocator.dearest()
}

/// Occupancy up to 95 % and down to 5 % by random frees, four times.
fn sawtooth() -> [f64; 2] {
    let mut allocator = Ours::new(POOL);
    let mut held = Vec::new();
    for _ in 0..4 {
        while held.len() < (POOL * 95 / 100) as usize {
            held.extend(allocator.alloc(0));
        }
        loops::shuffle(&mut held);
        for frame in held.split_off((POOL / 20) as usize) {
            allocator.free(frame, 0);
        }
    }
    allocator.dearest()
}

fn replay(folder: &std::path::Path) -> [f64; 2] {
    match Trace::read(folder) {
        Ok(trace) => {
            let mut replay = Replay::<Ours>::new(&trace);
            replay.run(&trace);
            replay.allocator.dearest()
        }
        Err(error) => panic!("{}: {error}", folder.display()),
    }
}
