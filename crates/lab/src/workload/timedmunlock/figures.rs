//! The series' tables with our values: seconds of CPU of the unlocking thread, so that other programs take nothing
//! away.

use super::measure::{Column, Outcome};
use crate::workload::figure::{Better, Figures, Place};

/// What was found, beside what was published.
pub(super) fn figures(outcome: &Outcome) -> anyhow::Result<Figures> {
    let mut figures = Figures::read("munlock")?;
    for set in &outcome.sets {
        for column in &set.columns {
            for (row, value) in column.cpu_s.rows() {
                // Of the mean, every run is known.
                let values = if row == "mean" { column.samples_s.clone() } else { vec![value] };
                figures.measure(Place { figure: set.name, row, column: &column.name }, values);
            }
        }
    }
    figures.add("by page", "ns of CPU, the least of the runs", Better::Less);
    all(&mut figures, outcome, "by page", |column| Some(column.cpu_ns_per_page));
    figures.add("instructions a page", "instructions", Better::Less);
    all(&mut figures, outcome, "instructions a page", |column| column.instructions_per_page);
    Ok(figures)
}

/// A table with a row for each set.
fn all(figures: &mut Figures, outcome: &Outcome, figure: &str, of: impl Fn(&Column) -> Option<f64>) {
    for set in &outcome.sets {
        for column in &set.columns {
            figures.measure(Place { figure, row: set.name, column: &column.name }, of(column));
        }
    }
}
