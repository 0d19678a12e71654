//! Running the benchmark: every column, with both sets of flags, several times.

use std::cell::RefCell;
use std::rc::Rc;

use super::column::Column as Kind;
use super::maps;
use super::outcome::{Column, Map, Outcome, Run, Set};
use super::phase::Flags;
use super::scale::Scale;
use super::script::Script;
use crate::machine::Machine;
use crate::workload::jobs;
use crate::workload::options::{Hardware, Runs};

/// Runs to make.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) memory: u64,
    pub(crate) runs: Runs,
    pub(crate) columns: Vec<Kind>,
    pub(crate) flags: Vec<Flags>,
    pub(crate) hardware: Hardware,
}

impl Plan {
    /// Number of runs.
    pub(crate) fn count(&self) -> u64 {
        self.runs.times(self.columns.len() * self.flags.len())
    }
}

/// Runs everything; `tick` is called after each run.
pub(crate) fn measure(plan: &Plan, tick: &(dyn Fn() + Sync)) -> anyhow::Result<Outcome> {
    let scale = Scale::new(plan.memory);
    let pairs: Vec<_> =
        plan.flags.iter().flat_map(|flags| plan.columns.iter().map(|column| (*flags, *column))).collect();
    let run = |(flags, column): &(Flags, Kind), seed| {
        let setup = column.setup(scale, seed, plan.hardware);
        let script = Script::new(&setup, *column, *flags, scale)?;
        Ok(once(&script, seed == plan.runs.seed))
    };
    let mut runs = jobs::each(&pairs, plan.runs, run, tick)?.into_iter();
    let set = |flags: &Flags| {
        let columns = plan.columns.iter().zip(&mut runs).map(|(column, runs)| Column { name: column.name(), runs });
        Set { flags: *flags, columns: columns.collect() }
    };
    let sets = plan.flags.iter().map(set).collect();
    Ok(Outcome { memory_bytes: plan.memory, iterations: plan.runs.iterations.get(), seed: plan.runs.seed, sets })
}

/// One run. Of the one with the first seed, pictures are taken.
fn once(script: &Script, is_first: bool) -> Run {
    let pictures: Rc<RefCell<Vec<Map>>> = Rc::default();
    if is_first {
        let pictures = Rc::clone(&pictures);
        *script.watch.borrow_mut() = Box::new(move |machine: &Machine, phase, moment| {
            pictures.borrow_mut().push(maps::picture(machine, phase, moment));
        });
    }
    let found = script.run();
    let success = found.map(|phase| 100 * phase.successes / phase.attempts.max(1));
    let counters = super::counters::read(script.machine());
    Run { success, attempts: found[0].attempts, counters, maps: pictures.take() }
}
