//! `pageblock run`: the experiments of the seed documents.

use clap::Subcommand;

use crate::workload::{highalloc, timedmunlock};

/// An experiment.
#[derive(Debug, Subcommand)]
pub(crate) enum Experiment {
    /// Take huge pages out of a fragmented memory, beside what Linux 6.1 got
    Highalloc(highalloc::HighallocArgs),
    /// Unlock a large locked area: the seed's seven patches and our own form (seed 001)
    Timedmunlock(timedmunlock::TimedMunlockArgs),
}

/// Runs the experiment and prints its tables.
pub(crate) fn run(experiment: &Experiment) -> anyhow::Result<()> {
    match experiment {
        Experiment::Highalloc(args) => highalloc::run(args),
        Experiment::Timedmunlock(args) => timedmunlock::run(args),
    }
}
