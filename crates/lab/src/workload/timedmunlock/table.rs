//! The tables as text: ours in the series' form, the series' below.

use std::fmt::Write;

use comfy_table::Table;

use super::measure::{Outcome, Set};
use super::published::{Published, PublishedRow};
use super::{COLUMNS, heading};
use crate::report::plain;

/// All sets.
pub(super) fn all(outcome: &Outcome, published: &[Published]) -> String {
    let mut text = String::new();
    for set in &outcome.sets {
        let theirs = published.iter().find(|published| Some(published.placement) == set.placement);
        let table = one(set, theirs);
        let lines: Vec<String> = table.to_string().lines().map(|line| line.trim_end().to_owned()).collect();
        let _ = writeln!(text, "timedmunlock, {} ({} pages)\n{}\n", set.name, set.pages, lines.join("\n"));
    }
    let others = outcome.threads - 1;
    let _ = writeln!(
        text,
        "Percent: gained against column 0. Columns 1 to 7: the first so many patches of the series. CPU: time of the unlocking\n\
         thread on its CPU, without what other programs took. {} runs of each column, order seed {}, {others} other CPU{} at work\n\
         on the lists. NR_MLOCK, lists and references were checked after every set.",
        outcome.iterations,
        outcome.seed,
        if others == 1 { "" } else { "s" }
    );
    text
}

fn one(set: &Set, theirs: Option<&Published>) -> Table {
    let header = std::iter::once(String::new()).chain((0..COLUMNS).map(heading));
    let mut table = plain(header.collect::<Vec<_>>(), 1);
    let wall = |row: usize| set.columns.iter().map(|column| column.elapsed_s.rows()[row].1).collect::<Vec<_>>();
    let names = set.columns.first().map(|column| column.elapsed_s.rows().map(|(name, _)| name)).unwrap_or_default();
    for (row, name) in names.into_iter().enumerate() {
        table.add_row(with_gains(&format!("Elapsed {name}"), &wall(row), 4));
    }
    let cpu: Vec<f64> = set.columns.iter().map(|column| column.cpu_s.mean).collect();
    table.add_row(with_gains("CPU mean", &cpu, 4));
    let least: Vec<f64> = set.columns.iter().map(|column| column.cpu_ns_per_page).collect();
    table.add_row(with_gains("CPU min, ns a page", &least, 2));
    let instructions: Option<Vec<f64>> = set.columns.iter().map(|column| column.instructions_per_page).collect();
    if let Some(instructions) = instructions {
        table.add_row(with_gains("Instructions a page", &instructions, 1));
    }
    for row in theirs.map(|theirs| theirs.rows.as_slice()).unwrap_or_default() {
        table.add_row(published(row));
    }
    table
}

/// A row of values, each with its gain against the first.
fn with_gains(name: &str, values: &[f64], digits: usize) -> Vec<String> {
    let base = values.first().copied().unwrap_or_default();
    let cell = |value: &f64| {
        let gain = if base == 0.0 { 0.0 } else { 100.0 * (base - value) / base };
        format!("{value:.digits$} ({gain:.2}%)")
    };
    std::iter::once(name.to_owned()).chain(values.iter().map(cell)).collect()
}

fn published(row: &PublishedRow) -> Vec<String> {
    let cells = row.columns.iter().map(|(seconds, gain)| format!("{seconds:.2} ({gain:.2}%)"));
    std::iter::once(format!("Seed: {}", row.name)).chain(cells).collect()
}
