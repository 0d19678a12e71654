//! `pageblock buddyinfo` and its like: our machine after a replay, in the words of Linux's files.

use clap::Args;

use super::replay::{Input, outcome};
use crate::output::{Console, print};
use crate::replay::Files;

#[derive(Debug, Args)]
pub(crate) struct ProcArgs {
    #[command(flatten)]
    input: Input,
}

/// Replays, and prints a file of each machine.
fn show(args: &ProcArgs, console: &Console, file: fn(&Files) -> &String) -> anyhow::Result<()> {
    let outcome = outcome(&args.input, console)?;
    for ruled in &outcome.rules {
        if outcome.rules.len() > 1 {
            print(&format!("{}\n", ruled.rules))?;
        }
        print(file(&ruled.files))?;
    }
    Ok(())
}

/// Prints `/proc/zoneinfo`.
pub(crate) fn zoneinfo(args: &ProcArgs, console: &Console) -> anyhow::Result<()> {
    show(args, console, |files| &files.zoneinfo)
}

/// Prints `/proc/vmstat`.
pub(crate) fn vmstat(args: &ProcArgs, console: &Console) -> anyhow::Result<()> {
    show(args, console, |files| &files.vmstat)
}

/// Prints both files of debugfs' `extfrag`.
pub(crate) fn extfrag(args: &ProcArgs, console: &Console) -> anyhow::Result<()> {
    show(args, console, |files| &files.extfrag)
}

/// Prints `/proc/buddyinfo`.
pub(crate) fn buddyinfo(args: &ProcArgs, console: &Console) -> anyhow::Result<()> {
    show(args, console, |files| &files.buddyinfo)
}

/// Prints `/proc/pagetypeinfo`.
pub(crate) fn pagetypeinfo(args: &ProcArgs, console: &Console) -> anyhow::Result<()> {
    show(args, console, |files| &files.pagetypeinfo)
}
