//! `pageblock replay`, also the binary's default command.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::{Console, Level, print, report_directory, write_whole};
use crate::replay::{Outcome, Pass, Rules, replay};
use crate::report;
use crate::state::Recording;
use crate::trace::{STANDARD_INPUT, Strictness};

/// Name of the recording in the repository, below its root.
const BUNDLED: &str = "traces/mixed-pressure-head";

/// The recording.
#[derive(Clone, Debug, Args)]
pub(crate) struct Input {
    /// The trace: ftrace text, plain or zstd; `-` is standard input
    pub(crate) trace: PathBuf,
    /// Directory with the machine's state: `before` and `after`, or the files themselves. Without it, the trace's own
    /// directory
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// Pass over faulty lines and count them, rather than stop
    #[arg(long)]
    pub(crate) lenient: bool,
    /// Rules to allocate by; several, separated by commas, side by side
    #[arg(long, value_name = "RULES", value_enum, value_delimiter = ',', default_value = "default")]
    pub(crate) rules: Vec<Rules>,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    pub(crate) input: Input,
    /// Print one JSON object, and write no report unless --out asks for it
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the report (index.html, result.json and tables as CSV) into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Write the counters over time into this file, for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    pub(crate) perfetto: Option<PathBuf>,
}

/// Replays, prints, and writes the report.
pub(crate) fn run(args: &ReplayArgs, console: &Console) -> anyhow::Result<()> {
    // Before the work: a directory that cannot be written to is known at once.
    let wanted = args.out.is_some() || !args.json;
    let input = &args.input;
    check_trace(&input.trace)?;
    let directory = if wanted { Some(report_directory(args.out.as_deref())?) } else { None };
    if let Some(file) = &args.perfetto {
        // Empty until it is written as a whole.
        write_whole(file, b"")?;
    }
    let outcome = outcome(input, console)?;
    if let Some(file) = &args.perfetto {
        write_whole(file, report::perfetto(&outcome).as_bytes())?;
    }
    if args.json {
        print(&report::json(&outcome)?)?;
    }
    deliver(&outcome, directory.as_deref(), console, args.json)
}

/// Replays the bundled trace and writes its report.
pub(crate) fn bundled(console: &Console) -> anyhow::Result<()> {
    let trace = root()?.join(BUNDLED).join("trace.txt.zst");
    let input = Input { trace, state: None, lenient: false, rules: vec![Rules::Default] };
    run(&ReplayArgs { input, json: false, out: None, perfetto: None }, console)
}

/// Prints the verdict, writes the report and prints its path. A replay that lost a frame is a failure of ours.
fn deliver(outcome: &Outcome, directory: Option<&Path>, console: &Console, json: bool) -> anyhow::Result<()> {
    if !json && console.level > Level::Quiet {
        print(&report::verdict(outcome, console))?;
    }
    if !json && console.level == Level::Verbose {
        print(&format!("\n{}", report::tables(outcome)))?;
    }
    if let Some(directory) = directory {
        let index = report::write(outcome, directory)?;
        if !json {
            print(&format!("\nReport: {}\n", crate::output::printable(&index.display().to_string())))?;
        }
    }
    if outcome.conserved {
        return Ok(());
    }
    bail!("frames were not conserved: {}", outcome.conservation_faults.join("; "))
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

/// The trace comes before the state that is looked for beside it. It is not opened: a pipe can be read only once.
fn check_trace(trace: &Path) -> anyhow::Result<()> {
    if trace == Path::new(STANDARD_INPUT) {
        return Ok(());
    }
    let found =
        std::fs::metadata(trace).with_context(|| format!("{}: expected a readable trace file", trace.display()))?;
    if found.is_dir() {
        bail!("{}: expected a readable trace file, found a directory; `--state` takes one", trace.display());
    }
    Ok(())
}

/// Reads the state and the trace, and replays it.
pub(crate) fn outcome(input: &Input, console: &Console) -> anyhow::Result<Outcome> {
    check_trace(&input.trace)?;
    let bar = progress_bar(console);
    bar.set_message(Pass::State.name());
    bar.tick();
    let beside = input.trace.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let recording = Recording::load(input.state.as_deref().unwrap_or(beside))?;
    let strictness = if input.lenient { Strictness::Lenient } else { Strictness::Strict };
    let mut outcome = replay((&input.trace, strictness), &recording, &rules(input), &mut |pass, bytes, size| {
        bar.set_message(pass.name());
        bar.set_length(size);
        bar.set_position(bytes);
    })?;
    bar.finish_and_clear();
    outcome.trace = crate::output::printable(&input.trace.display().to_string());
    Ok(outcome)
}

/// The rules, each once.
fn rules(input: &Input) -> Vec<Rules> {
    let mut seen: Vec<Rules> = Vec::new();
    for &rules in &input.rules {
        if !seen.contains(&rules) {
            seen.push(rules);
        }
    }
    seen
}

/// Names the pass, from the first moment on; visible only on a terminal.
fn progress_bar(console: &Console) -> ProgressBar {
    let bar = ProgressBar::new(1);
    if !console.shows_progress() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    if let Ok(style) = ProgressStyle::with_template("{msg} {elapsed} [{wide_bar}] {bytes} of {total_bytes}, {eta} left")
    {
        bar.set_style(style);
    }
    bar
}
