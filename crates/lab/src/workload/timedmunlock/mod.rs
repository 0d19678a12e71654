//! timedmunlock: how long it takes to unlock a large locked area.
//!
//! The area is real metadata without the memory that it describes: a descriptor for every frame, LRU lists through
//! them, and a four-level page table. Each form of munlock does its work on it: walks, locks, atomic operations.
//! Locking the area again between the runs is not timed.

mod figures;
mod instructions;
mod measure;

use std::num::NonZeroU32;

use clap::Args;
use pageblock_frame::PAGE_SIZE;
use pageblock_mlock::{Placement, Steps};

use super::figure::Figures;
use super::options::{Memory, MemoryRange, Runs, StepSet};
use super::output::{Forms, Report};

pub(crate) use measure::{Outcome, measure};

/// The series' patches.
const PATCHES: u8 = 7;
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
    /// A column with just these patches, 1 to 7; repeatable
    #[arg(long, value_name = "N,...", value_parser = |text: &str| StepSet::parse(text, PATCHES))]
    pub(crate) steps: Vec<StepSet>,
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

/// A column: its heading, and how it unlocks.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    pub(crate) name: String,
    pub(crate) steps: Steps,
}

impl TimedMunlockArgs {
    /// The series' eight columns, those that were asked for, and our form.
    pub(crate) fn columns(&self) -> Vec<Form> {
        let series = (0..=PATCHES).map(|patches| Form { name: patches.to_string(), steps: Steps::first(patches) });
        let asked = self.steps.iter().map(|steps| Form { name: steps.name(), steps: only(*steps) });
        let own = Form { name: "default".to_owned(), steps: Steps::default() };
        series.chain(asked).chain([own]).collect()
    }
}

/// Just these patches.
fn only(steps: StepSet) -> Steps {
    Steps {
        lazy_base: steps.has(1),
        drain_once: steps.has(2),
        batch_isolate: steps.has(3),
        batch_counter: steps.has(4),
        local_put_back: steps.has(5),
        one_reference: steps.has(6),
        walk_in_place: steps.has(7),
        ..Steps::first(0)
    }
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
        return instructions::only(args, only);
    }
    let bar = args.forms.start(args.runs.times(args.columns().len() * Placement::ALL.len()))?;
    let mut outcome = measure(args, &mut || bar.inc(1))?;
    bar.finish_and_clear();
    if args.instructions {
        instructions::count(args, &mut outcome)?;
    }
    let figures = figures::figures(&outcome)?;
    let remarks = remarks(&outcome);
    args.forms.deliver(&Report { name: "timedmunlock", outcome: &outcome, figures: &figures, remarks })
}

/// The tables of [`run`] for a report of several works.
pub(crate) fn figures(bytes: u64, runs: Runs) -> anyhow::Result<Figures> {
    let args = TimedMunlockArgs {
        memory: Memory { bytes },
        runs,
        steps: Vec::new(),
        threads: NonZeroU32::MIN,
        instructions: false,
        forms: Forms::default(),
        only: None,
    };
    figures::figures(&measure(&args, &mut || ())?)
}

fn remarks(outcome: &Outcome) -> String {
    let others = outcome.threads - 1;
    format!(
        "Columns 1 to 7: the first so many patches of the series. Time of the unlocking thread on its CPU, without what other programs\n\
         took. {} runs of each column, order seed {}, {others} other CPU{} at work on the lists. NR_MLOCK, lists and references\n\
         were checked after every set.\n",
        outcome.iterations,
        outcome.seed,
        if others == 1 { "" } else { "s" }
    )
}
