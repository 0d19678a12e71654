//! The plot: sequential reading against 3.16, and how scanning spreads over the zones.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::super::output::failed;
use super::measure::{Outcome, ZoneFigures};
use super::phase::Op;
use super::published::Published;

const SEED: RGBColor = RGBColor(0xc4, 0x4e, 0x2c);
const OURS: RGBColor = RGBColor(0x1f, 0x6f, 0xb2);

/// A bar: its name, colour and length.
type Bar = (String, RGBColor, f64);

/// One picture with two charts.
pub(super) fn all(outcome: &Outcome, published: &Published) -> anyhow::Result<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (1080, 420)).into_drawing_area();
        area.fill(&WHITE).map_err(failed)?;
        let charts = [
            ("sequential read, one thread, % of 3.16", throughput(outcome, published)),
            ("DMA32's share of scanning, %", shares(outcome, published)),
        ];
        for (part, (title, bars)) in area.split_evenly((1, 2)).iter().zip(charts) {
            chart(part, title, &bars)?;
        }
        area.present().map_err(failed)?;
    }
    Ok(svg)
}

fn throughput(outcome: &Outcome, published: &Published) -> Vec<Bar> {
    let threads = outcome.threads.first().copied().unwrap_or(1);
    let percent = |value: f64, base: f64| if base > 0.0 { 100.0 * value / base } else { 0.0 };
    let base = outcome.baseline().and_then(|row| row.phase(Op::SeqRead, threads, |phase| phase.throughput));
    let ours = outcome.rows.iter().filter_map(|row| {
        let value = row.phase(Op::SeqRead, threads, |phase| phase.throughput)?;
        Some((row.variant.title().to_owned(), OURS, percent(value, base.unwrap_or(value))))
    });
    let rows = published.rows(Op::SeqRead, false, &[threads]);
    let first = rows.first().and_then(|(_, values)| values.first().copied().flatten()).unwrap_or_default();
    let seed = rows.iter().filter_map(|(name, values)| {
        Some(((*name).to_owned(), SEED, percent(values.first().copied().flatten()?, first)))
    });
    ours.chain(seed).collect()
}

fn shares(outcome: &Outcome, published: &Published) -> Vec<Bar> {
    let ours = outcome.rows.iter().map(|row| (row.variant.title().to_owned(), OURS, row.share(ZoneFigures::scanned)));
    let names = ["Seed: 3.16-rc1", "Seed: series v4r8", "Seed: series, class zone restored"];
    let pairs = published.velocity("dma32").into_iter().zip(published.velocity("normal"));
    let seed = names.into_iter().zip(pairs).map(|(name, (low, high))| (name.into(), SEED, 100.0 * low / (low + high)));
    ours.chain(seed).collect()
}

fn chart(area: &DrawingArea<SVGBackend<'_>, Shift>, title: &str, bars: &[Bar]) -> anyhow::Result<()> {
    let most = bars.iter().fold(1.0_f64, |most, bar| most.max(bar.2)) * 1.1;
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .caption(title, ("sans-serif", 15))
        .x_label_area_size(28)
        .y_label_area_size(200)
        .build_cartesian_2d(0.0..most, (0..bars.len().max(1)).into_segmented())
        .map_err(failed)?;
    let name = |at: &SegmentValue<usize>| match at {
        SegmentValue::CenterOf(at) => {
            let place = bars.len().checked_sub(at + 1);
            place.and_then(|place| bars.get(place)).map_or(String::new(), |bar| bar.0.clone())
        }
        _ => String::new(),
    };
    chart
        .configure_mesh()
        .y_labels(bars.len() + 1)
        .y_label_formatter(&name)
        .disable_y_mesh()
        .light_line_style(WHITE)
        .draw()
        .map_err(failed)?;
    let rectangles = bars.iter().rev().enumerate().map(|(at, (_, colour, value))| {
        let mut bar =
            Rectangle::new([(0.0, SegmentValue::Exact(at)), (*value, SegmentValue::Exact(at + 1))], colour.filled());
        bar.set_margin(2, 2, 0, 0);
        bar
    });
    chart.draw_series(rectangles).map_err(failed)?;
    Ok(())
}
