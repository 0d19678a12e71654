//! works: every row of every published table of the five works, beside what the simulated machine gives.

use std::num::NonZeroU32;

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::figure::{Figures, Tally};
use super::options::Runs;
use super::output::{Forms, Report};
use super::{pcp, stress_highalloc, thpfioscale, timedmunlock, tiobench, two_files};

/// Arguments of `pageblock run works`.
#[derive(Args, Clone, Debug)]
pub(crate) struct WorksArgs {
    /// Small machines and two runs of each column: within two minutes of CPU
    #[arg(long)]
    quick: bool,
    /// Only these works; all if none is given
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    only: Vec<Work>,
    /// Runs of each column, 1 to 10000, each with a seed of its own [default: 5, or 2 with --quick]
    #[arg(long, value_name = "N")]
    iterations: Option<NonZeroU32>,
    /// Seed of the first run; the next has the next
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    #[command(flatten)]
    forms: Forms,
}

/// A work, by what it is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Work {
    /// Memory compaction efficiency improvements (2013)
    Compaction,
    /// munlock batching (2013)
    Munlock,
    /// Fragmentation avoidance and stalls (2018)
    Fragmentation,
    /// Fair zone policy (2014)
    FairZones,
    /// High-order per-CPU lists (2016)
    Lists,
}

/// What is measured with: bytes of memory, or the length of a run.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    compaction: u64,
    munlock: u64,
    fragmentation: u64,
    fair_zones: u64,
    lists: NonZeroU32,
    runs: NonZeroU32,
}

const MIB: u64 = 1 << 20;
const FULL: Sizes = Sizes {
    compaction: 4096 * MIB,
    munlock: 4096 * MIB,
    fragmentation: 1024 * MIB,
    fair_zones: 8192 * MIB,
    lists: NonZeroU32::new(100).unwrap(),
    runs: NonZeroU32::new(5).unwrap(),
};
const QUICK: Sizes = Sizes {
    compaction: 512 * MIB,
    munlock: 256 * MIB,
    fragmentation: 512 * MIB,
    fair_zones: 512 * MIB,
    lists: NonZeroU32::new(10).unwrap(),
    runs: NonZeroU32::new(2).unwrap(),
};

/// The tables of a work.
#[derive(Clone, Debug, Serialize)]
struct Part {
    work: Work,
    figures: Figures,
}

impl Work {
    fn figures(self, sizes: &Sizes, runs: Runs) -> anyhow::Result<Figures> {
        match self {
            Self::Compaction => stress_highalloc::figures(sizes.compaction, runs),
            // A run is an unlocking: the publication has ten as well.
            Self::Munlock => {
                timedmunlock::figures(sizes.munlock, Runs { iterations: runs.iterations.saturating_mul(TWICE), ..runs })
            }
            Self::Fragmentation => thpfioscale::figures(sizes.fragmentation, runs),
            Self::FairZones => {
                let mut figures = tiobench::figures(sizes.fair_zones, runs)?;
                figures.merge(two_files::figures(sizes.fair_zones.min(1 << 30), runs)?);
                Ok(figures)
            }
            Self::Lists => pcp::figures(sizes.lists, runs),
        }
    }
}

const TWICE: NonZeroU32 = NonZeroU32::new(2).unwrap();

/// Runs the experiments of the works, and prints their tables and how much of each came out.
pub(crate) fn run(args: &WorksArgs) -> anyhow::Result<()> {
    let works = if args.only.is_empty() { Work::value_variants().to_vec() } else { args.only.clone() };
    let sizes = if args.quick { QUICK } else { FULL };
    let runs = Runs { iterations: args.iterations.unwrap_or(sizes.runs), seed: args.seed, jobs: None };
    let bar = args.forms.start(works.len() as u64)?;
    let mut parts = Vec::new();
    for work in works {
        parts.push(Part { work, figures: work.figures(&sizes, runs)? });
        bar.inc(1);
    }
    bar.finish_and_clear();
    let remarks: Vec<String> = parts.iter().map(|part| Tally::of(&part.figures).text(&part.figures)).collect();
    let figures = Figures(parts.iter().flat_map(|part| part.figures.0.clone()).collect());
    args.forms.deliver(&Report { name: "works", outcome: &parts, figures: &figures, remarks: remarks.join("\n") })
}
