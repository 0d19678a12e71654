//! The runs and their statistics.

use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use arrayvec::ArrayVec;
use pageblock_frame::sync::{AtomicBool, Ordering};
use pageblock_frame::{PAGE_SIZE, Pfn};
use pageblock_lru::{Lru, LruList};
use pageblock_mlock::{Placement, SoftArea, Steps};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::super::output::least_and_most;
use super::{Form, TimedMunlockArgs, title};

/// Statistics of some runs.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Stats {
    pub(crate) min: f64,
    pub(crate) mean: f64,
    /// Of the sample: the divisor is one less than the number of runs.
    pub(crate) stddev: f64,
    pub(crate) max: f64,
    pub(crate) range: f64,
}

impl Stats {
    fn of(samples: &[f64]) -> Self {
        let number = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / number;
        let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
        let (min, max) = least_and_most(samples.iter().copied());
        Self { min, mean, stddev: (squares / (number - 1.0).max(1.0)).sqrt(), max, range: max - min }
    }

    /// In the order of the series' rows, with their names.
    pub(crate) fn rows(self) -> [(&'static str, f64); 5] {
        [("min", self.min), ("mean", self.mean), ("stddev", self.stddev), ("max", self.max), ("range", self.range)]
    }
}

/// One column of one set.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// Seconds by the clock on the wall.
    pub(crate) elapsed_s: Stats,
    /// Seconds that the unlocking thread was on a CPU.
    pub(crate) cpu_s: Stats,
    /// Nanoseconds of CPU time a page, the least of the runs.
    pub(crate) cpu_ns_per_page: f64,
    pub(crate) instructions_per_page: Option<f64>,
    /// Every run's seconds on the CPU.
    pub(crate) samples_s: Vec<f64>,
}

/// One set: the same pages under every column.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Set {
    pub(crate) name: &'static str,
    pub(crate) pages: u64,
    pub(crate) columns: Vec<Column>,
}

/// All that was measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Outcome {
    pub(crate) memory_bytes: u64,
    pub(crate) iterations: u32,
    pub(crate) seed: u64,
    pub(crate) threads: u32,
    pub(crate) sets: Vec<Set>,
}

/// Runs every column of every set; `tick` is called after each run.
pub(crate) fn measure(args: &TimedMunlockArgs, tick: &mut dyn FnMut()) -> anyhow::Result<Outcome> {
    let sets = Placement::ALL.into_iter().map(|placement| set(args, placement, tick));
    Ok(Outcome {
        memory_bytes: args.memory.bytes,
        iterations: args.runs.iterations.get(),
        seed: args.runs.seed,
        threads: args.threads.get(),
        sets: sets.collect::<Result<_, _>>()?,
    })
}

fn set(args: &TimedMunlockArgs, placement: Placement, tick: &mut dyn FnMut()) -> anyhow::Result<Set> {
    let pages = args.memory.bytes / PAGE_SIZE;
    let tables = SoftArea::descriptors(placement, pages);
    let area = SoftArea::new(placement, pages, &tables);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(args.runs.seed);
    let forms = args.columns();
    let mut order: Vec<usize> = (0..forms.len()).collect();
    let mut samples: Vec<Vec<(f64, f64)>> = vec![Vec::new(); forms.len()];
    area.lock();
    area.unlock_with(u64::MAX, Steps::default()); // touches everything once
    for _ in 0..args.runs.iterations.get() {
        // Columns take turns in an order of their own each round, so that a disturbance does not hit always the same.
        order.shuffle(&mut random);
        for column in &order {
            samples[*column].push(turn(args, &area, &forms[*column])?);
            tick();
        }
    }
    verify(&area)?;
    let pages = area.pages();
    let columns = samples.iter().zip(&forms).map(|(runs, form)| {
        let of = |part: fn(&(f64, f64)) -> f64| runs.iter().map(part).collect::<Vec<_>>();
        let (wall, cpu) = (of(|run| run.0), of(|run| run.1));
        let (elapsed_s, cpu_s) = (Stats::of(&wall), Stats::of(&cpu));
        let cpu_ns_per_page = cpu_s.min * 1e9 / pages as f64;
        let name = form.name.clone();
        Column { name, elapsed_s, cpu_s, cpu_ns_per_page, instructions_per_page: None, samples_s: cpu }
    });
    Ok(Set { name: title(placement), pages, columns: columns.collect() })
}

/// Locks the area, and times its unlocking: seconds by the clock, and on the CPU.
fn turn(args: &TimedMunlockArgs, area: &SoftArea<'_>, form: &Form) -> anyhow::Result<(f64, f64)> {
    area.lock();
    if area.nr_mlock() != area.pages() as i64 {
        bail!("{} pages are locked, {} are counted", area.pages(), area.nr_mlock());
    }
    let stop = AtomicBool::new(false);
    let times = std::thread::scope(|scope| {
        for _ in 1..args.threads.get() {
            scope.spawn(|| disturb(area.lrus(), &stop));
        }
        let (clock, cpu) = (Instant::now(), cpu_time());
        area.unlock_with(u64::MAX, form.steps);
        let times = (clock.elapsed().as_secs_f64(), (cpu_time() - cpu).as_secs_f64());
        stop.store(true, Ordering::Relaxed);
        times
    });
    if area.nr_mlock() != 0 {
        bail!("NR_MLOCK is {} after column {}", area.nr_mlock(), form.name);
    }
    Ok(times)
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Reclaim's effect on the lists: takes batches from the tail of the inactive list, and puts them back at the head.
fn disturb(lrus: &[Lru<'_>], stop: &AtomicBool) {
    let mut pages = ArrayVec::<Pfn, 32>::new();
    while !stop.load(Ordering::Relaxed) {
        for lru in lrus {
            lru.isolate_tail(LruList::InactiveAnon, 32, &mut pages);
            lru.put_back_all(&mut pages);
            pages.clear(); // the mappings hold references: none was the last
        }
    }
}

/// Lists, flags and references are unchanged.
fn verify(area: &SoftArea<'_>) -> anyhow::Result<()> {
    for lru in area.lrus() {
        lru.check().map_err(|violation| anyhow!("the lists are damaged: {violation}"))?;
        if let Some(page) = lru.table().iter().position(|page| page.refs() > 1) {
            bail!("page {page} has {} references left", lru.table()[page].refs());
        }
        let unevictable = lru.frames(LruList::Unevictable);
        if unevictable != 0 {
            bail!("{unevictable} frames are still unevictable");
        }
    }
    Ok(())
}
