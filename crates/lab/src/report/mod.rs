//! What a replay found, for people and for programs.

use anyhow::Context;
use std::path::{Path, PathBuf};

use crate::replay::Outcome;

/// One JSON object.
pub(crate) fn json(outcome: &Outcome) -> anyhow::Result<String> {
    let mut text = serde_json::to_string_pretty(outcome).context("the result cannot be written as JSON")?;
    text.push('\n');
    Ok(text)
}

pub(crate) fn tables(outcome: &Outcome) -> String {
    format!("{outcome:#?}")
}
pub(crate) fn write(_outcome: &Outcome, directory: &Path) -> anyhow::Result<PathBuf> {
    Ok(directory.into())
}
