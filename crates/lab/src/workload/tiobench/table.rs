//! The tables as text: ours, the series' below.

use std::fmt::Write;

use comfy_table::Table;

use super::super::output::range;
use super::measure::{Outcome, Row, Run, ZoneFigures};
use super::phase::{Figures, Op};
use super::published::{Published, PublishedRow};
use crate::report::{plain, trimmed};

/// All tables.
pub(super) fn all(outcome: &Outcome, published: &Published) -> String {
    let mut text = String::new();
    for op in [Op::SeqRead, Op::RandRead, Op::SeqWrite, Op::RandWrite] {
        let _ = writeln!(text, "tiobench, {}, MB/s by threads\n{}\n", op.title(), phase(outcome, published, op, false));
    }
    for op in [Op::SeqRead, Op::RandRead, Op::SeqWrite, Op::RandWrite] {
        let title = format!("tiobench, {}, longest wait in ms by threads", op.title());
        let _ = writeln!(text, "{title}\n{}\n", phase(outcome, published, op, true));
    }
    let _ = writeln!(text, "Zones over a whole run\n{}\n", zones(outcome, published));
    let _ = writeln!(
        text,
        "Percent: more than 3.16 has; in brackets least and most of the runs. {} MiB of memory, files twice as large, {} run{} of each, seed {}. Velocity: frames that kswapd and\n\
         tasks looked at, a second. The disk has an elevator in the manner of CFQ: readers take turns by slices of time. Pages are\n\
         read ahead 128 KiB at a time, for which the reader waits.",
        outcome.memory_bytes >> 20,
        outcome.iterations,
        if outcome.iterations == 1 { "" } else { "s" },
        outcome.seed
    );
    text
}

fn phase(outcome: &Outcome, published: &Published, op: Op, latency: bool) -> String {
    let header = std::iter::once(String::new()).chain(outcome.threads.iter().map(u32::to_string));
    let mut table = plain(header.collect::<Vec<_>>(), 1);
    let figure = |phase: &Figures| if latency { phase.max_latency_ms } else { phase.throughput };
    let value = |row: &Row, threads: u32| row.phase(op, threads, figure);
    for row in &outcome.rows {
        let cell = |threads: &u32| {
            let base = outcome.baseline().and_then(|row| value(row, *threads));
            with_gain(value(row, *threads), base) + &range(&row.phases(op, *threads, figure), 2)
        };
        table.add_row(std::iter::once(row.variant.title().to_owned()).chain(outcome.threads.iter().map(cell)));
    }
    add_published(&mut table, &published.rows(op, latency, &outcome.threads));
    if !latency {
        add_published(&mut table, &published.other_rows(op, &outcome.threads));
    }
    trimmed(&table)
}

/// Rows of one machine: the first is the base of the others.
fn add_published(table: &mut Table, rows: &[PublishedRow]) {
    for (name, values) in rows {
        let base = |at: usize| rows.first().and_then(|(_, values)| values.get(at).copied().flatten());
        let cells = values.iter().enumerate().map(|(at, value)| with_gain(*value, base(at)));
        table.add_row(std::iter::once((*name).to_owned()).chain(cells));
    }
}

fn with_gain(value: Option<f64>, base: Option<f64>) -> String {
    match (value, base) {
        (Some(value), Some(base)) if base > 0.0 => {
            format!("{value:.2} ({:+.2}%)", 100.0 * (value - base) / base)
        }
        (Some(value), _) => format!("{value:.2}"),
        (None, _) => String::new(),
    }
}

fn zones(outcome: &Outcome, published: &Published) -> String {
    let header = [
        "",
        "velocity DMA32",
        "Normal",
        "DMA32's share",
        "by tasks",
        "allocs DMA32",
        "Normal",
        "DMA32's share",
        "of managed",
        "seconds",
    ];
    let mut table = plain(header, 1);
    for row in &outcome.rows {
        let velocity = |kind| {
            let of_zone = |run: &Run| run.zones.iter().filter(|zone| zone.kind == kind).map(|zone| zone.velocity).sum();
            let values: Vec<f64> = row.runs.iter().map(of_zone).collect();
            format!("{:.3}", row.zone(kind, |zone| zone.velocity)) + &range(&values, 0)
        };
        let seconds: Vec<f64> = row.runs.iter().map(|run| run.seconds).collect();
        let allocs = |kind| format!("{:.0}", row.zone(kind, |zone| zone.allocs as f64));
        let share = |of: fn(&ZoneFigures) -> u64| format!("{:.1} %", row.share(of));
        let direct = row.mean(|run| run.zones.iter().map(|zone| zone.scanned_direct as f64).sum());
        table.add_row([
            row.variant.title().to_owned(),
            velocity("DMA32"),
            velocity("Normal"),
            share(ZoneFigures::scanned),
            format!("{direct:.0}"),
            allocs("DMA32"),
            allocs("Normal"),
            share(|zone| zone.allocs),
            share(|zone| zone.managed),
            format!("{:.1}", row.mean(|run| run.seconds)) + &range(&seconds, 1),
        ]);
    }
    let (dma32, normal) = (published.velocity("dma32"), published.velocity("normal"));
    let names = ["Seed: 3.16-rc1", "Seed: series v4r8", "Seed: series, class zone restored"];
    let figures = dma32.into_iter().zip(normal).zip(published.elapsed());
    for (name, ((low, high), seconds)) in names.into_iter().zip(figures) {
        let share = 100.0 * low / (low + high);
        let mut row = vec![name.to_owned(), format!("{low:.3}"), format!("{high:.3}"), format!("{share:.1} %")];
        row.extend(std::iter::repeat_n(String::new(), header.len() - row.len() - 1));
        row.push(format!("{seconds:.1}"));
        table.add_row(row);
    }
    trimmed(&table)
}
