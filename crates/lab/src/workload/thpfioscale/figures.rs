//! The series' tables with our values, and what else a run tells.

use super::column::Block;
use super::measure::{Cell, Outcome, Run};
use crate::workload::figure::{Better, Figures, Place};

/// A figure of a run, if there is one.
type Of = fn(&Run) -> Option<f64>;

/// What has one figure a run, by the published table's name.
const SINGLE: [(&str, Of); 5] = [
    ("events", |run| Some(run.events as f64)),
    ("huge pages", |run| Some(run.huge_percent())),
    ("stalls", |run| Some(run.stalls as f64)),
    ("stalled", |run| Some(run.stalled_ns as f64 / 1e9)),
    ("length of a run", |run| Some(run.simulated_ns as f64 / 60e9)),
];
/// By how the memory of a slot came.
const LATENCY: [(&str, Of); 2] = [("base", |run| run.base_latency_us), ("huge", |run| run.huge_latency_us)];
/// Those that were not published.
const OWN: [(&str, &str, Of); 5] = [
    ("events while writing", "events", |run| Some(run.events_by_phase[0] as f64)),
    ("events while reading", "events", |run| Some(run.events_by_phase[1] as f64)),
    ("events while touching", "events", |run| Some(run.events_by_phase[2] as f64)),
    ("longest stall", "ms", |run| Some(run.longest_stall_ns as f64 / 1e6)),
    ("pages refused", "pages", |run| Some(run.failed as f64)),
];
/// The block whose stalls were published by duration, and the classes.
const BY_DURATION: &str = "stalls by duration: one node, advised";
const CLASSES: [&str; pageblock::STALL_BUCKETS] = ["4 ms", "8 ms", "12 ms", "16 ms", "20 ms", "longer"];

/// What was found, beside what was published.
pub(super) fn figures(outcome: &Outcome) -> anyhow::Result<Figures> {
    let mut figures = Figures::read("fragmentation")?;
    OWN.iter().for_each(|(name, unit, _)| figures.add(name, unit, Better::Less));
    for part in &outcome.parts {
        part.cells.iter().for_each(|cell| fill(&mut figures, part.block, cell));
    }
    Ok(figures)
}

fn fill(figures: &mut Figures, block: Block, cell: &Cell) {
    let column = cell.column.name();
    let mut measure = |figure: &str, row: &str, of: &dyn Fn(&Run) -> Option<f64>| {
        figures.measure(Place { figure, row, column: &column }, cell.runs.iter().filter_map(of));
    };
    for (figure, of) in SINGLE.into_iter().chain(OWN.map(|(name, _, of)| (name, of))) {
        measure(figure, block.name(), &of);
    }
    for (kind, of) in LATENCY {
        measure("fault latency", &format!("{}: {kind}", block.name()), &of);
    }
    if cell.column.stalls() && (block == Block { nodes: 1, advised: true }) {
        for (class, row) in CLASSES.iter().enumerate() {
            measure(BY_DURATION, row, &|run: &Run| Some(run.stall_durations[class] as f64));
        }
    }
}
