//! The tables: for hackbench the series', and for all what was counted.

use super::Kind;
use super::measure::{Column, Outcome, Set};
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
        if kind == Kind::Hackbench {
            seconds(&mut figures, set);
        }
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

/// Seconds of a run, and their deviation over the runs: published for pipes.
fn seconds(figures: &mut Figures, set: &Set) {
    let published = set.name.starts_with("pipes");
    let figure = |name: &str| if published { name.to_owned() } else { format!("{}: {name}", set.name) };
    let [mean, deviation, waiting] = ["Amean", "Stddev", "waiting for the zone lock"].map(figure);
    for name in [&mean, &deviation, &waiting] {
        figures.add(name, "s", Better::Less);
    }
    for row in &set.rows {
        let name = format!("{} groups", row.name);
        for column in &row.columns {
            let mut measure = |figure: &str, values: Vec<f64>| {
                figures.measure(Place { figure, row: &name, column: column.preset }, values);
            };
            measure(&mean, column.seconds.clone());
            measure(&waiting, column.waited.clone());
            if column.seconds.len() > 1 {
                measure(&deviation, vec![deviation_of(&column.seconds)]);
            }
        }
    }
}

/// Of a sample: the divisor is one less than the number of values.
fn deviation_of(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64).sqrt()
}
