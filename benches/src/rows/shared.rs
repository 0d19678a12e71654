//! Costs of CPUs to each other: cache lines that move between 64 of them, and how long the busiest lock is held. One
//! thread is all of them in turn, one operation each.

use std::collections::VecDeque;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::Frames;
use crate::loads::{Lifetimes, Orders, OwnLoads};
use crate::loops;
use crate::machine::{Emulated, become_cpu, own_variables};
use crate::table::{Kind, Row};
use crate::tool::{self, Figures};

/// CPUs in turn.
const CPUS: u32 = 64;
/// Frames of 8 and 16 GiB.
const EIGHT: u64 = 2 << 20;
const SIXTEEN: u64 = 4 << 20;
/// Operations before and in the count.
const WARM: usize = 250_000;
const COUNTED: usize = 200_000;

/// Load of the CPUs.
#[derive(Clone, Copy)]
enum Loop {
    Mix(Orders),
    /// Each CPU allocates for its neighbour.
    Ring,
    /// Every second CPU allocates for its neighbour, which only frees.
    OneWay,
    BulkAlloc,
    FreeOrder,
    FreeRandom,
}

const LOOPS: [(&str, Loop); 7] = [
    ("mix03", Loop::Mix(Orders::Small)),
    ("mixlf", Loop::Mix(Orders::Folios)),
    ("pc", Loop::Ring),
    ("one_way", Loop::OneWay),
    ("bulk_alloc", Loop::BulkAlloc),
    ("free_order", Loop::FreeOrder),
    ("free_random", Loop::FreeRandom),
];

pub(super) fn rows() -> Vec<Row> {
    rows_of::<Emulated<64>>("")
}

/// The rows of an allocator, with names that begin with `prefix`.
pub(super) fn rows_of<A: Frames + 'static>(prefix: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, work) in LOOPS {
        let names = vec![format!("{prefix}lines.{name}.64"), format!("{prefix}busiest.{name}.64")];
        rows.push(Row::several(Kind::Lines, names, move || moves(&watch::<A>(work, EIGHT))));
        // In the ring no CPU has more to free than it allocates: no lock is ever needed.
        let (name, work) = match work {
            Loop::Ring => continue,
            Loop::OneWay => (format!("{prefix}locked.pc"), work),
            _ => (format!("{prefix}locked.{name}"), work),
        };
        rows.push(Row::one(Kind::Lines, name, move || locked(&watch::<A>(work, SIXTEEN))));
    }
    rows
}

/// Counts of so many operations.
struct Watched {
    figures: Figures,
    operations: u64,
}

fn moves(watched: &Watched) -> Vec<f64> {
    let Watched { figures, operations } = watched;
    let moved = figures.moved_by_reads + figures.moved_by_writes;
    vec![moved as f64 / *operations as f64, figures.moves_of_busiest_line as f64 / *operations as f64]
}

/// The part of all instructions of the operations for which the busiest lock is held.
fn locked(watched: &Watched) -> f64 {
    let Watched { figures, operations } = watched;
    tool::reset();
    for _ in 0..100 {
        tool::watched(|| ());
    }
    let own = tool::figures().instructions as f64 / 100.0;
    figures.held_by_busiest_lock as f64 / (figures.instructions as f64 - own * *operations as f64)
}

/// An allocator of which only the calls are counted.
struct Calls<A>(A);

impl<A: Frames> Frames for Calls<A> {
    fn new(frames: u64) -> Self {
        Self(A::new(frames))
    }

    fn alloc(&mut self, order: u8) -> Option<u64> {
        tool::become_cpu(crate::machine::current_cpu());
        tool::watched(|| self.0.alloc(order))
    }

    fn free(&mut self, block: u64, order: u8) {
        tool::become_cpu(crate::machine::current_cpu());
        tool::watched(|| self.0.free(block, order));
    }
}

/// Keeps the emulation's writes out of the figures: its variables and this thread's stack.
fn except_own() {
    let local = 0_u8;
    let top = core::ptr::from_ref(&local).addr();
    tool::except(top - (64 << 10), top + (64 << 10));
    for (start, end) in own_variables() {
        tool::except(start, end);
    }
}

fn watch<A: Frames>(work: Loop, frames: u64) -> Watched {
    except_own();
    let mut allocator = Calls(A::new(frames));
    let operations = match work {
        Loop::Mix(orders) => mix(&mut allocator, orders, frames),
        Loop::Ring => produce_and_consume(&mut allocator, 1),
        Loop::OneWay => produce_and_consume(&mut allocator, 2),
        Loop::BulkAlloc => {
            tool::reset();
            fill(&mut allocator, frames / 4).len()
        }
        Loop::FreeOrder => {
            let taken = fill(&mut allocator, frames / 4);
            free_elsewhere(&mut allocator, &taken)
        }
        Loop::FreeRandom => {
            let mut taken = fill(&mut allocator, frames / 4);
            loops::shuffle(&mut taken);
            free_elsewhere(&mut allocator, &taken)
        }
    };
    Watched { figures: tool::figures(), operations: operations as u64 }
}

fn mix<A: Frames>(allocator: &mut A, orders: Orders, frames: u64) -> usize {
    let mut loads = OwnLoads::new(orders, Lifetimes::Random, frames, 50, CPUS);
    loads.fill(allocator, 1);
    loads.work(allocator, WARM, 1);
    tool::reset();
    loads.work(allocator, COUNTED, 1);
    COUNTED
}

/// A frame, and the CPU that has allocated it.
#[derive(Clone, Copy)]
struct Taken {
    frame: u64,
    cpu: u32,
}

fn fill<A: Frames>(allocator: &mut A, frames: u64) -> Vec<Taken> {
    let mut taken = Vec::with_capacity(frames as usize);
    for cpu in (0..CPUS).cycle().take(frames as usize) {
        become_cpu(cpu);
        taken.extend(allocator.alloc(0).map(|frame| Taken { frame, cpu }));
    }
    taken
}

/// Frees all of them, each on any CPU that has not allocated it.
fn free_elsewhere<A: Frames>(allocator: &mut A, taken: &[Taken]) -> usize {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(11);
    tool::reset();
    for &Taken { frame, cpu } in taken {
        become_cpu((cpu + random.random_range(1..CPUS)) % CPUS);
        allocator.free(frame, 0);
    }
    taken.len()
}

/// Every CPU with a number that `step` divides allocates for its neighbour, which frees blocks of age 256. Returns
/// pairs.
fn produce_and_consume<A: Frames>(allocator: &mut A, step: usize) -> usize {
    let mut queues = vec![VecDeque::new(); CPUS as usize];
    let mut round = |allocator: &mut A| {
        for cpu in (0..CPUS as usize).step_by(step) {
            let next = (cpu + 1) % CPUS as usize;
            let Some(queue) = queues.get_mut(next) else { return };
            become_cpu(cpu as u32);
            queue.extend(allocator.alloc(0));
            if queue.len() > loops::BATCH
                && let Some(frame) = queue.pop_front()
            {
                become_cpu(next as u32);
                allocator.free(frame, 0);
            }
        }
    };
    let pairs = CPUS as usize / step;
    (0..WARM / pairs).for_each(|_| round(allocator));
    tool::reset();
    (0..COUNTED / pairs).for_each(|_| round(allocator));
    COUNTED
}
