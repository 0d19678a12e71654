//! The plots: successes and scanning by column, ours and the series'; and the zones before and after each phase.

use std::fmt::Write;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::super::output::failed;
use super::outcome::{Map, Outcome, PHASES, Set, ZoneMap};
use super::published::Published;
use crate::report::{CELL, draw_row};

const THEIRS: RGBColor = RGBColor(0xc4, 0x4e, 0x2c);
const OURS: RGBColor = RGBColor(0x1f, 0x6f, 0xb2);
const MIGRATE: RGBColor = RGBColor(0xd0, 0x00, 0x6f);
const FREE: RGBColor = RGBColor(0x00, 0x00, 0x00);
/// Pageblocks in a row of a map.
const BLOCKS: usize = 128;
/// Room above each zone for its name.
const TITLE: i32 = 18;

/// A line: its name, its colour, and a value a column.
type Line = (&'static str, RGBColor, Vec<(f64, f64)>);

/// One picture with a row of charts for each set of flags: three of successes, two of scanning.
pub(super) fn charts(outcome: &Outcome, published: &[Published]) -> anyhow::Result<String> {
    let mut svg = String::new();
    {
        let size = (1300, 280 * outcome.sets.len().max(1) as u32);
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE).map_err(failed)?;
        let rows = area.split_evenly((outcome.sets.len().max(1), 1));
        for ((row, set), theirs) in rows.iter().zip(&outcome.sets).zip(published) {
            let parts = row.split_evenly((1, PHASES + 2));
            for (phase, part) in parts.iter().enumerate().take(PHASES) {
                let title = format!("{}: success {}, %", set.flags.name(), phase + 1);
                chart(part, &title, set, &successes(set, theirs, phase))?;
            }
            for (part, name) in parts[PHASES..].iter().zip(["Compaction migrate scanned", "Compaction free scanned"]) {
                chart(part, &format!("{name}, of column 2"), set, &scanning(set, theirs, name))?;
            }
        }
        area.present().map_err(failed)?;
    }
    Ok(svg)
}

fn points(values: impl Iterator<Item = f64>) -> Vec<(f64, f64)> {
    values.enumerate().map(|(place, value)| (place as f64, value)).collect()
}

fn successes(set: &Set, theirs: &Published, phase: usize) -> Vec<Line> {
    let row = theirs.success.iter().find(|row| row.name == format!("Success {} Mean", phase + 1));
    let seed = row.map(|row| points(row.values.into_iter())).unwrap_or_default();
    let of = |part: fn(super::outcome::Spread) -> f64| points(set.columns.iter().map(|c| part(c.success(phase))));
    vec![
        ("seed", THEIRS, seed),
        ("ours", OURS, of(|s| s.mean)),
        ("least", OURS.mix(0.4).to_rgb(), of(|s| s.min)),
        ("most", OURS.mix(0.4).to_rgb(), of(|s| s.max)),
    ]
}

trait ToRgb {
    fn to_rgb(&self) -> RGBColor;
}

impl ToRgb for RGBAColor {
    /// On white.
    fn to_rgb(&self) -> RGBColor {
        let on_white = |part: u8| (f64::from(part) * self.3 + 255.0 * (1.0 - self.3)) as u8;
        RGBColor(on_white(self.0), on_white(self.1), on_white(self.2))
    }
}

fn scanning(set: &Set, theirs: &Published, name: &str) -> Vec<Line> {
    let relative = |values: Vec<f64>| {
        let base = values.first().copied().unwrap_or(1.0).max(1.0);
        points(values.into_iter().map(move |value| value / base))
    };
    let row = theirs.rows.iter().find(|row| row.name == name);
    let seed = row.map(|row| relative(row.values.to_vec())).unwrap_or_default();
    let ours = relative(set.columns.iter().map(|column| column.mean(name).unwrap_or(0.0)).collect());
    vec![("seed", THEIRS, seed), ("ours", OURS, ours)]
}

fn chart(area: &DrawingArea<SVGBackend<'_>, Shift>, title: &str, set: &Set, lines: &[Line]) -> anyhow::Result<()> {
    let most = lines.iter().flat_map(|(.., points)| points).fold(1.0_f64, |most, point| most.max(point.1));
    let columns = set.columns.len();
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .caption(title, ("sans-serif", 13))
        .x_label_area_size(28)
        .y_label_area_size(38)
        .build_cartesian_2d(-0.3..columns as f64 - 0.7, 0.0..most * 1.1)
        .map_err(failed)?;
    let heading = |at: &f64| {
        let column = set.columns.get(at.round() as usize).filter(|_| at.fract().abs() < 1e-6);
        column.map_or_else(String::new, |column| column.name.clone())
    };
    let mesh = &mut chart.configure_mesh();
    mesh.x_labels(columns).x_label_formatter(&heading).light_line_style(WHITE).draw().map_err(failed)?;
    for (name, colour, points) in lines {
        let style = colour.stroke_width(2);
        let drawn = chart.draw_series(LineSeries::new(points.iter().copied(), style)).map_err(failed)?;
        drawn.label(*name).legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], style));
        let dots = points.iter().map(|dot| Circle::new(*dot, 3, colour.filled()));
        chart.draw_series(dots).map_err(failed)?;
    }
    let labels = &mut chart.configure_series_labels();
    labels.background_style(WHITE.mix(0.8)).position(SeriesLabelPosition::LowerRight).draw().map_err(failed)
}

/// The zones at one moment: one cell a pageblock, its colour the type, its shade how much is held; the scanners' places
/// framed.
pub(super) fn map(map: &Map) -> anyhow::Result<String> {
    let rows = |blocks: usize| blocks.div_ceil(BLOCKS) as i32;
    let height: i32 = map.zones.iter().map(|zone| TITLE + rows(zone.blocks.len()) * CELL.1).sum();
    let mut svg = String::new();
    {
        let size = (BLOCKS as u32 * CELL.0 as u32, height.max(1) as u32);
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE).map_err(failed)?;
        let mut top = 0;
        for ZoneMap { name, blocks, scanners } in &map.zones {
            area.draw(&Text::new(name.clone(), (0, top + 2), ("sans-serif", 13).into_font())).map_err(failed)?;
            top += TITLE;
            for (row, blocks) in blocks.chunks(BLOCKS).enumerate() {
                draw_row(&area, blocks, top + row as i32 * CELL.1)?;
            }
            if let Some((migrate, free)) = scanners {
                for (block, colour) in [(migrate, MIGRATE), (free, FREE)] {
                    let corner = ((block % BLOCKS) as i32 * CELL.0, top + (block / BLOCKS) as i32 * CELL.1);
                    let corners = [corner, (corner.0 + CELL.0, corner.1 + CELL.1)];
                    area.draw(&Rectangle::new(corners, colour.stroke_width(2))).map_err(failed)?;
                }
            }
            top += rows(blocks.len()) * CELL.1;
        }
        area.present().map_err(failed)?;
    }
    Ok(svg)
}

/// All maps of an outcome as parts of a page: of every column, the first run's.
pub(super) fn maps(outcome: &Outcome) -> anyhow::Result<String> {
    let mut html = String::from(
        "<p>Each cell is a pageblock: red unmovable, blue movable, green reclaimable; the darker the fuller. Framed in magenta: where \
         the migrate scanner last was; in black: the free scanner.</p>\n",
    );
    for set in &outcome.sets {
        for column in &set.columns {
            for picture in column.runs.first().map(|run| run.maps.as_slice()).unwrap_or_default() {
                let title = format!("{}, column {}, {}", set.flags.name(), column.name, picture.title);
                let _ = writeln!(html, "<details><summary>{title}</summary>\n{}</details>", map(picture)?);
            }
        }
    }
    Ok(html)
}
