//! `pageblock completions` and `pageblock man`: help for shells and for readers of manual pages.

use anyhow::Context;
use clap::{Args, Command};
use clap_complete::Shell;

use crate::output::print;

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the shell's script.
pub(crate) fn completions(args: &CompletionsArgs, mut command: Command) -> anyhow::Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "pageblock", &mut text);
    print(&String::from_utf8_lossy(&text))
}

/// Prints the manual page.
pub(crate) fn man(command: Command) -> anyhow::Result<()> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command).render(&mut text).context("the manual page cannot be written")?;
    print(&String::from_utf8_lossy(&text))
}
