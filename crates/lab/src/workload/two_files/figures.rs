//! The tables: allocations while memory lasts were published, the rest is what follows from the rules.

use super::measure::{Outcome, Run};
use super::scene::Pair;
use crate::workload::figure::{Better, Figures, Place};
use crate::workload::tiobench::heading;

/// A figure of a run for each of the two zones.
type OfZones = fn(&Run) -> Pair;
/// A figure of a run.
type Of = fn(&Run) -> u64;

const FILLED: &str = "allocations while memory lasts";
const BY_ZONE: [(&str, OfZones); 5] = [
    (FILLED, |run| run.filled),
    ("pages of the first file after the last pass", |run| {
        run.passes.last().map_or_else(Pair::default, |pass| pass.first)
    }),
    ("pages of the second file after the last pass", |run| {
        run.passes.last().map_or_else(Pair::default, |pass| pass.second)
    }),
    ("scanned while the second file is read", |run| run.scanned_passes),
    ("scanned after the kernel took DMA32 below high", |run| run.released),
];
const WHOLE: [(&str, Of); 3] = [
    ("pages of a stream that were still there when it ended", |run| run.cycle),
    ("least free in DMA32", |run| run.least_free),
    ("low and reserve of DMA32", |run| run.low_reserve),
];
const MISSES: &str = "pages that the second file misses";

/// What was found, beside what was published.
pub(super) fn figures(outcome: &Outcome) -> anyhow::Result<Figures> {
    let mut figures = Figures::read("fair zones")?;
    figures.add(MISSES, "pages", Better::Less);
    BY_ZONE[1..].iter().for_each(|(name, _)| figures.add(name, "frames", Better::Neither));
    figures.add("frames", "frames", Better::Neither);
    for of in &outcome.rows {
        let column = heading(of.variant);
        let mut measure = |figure: &str, row: &str, of_run: &dyn Fn(&Run) -> u64| {
            figures.measure(Place { figure, row, column: &column }, of.runs.iter().map(|run| of_run(run) as f64));
        };
        for pass in 0..outcome.passes as usize {
            let misses = |run: &Run| run.passes.get(pass).map_or(0, |pass| pass.misses);
            measure(MISSES, &format!("pass {}", pass + 1), &misses);
        }
        for (figure, of_zones) in BY_ZONE {
            measure(figure, "DMA32", &|run| of_zones(run).dma32);
            measure(figure, "Normal", &|run| of_zones(run).normal);
        }
        WHOLE.iter().for_each(|(row, of_run)| measure("frames", row, of_run));
    }
    Ok(figures)
}
