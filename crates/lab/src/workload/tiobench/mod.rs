//! tiobench (Fair zone policy, 2014): files twice as large as memory, written and read by 1 to 16 threads.
//!
//! A run writes the files from start to end, writes random blocks, reads from start to end, and reads random blocks;
//! one file for each thread, blocks of 4 KiB, for every number of threads on the same machine. Beside throughput and
//! the longest wait stands the subject of the series: how allocations and scanning spread over DMA32 and
//! Normal, under Linux 3.16 with the series' changes, and under our default.
//!
//! * [`variant`]: the rules; [`scale`]: the published machine at any size
//! * `phase`: the threads; `measure`: the runs; `published`: the published tables

pub(crate) mod measure;
mod phase;
mod plot;
mod published;
pub(crate) mod scale;
mod table;
pub(crate) mod variant;

use clap::Args;

use super::options::{Memory, MemoryRange, Runs};
use super::output::{Forms, Report};
pub(crate) use variant::Variant;

/// Memory of a machine: with less than the first, a read-ahead window is larger than the distance of two watermarks.
pub(super) const MEMORY: MemoryRange = MemoryRange { least: 128 << 20, most: 16 << 30, default: "1G" };

/// Arguments of `pageblock run tiobench`.
#[derive(Args, Clone, Debug)]
#[command(mut_arg("memory", |option| MEMORY.option(option, "Memory of the machine", ". The series' had about 8G")))]
#[command(mut_arg("iterations", |option| option.help("Runs under each set of rules, each with a seed of its own")))]
#[command(mut_arg("seed", |option| option.help("Seed of the first run: where random blocks lie")))]
pub(crate) struct TiobenchArgs {
    #[command(flatten)]
    pub(crate) memory: Memory,
    #[command(flatten)]
    pub(crate) runs: Runs,
    /// Numbers of threads, 1 to 64 each
    #[arg(long, value_name = "N,...", default_value = "1,2,4,8,16", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) threads: Vec<u32>,
    /// Only these sets of rules; all if none is given
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) only: Vec<Variant>,
    /// Recompute the owner's tables, lists and zones after each run
    #[arg(long)]
    pub(crate) check: bool,
    #[command(flatten)]
    pub(crate) forms: Forms,
}

impl TiobenchArgs {
    /// Rules of the runs.
    pub(crate) fn variants(&self) -> Vec<Variant> {
        Variant::chosen(&self.only)
    }
}

/// Runs the experiment.
pub(crate) fn run(args: &TiobenchArgs) -> anyhow::Result<()> {
    let bar = args.forms.start(args.runs.times(args.variants().len()))?;
    let outcome = measure::measure(args, &|| bar.inc(1))?;
    bar.finish_and_clear();
    let published = published::Published::read()?;
    let report = Report { name: "tiobench", outcome: &outcome, text: table::all(&outcome, &published) };
    args.forms.deliver(&report, || plot::all(&outcome, &published))
}
