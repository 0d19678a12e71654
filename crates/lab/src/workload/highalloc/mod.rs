//! highalloc: how much of a fragmented memory can be had as huge pages (after `stress-highalloc`).
//!
//! 92 % of the free memory is filled page by page with anonymous pages, page cache (1 : 1) and kernel pages; a random
//! half of each kind is freed; then blocks of order 9 are taken and held until 16 requests in a row fail. Under Linux
//! 6.1's rules and under our own, beside a Linux 6.1 on a machine of the same size.

mod attempt;
mod figures;
mod measure;
mod pages;
mod scene;
mod threads;

use std::num::NonZeroU32;

use clap::Args;

use super::options::{Memory, MemoryRange, Runs};
use super::output::{Forms, Report};
use measure::Outcome;

/// Memory of a machine: with less than the first, the kernel of the measured machine would leave too little to fill.
const MEMORY: MemoryRange = MemoryRange { least: 128 << 20, most: 16 << 30, default: "512M" };

/// Memory of the Linux that was measured.
const MEASURED: u64 = 512 << 20;

/// Arguments of `pageblock run highalloc`.
#[derive(Args, Clone, Debug)]
#[command(mut_arg("memory", |option| MEMORY.option(option, "Memory of the machine", "")))]
#[command(mut_arg("iterations", |option| option.default_value("3")
    .help("Runs of each line, each with a seed of its own")))]
#[command(mut_arg("seed", |option| option.help("Seed of the first run: which half of the pages is freed")))]
pub(crate) struct HighallocArgs {
    #[command(flatten)]
    pub(crate) memory: Memory,
    #[command(flatten)]
    pub(crate) runs: Runs,
    /// Requests in a row that fail before a run ends
    #[arg(long, value_name = "N", default_value = "16")]
    pub(crate) patience: NonZeroU32,
    /// Recompute the owner's tables, lists and zones after each run
    #[arg(long)]
    pub(crate) check: bool,
    #[command(flatten)]
    pub(crate) forms: Forms,
}

/// Runs the experiment.
pub(crate) fn run(args: &HighallocArgs) -> anyhow::Result<()> {
    let bar = args.forms.start(measure::runs(args))?;
    let outcome = measure::measure(args, &|| bar.inc(1))?;
    bar.finish_and_clear();
    let figures = figures::figures(&outcome, outcome.memory_bytes == MEASURED)?;
    let remarks = remarks(&outcome);
    args.forms.deliver(&Report { name: "highalloc", outcome: &outcome, figures: &figures, remarks })
}

fn remarks(outcome: &Outcome) -> String {
    let managed = outcome.rows.iter().flat_map(|row| &row.runs).next().map_or(0, |run| run.managed_blocks);
    format!(
        "Blocks of order 9 taken until {} requests in a row failed, of {managed} managed ({} MiB); {} runs of each line, seed {}. At rest:\n\
         what could be had after the process had ended and the kernel pages were freed. Over 100 % of the free pages where page cache\n\
         was reclaimed. Linux 6.1 was measured with 512 MiB, until 16 or 256 requests failed.\n",
        outcome.patience,
        outcome.memory_bytes >> 20,
        outcome.iterations,
        outcome.seed,
    )
}
