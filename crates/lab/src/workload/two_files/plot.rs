//! The plot: misses of the second file by pass.

use plotters::prelude::*;

use super::super::output::failed;
use super::measure::Outcome;

/// One picture with a line for each set of rules.
pub(super) fn all(outcome: &Outcome) -> anyhow::Result<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (1080, 420)).into_drawing_area();
        area.fill(&WHITE).map_err(failed)?;
        let misses =
            |row: &super::measure::Row, pass: usize| row.mean(|run| run.passes.get(pass).map_or(0, |pass| pass.misses));
        let passes = 0..outcome.passes as usize;
        let values = outcome.rows.iter().flat_map(|row| passes.clone().map(move |pass| misses(row, pass)));
        let most = values.fold(1.0, f64::max) * 1.1;
        let mut chart = ChartBuilder::on(&area)
            .margin(10)
            .caption("pages that the second file misses, by pass", ("sans-serif", 15))
            .x_label_area_size(28)
            .y_label_area_size(64)
            .build_cartesian_2d(1.0..(f64::from(outcome.passes) + 2.0), 0.0..most)
            .map_err(failed)?;
        chart.configure_mesh().x_desc("pass").y_desc("pages").light_line_style(WHITE).draw().map_err(failed)?;
        for (at, row) in outcome.rows.iter().enumerate() {
            let colour = Palette99::pick(at).to_rgba();
            let line = passes.clone().map(|pass| (pass as f64 + 1.0, misses(row, pass)));
            let drawn = chart.draw_series(LineSeries::new(line, colour.stroke_width(2))).map_err(failed)?;
            drawn
                .label(row.variant.title())
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        }
        let labels = &mut chart.configure_series_labels();
        labels.background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.3)).draw().map_err(failed)?;
        area.present().map_err(failed)?;
    }
    Ok(svg)
}
