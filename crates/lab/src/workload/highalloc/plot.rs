//! The plot: blocks got as a share of those that the free pages would make.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::super::output::failed;
use super::attempt::FLAGS;
use super::measure::{Outcome, SHARES};
use super::published::{MEASURED, Published};
use super::scene::Pattern;

const LINUX: RGBColor = RGBColor(0xc4, 0x4e, 0x2c);
const PRESETS: [RGBColor; 3] = [RGBColor(0xe0, 0xa0, 0x60), RGBColor(0x1f, 0x6f, 0xb2), RGBColor(0x8f, 0xbc, 0xe0)];

/// One picture with a chart for each fill.
pub(super) fn all(outcome: &Outcome, published: &Published) -> anyhow::Result<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (1080, 620)).into_drawing_area();
        area.fill(&WHITE).map_err(failed)?;
        let fills = [Pattern::Alt, Pattern::Late].into_iter().flat_map(|pattern| SHARES.map(|share| (pattern, share)));
        for (part, fill) in area.split_evenly((2, 2)).iter().zip(fills) {
            chart(part, &series(outcome, published, fill), &format!("{}, {} % kernel pages", fill.0.title(), fill.1))?;
        }
        area.present().map_err(failed)?;
    }
    Ok(svg)
}

/// Rules, colour, and percent of the free pages by flags.
type Series = (&'static str, RGBColor, Vec<f64>);

fn series(outcome: &Outcome, published: &Published, fill: (Pattern, u64)) -> Vec<Series> {
    let mut all = Vec::new();
    if outcome.memory_bytes == MEASURED {
        let percent = |flags: &str| published.row(outcome.patience, fill, flags).map_or(0.0, |row| row.percent_of_free);
        all.push(("Linux 6.1", LINUX, FLAGS.iter().map(|(flags, _)| percent(flags)).collect()));
    }
    for (preset, colour) in outcome.presets().into_iter().zip(PRESETS) {
        let rows = outcome.rows.iter().filter(|row| (row.pattern, row.share) == fill && row.preset == preset);
        let percent = rows.map(|row| {
            row.runs.iter().map(super::measure::Run::percent_of_free).sum::<f64>() / row.runs.len().max(1) as f64
        });
        all.push((preset.name(), colour, percent.collect()));
    }
    all
}

fn chart(area: &DrawingArea<SVGBackend<'_>, Shift>, series: &[Series], title: &str) -> anyhow::Result<()> {
    let most = series.iter().flat_map(|(.., values)| values).fold(100.0_f64, |most, value| most.max(*value));
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .caption(title, ("sans-serif", 15))
        .x_label_area_size(24)
        .y_label_area_size(44)
        .build_cartesian_2d(-0.5..FLAGS.len() as f64 - 0.5, 0.0..most * 1.25)
        .map_err(failed)?;
    let name = |at: &f64| {
        let whole = at.fract().abs() < 1e-6 && *at >= 0.0;
        FLAGS.get(*at as usize).filter(|_| whole).map_or(String::new(), |(flags, _)| (*flags).to_owned())
    };
    chart
        .configure_mesh()
        .y_desc("% of the free pages")
        .x_labels(FLAGS.len() + 1)
        .x_label_formatter(&name)
        .y_label_formatter(&|value| format!("{value:.0}"))
        .disable_x_mesh()
        .light_line_style(WHITE)
        .draw()
        .map_err(failed)?;
    let width = 0.8 / series.len().max(1) as f64;
    for (place, (name, colour, values)) in series.iter().enumerate() {
        let colour = *colour;
        let bars = values.iter().enumerate().map(|(at, value)| {
            let left = at as f64 - 0.4 + place as f64 * width;
            Rectangle::new([(left, 0.0), (left + width * 0.92, *value)], colour.filled())
        });
        let drawn = chart.draw_series(bars).map_err(failed)?;
        drawn.label(*name).legend(move |(x, y)| Rectangle::new([(x, y - 4), (x + 14, y + 4)], colour.filled()));
    }
    let labels = &mut chart.configure_series_labels();
    let labels = labels.position(SeriesLabelPosition::UpperLeft).background_style(WHITE.mix(0.8));
    labels.border_style(BLACK.mix(0.3)).draw().map_err(failed)
}
