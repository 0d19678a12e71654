//! Pictures of the zones before and after each phase.

use std::fmt::Write;

use plotters::prelude::*;

use super::super::output::failed;
use super::outcome::{Map, Outcome, ZoneMap};
use crate::report::{CELL, draw_row};

const MIGRATE: RGBColor = RGBColor(0xd0, 0x00, 0x6f);
const FREE: RGBColor = RGBColor(0x00, 0x00, 0x00);
/// Pageblocks in a row of a map.
const BLOCKS: usize = 128;
/// Room above each zone for its name.
const TITLE: i32 = 18;

/// The zones at one moment: one cell a pageblock, its colour the type, its shade how much is held; the scanners'
/// places framed.
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
