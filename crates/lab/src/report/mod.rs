//! Results of a replay, for readers and for programs.

mod data;
mod html;
mod index;
mod perfetto;
#[cfg(feature = "experiments")]
mod plots;
mod tables;
mod verdict;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use comfy_table::Table;
use serde::Serialize;

#[cfg(feature = "experiments")]
pub(crate) use index::add;
pub(crate) use perfetto::perfetto;
#[cfg(feature = "experiments")]
pub(crate) use plots::{CELL, draw_row};
pub(crate) use tables::{plain, tables};
pub(crate) use verdict::verdict;

use crate::output::{prepare, write_whole};
use crate::replay::Outcome;

/// Version of the keys of `--json` and of a page's data: raised when one changes its meaning or goes.
pub(crate) const SCHEMA: u32 = 2;

/// A result with the program that found it.
#[derive(Serialize)]
struct Document<'a> {
    schema_version: u32,
    tool: &'static str,
    tool_version: &'static str,
    commit: Option<String>,
    experiment: &'static str,
    #[serde(flatten)]
    outcome: &'a Outcome,
}

/// One JSON object.
pub(crate) fn json(outcome: &Outcome) -> anyhow::Result<String> {
    let document = Document {
        schema_version: SCHEMA,
        tool: "pageblock",
        tool_version: env!("CARGO_PKG_VERSION"),
        commit: commit(),
        experiment: "replay",
        outcome,
    };
    let mut text = serde_json::to_string_pretty(&document).context("the result cannot be written as JSON")?;
    text.push('\n');
    Ok(text)
}

/// The commit of the checkout that the program was built in, if that is still there.
fn commit() -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?.parent()?;
    let read = |path: PathBuf| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let own = root.join(".git");
    // A worktree has a file that names its directory, which names the common one.
    let directory = match read(own.clone()) {
        Some(text) => root.join(text.strip_prefix("gitdir: ")?),
        None => own,
    };
    let common = read(directory.join("commondir")).map_or_else(|| directory.clone(), |path| directory.join(path));
    let head = read(directory.join("HEAD"))?;
    let Some(name) = head.strip_prefix("ref: ") else { return Some(head) };
    read(common.join(name)).or_else(|| {
        let packed = read(common.join("packed-refs"))?;
        let line = packed.lines().find(|line| line.ends_with(&format!(" {name}")))?;
        Some(line.split(' ').next()?.to_owned())
    })
}

/// Writes the report into a directory, which is made if it is not there; experiments on its page stay. Returns the
/// page's path.
pub(crate) fn write(outcome: &Outcome, directory: &Path) -> anyhow::Result<PathBuf> {
    prepare(directory)?;
    let save = |name: &str, text: &str| {
        let path = directory.join(name);
        write_whole(&path, text.as_bytes()).map(|()| path)
    };
    for (title, table) in tables::sections(outcome) {
        save(&format!("{}.csv", slug(title)), &csv(&table))?;
    }
    save("over-time.csv", &over_time(outcome))?;
    save("result.json", &json(outcome)?)?;
    if let Some(ours) = outcome.ours() {
        let files = &ours.files;
        save("buddyinfo", &files.buddyinfo)?;
        save("pagetypeinfo", &files.pagetypeinfo)?;
    }
    save("index.html", &index::renew(directory, html::page(outcome)?)?)
}

/// A title as the name of a file.
fn slug(title: &str) -> String {
    title.to_lowercase().replace(' ', "-")
}

fn csv(table: &Table) -> String {
    let quoted = |text: String| {
        let plain = !text.contains([',', '"', '\n']);
        if plain { text } else { format!("\"{}\"", text.replace('"', "\"\"")) }
    };
    let mut text = String::new();
    for row in table.header().into_iter().chain(table.row_iter()) {
        let cells: Vec<_> = row.cell_iter().map(|cell| quoted(cell.content().trim().to_owned())).collect();
        let _ = writeln!(text, "{}", cells.join(","));
    }
    text
}

fn over_time(outcome: &Outcome) -> String {
    let mut text = String::from("seconds");
    for figure in ["whole_pageblocks", "free_frames", "fallbacks"] {
        outcome.names().for_each(|name| _ = write!(text, ",{}_{figure}", name.to_lowercase()));
    }
    text.push('\n');
    for sample in &outcome.samples {
        let _ = write!(text, "{:.6}", sample.micros as f64 / 1e6);
        for figures in [&sample.free_pageblocks, &sample.free_frames, &sample.fallbacks] {
            figures.iter().for_each(|figure| _ = write!(text, ",{figure}"));
        }
        text.push('\n');
    }
    text
}
