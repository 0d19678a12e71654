//! What a measured Linux 6.1 did, and what is done under its rules and ours.

use super::measure::{Outcome, Row, Run};
use crate::workload::figure::{Better, Figures, Place};

/// A figure of a run.
type Of = fn(&Run) -> f64;

/// By pattern, share and flags; the name goes on with the patience.
const LINES: [(&str, Of); 9] = [
    ("order-9 blocks", |run| run.got as f64),
    ("blocks at rest", |run| (run.at_rest - run.got) as f64),
    ("percent of the free pages", Run::percent_of_free),
    ("stalls", |run| run.stalls as f64),
    ("stalls that got a block", |run| run.successes as f64),
    ("migrate scanned", |run| run.migrate_scanned as f64),
    ("free scanned", |run| run.free_scanned as f64),
    ("moved", |run| run.migrated as f64),
    ("cache given up", |run| run.cache[0] as f64 - run.cache[1] as f64),
];
/// By pattern and share.
const FILLS: [(&str, Of); 4] = [
    ("pageblocks with kernel pages", |run| run.kernel_blocks.filled as f64),
    ("fewest that could hold them", |run| run.fewest_blocks.filled as f64),
    ("after a half was freed", |run| run.kernel_blocks.halved as f64),
    ("unusable index of order 9", |run| run.unusable_index),
];
const USABLE: &str = "percent of the free pages above what zones keep";

/// What was found, beside what Linux did on the machine of this size.
pub(super) fn figures(outcome: &Outcome, is_measured_size: bool) -> anyhow::Result<Figures> {
    let mut figures = Figures::read("highalloc")?;
    figures.add(USABLE, "%", Better::More);
    for row in &outcome.rows {
        fill(&mut figures, outcome.patience, row);
    }
    if !is_measured_size {
        figures.forget_published();
    }
    Ok(figures)
}

fn fill(figures: &mut Figures, patience: u32, of: &Row) {
    let column = of.preset.name();
    let fill = format!("{} {} %", of.pattern.name(), of.share);
    let line = format!("{fill} {}", of.flags);
    let mut measure = |figure: &str, row: &str, value: Of| {
        figures.measure(Place { figure, row, column }, of.runs.iter().map(value));
    };
    for (name, value) in LINES {
        measure(&format!("{name}, {patience} failures"), &line, value);
    }
    measure(USABLE, &line, Run::percent_of_usable);
    // The fill does not depend on the flags of the requests that follow.
    FILLS.iter().for_each(|(name, value)| measure(name, &fill, *value));
}
