//! tiobench (Fair zone policy, 2014): files twice as large as memory, written and read by 1 to 16 threads.
//!
//! A run writes the files from start to end, writes random blocks, reads from start to end, and reads random blocks;
//! one file for each thread, blocks of 4 KiB, for every number of threads on the same machine. Beside throughput and
//! the longest wait stands the subject of the series: how allocations and scanning spread over DMA32 and
//! Normal, under Linux 3.16 with the series' changes, and under our default.
//!
//! * [`variant`]: whose rules; [`scale`]: the published machine at any size
//! * `phase`: the threads; `measure`: the runs; `figures`: the tables

mod figures;
pub(crate) mod measure;
mod phase;
pub(crate) mod scale;
pub(crate) mod variant;

use clap::Args;

use super::figure::Figures;
use super::options::{Hardware, Memory, MemoryRange, Runs};
use super::output::{Forms, Report};
pub(crate) use figures::heading;
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
    /// Read files ahead while their reader goes on; else it waits for its whole window
    #[arg(long)]
    pub(crate) asynchronous: bool,
    #[command(flatten)]
    pub(crate) hardware: Hardware,
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
    let figures = figures::figures(&outcome)?;
    let remarks = format!(
        "{} MiB of memory, files twice as large, {} run(s) of each, seed {}. Scanned: frames that kswapd and tasks looked at. The disk has\n\
         an elevator in the manner of CFQ: readers take turns by slices of time. 3.0 stands for 3.16 without the fair-zone policy.\n",
        outcome.memory_bytes >> 20,
        outcome.iterations,
        outcome.seed
    );
    args.forms.deliver(&Report { name: "tiobench", outcome: &outcome, figures: &figures, remarks })
}

/// The tables of [`run`] for a report of several works: the kernels that were measured, and ours.
pub(crate) fn figures(bytes: u64, runs: Runs) -> anyhow::Result<Figures> {
    let args = TiobenchArgs {
        memory: Memory { bytes },
        runs,
        threads: vec![1, 2, 4, 8, 16],
        only: Variant::MEASURED.to_vec(),
        asynchronous: false,
        hardware: Hardware::default(),
        check: false,
        forms: Forms::default(),
    };
    figures::figures(&measure::measure(&args, &|| ())?)
}
