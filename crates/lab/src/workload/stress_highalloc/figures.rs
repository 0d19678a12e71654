//! The series' tables with our values.

use super::outcome::{Column, Outcome, PHASES};
use crate::workload::figure::{Figures, Place};
use crate::workload::output::least_and_most;

/// What was found, beside what was published.
pub(super) fn figures(outcome: &Outcome) -> anyhow::Result<Figures> {
    let mut figures = Figures::read("compaction")?;
    for set in &outcome.sets {
        for column in &set.columns {
            successes(&mut figures, set.flags.name(), column);
            counters(&mut figures, set.flags.name(), column);
        }
    }
    Ok(figures)
}

fn successes(figures: &mut Figures, flags: &str, column: &Column) {
    for phase in 0..PHASES {
        let all: Vec<f64> = column.runs.iter().map(|run| run.success[phase] as f64).collect();
        let (least, most) = least_and_most(all.iter().copied());
        for (part, values) in [("Min", vec![least]), ("Mean", all), ("Max", vec![most])] {
            let row = format!("{} {part}", phase + 1);
            let figure = format!("success {flags}");
            figures.measure(Place { figure: &figure, row: &row, column: &column.name }, values);
        }
    }
}

/// A counter that was not published comes behind those that were.
fn counters(figures: &mut Figures, flags: &str, column: &Column) {
    let ending = format!(" {flags}");
    let names: Vec<&str> = column.runs.iter().take(1).flat_map(|run| &run.counters).map(|(name, _)| *name).collect();
    for name in names {
        let figure = figures.of_row(&ending, name).map(|figure| figure.name.clone());
        let figure = figure.unwrap_or_else(|| format!("counters {flags}"));
        let values = column.runs.iter().filter_map(|run| run.counter(name));
        figures.measure(Place { figure: &figure, row: name, column: &column.name }, values);
    }
}
