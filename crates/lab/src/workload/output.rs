//! Output of all experiments, and input of published results.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use super::figure::Figures;
use crate::output::{prepare, print, printable, write_whole};
use crate::report;

/// Shows how many of the runs are done, if stderr is a terminal.
fn progress(runs: u64) -> ProgressBar {
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
    /// Write the tables, a plot and every run (.html, .svg and .json) into this directory, and add them to its
    /// index.html
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

/// An experiment's result.
pub(super) struct Report<'a, O> {
    /// The experiment: heading, and name of the files.
    pub(super) name: &'static str,
    pub(super) outcome: &'a O,
    /// The tables.
    pub(super) figures: &'a Figures,
    /// What there is to know of the runs.
    pub(super) remarks: String,
}

impl Forms {
    /// Before so many runs: makes the directory, so that it is known at once if that cannot be, and shows how many are
    /// done.
    pub(super) fn start(&self, runs: u64) -> anyhow::Result<ProgressBar> {
        if let Some(directory) = &self.out {
            prepare(directory)?;
        }
        Ok(progress(runs))
    }

    /// Prints the result, and writes it where that is wanted.
    pub(super) fn deliver<O: Serialize>(&self, report: &Report<'_, O>) -> anyhow::Result<()> {
        let json = json(report.outcome)?;
        let tables = report.figures.text() + &report.remarks;
        let text = if self.json { &json } else { &tables };
        print(text)?;
        let Some(directory) = &self.out else { return Ok(()) };
        write(directory, (report.name, &tables), &json, &report.figures.chart()?)?;
        if !self.json {
            let page = directory.join(report.name).with_extension("html");
            print(&format!("Report: {}\n", printable(&page.display().to_string())))?;
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

/// Writes a report's page, picture and object into a directory, which is made if it is not there, and adds it to the
/// directory's page of all.
fn write(directory: &Path, (name, text): (&str, &str), json: &str, svg: &str) -> anyhow::Result<()> {
    prepare(directory)?;
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;");
    let part = format!("<h1>{name}</h1>\n{svg}\n<pre style=\"overflow-x:auto\">{escaped}</pre>");
    let html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{name}</title></head>\n\
         <body style=\"font:15px system-ui,sans-serif;max-width:80rem;margin:2rem auto\">{part}</body></html>\n"
    );
    for (ending, content) in [("html", html.as_str()), ("json", json), ("svg", svg)] {
        let path = directory.join(format!("{name}.{ending}"));
        write_whole(&path, content.as_bytes())?;
    }
    report::add(directory, name, &part)
}

/// The least and the most of some figures, of which there is one.
pub(super) fn least_and_most(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), n| (least.min(n), most.max(n)))
}

/// A drawing that went wrong, as an error of ours.
pub(super) fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("the plot cannot be drawn: {error}")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_result_is_written_in_three_forms_and_on_the_page_of_all() {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("a/b");
        write(&inner, ("pond", "a < b & c"), "{}\n", "<svg/>").unwrap();
        let read = |name: &str| fs::read_to_string(inner.join(name)).unwrap();
        assert_eq!((read("pond.json"), read("pond.svg")), ("{}\n".into(), "<svg/>".into()));
        for page in ["pond.html", "index.html"] {
            assert!(read(page).contains("<svg/>\n<pre style=\"overflow-x:auto\">a &lt; b &amp; c</pre>"), "{page}");
        }
        let forms = Forms { out: Some(inner.join("pond.json")), ..Forms::default() };
        assert!(forms.start(1).unwrap_err().to_string().contains("pond.json cannot be made"), "before anything is run");
        let error = write(&inner.join("pond.json"), ("pond", ""), "", "").unwrap_err().to_string();
        assert!(error.contains("pond.json cannot be made"), "{error}");
    }
}
