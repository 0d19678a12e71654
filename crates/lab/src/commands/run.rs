//! `pageblock run`: the experiments of the seed documents.

use clap::Subcommand;

use crate::workload::pcp::{self, Kind, PcpArgs};
use crate::workload::{highalloc, stress_highalloc, thpfioscale, timedmunlock, tiobench, two_files};

/// An experiment.
#[derive(Debug, Subcommand)]
pub(crate) enum Experiment {
    /// Take huge pages out of a fragmented memory, beside what Linux 6.1 got
    Highalloc(highalloc::HighallocArgs),
    /// Ask a busy machine for huge pages: compaction with the seed's patches 2 to 6, and ours (seed 000)
    StressHighalloc(stress_highalloc::StressHighallocArgs),
    /// Fill memory with small files and touch huge pages: how often migrate types are mixed (seed 002)
    Thpfioscale(thpfioscale::ThpfioscaleArgs),
    /// Unlock a large locked area: the seed's seven patches and our own form (seed 001)
    Timedmunlock(timedmunlock::TimedMunlockArgs),
    /// Senders and receivers in groups, with forks and exits: zone-lock acquisitions by per-CPU lists (seed 004)
    Hackbench(PcpArgs),
    /// Datagrams from one CPU to another: the same counts (seed 004)
    Netperf(PcpArgs),
    /// Empty files, which only allocate: the negative control (seed 004)
    Fsmark(PcpArgs),
    /// Files twice as large as memory, written and read: throughput, latency and scanning by zone (seed 003)
    Tiobench(tiobench::TiobenchArgs),
    /// A file is read once, then a second one again and again: whether it becomes resident (seed 003)
    TwoFiles(two_files::TwoFilesArgs),
}

/// Runs the experiment and prints its tables.
pub(crate) fn run(experiment: &Experiment) -> anyhow::Result<()> {
    match experiment {
        Experiment::Highalloc(args) => highalloc::run(args),
        Experiment::StressHighalloc(args) => stress_highalloc::run(args),
        Experiment::Thpfioscale(args) => thpfioscale::run(args),
        Experiment::Timedmunlock(args) => timedmunlock::run(args),
        Experiment::Hackbench(args) => pcp::run(Kind::Hackbench, args),
        Experiment::Netperf(args) => pcp::run(Kind::Netperf, args),
        Experiment::Fsmark(args) => pcp::run(Kind::Fsmark, args),
        Experiment::Tiobench(args) => tiobench::run(args),
        Experiment::TwoFiles(args) => two_files::run(args),
    }
}
