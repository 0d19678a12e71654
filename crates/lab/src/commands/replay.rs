//! `pageblock replay`, and what the binary does without arguments.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::replay::{Outcome, replay};
use crate::report;
use crate::state::Recording;
use crate::trace::Strictness;

/// Name of the recording in the repository, below its root.
const BUNDLED: &str = "traces/file-churn-head";
/// Where the report goes without arguments, below the repository's root.
const REPORT: &str = "target/report";

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The trace: ftrace text, plain or zstd.
    pub(crate) trace: PathBuf,
    /// Directory with the machine's state: `before` and `after`, or the files themselves. Without it, the trace's own directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the report (index.html, SVG plots, result.json) into this directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Pass over faulty lines and count them, rather than stop.
    #[arg(long)]
    pub(crate) lenient: bool,
}

/// Replays and prints.
pub(crate) fn run(args: &ReplayArgs) -> anyhow::Result<()> {
    let strictness = if args.lenient { Strictness::Lenient } else { Strictness::Strict };
    let outcome = outcome(&args.trace, args.state.as_deref(), strictness)?;
    print(&outcome, args.json)?;
    if let Some(directory) = &args.out {
        let index = report::write(&outcome, directory)?;
        if !args.json {
            println!("\nReport: {}", index.display());
        }
    }
    verdict(&outcome)
}

/// Replays the bundled trace and writes its report.
pub(crate) fn bundled() -> anyhow::Result<()> {
    let root = root()?;
    let trace = root.join(BUNDLED).join("trace.txt.zst");
    println!("Replaying the bundled trace {}; `pageblock --help` lists what else there is.\n", trace.display());
    let outcome = outcome(&trace, None, Strictness::Strict)?;
    print(&outcome, false)?;
    let index = report::write(&outcome, &root.join(REPORT))?;
    println!("\nReport: {}", index.display());
    verdict(&outcome)
}

/// The directory that holds the bundled trace: this one, one above it, or the one that the binary was built in.
fn root() -> anyhow::Result<PathBuf> {
    let here = std::env::current_dir().context("the current directory is not usable")?;
    let built = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = here.ancestors().chain(built.ancestors()).find(|directory| directory.join(BUNDLED).is_dir());
    let Some(found) = found else {
        bail!("{BUNDLED} is neither in {} nor above it: give a trace, `pageblock replay TRACE`", here.display())
    };
    Ok(found.to_owned())
}

/// Reads the state and the trace, and replays it.
pub(crate) fn outcome(trace: &Path, state: Option<&Path>, strictness: Strictness) -> anyhow::Result<Outcome> {
    // Before the state is looked for beside it. Not opened: a pipe can be read only once.
    let found =
        std::fs::metadata(trace).with_context(|| format!("{}: expected a readable trace file", trace.display()))?;
    if found.is_dir() {
        bail!("{}: expected a readable trace file, found a directory; `--state` takes one", trace.display());
    }
    let beside = trace.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let recording = Recording::load(state.unwrap_or(beside))?;
    let bar = progress_bar();
    let mut outcome = replay((trace, strictness), &recording, &mut |bytes, size| {
        bar.set_length(size);
        bar.set_position(bytes);
    })?;
    bar.finish_and_clear();
    outcome.trace = trace.display().to_string();
    Ok(outcome)
}

/// Visible only if stderr is a terminal.
fn progress_bar() -> ProgressBar {
    let bar = ProgressBar::no_length();
    if !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    if let Ok(style) = ProgressStyle::with_template("{elapsed} [{wide_bar}] {bytes} of {total_bytes}") {
        bar.set_style(style);
    }
    bar
}

fn print(outcome: &Outcome, json: bool) -> anyhow::Result<()> {
    let text = if json { report::json(outcome)? } else { report::tables(outcome) };
    std::io::stdout().write_all(text.as_bytes()).context("the result cannot be printed")
}

/// A replay that lost a frame is a failure of ours.
fn verdict(outcome: &Outcome) -> anyhow::Result<()> {
    if outcome.conserved {
        return Ok(());
    }
    bail!("frames were not conserved: {}", outcome.conservation_faults.join("; "))
}
