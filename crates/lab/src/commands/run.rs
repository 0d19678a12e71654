//! `pageblock run`: the experiments.

use clap::Args;
#[cfg(feature = "experiments")]
use clap::{FromArgMatches, Subcommand};

use crate::output::{Console, print};
#[cfg(feature = "experiments")]
use crate::workload::{
    highalloc,
    pcp::{self, Kind, PcpArgs},
    stress_highalloc, thpfioscale, timedmunlock, tiobench, two_files, works,
};

/// Every experiment, and what it does.
const LIST: [(&str, &str); 10] = [
    ("highalloc", "huge pages out of a fragmented memory, beside Linux 6.1"),
    ("stress-highalloc", "huge pages on a busy machine, by compaction patches"),
    ("thpfioscale", "small files, then huge pages: how often types are mixed"),
    ("timedmunlock", "unlocks a large locked area, by munlock patches"),
    ("hackbench", "senders and receivers: zone-lock acquisitions by lists"),
    ("netperf", "datagrams from one CPU to another: the same counts"),
    ("fsmark", "empty files, which only allocate: the negative control"),
    ("tiobench", "files twice as large as memory: throughput and scanning"),
    ("two-files", "whether a second working set becomes resident"),
    ("works", "every published table of the five works, beside ours"),
];

#[cfg(feature = "experiments")]
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, args_conflicts_with_subcommands = true)]
pub(crate) struct RunArgs {
    /// Print the experiments, a line each
    #[arg(long)]
    list: bool,
    #[command(subcommand)]
    experiment: Option<Experiment>,
}

/// In a build without experiments.
#[cfg(not(feature = "experiments"))]
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Print the experiments, a line each
    #[arg(long)]
    list: bool,
    /// The experiment and its options; `cargo experiment` builds them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    experiment: Vec<String>,
}

/// An experiment.
#[cfg(feature = "experiments")]
#[derive(Debug, Subcommand)]
pub(crate) enum Experiment {
    /// Take huge pages out of a fragmented memory, beside Linux 6.1's results
    Highalloc(highalloc::HighallocArgs),
    /// Ask a busy machine for huge pages (Memory compaction efficiency improvements, 2013): patches 2 to 6, and ours
    StressHighalloc(stress_highalloc::StressHighallocArgs),
    /// Fill memory with small files and touch huge pages (Fragmentation avoidance and stalls, 2018): how often types
    /// are mixed
    Thpfioscale(thpfioscale::ThpfioscaleArgs),
    /// Unlock a large locked area (munlock batching, 2013): the seven patches and our own form
    Timedmunlock(timedmunlock::TimedMunlockArgs),
    /// Senders and receivers in groups (High-order per-CPU lists, 2016): zone-lock acquisitions by lists
    Hackbench(PcpArgs),
    /// Datagrams from one CPU to another (High-order per-CPU lists, 2016): the same counts
    Netperf(PcpArgs),
    /// Empty files, which only allocate (High-order per-CPU lists, 2016): the negative control
    Fsmark(PcpArgs),
    /// Files twice as large as memory (Fair zone policy, 2014): throughput, latency and scanning by zone
    Tiobench(tiobench::TiobenchArgs),
    /// A file read once, then a second one again and again (Fair zone policy, 2014): whether it becomes resident
    TwoFiles(two_files::TwoFilesArgs),
    /// Every table of the five works, row by row: published, measured, direction, factor
    Works(works::WorksArgs),
    /// One experiment after the other
    All(AllArgs),
}

#[cfg(feature = "experiments")]
#[derive(Debug, Args)]
pub(crate) struct AllArgs {
    /// The smallest machines on which each shows something: a minute together
    #[arg(long)]
    quick: bool,
    /// Write the pages of all into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<std::path::PathBuf>,
}

/// What `all --quick` runs.
#[cfg(feature = "experiments")]
const QUICK: [&[&str]; 9] = [
    &["highalloc", "--memory", "128M", "--iterations", "1"],
    &["stress-highalloc", "--memory", "128M", "--iterations", "1", "--flags", "thp"],
    &["thpfioscale", "--memory", "256M", "--one-node"],
    &["timedmunlock", "--memory", "8M", "--iterations", "1"],
    &["hackbench", "--length", "10"],
    &["netperf", "--length", "10"],
    &["fsmark", "--length", "10"],
    &["tiobench", "--memory", "128M", "--threads", "1"],
    &["two-files", "--memory", "128M", "--passes", "2"],
];

#[cfg(feature = "experiments")]
fn all(args: &AllArgs) -> anyhow::Result<()> {
    for quick in QUICK {
        let words = if args.quick { quick } else { &quick[..1] };
        print(&format!("\n== {}\n", words.join(" ")))?;
        experiment(&RunArgs { list: false, experiment: Some(parsed(words, args.out.as_deref())?) })?;
    }
    Ok(())
}

/// The experiment that these words are.
#[cfg(feature = "experiments")]
fn parsed(words: &[&str], out: Option<&std::path::Path>) -> anyhow::Result<Experiment> {
    let mut line = vec![std::ffi::OsStr::new("run")];
    line.extend(words.iter().map(std::ffi::OsStr::new));
    line.extend(out.into_iter().flat_map(|out| ["--out".as_ref(), out.as_os_str()]));
    let matches = Experiment::augment_subcommands(clap::Command::new("run")).try_get_matches_from(line)?;
    Ok(Experiment::from_arg_matches(&matches)?)
}

/// Runs the experiment and prints its tables, or prints the list of them.
pub(crate) fn run(args: &RunArgs, _console: &Console) -> anyhow::Result<()> {
    if args.list {
        return print(&LIST.map(|(name, does)| format!("{name:17} {does}\n")).concat());
    }
    experiment(args)
}

#[cfg(not(feature = "experiments"))]
fn experiment(args: &RunArgs) -> anyhow::Result<()> {
    let words = if args.experiment.is_empty() { "--list".to_owned() } else { args.experiment.join(" ") };
    anyhow::bail!("this build has no experiments; `cargo experiment {words}` has them")
}

#[cfg(feature = "experiments")]
fn experiment(args: &RunArgs) -> anyhow::Result<()> {
    let Some(experiment) = &args.experiment else { return Ok(()) };
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
        Experiment::Works(args) => works::run(args),
        Experiment::All(args) => all(args),
    }
}

#[cfg(all(test, feature = "experiments"))]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_every_experiment() {
        let command = Experiment::augment_subcommands(clap::Command::new("run"));
        let names: Vec<_> = command.get_subcommands().map(|one| one.get_name().to_owned()).collect();
        assert_eq!(names[..LIST.len()], LIST.map(|(name, _)| name));
        assert_eq!(names[LIST.len()..], ["all"]);
        for words in QUICK {
            assert!(LIST.iter().any(|(name, _)| *name == words[0]));
            parsed(words, Some("out".as_ref())).unwrap();
        }
        assert!(LIST.iter().all(|(_, does)| does.len() + 18 <= 80));
    }
}
