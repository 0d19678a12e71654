//! Heat maps of pageblocks as SVG, for experiments.

use std::collections::BTreeMap;

use anyhow::anyhow;
use pageblock_frame::MigrateType;
use plotters::prelude::*;

use crate::replay::BlockState;

/// Width and height of one pageblock, in pixels.
pub(crate) const CELL: (i32, i32) = (6, 5);
/// Shades between wholly free and wholly held.
const SHADES: u16 = 6;

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
fn shades() -> BTreeMap<MigrateType, (RGBColor, RGBColor)> {
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
