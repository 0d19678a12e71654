//! The tables: for hackbench the series', and for all what was counted.

use super::Kind;
use super::measure::{Column, Outcome};
use crate::workload::figure::{Better, Figures, Place};

/// Values of a column's runs.
type Of = fn(&Column) -> Vec<f64>;

const COUNTED: [(&str, Of); 4] = [
    ("zone-lock acquisitions", |column| column.zone_locks.clone()),
    ("frames moved under the zone lock", |column| column.frames_moved.clone()),
    ("moves of a frame that was allocated", |column| vec![column.moved_per_frame]),
    ("instructions in the allocator", |column| {
        column.instructions_per_message.iter().map(|count| count * 1000.0).collect()
    }),
];

/// What was found, beside what was published.
pub(super) fn figures(kind: Kind, outcome: &Outcome) -> anyhow::Result<Figures> {
    let mut figures = Figures::read("lists")?;
    for set in &outcome.sets {
        for (name, of) in COUNTED {
            let figure = format!("{}, {}: {name}", kind.name(), set.name);
            figures.add(&figure, &format!("for 1000 {}", outcome.unit), Better::Less);
            for row in &set.rows {
                for column in &row.columns {
                    figures.measure(Place { figure: &figure, row: &row.name, column: column.preset }, of(column));
                }
            }
        }
    }
    Ok(figures)
}
