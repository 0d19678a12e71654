//! thpfioscale: how often migrate types are mixed while small files fill memory, and the cost of huge pages then
//! (Fragmentation avoidance and stalls, 2018).
//!
//! Four writers write files of 64 KiB, 1.5 times the memory in total, a page of each in turn while all are open; then
//! four readers read them at random; then threads touch 3/8 of the first node as huge pages, while the readers go on.
//! Under Linux 4.20-rc1 without and with the patches of the series of 2018, and under our default.

mod actors;
mod column;
mod figures;
mod measure;
mod mixing;
mod script;

use clap::Args;
use column::Column;

use super::figure::Figures;
use super::options::{Hardware, Memory, MemoryRange, Runs, StepSet};
use super::output::{Forms, Report};
use column::Tunables;

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
    /// Only these columns (vanilla, patch-1, patches-1-3, patches-1-4, default; 6.1-boost-0, 6.1 and default-there on a
    /// machine like the one on which Linux 6.1 was measured); those of the series if none is given
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) columns: Vec<Column>,
    /// A column with just these patches, 1 to 4; repeatable
    #[arg(long, value_name = "N,...", value_parser = |text: &str| StepSet::parse(text, 4))]
    pub(crate) steps: Vec<StepSet>,
    #[command(flatten)]
    pub(crate) tunables: Tunables,
    #[command(flatten)]
    pub(crate) hardware: Hardware,
    #[command(flatten)]
    pub(crate) forms: Forms,
}

impl ThpfioscaleArgs {
    /// As if nothing else had been typed.
    fn new(bytes: u64, runs: Runs) -> Self {
        Self {
            memory: Memory { bytes },
            runs,
            one_node: false,
            columns: Vec::new(),
            steps: Vec::new(),
            tunables: Tunables::default(),
            hardware: Hardware::default(),
            forms: Forms::default(),
        }
    }

    /// The columns, those of single patches last.
    fn chosen(&self) -> Vec<Column> {
        let named = if self.columns.is_empty() { Column::ALL.to_vec() } else { self.columns.clone() };
        named.into_iter().chain(self.steps.iter().copied().map(Column::Steps)).collect()
    }
}

/// Runs the experiment.
pub(crate) fn run(args: &ThpfioscaleArgs) -> anyhow::Result<()> {
    let bar = args.forms.start(measure::runs(args))?;
    let outcome = measure::measure(args, &|| bar.inc(1))?;
    bar.finish_and_clear();
    let figures = figures::figures(&outcome)?;
    let remarks = format!(
        "{} MiB a node, {} runs of each column, seed {}; the published machines had 32 GiB a node. Events: requests that were served from\n\
         less than a pageblock of another migrate type. Fault latency: to get and fill 2 MiB, as 512 pages or as a huge one. Two nodes\n\
         have the memory twice.\n",
        outcome.memory_bytes >> 20,
        outcome.iterations,
        outcome.seed,
    );
    args.forms.deliver(&Report { name: "thpfioscale", outcome: &outcome, figures: &figures, remarks })
}

/// The tables of [`run`] for a report of several works.
pub(crate) fn figures(bytes: u64, runs: Runs) -> anyhow::Result<Figures> {
    figures::figures(&measure::measure(&ThpfioscaleArgs::new(bytes, runs), &|| ())?)
}
