//! `pageblock buddyinfo` and `pageblock pagetypeinfo`: our zones after a replay, as Linux would print them.

use std::path::PathBuf;

use clap::Args;

use super::replay::outcome;
use crate::trace::Strictness;

#[derive(Debug, Args)]
pub(crate) struct ProcArgs {
    /// The trace: ftrace text, plain or zstd.
    trace: PathBuf,
    /// Directory with the machine's state. Without it, the trace's own directory.
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Pass over faulty lines rather than stop.
    #[arg(long)]
    lenient: bool,
}

impl ProcArgs {
    fn strictness(&self) -> Strictness {
        if self.lenient { Strictness::Lenient } else { Strictness::Strict }
    }
}

/// Prints `/proc/buddyinfo`.
pub(crate) fn buddyinfo(args: &ProcArgs) -> anyhow::Result<()> {
    print!("{}", outcome(&args.trace, args.state.as_deref(), args.strictness())?.buddyinfo);
    Ok(())
}

/// Prints `/proc/pagetypeinfo`.
pub(crate) fn pagetypeinfo(args: &ProcArgs) -> anyhow::Result<()> {
    print!("{}", outcome(&args.trace, args.state.as_deref(), args.strictness())?.pagetypeinfo);
    Ok(())
}
