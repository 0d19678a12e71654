//! The tables as text: ours, and the series' below.

use std::fmt::Write;

use comfy_table::Table;

use super::measure::{Column, Outcome, Range, Set};
use super::published::Published;
use crate::report::plain;

/// A figure of a column, and its name.
type Figure = (&'static str, fn(&Column) -> Option<f64>);

const FIGURES: [Figure; 3] = [
    ("zone-lock acquisitions", |column| Some(column.zone_locks_per_1000)),
    ("frames moved under the zone lock", |column| Some(column.frames_moved_per_1000)),
    ("instructions in the allocator", |column| column.instructions_per_message.map(|count| count * 1000.0)),
];

/// A figure's range in a column.
type RangeOf = fn(&Column) -> Range;

/// The same figures' ranges.
const RANGES: [(&str, RangeOf); 2] =
    [(FIGURES[0].0, |column| column.zone_locks_range), (FIGURES[1].0, |column| column.frames_moved_range)];

/// All sets, and the published tables if there are any.
pub(super) fn all(outcome: &Outcome, published: &[Published]) -> String {
    let mut text = String::new();
    for set in &outcome.sets {
        for (name, figure) in FIGURES {
            if let Some(table) = one(set, figure) {
                let _ = writeln!(text, "{}, {}: {name} for 1000 {}", outcome.workload, set.name, outcome.unit);
                push(&mut text, &table);
            }
        }
        for (name, range) in RANGES.iter().filter(|_| outcome.iterations > 1) {
            let (workload, runs, unit) = (outcome.workload, outcome.iterations, outcome.unit);
            let _ = writeln!(text, "{workload}, {}: {name} for 1000 {unit}, least to most of {runs} runs", set.name);
            push(&mut text, &ranges(set, *range));
        }
    }
    for table in published {
        let _ = writeln!(
            text,
            "High-order per-CPU lists (2016): hackbench, pipes and processes, one socket, {} in seconds",
            table.name
        );
        push(&mut text, &seed(table));
    }
    if let Some(note) = control(outcome) {
        let _ = writeln!(text, "{note}");
    }
    let _ = writeln!(
        text,
        "Percent: gained against the first column, lists for order 0 only (Linux 4.9). 2016: High-order per-CPU lists (2016), called highmark.\n\
         {} CPUs in turn, {}; counted, not timed. Every frame was accounted for after every run.",
        outcome.cpus,
        seeds(outcome)
    );
    text
}

/// Which seeds the runs had.
fn seeds(outcome: &Outcome) -> String {
    match outcome.iterations {
        1 => format!("seed {}", outcome.seed),
        runs => format!("means of {runs} runs, seeds from {}", outcome.seed),
    }
}

/// The control's finding, if the workload is the control: it frees nothing.
fn control(outcome: &Outcome) -> Option<String> {
    let mut columns = outcome.sets.iter().flat_map(|set| &set.rows).map(|row| &row.columns);
    if !columns.clone().flatten().all(|column| column.counts.frees == 0) {
        return None;
    }
    let [off, seed, ..] = columns.next()?.as_slice() else { return None };
    Some(format!(
        "The control: nothing is freed, so no list gives a frame twice, and each moves under the zone lock once: {:.3} moves a frame\n\
         with off, {:.3} with 2016, what lists still hold included. Locks differ all the same, because one lock serves more blocks:\n\
         off has no list for the inodes' slabs of order 3 and takes it for each, {:.0} times for 1000 files; 2016 takes 31 blocks at\n\
         once; from 5.14 on the batch is 63 frames, not 31, whatever the order; 6.7 and the default take more in a streak. High-order per-CPU lists (2016) saw\n\
         no difference in seconds.",
        off.moved_per_frame, seed.moved_per_frame, off.zone_locks_per_1000
    ))
}

fn push(text: &mut String, table: &Table) {
    for line in table.to_string().lines() {
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text.push('\n');
}

fn one(set: &Set, figure: fn(&Column) -> Option<f64>) -> Option<Table> {
    let presets = set.rows.first()?.columns.iter().map(|column| column.preset.to_owned());
    let mut table = plain(std::iter::once(String::new()).chain(presets).collect::<Vec<_>>(), 1);
    for row in &set.rows {
        let values: Vec<f64> = row.columns.iter().map(figure).collect::<Option<_>>()?;
        let base = values.first().copied().unwrap_or_default();
        let cell = |value: &f64| format!("{value:.2} ({:.2}%)", gain(base, *value));
        table.add_row(std::iter::once(row.name.clone()).chain(values.iter().map(cell)).collect::<Vec<_>>());
    }
    Some(table)
}

fn ranges(set: &Set, range: RangeOf) -> Table {
    let presets = set.rows.iter().take(1).flat_map(|row| &row.columns).map(|column| column.preset.to_owned());
    let mut table = plain(std::iter::once(String::new()).chain(presets).collect::<Vec<_>>(), 1);
    for row in &set.rows {
        let cells = row.columns.iter().map(range).map(|Range { min, max }| format!("{min:.2} to {max:.2}"));
        table.add_row(std::iter::once(row.name.clone()).chain(cells).collect::<Vec<_>>());
    }
    table
}

/// Percent by which a value is less than the first.
pub(super) fn gain(base: f64, value: f64) -> f64 {
    if base == 0.0 { 0.0 } else { 100.0 * (base - value) / base }
}

fn seed(published: &Published) -> Table {
    let mut table = plain(["", "4.9.0-rc5 vanilla", "highmark-v1r12"], 1);
    for row in &published.rows {
        let patched = format!("{:.4} ({:.2}%)", row.patched, row.gain);
        table.add_row([row.groups.to_string(), format!("{:.4} (0.00%)", row.vanilla), patched]);
    }
    table
}
