//! The subcommands of the binary `pageblock`.

pub mod map;
mod proc;
mod replay;
#[cfg(feature = "experiments")]
mod run;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Linux's physical page allocator, hosted. Without a command: replays the bundled trace and writes its report to
/// target/report.
#[derive(Debug, Parser)]
#[command(name = "pageblock", version, about, long_about = None)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Replay a recorded page-allocation trace, and show what Linux did beside what we do
    Replay(replay::ReplayArgs),
    /// Normalise a memory map, and show zones, watermarks and metadata
    Map(map::MapArgs),
    /// Print the zones after a replay in the format of /proc/buddyinfo
    Buddyinfo(proc::ProcArgs),
    /// Print the zones after a replay in the format of /proc/pagetypeinfo
    Pagetypeinfo(proc::ProcArgs),
    /// Run an experiment of one of the seed documents
    #[cfg(feature = "experiments")]
    #[command(subcommand)]
    Run(run::Experiment),
    /// Run an experiment: `cargo experiment`, in a build that has them
    #[cfg(not(feature = "experiments"))]
    Run {
        /// The experiment, and its options
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        experiment: Vec<String>,
    },
}

/// Runs the command line. Without arguments: replays the bundled trace and writes its report to `target/report`.
pub fn main() -> ExitCode {
    let result = match Cli::parse().command {
        None => replay::bundled(),
        Some(Command::Replay(args)) => replay::run(&args),
        Some(Command::Map(args)) => map::run(&args),
        Some(Command::Buddyinfo(args)) => proc::buddyinfo(&args),
        Some(Command::Pagetypeinfo(args)) => proc::pagetypeinfo(&args),
        #[cfg(feature = "experiments")]
        Some(Command::Run(experiment)) => run::run(&experiment),
        #[cfg(not(feature = "experiments"))]
        Some(Command::Run { experiment }) => Err(anyhow::anyhow!(
            "this build has no experiments; `cargo experiment {}` has them",
            experiment.join(" ").escape_debug()
        )),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pageblock: {error:#}");
            ExitCode::FAILURE
        }
    }
}
