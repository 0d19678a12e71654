//! What all experiments do with their results, and how they read those of others.

use std::fmt::Write as _;
use std::fs;
use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::{Deserialize, Serialize};

/// Shows how many of the runs are done, if stderr is a terminal.
pub(super) fn progress(runs: u64) -> ProgressBar {
    let bar = ProgressBar::new(runs);
    if !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    if let Ok(style) = ProgressStyle::with_template("{elapsed} [{wide_bar}] {pos} of {len} runs") {
        bar.set_style(style);
    }
    bar
}

/// In which forms an experiment's result is wanted: arguments that all experiments have.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Forms {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the tables, a plot and every run (.html, .svg and .json) into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

/// An experiment's result.
pub(super) struct Report<'a, O> {
    /// The experiment: heading, and name of the files.
    pub(super) name: &'static str,
    pub(super) outcome: &'a O,
    /// The tables.
    pub(super) text: String,
}

impl Forms {
    /// Prints the result, and writes it where that is wanted; `svg` draws it.
    pub(super) fn deliver<O: Serialize>(
        &self,
        report: &Report<'_, O>,
        svg: impl FnOnce() -> anyhow::Result<String>,
    ) -> anyhow::Result<()> {
        let json = json(report.outcome)?;
        let text = if self.json { &json } else { &report.text };
        std::io::stdout().write_all(text.as_bytes()).context("the result cannot be printed")?;
        let Some(directory) = &self.out else { return Ok(()) };
        write(directory, (report.name, &report.text), &json, &svg()?)?;
        if !self.json {
            println!("Report: {}", directory.join(report.name).with_extension("html").display());
        }
        Ok(())
    }
}

/// The result as one JSON object, with a line's end.
fn json(outcome: &impl Serialize) -> anyhow::Result<String> {
    let mut json = serde_json::to_string_pretty(outcome).context("the result cannot be written as JSON")?;
    json.push('\n');
    Ok(json)
}

/// Writes a report's page, picture and object into a directory, which is made if it is not there.
fn write(directory: &Path, (name, text): (&str, &str), json: &str, svg: &str) -> anyhow::Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("{} cannot be made", directory.display()))?;
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{name}</title></head>\n\
         <body style=\"font:15px system-ui,sans-serif;max-width:80rem;margin:2rem auto\"><h1>{name}</h1>\n"
    );
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(html, "{svg}\n<pre style=\"overflow-x:auto\">{escaped}</pre></body></html>");
    for (ending, content) in [("html", html.as_str()), ("json", json), ("svg", svg)] {
        let path = directory.join(format!("{name}.{ending}"));
        fs::write(&path, content).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    Ok(())
}

/// A drawing that went wrong, as an error of ours.
pub(super) fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("the plot cannot be drawn: {error}")
}

/// The lines of a published table: CSV with a heading; lines with `#` are remarks.
pub(super) fn lines<T: for<'de> Deserialize<'de>>(text: &str) -> anyhow::Result<Vec<T>> {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    reader.deserialize().collect::<Result<_, _>>().context("the published table is damaged")
}
