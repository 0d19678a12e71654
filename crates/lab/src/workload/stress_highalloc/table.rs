//! The tables as text: the series' rows, its value and ours beside each other in every column.

use std::fmt::Write;

use comfy_table::Table;

use super::outcome::{Outcome, PHASES, Set, Spread};
use super::published::{COLUMNS, Published, PublishedRow};
use crate::report::plain;

/// All sets.
pub(super) fn all(outcome: &Outcome, published: &[Published]) -> String {
    let mut text = String::new();
    for (set, theirs) in outcome.sets.iter().zip(published) {
        let attempts = set.columns.iter().flat_map(|column| &column.runs).map(|run| run.attempts).next().unwrap_or(0);
        let _ = writeln!(
            text,
            "stress-highalloc, {}, {attempts} attempts a phase: published | simulation",
            set.flags.name()
        );
        for table in [successes(set, theirs), counters(set, theirs)] {
            let lines: Vec<String> = table.to_string().lines().map(|line| line.trim_end().to_owned()).collect();
            let _ = writeln!(text, "{}\n", lines.join("\n"));
        }
    }
    let _ = writeln!(
        text,
        "Success: percent of the attempts, rounded down; phases 1 and 2 on a busy machine, phase 3 on one at rest. Columns 2 to 6:\n\
         Linux 3.13 with the first so many patches of the series; default: this project's. {} runs of each column from seed {} on, on\n\
         a machine of {} MiB (the series': 4096; a smaller one gets less of everything for a shorter time). Counters are means over the\n\
         runs. \"-\": the series has no such column, or the simulated machine no such thing.",
        outcome.iterations,
        outcome.seed,
        outcome.memory_bytes >> 20
    );
    text
}

fn empty(set: &Set) -> Table {
    let header = std::iter::once(String::new()).chain(set.columns.iter().map(|column| column.name.clone()));
    plain(header.collect::<Vec<_>>(), 1)
}

/// Place of a column in the published tables.
fn theirs_of(name: &str) -> Option<usize> {
    name.parse::<usize>().ok().and_then(|patches| patches.checked_sub(2)).filter(|place| *place < COLUMNS)
}

fn cell(theirs: Option<f64>, ours: Option<f64>) -> String {
    let show = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), short);
    format!("{} | {}", show(theirs), show(ours))
}

/// Whole numbers as such, small ones with two digits.
fn short(value: f64) -> String {
    if value.fract() == 0.0 || value.abs() >= 10_000.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

/// One figure of a spread.
type Part = fn(Spread) -> f64;

fn successes(set: &Set, theirs: &Published) -> Table {
    let mut table = empty(set);
    let parts: [(&str, Part); 3] = [("Min", |s| s.min), ("Mean", |s| s.mean), ("Max", |s| s.max)];
    for phase in 0..PHASES {
        for (part, of) in parts {
            let name = format!("Success {} {part}", phase + 1);
            let row = theirs.success.iter().find(|row| row.name == name);
            let cells = set.columns.iter().map(|column| {
                let published = row.zip(theirs_of(&column.name)).map(|(row, place)| row.values[place]);
                cell(published, Some(of(column.success(phase))))
            });
            table.add_row(std::iter::once(name.clone()).chain(cells).collect::<Vec<_>>());
        }
    }
    table
}

fn counters(set: &Set, theirs: &Published) -> Table {
    let mut table = empty(set);
    for row in &theirs.rows {
        let PublishedRow { name, values } = row;
        let cells = set.columns.iter().map(|column| {
            let published = theirs_of(&column.name).map(|place| values[place]);
            cell(published, column.mean(name))
        });
        table.add_row(std::iter::once(name.clone()).chain(cells).collect::<Vec<_>>());
    }
    table
}
