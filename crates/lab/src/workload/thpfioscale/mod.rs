//! thpfioscale: how often migrate types are mixed while small files fill memory, and what huge pages cost then (seed 002).
//!
//! Four writers write files of 64 KiB, 1.5 times the memory in total; then four readers read them at random; then threads touch
//! 3/8 of the first node as huge pages, while the readers go on. Under Linux 4.20-rc1 without and with the patches of the
//! series of 2018, and under our default.

mod actors;
mod column;
mod measure;
mod mixing;
mod plot;
mod published;
mod script;
mod table;

use std::num::NonZeroU32;

use anyhow::bail;
use clap::Args;

use super::output::{self, Forms, Report};
use crate::commands::map::parse_size;

/// With less memory a zone is too small for a boost.
const LEAST: u64 = 256 << 20;
const MOST: u64 = 64 << 30;

/// Arguments of `pageblock run thpfioscale`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ThpfioscaleArgs {
    /// Memory of the machine (of each node), in bytes or with M or G; 256M to 64G; the seed's machines had 32G
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_size)]
    pub(crate) memory: u64,
    /// Runs of each column, each with a seed of its own
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) iterations: NonZeroU32,
    /// Seed of the first run
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seed: u64,
    /// Only the machine with one node
    #[arg(long)]
    pub(crate) one_node: bool,
    #[command(flatten)]
    pub(crate) forms: Forms,
}

/// Runs the experiment.
pub(crate) fn run(args: &ThpfioscaleArgs) -> anyhow::Result<()> {
    if !(LEAST..=MOST).contains(&args.memory) {
        bail!("--memory: expected 256M to 64G, found {} bytes", args.memory);
    }
    let bar = output::progress(measure::runs(args));
    let outcome = measure::measure(args, &|| bar.inc(1))?;
    bar.finish_and_clear();
    let published = published::Published::read()?;
    let report = Report { name: "thpfioscale", outcome: &outcome, text: table::all(&outcome, &published) };
    args.forms.deliver(&report, || plot::all(&outcome, &published))
}
