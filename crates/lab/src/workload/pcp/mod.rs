//! The workloads of High-order per-CPU lists (2016) as streams of allocations: hackbench, netperf, fsmark.
//!
//! ```text
//! hackbench, netperf, fsmark   work of the tasks: messages, files, forks
//!     │ objects
//!     ▼
//! slab                         objects in blocks of orders 0 to 3
//!     │ blocks, each on a CPU
//!     ▼
//! frames                       the page allocator with the preset's lists; every zone lock counted as it is taken
//! ```
//!
//! Seconds on a machine of 2016 cannot be had here, and the lists change how often CPUs meet at the zone
//! lock: so that is counted, with the frames moved under it and, on request, the instructions of the allocator. One
//! thread is all CPUs in turn, in an order out of a seed, and a run with that seed is the same every time.
//!
//! fsmark is the negative control: it frees nothing, so lists have nothing to reuse, and every frame moves through the
//! zone lock once whatever the lists are like.

mod clocks;
mod figures;
mod frames;
mod fsmark;
mod hackbench;
mod instructions;
mod measure;
mod netperf;
mod slab;

use std::num::NonZeroU32;

use clap::Args;
use pageblock::PcpConfig;

use super::figure::Figures;
use super::options::Runs;
use super::output::{Forms, Report};

/// Which workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Hackbench,
    Netperf,
    Fsmark,
}

impl Kind {
    /// The subcommand.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Hackbench => "hackbench",
            Self::Netperf => "netperf",
            Self::Fsmark => "fsmark",
        }
    }

    const fn unit(self) -> &'static str {
        if matches!(self, Self::Fsmark) { "files" } else { "messages" }
    }
}

/// Arguments of `pageblock run hackbench`, `netperf` and `fsmark`.
#[derive(Args, Clone, Debug)]
#[command(mut_arg("iterations", |option| option
    .help("Runs of each column, each with a seed of its own; fsmark's tasks have a fixed order, and its runs are all the same")))]
#[command(mut_arg("seed", |option| option.help("Seed of the order in which tasks run, in the first run")))]
pub(crate) struct PcpArgs {
    /// CPUs of the machine, up to 16
    #[arg(long, value_name = "N", default_value = "4", value_parser = cpus())]
    pub(crate) cpus: u32,
    /// Messages from each sender to each receiver (hackbench), thousands of messages (netperf) or of files (fsmark)
    #[arg(long, value_name = "N", default_value = "100")]
    pub(crate) length: NonZeroU32,
    #[command(flatten)]
    pub(crate) runs: Runs,
    /// Count the allocator's instructions a message too, with valgrind (takes minutes)
    #[arg(long)]
    pub(crate) instructions: bool,
    #[command(flatten)]
    pub(crate) forms: Forms,
    /// Only run this case once, with this preset and length: for valgrind
    #[arg(long, hide = true, num_args = 3, value_names = ["CASE", "COLUMN", "LENGTH"])]
    pub(crate) only: Option<Vec<u32>>,
}

fn cpus() -> impl clap::builder::IntoResettable<clap::builder::ValueParser> {
    clap::value_parser!(u32).range(1..=frames::MOST_CPUS as i64)
}

/// Runs a workload.
pub(crate) fn run(kind: Kind, args: &PcpArgs) -> anyhow::Result<()> {
    if let Some(only) = &args.only {
        return instructions::only(kind, args, only);
    }
    let runs = measure::cases(kind, args, 1).len() * PcpConfig::PRESETS.len();
    let bar = args.forms.start(args.runs.times(runs))?;
    let mut outcome = measure::measure(kind, args, &mut || bar.inc(1))?;
    if args.instructions {
        bar.reset();
        bar.set_length(instructions::ticks(&outcome));
        instructions::count(kind, args, &mut outcome, &mut || bar.inc(1))?;
    }
    bar.finish_and_clear();
    let figures = figures::figures(kind, &outcome)?;
    let remarks = format!(
        "Lists for order 0 only are Linux 4.9's (off); 2016: the series', called highmark. {} CPUs in turn, {} run(s), seed {}. Every\n\
         frame was accounted for after every run. fsmark is the control: it frees nothing, so that each frame moves once.\n",
        outcome.cpus, outcome.iterations, outcome.seed
    );
    args.forms.deliver(&Report { name: kind.name(), outcome: &outcome, figures: &figures, remarks })
}

/// The tables of hackbench for a report of several works.
pub(crate) fn figures(length: NonZeroU32, runs: Runs) -> anyhow::Result<Figures> {
    let args = PcpArgs { cpus: 4, length, runs, instructions: false, forms: Forms::default(), only: None };
    figures::figures(Kind::Hackbench, &measure::measure(Kind::Hackbench, &args, &mut || ())?)
}
