//! SVG plots: figures over time, and heat maps of the pageblocks.

use std::collections::BTreeMap;

use anyhow::anyhow;
use pageblock_frame::MigrateType;
use plotters::prelude::*;

use crate::replay::{BlockState, HeatMap, Outcome, Sample};

const LINUX: RGBColor = RGBColor(0xc4, 0x4e, 0x2c);
const OURS: RGBColor = RGBColor(0x1f, 0x6f, 0xb2);
/// Pageblocks in a row of a heat map.
const COLUMNS: usize = 128;
/// Width and height of one pageblock, in pixels.
pub(crate) const CELL: (i32, i32) = (6, 5);
/// Room above each zone for its name.
const TITLE: i32 = 22;
/// Shades between wholly free and wholly held.
const SHADES: u16 = 6;

/// One plot.
pub(crate) struct Plot {
    /// Name of its file, without the ending.
    pub(crate) name: String,
    /// Heading.
    pub(crate) title: String,
    /// The picture.
    pub(crate) svg: String,
}

/// All plots of an outcome.
pub(crate) fn all(outcome: &Outcome) -> anyhow::Result<Vec<Plot>> {
    let mut plots = vec![
        Plot {
            name: "free_pageblocks".into(),
            title: "Wholly free pageblocks over time".into(),
            svg: over_time(&outcome.samples, "pageblocks", |sample| sample.free_pageblocks)?,
        },
        Plot {
            name: "fallbacks".into(),
            title: "Fallbacks between migrate types over time".into(),
            svg: over_time(&outcome.samples, "fallbacks", |sample| sample.fallbacks)?,
        },
    ];
    for map in &outcome.maps {
        let name = format!("pageblocks_{}", map.title.to_lowercase().replace(' ', "_"));
        plots.push(Plot { name, title: format!("Pageblocks: {}", map.title), svg: heat_map(map)? });
    }
    Ok(plots)
}

/// Two lines over the seconds of the trace.
fn over_time(samples: &[Sample], unit: &str, of: fn(&Sample) -> [u64; 2]) -> anyhow::Result<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (900, 320)).into_drawing_area();
        area.fill(&WHITE).map_err(failed)?;
        let seconds = samples.last().map_or(1.0, |sample| sample.micros as f64 / 1e6).max(1e-6);
        let values = || samples.iter().flat_map(of);
        let (least, most) = (values().min().unwrap_or(0) as f64, values().max().unwrap_or(0) as f64);
        let margin = ((most - least) * 0.05).max(1.0);
        let mut chart = ChartBuilder::on(&area)
            .margin(10)
            .x_label_area_size(36)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..seconds, (least - margin).max(0.0)..most + margin)
            .map_err(failed)?;
        chart
            .configure_mesh()
            .x_desc("seconds")
            .y_desc(unit)
            .y_label_formatter(&|value| format!("{value:.0}"))
            .light_line_style(WHITE)
            .draw()
            .map_err(failed)?;
        for (side, name, colour) in [(0, "Linux", LINUX), (1, "ours", OURS)] {
            let line = samples.iter().map(|sample| (sample.micros as f64 / 1e6, of(sample)[side] as f64));
            let series = LineSeries::new(line, colour.stroke_width(2));
            let drawn = chart.draw_series(series).map_err(failed)?;
            drawn.label(name).legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        }
        chart
            .configure_series_labels()
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .position(SeriesLabelPosition::UpperRight)
            .draw()
            .map_err(failed)?;
        area.present().map_err(failed)?;
    }
    Ok(svg)
}

/// One cell a pageblock, in rows; the colour is the type, the shade how much of it is held.
fn heat_map(map: &HeatMap) -> anyhow::Result<String> {
    let rows = |blocks: usize| blocks.div_ceil(COLUMNS) as i32;
    let height: i32 = map.zones.iter().map(|(_, blocks)| TITLE + rows(blocks.len()) * CELL.1).sum();
    let mut svg = String::new();
    {
        let size = (COLUMNS as u32 * CELL.0 as u32, height.max(1) as u32);
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE).map_err(failed)?;
        let mut top = 0;
        for (name, blocks) in &map.zones {
            area.draw(&Text::new(name.clone(), (0, top + 4), ("sans-serif", 14).into_font())).map_err(failed)?;
            top += TITLE;
            for (row, blocks) in blocks.chunks(COLUMNS).enumerate() {
                draw_row(&area, blocks, top + row as i32 * CELL.1)?;
            }
            top += rows(blocks.len()) * CELL.1;
        }
        area.present().map_err(failed)?;
    }
    Ok(svg)
}

/// Draws neighbours of the same colour as one rectangle.
pub(crate) fn draw_row<B: DrawingBackend>(
    area: &DrawingArea<B, plotters::coord::Shift>,
    blocks: &[BlockState],
    top: i32,
) -> anyhow::Result<()>
where
    B::ErrorType: 'static,
{
    let mut at = 0;
    while at < blocks.len() {
        let shade = colour(&blocks[at]);
        let end = (at..blocks.len()).find(|&other| colour(&blocks[other]) != shade).unwrap_or(blocks.len());
        if let Some(shade) = shade {
            let corners = [(at as i32 * CELL.0, top), (end as i32 * CELL.0, top + CELL.1)];
            area.draw(&Rectangle::new(corners, shade.filled())).map_err(failed)?;
        }
        at = end;
    }
    Ok(())
}

/// `None` where there is no memory.
fn colour(block: &BlockState) -> Option<RGBColor> {
    if block.managed == 0 {
        return None;
    }
    let (held, free) = shades()[&block.kind];
    let step = (block.managed.saturating_sub(block.free) * SHADES).div_ceil(block.managed).min(SHADES);
    let mix = |from: u8, to: u8| {
        (i32::from(from) + (i32::from(to) - i32::from(from)) * i32::from(step) / i32::from(SHADES)) as u8
    };
    Some(RGBColor(mix(free.0, held.0), mix(free.1, held.1), mix(free.2, held.2)))
}

/// Colours of a wholly held and of a wholly free pageblock, by type.
pub(crate) fn shades() -> BTreeMap<MigrateType, (RGBColor, RGBColor)> {
    BTreeMap::from([
        (MigrateType::Unmovable, (RGBColor(0xb0, 0x2a, 0x2a), RGBColor(0xf7, 0xdc, 0xdc))),
        (MigrateType::Movable, (RGBColor(0x1d, 0x5f, 0x9e), RGBColor(0xe1, 0xec, 0xf6))),
        (MigrateType::Reclaimable, (RGBColor(0x2e, 0x7d, 0x32), RGBColor(0xdd, 0xf0, 0xde))),
        (MigrateType::HighAtomic, (RGBColor(0x8a, 0x5a, 0x00), RGBColor(0xf7, 0xea, 0xcb))),
        (MigrateType::Cma, (RGBColor(0x6a, 0x1b, 0x9a), RGBColor(0xec, 0xdd, 0xf4))),
        (MigrateType::Isolate, (RGBColor(0x42, 0x42, 0x42), RGBColor(0xe0, 0xe0, 0xe0))),
    ])
}

fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("a plot cannot be drawn: {error}")
}
