//! The series' tables with our values.

use super::measure::{Outcome, Row, Run, ZoneFigures, dma32_share};
use super::phase::{Figures as Phase, Op};
use super::variant::Variant;
use crate::workload::figure::{Figures, Place};
use crate::workload::output::least_and_most;

/// Seconds of a run.
type Seconds = fn(&Run) -> f64;

/// What was found, beside what was published.
pub(super) fn figures(outcome: &Outcome) -> anyhow::Result<Figures> {
    let mut figures = Figures::read("fair zones")?;
    for row in &outcome.rows {
        for op in Op::ALL {
            outcome.threads.iter().for_each(|threads| phase(&mut figures, row, op, *threads));
        }
        whole(&mut figures, row);
    }
    Ok(figures)
}

/// A column's heading: the publication's where it has such a kernel.
pub(crate) fn heading(variant: Variant) -> String {
    match variant {
        Variant::Linux316 => "3.16".to_owned(),
        Variant::SeriesClassZone => "class zone restored".to_owned(),
        other => {
            clap::ValueEnum::to_possible_value(&other).map_or_else(String::new, |value| value.get_name().to_owned())
        }
    }
}

/// On the other machine 3.0 was measured, which had no fair-zone policy.
fn other_heading(variant: Variant) -> Option<&'static str> {
    match variant {
        Variant::Linux316 => Some("3.16"),
        Variant::FairOff => Some("3.0"),
        Variant::Series => Some("series"),
        Variant::Default => Some("default"),
        _ => None,
    }
}

fn phase(figures: &mut Figures, of: &Row, op: Op, threads: u32) {
    let (row, column) = (format!("{threads} threads"), heading(of.variant));
    let name = format!("{op:?}");
    let throughput = of.phases(op, threads, |phase: &Phase| phase.throughput);
    let least = least_and_most(throughput.iter().copied()).0;
    figures.measure(Place { figure: &name, row: &row, column: &column }, throughput);
    let longest = of.phases(op, threads, |phase| phase.max_latency_ms);
    let figure = format!("{name}, longest wait");
    figures.measure(Place { figure: &figure, row: &row, column: &column }, longest);
    if let Some(column) = other_heading(of.variant) {
        let figure = format!("{name}, other machine, least of the runs");
        figures.measure(Place { figure: &figure, row: &row, column }, [least]);
    }
}

/// Figures of a run from boot to the last phase.
fn whole(figures: &mut Figures, of: &Row) {
    let column = heading(of.variant);
    let zones = |kind: &str, figure: fn(&ZoneFigures) -> f64| {
        let sum = |run: &Run| run.zones.iter().filter(|zone| zone.kind == kind).map(figure).sum();
        of.runs.iter().map(sum).collect::<Vec<f64>>()
    };
    for row in ["DMA32", "Normal"] {
        figures.measure(Place { figure: "scanned a second", row, column: &column }, zones(row, |zone| zone.velocity));
        let dma32 = of.runs.iter().map(|run| dma32_share(&run.zones, |zone| zone.allocs));
        let shares = dma32.map(|share| if row == "DMA32" { share } else { 100.0 - share });
        figures.measure(Place { figure: "allocations by zone", row, column: &column }, shares);
    }
    let seconds: [(&str, Seconds); 3] =
        [("User", |run| run.user_seconds), ("System", |run| run.system_seconds), ("Elapsed", |run| run.seconds)];
    for (row, figure) in seconds {
        figures.measure(Place { figure: "seconds", row, column: &column }, of.runs.iter().map(figure));
        if let Some(column) = other_heading(of.variant) {
            figures.measure(Place { figure: "seconds, other machine", row, column }, of.runs.iter().map(figure));
        }
    }
}
