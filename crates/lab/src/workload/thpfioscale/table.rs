//! The tables as text: the series' rows beside ours.

use std::fmt::Write;

use comfy_table::Table;

use super::super::output::least_and_most;
use super::column::Column;
use super::measure::{Cell, Outcome, Part, Run};
use super::published::Published;
use crate::report::plain;

/// All of it.
pub(super) fn all(outcome: &Outcome, published: &Published) -> String {
    let mut text = String::new();
    for part in &outcome.parts {
        let table = block(part, published).to_string();
        let trimmed = table.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        let _ = writeln!(text, "{}\n{trimmed}\n", part.block.title());
    }
    let _ = write!(
        text,
        "{} MiB a node, {} runs of each column, seed {}; the published machines had 32 GiB a node. Events: requests that were served from\n\
         less than a pageblock of another migrate type, while files were written, read, and while threads touched. Latency: to\n\
         get and fill 2 MiB, as 512 pages or as a huge one. Stalls: of patch 4, up to 4, 8, 12, 16, 20 ms, and longer. Two nodes\n\
         have the memory twice. Mean of all runs; in brackets least and most.\n",
        outcome.memory_bytes >> 20,
        outcome.iterations,
        outcome.seed,
    );
    text
}

/// A row's name, and its value for a column.
type Row<'a> = (&'static str, Box<dyn Fn(&Cell) -> String + 'a>);

fn block(part: &Part, published: &Published) -> Table {
    let header = [""].into_iter().chain(part.cells.iter().map(|cell| cell.column.name()));
    let mut table = plain(header.collect::<Vec<_>>(), 1);
    let rows = events_rows(part, published).into_iter().chain(other_rows(part, published));
    for (name, of) in rows {
        table.add_row([name.to_owned()].into_iter().chain(part.cells.iter().map(of)));
    }
    table
}

fn percent_less(value: f64, than: f64) -> String {
    if than == 0.0 { String::new() } else { format!("{:.1} %", 100.0 * (value - than) / than) }
}

fn events_rows<'a>(part: &'a Part, published: &'a Published) -> Vec<Row<'a>> {
    let key = part.block.key();
    let seed = move |column: Column| published.events(key, column);
    let vanilla = part.cells.first().map_or(0.0, events);
    vec![
        ("events, published", Box::new(move |cell| seed(cell.column).map_or(String::new(), |n| n.to_string()))),
        (
            "  against vanilla",
            Box::new(move |cell| match (seed(cell.column), seed(Column::Vanilla)) {
                (Some(n), Some(all)) if cell.column != Column::Vanilla => percent_less(n as f64, all as f64),
                _ => String::new(),
            }),
        ),
        ("events, here", Box::new(|cell| ranged(cell, |run| run.events as f64))),
        (
            "  against vanilla",
            Box::new(move |cell| match cell.column {
                Column::Vanilla => String::new(),
                _ => percent_less(events(cell), vanilla),
            }),
        ),
        (
            "  by phase",
            Box::new(|cell| {
                let of = |phase: usize| cell.mean(|run| run.events_by_phase[phase] as f64);
                format!("{:.0} + {:.0} + {:.0}", of(0), of(1), of(2))
            }),
        ),
    ]
}

fn other_rows<'a>(part: &'a Part, published: &'a Published) -> Vec<Row<'a>> {
    let key = part.block.key();
    let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.2}"));
    vec![
        ("huge %, published", Box::new(move |cell| number(published.huge_percent(key, cell.column)))),
        ("huge %, here", Box::new(|cell| ranged(cell, Run::huge_percent))),
        ("us by pages, published", Box::new(move |cell| number(published.base_latency(key, cell.column)))),
        ("us by pages, here", Box::new(|cell| latency(cell, |run| run.base_latency_us))),
        ("us huge, published", Box::new(move |cell| number(published.huge_latency(key, cell.column)))),
        ("us huge, here", Box::new(|cell| latency(cell, |run| run.huge_latency_us))),
        (
            "stalls, published",
            Box::new(move |cell| match published.stalls(key, cell.column) {
                Some((count, seconds)) => format!("{count} in {seconds} s"),
                None => String::new(),
            }),
        ),
        ("stalls, here", Box::new(stalls)),
        ("  by duration", Box::new(durations)),
        ("pages refused", Box::new(|cell| format!("{:.0}", cell.mean(|run| run.failed as f64)))),
    ]
}

/// Mean number of events.
pub(super) fn events(cell: &Cell) -> f64 {
    cell.mean(|run| run.events as f64)
}

fn ranged(cell: &Cell, of: impl Fn(&Run) -> f64) -> String {
    let mean = cell.mean(&of);
    let digits = usize::from(mean.fract() != 0.0) * 2;
    if cell.runs.len() < 2 {
        return format!("{mean:.digits$}");
    }
    let (least, most) = least_and_most(cell.runs.iter().map(&of));
    format!("{mean:.digits$} ({least:.0}-{most:.0})")
}

fn latency(cell: &Cell, of: impl Fn(&Run) -> Option<f64>) -> String {
    let values: Vec<f64> = cell.runs.iter().filter_map(of).collect();
    if values.is_empty() {
        return String::new();
    }
    format!("{:.2}", values.iter().sum::<f64>() / values.len() as f64)
}

fn stalls(cell: &Cell) -> String {
    let (count, seconds) = (cell.mean(|run| run.stalls as f64), cell.mean(|run| run.stalled_ns as f64) / 1e9);
    if count == 0.0 { "0".to_owned() } else { format!("{count:.0} in {seconds:.3} s") }
}

fn durations(cell: &Cell) -> String {
    if cell.runs.iter().all(|run| run.stalls == 0) {
        return String::new();
    }
    let class = |class: usize| format!("{:.0}", cell.mean(|run| run.stall_durations[class] as f64));
    (0..pageblock::STALL_BUCKETS).map(class).collect::<Vec<_>>().join(" ")
}
