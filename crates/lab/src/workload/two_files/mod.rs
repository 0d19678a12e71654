//! two-files (Fair zone policy, 2014): whether a new working set is recognised.
//!
//! A file that is larger than Normal but fits in memory is read once; then a second one of the same size again and
//! again. Where zones age together the second takes the place of the first. Where kswapd leaves DMA32 alone, pages of
//! the first stay there for ever, and the second does not fit in the rest. On the same machine follow a stream,
//! which shows how many pages pass until one is given up when nothing else is there, and kernel allocations, for which
//! kswapd does reclaim in a frozen zone: up to high, so that users still find less than low and reserve there.

mod figures;
mod measure;
mod scene;

use std::num::NonZeroU32;

use clap::Args;

use super::figure::Figures;
use super::options::{Hardware, Memory, Runs};
use super::output::{Forms, Report};
use super::tiobench::{MEMORY, Variant};

/// Arguments of `pageblock run two-files`.
#[derive(Args, Clone, Debug)]
#[command(mut_arg("memory", |option| MEMORY.option(option, "Memory of the machine", ". The series' had about 8G")))]
#[command(mut_arg("iterations", |option| option.help("Runs under each set of rules, each with a seed of its own")))]
#[command(mut_arg("seed", |option| option
    .help("Seed of the first run: how much the kernel holds, and where files lie")))]
pub(crate) struct TwoFilesArgs {
    #[command(flatten)]
    pub(crate) memory: Memory,
    #[command(flatten)]
    pub(crate) runs: Runs,
    /// Times that the second file is read
    #[arg(long, value_name = "N", default_value = "6")]
    pub(crate) passes: NonZeroU32,
    /// Only these sets of rules; all if none is given
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) only: Vec<Variant>,
    #[command(flatten)]
    pub(crate) hardware: Hardware,
    /// Recompute the owner's tables, lists and zones after each run
    #[arg(long)]
    pub(crate) check: bool,
    #[command(flatten)]
    pub(crate) forms: Forms,
}

impl TwoFilesArgs {
    fn variants(&self) -> Vec<Variant> {
        Variant::chosen(&self.only)
    }
}

/// Runs the experiment.
pub(crate) fn run(args: &TwoFilesArgs) -> anyhow::Result<()> {
    let bar = args.forms.start(args.runs.times(args.variants().len()))?;
    let outcome = measure::measure(args, &|| bar.inc(1))?;
    bar.finish_and_clear();
    let figures = figures::figures(&outcome)?;
    let remarks = format!(
        "{} MiB of memory, {} run(s) of each, seed {}. Both files are a fifth larger than Normal and fit in memory: the first is read once,\n\
         the second {} times. Then both are deleted, and a stream twice as large as memory is read.\n",
        outcome.memory_bytes >> 20,
        outcome.iterations,
        outcome.seed,
        outcome.passes
    );
    args.forms.deliver(&Report { name: "two_files", outcome: &outcome, figures: &figures, remarks })
}

/// The published table of [`run`] for a report of several works.
pub(crate) fn figures(bytes: u64, runs: Runs) -> anyhow::Result<Figures> {
    let args = TwoFilesArgs {
        memory: Memory { bytes },
        runs,
        passes: NonZeroU32::MIN,
        only: Variant::MEASURED.to_vec(),
        hardware: Hardware::default(),
        check: false,
        forms: Forms::default(),
    };
    figures::figures(&measure::measure(&args, &|| ())?)
}
