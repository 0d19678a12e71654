//! The tables as text.

use std::fmt::Write;

use comfy_table::Table;

use super::super::output::range;
use super::measure::{Outcome, Pass, Row, Run};
use super::published::Allocations;
use crate::report::{plain, trimmed};

/// All tables.
pub(super) fn all(outcome: &Outcome, published: &[Allocations]) -> String {
    let pages = outcome.rows.first().map_or(0.0, |row| row.mean(|run| run.file_pages));
    let mut text =
        format!("two-files, pages of {pages:.0} that the second file misses, by pass\n{}\n\n", misses(outcome));
    let _ = writeln!(text, "Pages in memory after the last pass, by file and zone\n{}\n", resident(outcome));
    let _ = writeln!(text, "Zones\n{}\n", zones(outcome, published));
    let _ = writeln!(
        text,
        "{} MiB of memory, {} run{} of each, seed {}. Both files are a fifth larger than Normal and fit in memory: the first is read once,\n\
         the second {} times. Then both are deleted. Cycle: pages at the end of a third, twice as large\n\
         as memory, of which none is gone when it has been read. Released:\n\
         frames of DMA32 looked at after the kernel took it below its high watermark. In brackets: least and most of the runs.",
        outcome.memory_bytes >> 20,
        outcome.iterations,
        if outcome.iterations == 1 { "" } else { "s" },
        outcome.seed,
        outcome.passes
    );
    text
}

/// A figure that the series gives for a zone.
type Theirs = fn(&Allocations) -> u64;

/// A figure of a run.
type Figure<'a> = Box<dyn Fn(&Run) -> u64 + 'a>;

/// Mean, and least and most of several runs.
fn row(table: &mut Table, of: &Row, figures: &[Figure<'_>]) {
    let cells = figures.iter().map(|figure| {
        let values: Vec<f64> = of.runs.iter().map(|run| figure(run) as f64).collect();
        format!("{:.0}", of.mean(figure)) + &range(&values, 0)
    });
    table.add_row(std::iter::once(of.variant.title().to_owned()).chain(cells));
}

fn misses(outcome: &Outcome) -> String {
    let passes = 0..outcome.passes as usize;
    let header = std::iter::once(String::new()).chain(passes.clone().map(|pass| (pass + 1).to_string()));
    let mut table = plain(header.chain(["all".to_owned()]).collect::<Vec<_>>(), 1);
    let one = |pass: usize| -> Figure<'_> { Box::new(move |run| run.passes.get(pass).map_or(0, |pass| pass.misses)) };
    let all: Figure<'_> = Box::new(|run| run.passes.iter().map(|pass| pass.misses).sum());
    let figures: Vec<Figure<'_>> = passes.map(one).chain([all]).collect();
    outcome.rows.iter().for_each(|of| row(&mut table, of, &figures));
    trimmed(&table)
}

fn resident(outcome: &Outcome) -> String {
    let header = ["", "first: DMA32", "Normal", "second: DMA32", "Normal"];
    let mut table = plain(header, 1);
    let last = |what: fn(&Pass) -> u64| -> Figure<'_> { Box::new(move |run| run.passes.last().map_or(0, what)) };
    let figures = [
        last(|pass| pass.first.dma32),
        last(|pass| pass.first.normal),
        last(|pass| pass.second.dma32),
        last(|pass| pass.second.normal),
    ];
    outcome.rows.iter().for_each(|of| row(&mut table, of, &figures));
    trimmed(&table)
}

fn zones(outcome: &Outcome, published: &[Allocations]) -> String {
    let header = [
        "",
        "filled: DMA32",
        "Normal",
        "passes, scanned: DMA32",
        "Normal",
        "cycle",
        "least free in DMA32",
        "low + reserve",
        "released",
    ];
    let mut table = plain(header, 1);
    let figures: [Figure<'_>; 8] = [
        Box::new(|run| run.filled.dma32),
        Box::new(|run| run.filled.normal),
        Box::new(|run| run.scanned_passes.dma32),
        Box::new(|run| run.scanned_passes.normal),
        Box::new(|run| run.cycle),
        Box::new(|run| run.least_free),
        Box::new(|run| run.low_reserve),
        Box::new(|run| run.released.dma32),
    ];
    outcome.rows.iter().for_each(|of| row(&mut table, of, &figures));
    let of_zone =
        |name: &str, of: Theirs| published.iter().filter(|line| line.zone == name).map(of).sum::<u64>().to_string();
    let theirs: [(&str, Theirs); 2] = [
        ("Seed: 3.16-rc2, fits in memory", |line| line.linux),
        ("Seed: series v4, fits in memory", |line| line.series),
    ];
    for (name, of) in theirs {
        table.add_row([name.to_owned(), of_zone("DMA32", of), of_zone("Normal", of)]);
    }
    trimmed(&table)
}
