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
mod maps;
mod measure;
mod outcome;
mod phase;
mod plot;
mod published;
mod scale;
mod script;
mod table;
#[cfg(test)]
mod tests;
mod tree;

use std::path::Path;

use clap::Args;

use super::options::{Memory, MemoryRange, Runs};
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
    /// Only these columns (2 to 6, default); all of them if none is given. 2-unfair to 6-unfair are 2 to 6 without the
    /// fair-zone policy
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    columns: Vec<Column>,
    /// Only these flags (nothp, thp); both if none are given
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    flags: Vec<Flags>,
    #[command(flatten)]
    forms: Forms,
}

/// Runs the experiment.
pub(crate) fn run(args: &StressHighallocArgs) -> anyhow::Result<()> {
    let plan = Plan {
        memory: args.memory.bytes,
        runs: args.runs,
        columns: if args.columns.is_empty() { Column::ALL.to_vec() } else { args.columns.clone() },
        flags: if args.flags.is_empty() { Flags::ALL.to_vec() } else { args.flags.clone() },
    };
    let bar = args.forms.start(plan.count())?;
    let outcome = measure(&plan, &|| bar.inc(1))?;
    bar.finish_and_clear();
    let published = plan.flags.iter().map(|flags| published::of(*flags)).collect::<anyhow::Result<Vec<_>>>()?;
    let report = Report { name: NAME, outcome: &outcome, text: table::all(&outcome, &published) };
    args.forms.deliver(&report, || plot::charts(&outcome, &published))?;
    args.forms.out.as_deref().map_or(Ok(()), |directory| write_maps(directory, &outcome))
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
