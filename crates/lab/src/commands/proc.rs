//! `pageblock buddyinfo` and `pageblock pagetypeinfo`: our zones after a replay, as Linux would print them.

use clap::Args;

use super::replay::{Input, outcome};
use crate::output::{Console, print};

#[derive(Debug, Args)]
pub(crate) struct ProcArgs {
    #[command(flatten)]
    input: Input,
}

/// Prints `/proc/buddyinfo`.
pub(crate) fn buddyinfo(args: &ProcArgs, console: &Console) -> anyhow::Result<()> {
    print(&outcome(&args.input, console)?.buddyinfo)
}

/// Prints `/proc/pagetypeinfo`.
pub(crate) fn pagetypeinfo(args: &ProcArgs, console: &Console) -> anyhow::Result<()> {
    print(&outcome(&args.input, console)?.pagetypeinfo)
}
