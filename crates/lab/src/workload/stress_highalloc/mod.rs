//! stress-highalloc: how many huge pages can be had from a busy machine, and from one at rest (Memory compaction
//! efficiency improvements, 2013).
//!
//! The benchmark of mmtests on the simulated machine: trees of kernel source are copied and built, and meanwhile,
//! twice, a module asks for 95 percent of memory in huge pages, one every 125 ms. A third time it asks when everything
//! is over, all files are deleted and all caches dropped. Columns are Linux 3.13 with the first so many patches of the
//! series, and our default.

mod build;
mod column;
mod counters;
mod figures;
mod maps;
mod measure;
mod outcome;
mod phase;
mod plot;
mod scale;
mod script;
#[cfg(test)]
mod tests;
mod tree;

use std::path::Path;

use clap::Args;

use super::figure::Figures;
use super::options::{Hardware, Memory, MemoryRange, Runs, StepSet};
use super::output::{Forms, Report};

use column::Column;
use measure::{Plan, measure};
use outcome::Outcome;
use phase::Flags;

/// Its name.
const NAME: &str = "stress-highalloc";
/// With less memory a compiler is a few pages.
const MEMORY: MemoryRange = MemoryRange { least: 128 << 20, most: 64 << 30, default: "1G" };

/// Arguments of `pageblock run stress-highalloc`.
#[derive(Args, Clone, Debug)]
#[command(mut_arg("memory", |option| MEMORY.option(option, "Memory of the machine",
    "; the series' had 4G. A smaller one gets less of everything for a shorter time")))]
#[command(mut_arg("iterations", |option| option.default_value("3")))]
pub(crate) struct StressHighallocArgs {
    #[command(flatten)]
    memory: Memory,
    #[command(flatten)]
    runs: Runs,
    /// Only these columns (0 to 6, default); 2 to default if none is given. 2-unfair to 6-unfair are 2 to 6 without
    /// the fair-zone policy
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    columns: Vec<Column>,
    /// A column with just these patches, 1 to 6; repeatable
    #[arg(long, value_name = "N,...", value_parser = |text: &str| StepSet::parse(text, 6))]
    steps: Vec<StepSet>,
    #[command(flatten)]
    hardware: Hardware,
    /// Only these flags (nothp, thp); both if none are given
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    flags: Vec<Flags>,
    #[command(flatten)]
    forms: Forms,
}

impl StressHighallocArgs {
    fn plan(&self) -> Plan {
        let named = if self.columns.is_empty() { Column::ALL.to_vec() } else { self.columns.clone() };
        Plan {
            memory: self.memory.bytes,
            runs: self.runs,
            columns: named.into_iter().chain(self.steps.iter().copied().map(Column::Steps)).collect(),
            flags: if self.flags.is_empty() { Flags::ALL.to_vec() } else { self.flags.clone() },
            hardware: self.hardware,
        }
    }
}

/// Runs the experiment.
pub(crate) fn run(args: &StressHighallocArgs) -> anyhow::Result<()> {
    let plan = args.plan();
    let bar = args.forms.start(plan.count())?;
    let outcome = measure(&plan, &|| bar.inc(1))?;
    bar.finish_and_clear();
    let figures = figures::figures(&outcome)?;
    args.forms.deliver(&Report { name: NAME, outcome: &outcome, figures: &figures, remarks: remarks(&outcome) })?;
    args.forms.out.as_deref().map_or(Ok(()), |directory| write_maps(directory, &outcome))
}

/// The tables of [`run`] for a report of several works.
pub(crate) fn figures(memory: u64, runs: Runs) -> anyhow::Result<Figures> {
    let (columns, flags) = (Column::ALL.to_vec(), Flags::ALL.to_vec());
    let plan = Plan { memory, runs, columns, flags, hardware: Hardware::default() };
    figures::figures(&measure(&plan, &|| ())?)
}

fn remarks(outcome: &Outcome) -> String {
    format!(
        "Success: percent of the attempts, rounded down; phases 1 and 2 on a busy machine, phase 3 on one at rest. Columns 2 to 6:\n\
         Linux 3.13 with the first so many patches of the series; default: this project's. {} runs of each column from seed {} on, on\n\
         a machine of {} MiB (the series': 4096; a smaller one gets less of everything for a shorter time).\n",
        outcome.iterations,
        outcome.seed,
        outcome.memory_bytes >> 20
    )
}

/// Writes the pictures of the zones as a page of their own.
fn write_maps(directory: &Path, outcome: &Outcome) -> anyhow::Result<()> {
    let path = directory.join(format!("{NAME}-zones.html"));
    let page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{NAME}: zones</title></head>\n\
         <body style=\"font:15px system-ui,sans-serif;max-width:80rem;margin:2rem auto\"><h1>{NAME}: zones</h1>\n{}</body></html>\n",
        plot::maps(outcome)?
    );
    crate::output::write_whole(&path, page.as_bytes())
}
