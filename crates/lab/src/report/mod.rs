//! What a replay found, for people and for programs.

mod html;
mod index;
mod plots;
mod tables;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

#[cfg(feature = "experiments")]
pub(crate) use index::add;
#[cfg(feature = "experiments")]
pub(crate) use plots::{CELL, draw_row};
#[cfg(feature = "experiments")]
pub(crate) use tables::trimmed;
pub(crate) use tables::{plain, tables};

use crate::replay::Outcome;

/// One JSON object.
pub(crate) fn json(outcome: &Outcome) -> anyhow::Result<String> {
    let mut text = serde_json::to_string_pretty(outcome).context("the result cannot be written as JSON")?;
    text.push('\n');
    Ok(text)
}

/// Writes the report into a directory, which is made if it is not there; experiments on its page stay. Returns the page's path.
pub(crate) fn write(outcome: &Outcome, directory: &Path) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(directory).with_context(|| format!("{} cannot be made", directory.display()))?;
    let save = |name: &str, text: &str| {
        let path = directory.join(name);
        fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display())).map(|()| path)
    };
    let plots = plots::all(outcome)?;
    for plot in &plots {
        save(&format!("{}.svg", plot.name), &plot.svg)?;
    }
    save("result.json", &json(outcome)?)?;
    save("buddyinfo", &outcome.buddyinfo)?;
    save("pagetypeinfo", &outcome.pagetypeinfo)?;
    save("index.html", &index::renew(directory, html::page(outcome, &plots))?)
}
