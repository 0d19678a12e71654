//! timedmunlock: how long it takes to unlock a large locked area.
//!
//! The area is real metadata without the memory that it describes: a descriptor for every frame, LRU lists through
//! them, and a four-level page table. Each form of munlock does its work on it: walks, locks, atomic operations.
//! Locking the area again between the runs is not timed.

mod instructions;
mod measure;
mod plot;
mod published;
mod table;

use std::num::NonZeroU32;

use clap::Args;
use pageblock_frame::PAGE_SIZE;
use pageblock_mlock::{Placement, Steps};

use super::options::{Memory, MemoryRange, Runs};
use super::output::{Forms, Report};

pub(crate) use measure::{Outcome, measure};

/// Columns of a table: the series' eight, and ours.
pub(crate) const COLUMNS: usize = 9;
/// Most memory that an area may stand for: its metadata is 24 bytes a page.
const MEMORY: MemoryRange = MemoryRange { least: PAGE_SIZE, most: 64 << 30, default: "4G" };

/// Arguments of `pageblock run timedmunlock`.
#[derive(Args, Clone, Debug)]
#[command(mut_arg("memory", |option| MEMORY.option(option, "Size of the locked area",
    ", for which about 400M of host memory are needed")))]
#[command(mut_arg("iterations", |option| option.default_value("10").help("Runs of each column")))]
#[command(mut_arg("seed", |option| option.help("Seed of the order in which the columns take turns")))]
pub(crate) struct TimedMunlockArgs {
    #[command(flatten)]
    pub(crate) memory: Memory,
    #[command(flatten)]
    pub(crate) runs: Runs,
    /// CPUs: the first unlocks, the others work on the same LRU lists meanwhile
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) threads: NonZeroU32,
    /// Count instructions a page too, with valgrind (takes a minute)
    #[arg(long)]
    pub(crate) instructions: bool,
    #[command(flatten)]
    pub(crate) forms: Forms,
    /// Only unlock this many pages once, in this way: for valgrind
    #[arg(long, hide = true, num_args = 3, value_names = ["SET", "COLUMN", "PAGES"])]
    pub(crate) only: Option<Vec<u64>>,
}

/// The switches of a column.
pub(crate) fn steps(column: usize) -> Steps {
    if column + 1 == COLUMNS { Steps::default() } else { Steps::first(column as u8) }
}

/// A column's heading.
pub(crate) fn heading(column: usize) -> String {
    if column + 1 == COLUMNS { "default".to_owned() } else { column.to_string() }
}

/// Name of a set.
pub(crate) const fn title(placement: Placement) -> &'static str {
    match placement {
        Placement::OneNode => "one node",
        Placement::Interleaved => "interleaved over two nodes",
        Placement::Huge => "huge pages, one node",
    }
}

/// Runs the experiment.
pub(crate) fn run(args: &TimedMunlockArgs) -> anyhow::Result<()> {
    if let Some(only) = &args.only {
        return instructions::only(only);
    }
    let bar = args.forms.start(args.runs.times(COLUMNS * Placement::ALL.len()))?;
    let mut outcome = measure(args, &mut || bar.inc(1))?;
    bar.finish_and_clear();
    if args.instructions {
        instructions::count(&mut outcome)?;
    }
    let published = published::all()?;
    let report = Report { name: "timedmunlock", outcome: &outcome, text: table::all(&outcome, &published) };
    args.forms.deliver(&report, || plot::all(&outcome, &published))
}
