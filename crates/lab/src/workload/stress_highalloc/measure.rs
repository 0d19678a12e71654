//! Running the benchmark: every column, with both sets of flags, several times.

use std::cell::RefCell;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::Mutex;

use anyhow::anyhow;

use super::column::Column as Kind;
use super::maps;
use super::outcome::{Column, Map, Outcome, Run, Set};
use super::phase::Flags;
use super::scale::Scale;
use super::script::Script;
use crate::machine::Machine;

/// What is to be run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) memory: u64,
    pub(crate) iterations: NonZeroU32,
    pub(crate) seed: u64,
    pub(crate) columns: Vec<Kind>,
    pub(crate) flags: Vec<Flags>,
    pub(crate) threads: usize,
}

impl Plan {
    /// Number of runs.
    pub(crate) fn runs(&self) -> usize {
        self.columns.len() * self.flags.len() * self.iterations.get() as usize
    }

    /// The run with this number: iterations turn slowest, so that what is ready early says something of all columns.
    fn job(&self, number: usize) -> (usize, usize, u64) {
        let (columns, flags) = (self.columns.len(), self.flags.len());
        (number / columns % flags, number % columns, self.seed + (number / columns / flags) as u64)
    }
}

/// Runs everything; `tick` is called after each run.
pub(crate) fn measure(plan: &Plan, tick: &(dyn Fn() + Sync)) -> anyhow::Result<Outcome> {
    let (jobs, results) = (Mutex::new(0..plan.runs()), Mutex::new(vec![None; plan.runs()]));
    std::thread::scope(|scope| {
        let work = || {
            while let Some(number) = jobs.lock().ok().and_then(|mut jobs| jobs.next()) {
                let (flags, column, seed) = plan.job(number);
                let run = once(plan.columns[column], plan.flags[flags], Scale::new(plan.memory), (seed, plan.seed));
                if let Ok(mut results) = results.lock() {
                    results[number] = Some(run.map_err(|error| format!("{error:#}")));
                }
                tick();
            }
        };
        for _ in 0..plan.threads.max(1) {
            scope.spawn(work);
        }
    });
    let results = results.into_inner().map_err(|_| anyhow!("a run did not end"))?;
    gather(plan, results)
}

fn gather(plan: &Plan, results: Vec<Option<Result<Run, String>>>) -> anyhow::Result<Outcome> {
    let empty = |flags: &Flags| {
        let columns = plan.columns.iter().map(|column| Column { name: column.name(), runs: Vec::new() }).collect();
        Set { flags: *flags, columns }
    };
    let mut sets: Vec<Set> = plan.flags.iter().map(empty).collect();
    for (number, result) in results.into_iter().enumerate() {
        let (flags, column, _) = plan.job(number);
        let run = result.ok_or_else(|| anyhow!("run {number} is missing"))?.map_err(|error| anyhow!(error))?;
        sets[flags].columns[column].runs.push(run);
    }
    Ok(Outcome { memory_bytes: plan.memory, iterations: plan.iterations.get(), seed: plan.seed, sets })
}

/// One run. Of the one with the first seed, pictures are taken.
fn once(column: Kind, flags: Flags, scale: Scale, (seed, first): (u64, u64)) -> anyhow::Result<Run> {
    let script = Script::new(column, flags, scale, seed)?;
    let pictures: Rc<RefCell<Vec<Map>>> = Rc::default();
    if seed == first {
        let pictures = Rc::clone(&pictures);
        *script.watch.borrow_mut() = Box::new(move |machine: &Machine, phase, moment| {
            pictures.borrow_mut().push(maps::picture(machine, phase, moment));
        });
    }
    let found = script.run();
    let success = found.map(|phase| 100 * phase.successes / phase.attempts.max(1));
    let counters = super::counters::read(script.machine());
    Ok(Run { success, attempts: found[0].attempts, counters, maps: pictures.take() })
}
