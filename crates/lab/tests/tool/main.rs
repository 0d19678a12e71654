//! The binary, and the texts of the repository: one program, since each more is linked anew.

mod bad_input;
mod guide;
mod map;
mod replay;
mod settings;
mod words;

use std::path::{Path, PathBuf};
use std::process::Command;

/// The recording of a machine with 32 MiB.
fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/small")
}

/// The binary.
fn pageblock() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pageblock"));
    // Reports that were not asked for go there.
    command.env("TMPDIR", env!("CARGO_TARGET_TMPDIR")).current_dir(env!("CARGO_TARGET_TMPDIR"));
    command
}
