//! A chart of zone-lock acquisitions a set.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::super::output::failed;
use super::measure::{Outcome, Set};

const COLOURS: [RGBColor; 6] = [
    RGBColor(0x8a, 0x8a, 0x8a),
    RGBColor(0xc2, 0x5b, 0x3f),
    RGBColor(0xd9, 0xa4, 0x41),
    RGBColor(0x5b, 0x9a, 0x5b),
    RGBColor(0x7a, 0x5b, 0xa6),
    RGBColor(0x1f, 0x6f, 0xb2),
];

/// One picture with a chart for each set.
pub(super) fn all(outcome: &Outcome) -> anyhow::Result<String> {
    let mut svg = String::new();
    {
        let width = 540 * outcome.sets.len() as u32;
        let area = SVGBackend::with_string(&mut svg, (width, 360)).into_drawing_area();
        area.fill(&WHITE).map_err(failed)?;
        for (part, set) in area.split_evenly((1, outcome.sets.len())).iter().zip(&outcome.sets) {
            chart(part, outcome, set)?;
        }
        area.present().map_err(failed)?;
    }
    Ok(svg)
}

fn chart(area: &DrawingArea<SVGBackend<'_>, Shift>, outcome: &Outcome, set: &Set) -> anyhow::Result<()> {
    let columns = || set.rows.iter().flat_map(|row| &row.columns);
    let most = columns().map(|column| column.zone_locks_per_1000).fold(0.0_f64, f64::max).max(1.0);
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .caption(format!("{}, {}", outcome.workload, set.name), ("sans-serif", 15))
        .x_label_area_size(34)
        .y_label_area_size(54)
        .build_cartesian_2d(-0.3..set.rows.len() as f64 - 0.7, 0.0..most * 1.08)
        .map_err(failed)?;
    let name = |at: &f64| {
        let row = set.rows.get(at.round() as usize).filter(|_| at.fract().abs() < 1e-6);
        row.map_or_else(String::new, |row| row.name.clone())
    };
    chart
        .configure_mesh()
        .y_desc(format!("zone locks for 1000 {}", outcome.unit))
        .x_labels(set.rows.len())
        .x_label_formatter(&name)
        .light_line_style(WHITE)
        .draw()
        .map_err(failed)?;
    for (place, colour) in COLOURS.iter().enumerate() {
        let points: Vec<(f64, f64)> = set
            .rows
            .iter()
            .enumerate()
            .filter_map(|(at, row)| Some((at as f64, row.columns.get(place)?.zone_locks_per_1000)))
            .collect();
        let name = columns().nth(place).map_or("", |column| column.preset);
        chart
            .draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))
            .map_err(failed)?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        chart.draw_series(points.into_iter().map(|dot| Circle::new(dot, 3, colour.filled()))).map_err(failed)?;
    }
    let labels = &mut chart.configure_series_labels();
    labels.background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.3)).draw().map_err(failed)
}
