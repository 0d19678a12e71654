//! Times of ours, the peers and the floors in one program, one thread alone and beside another at the same work.
//!
//! Time is the thread's own on its CPU, so that other programs' work does not count; a figure is the median of many
//! short samples. Of the samples beside another thread only those count in which that thread has done at least half as
//! much.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::loads::{Lifetimes, Load, Orders, Step, Turns};
use crate::loops;
use crate::machine::become_cpu;
use crate::two::{Other, Progress, Shared, beside};
use crate::{Frames, POOL};

/// Pairs of a sample, and samples.
const PAIRS: u64 = 20_000;
const SAMPLES: usize = 61;
/// Steps of a sample of the mix, and samples; frames that each thread's live set is held at half of.
const STEPS: usize = 20_000;
const MIX_SAMPLES: usize = 31;
const MIX_FRAMES: u64 = POOL;
/// Samples of bulk: each is a pass over [`POOL`] frames.
const PASSES: usize = 9;

/// Nanoseconds a unit.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// One thread.
    pub alone: f64,
    /// Each of two threads; none if the other thread was never at work long enough.
    pub beside: Option<f64>,
}

impl Times {
    /// How much longer it takes beside another thread.
    #[must_use]
    pub fn ratio(self) -> Option<f64> {
        Some(self.beside? / self.alone)
    }
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn median(mut samples: Vec<f64>) -> Option<f64> {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied()
}

/// Nanoseconds a unit of `action`, which does `units`.
fn sample(units: u64, action: impl FnOnce()) -> f64 {
    let start = cpu_time();
    action();
    (cpu_time() - start).as_secs_f64() * 1e9 / units as f64
}

/// The median of `count` samples.
fn alone(count: usize, mut one: impl FnMut() -> f64) -> f64 {
    median((0..count).map(|_| one()).collect()).unwrap_or(f64::NAN)
}

/// The same beside another thread, with rounds as long as a sample.
fn together(count: usize, progress: &Progress, mut one: impl FnMut() -> f64) -> Option<f64> {
    let mut samples = Vec::new();
    for _ in 0..20 * count {
        let before = progress.rounds();
        let time = one();
        // A round begun before and one ended after are two that were not whole.
        if progress.rounds() > before {
            samples.push(time);
        }
        if samples.len() == count {
            break;
        }
    }
    median(samples).filter(|_| count > 0)
}

/// Work of each CPU before its pairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Before {
    /// Nothing: the first refills of the two may be neighbours.
    Nothing,
    /// Some thousand single frames taken and given back, as on any machine that has run for a while.
    Work,
}

/// Takes frames and gives them back.
fn work<F: Frames>(frames: &mut F) {
    let mut held = loops::frame_numbers(POOL);
    held.truncate(4000);
    for _ in 0..4 {
        loops::fill(frames, &mut held);
        loops::empty(frames, &held);
    }
}

/// A pair of allocation and free, of this order.
#[must_use]
pub fn pair<S: Shared, const ORDER: u8>(before: Before) -> Times {
    let [mut ours, mut theirs] = S::handles();
    for (cpu, frames) in [&mut ours, &mut theirs].into_iter().enumerate() {
        become_cpu(cpu as u32);
        if before == Before::Work {
            work(frames);
        }
    }
    become_cpu(0);
    let mut one = || sample(PAIRS, || loops::pairs::<_, ORDER>(&mut ours, PAIRS));
    let alone = alone(SAMPLES, &mut one);
    let beside =
        beside(move || loops::pairs::<_, ORDER>(&mut theirs, PAIRS / 2), |progress| together(SAMPLES, progress, one));
    Times { alone, beside }
}

/// One thread's handle and its load.
struct Mixing<H> {
    frames: H,
    load: Load,
}

impl<H: Frames> Mixing<H> {
    fn new(mut frames: H, orders: Orders) -> Self {
        let mut load = Load::new(orders, Lifetimes::Random, MIX_FRAMES, 50);
        load.fill(&mut frames, Turns::ONE);
        load.work(&mut frames, STEPS, Turns::ONE);
        Self { frames, load }
    }

    /// Does steps. Only the allocator's work is timed.
    fn sample(&mut self, steps: usize) -> f64 {
        let steps = self.load.steps(steps);
        sample(steps.len() as u64, || self.load.run(&mut self.frames, &steps))
    }
}

/// An operation of a random load at half occupancy. Both live sets are there also when one thread works alone.
#[must_use]
pub fn mix<S: Shared>(orders: Orders) -> Times {
    let [ours, theirs] = S::handles();
    become_cpu(0);
    let (mut ours, mut theirs) = (Mixing::new(ours, orders), Mixing::new(theirs, orders));
    let alone = alone(MIX_SAMPLES, || ours.sample(STEPS));
    // Most are decided before, so that the thread does little else.
    let mut steps = theirs.load.steps(64 * STEPS).into_iter();
    let round = move || {
        let mut next: Vec<Step> = steps.by_ref().take(STEPS / 2).collect();
        if next.is_empty() {
            next = theirs.load.steps(STEPS / 2);
        }
        theirs.load.run(&mut theirs.frames, &next);
    };
    let beside = beside(round, |progress| together(MIX_SAMPLES, progress, || ours.sample(STEPS)));
    Times { alone, beside }
}

/// How bulk frees come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Freeing {
    /// In the order of allocation.
    InOrder,
    /// In random order.
    Random,
}

/// All frames of the pool allocated one by one, and freed: nanoseconds an allocation, and a free.
#[must_use]
pub fn bulk<S: Shared>(freeing: Freeing) -> [Times; 2] {
    let [mut ours, mut theirs] = S::handles();
    become_cpu(0);
    let mut frames = loops::frame_numbers(POOL);
    let mut pass = || {
        let allocated = sample(POOL, || loops::fill(&mut ours, &mut frames));
        if freeing == Freeing::Random {
            loops::shuffle(&mut frames);
        }
        let freed = sample(POOL, || loops::empty(&mut ours, &frames));
        [allocated, freed]
    };
    let first: Vec<_> = (0..PASSES).map(|_| pass()).collect();
    let mut other = loops::frame_numbers(POOL);
    other.truncate(POOL as usize / 2);
    let round = move || {
        loops::fill(&mut theirs, &mut other);
        if freeing == Freeing::Random {
            loops::shuffle(&mut other);
        }
        loops::empty(&mut theirs, &other);
    };
    let second = beside(round, |progress| {
        let mut samples = Vec::new();
        for _ in 0..4 * PASSES {
            let before = progress.rounds();
            let times = pass();
            if progress.rounds() > before && samples.len() < PASSES {
                samples.push(times);
            }
        }
        samples
    });
    let of = |samples: &[[f64; 2]], part: usize| median(samples.iter().map(|sample| sample[part]).collect());
    [0, 1].map(|part| Times { alone: of(&first, part).unwrap_or(f64::NAN), beside: of(&second, part) })
}

/// Nanoseconds a free of frames that another thread has allocated.
#[must_use]
pub fn remote<S: Shared>() -> f64 {
    let [mut ours, mut theirs] = S::handles();
    become_cpu(0);
    std::thread::scope(|scope| {
        let other = Other::start(scope, move |frames: &mut Vec<u64>| loops::fill(&mut theirs, frames));
        let mut frames = loops::frame_numbers(POOL);
        let mut one = || {
            let filled = other.run(core::mem::take(&mut frames));
            frames = filled.unwrap_or_default();
            sample(POOL, || loops::empty(&mut ours, &frames))
        };
        alone(PASSES, &mut one)
    })
}
