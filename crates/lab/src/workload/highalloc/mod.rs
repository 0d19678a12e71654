//! highalloc: how much of a fragmented memory can be had as huge pages (after `stress-highalloc`).
//!
//! 92 % of the free memory is filled page by page with anonymous pages, page cache (1 : 1) and kernel pages; a random half
//! of each kind is freed; then blocks of order 9 are taken and held until 16 requests in a row fail. Under Linux 6.1's rules and under
//! our own, beside what a Linux 6.1 did on a machine of the same size.

mod attempt;
mod measure;
mod pages;
mod plot;
mod published;
mod scene;
mod table;
mod threads;

use std::num::NonZeroU32;

use anyhow::bail;
use clap::Args;

use super::output::{self, Forms, Report};
use crate::commands::map::parse_size;

/// Memory of a machine: with less than the first, the kernel of the measured machine would leave too little to fill.
const LEAST: u64 = 128 << 20;
const MOST: u64 = 16 << 30;

/// Arguments of `pageblock run highalloc`.
#[derive(Args, Clone, Debug)]
pub(crate) struct HighallocArgs {
    /// Memory of the machine, in bytes or with M or G; 128M to 16G
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = parse_size)]
    pub(crate) memory: u64,
    /// Runs of each line, each with a seed of its own
    #[arg(long, value_name = "N", default_value = "3")]
    pub(crate) iterations: NonZeroU32,
    /// Seed of the first run: which half of the pages is freed
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seed: u64,
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
    if !(LEAST..=MOST).contains(&args.memory) {
        bail!("--memory: expected 128M to 16G, found {} bytes", args.memory);
    }
    let bar = output::progress(measure::runs(args));
    let outcome = measure::measure(args, &|| bar.inc(1))?;
    bar.finish_and_clear();
    let published = published::Published::read()?;
    let report = Report { name: "highalloc", outcome: &outcome, text: table::all(&outcome, &published) };
    args.forms.deliver(&report, || plot::all(&outcome, &published))
}
