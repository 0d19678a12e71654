//! The subcommands of the binary `pageblock`.

pub mod map;
mod proc;
mod replay;
mod run;
#[cfg(feature = "completions")]
mod shell;

use std::process::ExitCode;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::output::{Colour, Console, Level, StreamClosed, print, printable, tell};

const EXAMPLES: &str = "\
Examples:
  pageblock                                  replay the bundled trace and report
  pageblock replay TRACE --state DIR         replay a trace of another machine
  pageblock replay T --rules linux-6.1,default   a release beside ours
  zstd -dc T | pageblock replay - --state D  the same from standard input
  pageblock map /proc/iomem                  zones of this machine (as root)
  pageblock run --list                       the experiments

Exit status: 0 done, or the reader of the output has gone; 1 a fault of input or
output, or frames that were lost; 2 a fault of the command line.";

/// Linux's physical page allocator, hosted
///
/// Without a command: replays the bundled trace, a stretch of a recording of a
/// real Linux, through our allocator, prints the verdict, and writes a report (a
/// page to open in a browser) below ./target if there is one, else into a
/// temporary directory. The report's path is the last line.
#[derive(Debug, Parser)]
#[command(name = "pageblock", version, after_help = EXAMPLES, verbatim_doc_comment)]
struct Cli {
    #[command(flatten)]
    talk: Talk,
    #[command(subcommand)]
    command: Option<Command>,
}

/// How much is said, and in which colours.
#[derive(Debug, Args)]
struct Talk {
    /// Print every table and remark
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    verbose: bool,
    /// Print no verdict and no progress
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Colours in the output
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = Colour::Auto)]
    color: Colour,
}

impl Talk {
    fn console(&self) -> Console {
        let level = match (self.quiet, self.verbose) {
            (true, _) => Level::Quiet,
            (_, true) => Level::Verbose,
            _ => Level::Ordinary,
        };
        Console::new(level, self.color)
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Replay a recorded trace: Linux beside our allocator
    Replay(replay::ReplayArgs),
    /// Normalise a memory map: zones, watermarks and metadata
    Map(map::MapArgs),
    /// Print the zones after a replay, as /proc/buddyinfo has them
    Buddyinfo(proc::ProcArgs),
    /// Print the zones after a replay, as /proc/pagetypeinfo has them
    Pagetypeinfo(proc::ProcArgs),
    /// Print the zones after a replay, as /proc/zoneinfo has them
    Zoneinfo(proc::ProcArgs),
    /// Print the counters after a replay, as /proc/vmstat has them
    Vmstat(proc::ProcArgs),
    /// Print the fragmentation indices after a replay, as in debugfs
    Extfrag(proc::ProcArgs),
    /// Run an experiment on a simulated machine; --list names them
    Run(run::RunArgs),
    /// Print the completions for a shell
    #[cfg(feature = "completions")]
    Completions(shell::CompletionsArgs),
    /// Print the manual page
    #[cfg(feature = "completions")]
    Man,
}

/// Runs the command line.
pub fn main() -> ExitCode {
    let parsed = Cli::command().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            tell(error.render().to_string().trim_end());
            return ExitCode::from(2);
        }
        Err(text) => return status(print(&printable(&text.render().to_string()))),
    };
    let console = cli.talk.console();
    status(match cli.command {
        None => replay::bundled(&console),
        Some(Command::Replay(args)) => replay::run(&args, &console),
        Some(Command::Map(args)) => map::run(&args),
        Some(Command::Buddyinfo(args)) => proc::buddyinfo(&args, &console),
        Some(Command::Pagetypeinfo(args)) => proc::pagetypeinfo(&args, &console),
        Some(Command::Zoneinfo(args)) => proc::zoneinfo(&args, &console),
        Some(Command::Vmstat(args)) => proc::vmstat(&args, &console),
        Some(Command::Extfrag(args)) => proc::extfrag(&args, &console),
        Some(Command::Run(args)) => run::run(&args, &console),
        #[cfg(feature = "completions")]
        Some(Command::Completions(args)) => shell::completions(&args, Cli::command()),
        #[cfg(feature = "completions")]
        Some(Command::Man) => shell::man(Cli::command()),
    })
}

/// The exit status; a fault is told. A reader that has seen enough is none.
fn status(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<StreamClosed>() => ExitCode::SUCCESS,
        Err(error) => {
            tell(&format!("pageblock: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_fits_a_terminal_and_says_what_the_bare_command_does() {
        Cli::command().debug_assert();
        let help = Cli::command().render_long_help().to_string();
        assert!(help.contains("Without a command: replays the bundled trace"), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
    }
}
