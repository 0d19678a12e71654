//! The plot: events on a logarithmic scale, the series' beside ours, for each block.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::super::output::failed;
use super::column::Column;
use super::measure::{Outcome, Part};
use super::published::Published;
use super::table;

const SEED: RGBColor = RGBColor(0xc4, 0x4e, 0x2c);
const HERE: RGBColor = RGBColor(0x1f, 0x6f, 0xb2);

/// One picture with a chart for each block.
pub(super) fn all(outcome: &Outcome, published: &Published) -> anyhow::Result<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (1080, 620)).into_drawing_area();
        area.fill(&WHITE).map_err(failed)?;
        for (place, part) in area.split_evenly((2, 2)).iter().zip(&outcome.parts) {
            chart(place, part, published)?;
        }
        area.present().map_err(failed)?;
    }
    Ok(svg)
}

/// Percent of vanilla's events, by column; 0 is drawn at the lower end.
fn series(part: &Part, published: &Published) -> [Vec<Option<f64>>; 2] {
    let first = part.cells.first().map_or(1.0, table::events).max(1.0);
    let key = part.block.key();
    let seed_first = published.events(key, Column::Vanilla).unwrap_or(1) as f64;
    let seed = Column::ALL.map(|column| published.events(key, column).map(|n| 100.0 * n as f64 / seed_first));
    let here = part.cells.iter().map(|cell| Some(100.0 * table::events(cell) / first));
    [seed.to_vec(), here.collect()]
}

const LEAST: f64 = 0.01;

fn chart(area: &DrawingArea<SVGBackend<'_>, Shift>, part: &Part, published: &Published) -> anyhow::Result<()> {
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .caption(part.block.title(), ("sans-serif", 14))
        .x_label_area_size(24)
        .y_label_area_size(52)
        .build_cartesian_2d(-0.5..Column::ALL.len() as f64 - 0.5, (LEAST..300.0).log_scale())
        .map_err(failed)?;
    let name = |at: &f64| {
        let whole = at.fract().abs() < 1e-6 && *at >= 0.0;
        Column::ALL.get(*at as usize).filter(|_| whole).map_or(String::new(), |column| column.name().to_owned())
    };
    chart
        .configure_mesh()
        .y_desc("events, % of vanilla")
        .x_labels(Column::ALL.len() + 1)
        .x_label_formatter(&name)
        .disable_x_mesh()
        .light_line_style(WHITE)
        .draw()
        .map_err(failed)?;
    for (place, (values, (label, colour))) in
        series(part, published).iter().zip([("seed", SEED), ("here", HERE)]).enumerate()
    {
        let bars = values.iter().enumerate().filter_map(|(at, value)| {
            let left = at as f64 - 0.4 + 0.4 * place as f64;
            value.map(|value| Rectangle::new([(left, LEAST), (left + 0.36, value.max(LEAST))], colour.filled()))
        });
        let drawn = chart.draw_series(bars).map_err(failed)?;
        drawn.label(label).legend(move |(x, y)| Rectangle::new([(x, y - 4), (x + 14, y + 4)], colour.filled()));
    }
    let labels = &mut chart.configure_series_labels();
    let labels = labels.position(SeriesLabelPosition::UpperRight).background_style(WHITE.mix(0.8));
    labels.border_style(BLACK.mix(0.3)).draw().map_err(failed)
}
