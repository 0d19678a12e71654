//! The plot: time of each column as a share of the first, ours and the series'.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::super::output::failed;
use super::measure::{Outcome, Set};
use super::published::Published;
use super::{COLUMNS, heading};

const THEIRS: RGBColor = RGBColor(0xc4, 0x4e, 0x2c);
const OURS: RGBColor = RGBColor(0x1f, 0x6f, 0xb2);

/// One picture with a chart for each set.
pub(super) fn all(outcome: &Outcome, published: &[Published]) -> anyhow::Result<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (1080, 340)).into_drawing_area();
        area.fill(&WHITE).map_err(failed)?;
        for (part, set) in area.split_evenly((1, outcome.sets.len())).iter().zip(&outcome.sets) {
            let theirs = published.iter().find(|published| Some(published.placement) == set.placement);
            chart(part, set, theirs)?;
        }
        area.present().map_err(failed)?;
    }
    Ok(svg)
}

fn chart(area: &DrawingArea<SVGBackend<'_>, Shift>, set: &Set, theirs: Option<&Published>) -> anyhow::Result<()> {
    let base = set.columns.first().map_or(1.0, |column| column.cpu_s.mean).max(f64::MIN_POSITIVE);
    let ours: Vec<(f64, f64)> =
        set.columns.iter().enumerate().map(|(at, column)| (at as f64, 100.0 * column.cpu_s.mean / base)).collect();
    let seed: Vec<(f64, f64)> =
        (0..COLUMNS).filter_map(|at| Some((at as f64, 100.0 - theirs?.mean_gain(at)?))).collect();
    let most = ours.iter().chain(&seed).fold(100.0_f64, |most, point| most.max(point.1));
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .caption(set.name, ("sans-serif", 15))
        .x_label_area_size(34)
        .y_label_area_size(44)
        .build_cartesian_2d(-0.3..COLUMNS as f64 - 0.7, 0.0..most * 1.08)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .x_desc("patches")
        .y_desc("% of column 0")
        .x_labels(COLUMNS)
        .x_label_formatter(&|at| if at.fract().abs() < 1e-6 { heading(*at as usize) } else { String::new() })
        .light_line_style(WHITE)
        .draw()
        .map_err(failed)?;
    for (name, points, colour) in [("published", seed, THEIRS), ("ours", ours, OURS)] {
        let dots = points.clone();
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)))
            .map_err(failed)?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        chart.draw_series(dots.into_iter().map(|dot| Circle::new(dot, 3, colour.filled()))).map_err(failed)?;
    }
    let labels = &mut chart.configure_series_labels();
    labels.background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.3)).draw().map_err(failed)
}
