//! Figures as a picture: for each a chart with a pair of lines for each row, published and measured, in percent of
//! the first column.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::{Better, Figure, Figures, Row};
use crate::workload::output::failed;

/// Charts beside each other, and the size of one.
const BESIDE: usize = 3;
const SIZE: [u32; 2] = [430, 300];
/// More rows than these make no picture.
const MOST_ROWS: usize = 20;
/// Highest point that is drawn, in percent of the first column.
const TOP: f64 = 400.0;

impl Figures {
    /// One picture of all that was measured and says how well.
    pub(crate) fn chart(&self) -> anyhow::Result<String> {
        let drawn = |figure: &&Figure| {
            figure.better != Better::Neither && figure.is_measured() && figure.rows.len() <= MOST_ROWS
        };
        let figures: Vec<&Figure> = self.0.iter().filter(drawn).collect();
        let lines = figures.len().div_ceil(BESIDE).max(1);
        let mut svg = String::new();
        {
            let size = (SIZE[0] * BESIDE as u32, SIZE[1] * lines as u32);
            let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            area.fill(&WHITE).map_err(failed)?;
            for (part, figure) in area.split_evenly((lines, BESIDE)).iter().zip(figures) {
                figure.draw(part)?;
            }
            area.present().map_err(failed)?;
        }
        Ok(svg)
    }
}

/// A row's points: place of the column, and percent of the first.
fn points(row: &Row, value: impl Fn(usize) -> Option<f64>) -> Vec<(f64, f64)> {
    let columns = row.measured.len().max(row.published.len());
    let base = (0..columns).find_map(&value).filter(|base| *base != 0.0);
    let point = |column: usize| Some((column as f64, (100.0 * value(column)? / base?).min(TOP)));
    (0..columns).filter_map(point).collect()
}

impl Figure {
    fn draw(&self, area: &DrawingArea<SVGBackend<'_>, Shift>) -> anyhow::Result<()> {
        let pairs: Vec<_> = self
            .rows
            .iter()
            .map(|row| {
                [points(row, |column| row.published.get(column).copied()), points(row, |column| row.mean(column))]
            })
            .collect();
        let most = pairs.iter().flatten().flatten().fold(100.0_f64, |most, point| most.max(point.1));
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .caption(format!("{}, % of {}", self.name, self.columns[0]), ("sans-serif", 13))
            .x_label_area_size(26)
            .y_label_area_size(38)
            .build_cartesian_2d(-0.3..self.columns.len() as f64 - 0.7, 0.0..most * 1.08)
            .map_err(failed)?;
        let heading = |at: &f64| {
            let column = self.columns.get(at.round() as usize).filter(|_| at.fract().abs() < 1e-6);
            column.cloned().unwrap_or_default()
        };
        let mesh = &mut chart.configure_mesh();
        mesh.x_labels(self.columns.len()).x_label_formatter(&heading).light_line_style(WHITE).draw().map_err(failed)?;
        for (at, [published, measured]) in pairs.into_iter().enumerate() {
            let colour = Palette99::pick(at).to_rgba();
            let dots = published.iter().map(|dot| Circle::new(*dot, 3, colour.filled()));
            chart.draw_series(dots).map_err(failed)?;
            chart.draw_series(LineSeries::new(published, colour.mix(0.3).stroke_width(1))).map_err(failed)?;
            chart.draw_series(LineSeries::new(measured, colour.stroke_width(2))).map_err(failed)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Place;
    use super::*;

    #[test]
    fn a_chart_is_drawn_for_each_measured_figure() {
        let mut figures = Figures::read("lists").unwrap();
        for (column, value) in [("off", 2.0), ("2016", 3.0)] {
            figures.measure(Place { figure: "Amean", row: "1 groups", column }, [value]);
        }
        assert_eq!(
            points(&figures.0[0].rows[0], |column| figures.0[0].rows[0].mean(column)),
            [(0.0, 100.0), (1.0, 150.0)]
        );
        let svg = figures.chart().unwrap();
        assert!(svg.contains("Amean, % of off") && !svg.contains("Stddev"));
    }
}
