//! thpfioscale: how often migrate types are mixed while small files fill memory, and the cost of huge pages then
//! (Fragmentation avoidance and stalls, 2018).
//!
//! Four writers write files of 64 KiB, 1.5 times the memory in total, a page of each in turn while all are open; then
//! four readers read them at random; then threads touch 3/8 of the first node as huge pages, while the readers go on.
//! Under Linux 4.20-rc1 without and with the patches of the series of 2018, and under our default.

mod actors;
mod column;
mod measure;
mod mixing;
mod plot;
mod published;
mod script;
mod table;

use clap::Args;

use super::options::{Memory, MemoryRange, Runs};
use super::output::{Forms, Report};

/// With less memory a zone is too small for a boost.
const MEMORY: MemoryRange = MemoryRange { least: 256 << 20, most: 64 << 30, default: "1G" };

/// Arguments of `pageblock run thpfioscale`.
#[derive(Args, Clone, Debug)]
#[command(mut_arg("memory", |option| MEMORY.option(option, "Memory of the machine (of each node)",
    "; the published machines had 32G")))]
pub(crate) struct ThpfioscaleArgs {
    #[command(flatten)]
    pub(crate) memory: Memory,
    #[command(flatten)]
    pub(crate) runs: Runs,
    /// Only the machine with one node
    #[arg(long)]
    pub(crate) one_node: bool,
    #[command(flatten)]
    pub(crate) forms: Forms,
}

/// Runs the experiment.
pub(crate) fn run(args: &ThpfioscaleArgs) -> anyhow::Result<()> {
    let bar = args.forms.start(measure::runs(args))?;
    let outcome = measure::measure(args, &|| bar.inc(1))?;
    bar.finish_and_clear();
    let published = published::Published::read()?;
    let report = Report { name: "thpfioscale", outcome: &outcome, text: table::all(&outcome, &published) };
    args.forms.deliver(&report, || plot::all(&outcome, &published))
}
