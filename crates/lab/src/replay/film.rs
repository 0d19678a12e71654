//! Both machines as pictures over time: one byte a pageblock at each sample, and one a frame at the end.

use pageblock_frame::{MigrateType, PAGEBLOCK_FRAMES, Pfn};

use super::layout::ZoneLayout;
use super::linux::{ABSENT, FREE, Linux, type_of};
use super::machine::Machine;

/// Steps between a wholly free and a wholly held pageblock.
const STEPS: u64 = 15;
/// A frame that is free.
const FREE_FRAME: u8 = 1;

/// Where the pageblocks of a zone are in a picture.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct ZonePlace {
    /// Its node.
    pub(crate) node: u8,
    /// Its name.
    pub(crate) zone: &'static str,
    /// Number of its first pageblock.
    pub(crate) first: u64,
    /// Pageblocks from there.
    pub(crate) blocks: u64,
}

/// The zones, one after the other.
pub(crate) fn places(layout: &[ZoneLayout]) -> Vec<ZonePlace> {
    let place = |zone: &ZoneLayout| {
        let (first, end) = blocks(zone);
        ZonePlace { node: zone.recorded.node, zone: zone.name(), first, blocks: end - first }
    };
    layout.iter().map(place).collect()
}

fn blocks(zone: &ZoneLayout) -> (u64, u64) {
    let span = zone.config.span;
    (span.start.as_u64() / PAGEBLOCK_FRAMES, span.end.as_u64().div_ceil(PAGEBLOCK_FRAMES))
}

/// A pageblock in one byte: 0 for no memory, else 1 and the type's number times 16, and the step from free to held.
/// Step 0 is wholly free.
fn cell(kind: MigrateType, free: u64, managed: u64) -> u8 {
    if managed == 0 {
        return 0;
    }
    let step = ((managed - free.min(managed)) * STEPS).div_ceil(managed);
    1 + kind.index() as u8 * 16 + step as u8
}

/// The recorded machine's pageblocks.
pub(crate) fn of_linux(linux: &Linux, layout: &[ZoneLayout]) -> Vec<u8> {
    let numbers = layout.iter().map(blocks).flat_map(|(first, end)| first..end);
    numbers.map(|block| cell(linux.block_type(block), linux.free_in(block), linux.managed_in(block))).collect()
}

/// Our pageblocks. A block on a per-CPU list is free, as it is in the recorded machine's.
pub(crate) fn of_ours(machine: &Machine, layout: &[ZoneLayout]) -> Vec<u8> {
    let mut cells = Vec::new();
    let places = machine.seat.places.borrow();
    for (zone, place) in machine.zones().iter().zip(layout) {
        let (first, end) = blocks(place);
        let from = cells.len();
        cells.resize(from + (end - first) as usize, 0);
        let base = base(zone) / PAGEBLOCK_FRAMES;
        zone.for_each_pageblock(|number, block| {
            let number = base + u64::from(number);
            if (first..end).contains(&number) {
                let free = places.occupancy.free_in(number);
                cells[from + (number - first) as usize] = cell(block.migrate_type(), free, block.managed().into());
            }
        });
    }
    cells
}

/// The recorded machine's frames, 512 a pageblock: 0 for none, 1 for free, else 2 and the type's number.
pub(crate) fn frames_of_linux(linux: &Linux, layout: &[ZoneLayout]) -> Vec<u8> {
    let frame = |pfn: u64| match linux.owner(pfn) {
        ABSENT => 0,
        FREE => FREE_FRAME,
        _ => 2 + type_of(linux.kind(pfn)).index() as u8,
    };
    let numbers = layout.iter().map(blocks).flat_map(|(first, end)| first * PAGEBLOCK_FRAMES..end * PAGEBLOCK_FRAMES);
    numbers.map(frame).collect()
}

/// Our frames.
pub(crate) fn frames_of_ours(machine: &Machine, layout: &[ZoneLayout]) -> Vec<u8> {
    let mut frames = Vec::new();
    for (zone, place) in machine.zones().iter().zip(layout) {
        let (first, end) = blocks(place);
        let from = frames.len();
        frames.resize(from + ((end - first) * PAGEBLOCK_FRAMES) as usize, 0);
        let picture = &mut frames[from..];
        let at = |pfn: u64| (pfn - first * PAGEBLOCK_FRAMES) as usize;
        for range in &place.ram {
            let mut pfn = range.start.as_u64();
            while pfn < range.end.as_u64() {
                let state = zone.index_of(Pfn::new(pfn)).map(|index| zone.states().get(index));
                let held = state.filter(|state| state.is_allocated());
                let (class, count) = match held {
                    Some(state) => (2 + state.migrate_type().unwrap_or_default().index() as u8, state.order().frames()),
                    None => (FREE_FRAME, 1),
                };
                let end = (pfn + count).min(range.end.as_u64());
                picture[at(pfn)..at(end)].fill(class);
                pfn = end;
            }
        }
        reserved(zone, picture, first * PAGEBLOCK_FRAMES);
    }
    frames
}

/// The frame with the zone's index 0: at or below the zone's first.
fn base(zone: &pageblock_buddy::Zone<'_>) -> u64 {
    let start = zone.span().start;
    start.as_u64() - u64::from(zone.index_of(start).unwrap_or(0))
}

/// Takes out frames that are neither free nor held: a frame that is not free by the map of its pageblock, and has no
/// holder.
fn reserved(zone: &pageblock_buddy::Zone<'_>, picture: &mut [u8], first: u64) {
    let mut maps = Vec::new();
    zone.for_each_pageblock(|_, block| maps.push(*block.map()));
    let base = base(zone);
    for (offset, class) in picture.iter_mut().enumerate().filter(|(_, class)| **class == FREE_FRAME) {
        let index = (first + offset as u64).wrapping_sub(base);
        let bit = index % PAGEBLOCK_FRAMES;
        let map = maps.get((index / PAGEBLOCK_FRAMES) as usize);
        let free = map.is_some_and(|map| map[(bit / 64) as usize] >> (bit % 64) & 1 != 0);
        *class = u8::from(free) * FREE_FRAME;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_wholly_free_pageblock_is_step_0() {
        let movable = 1 + MigrateType::Movable.index() as u8 * 16;
        assert_eq!(cell(MigrateType::Movable, 0, 0), 0);
        assert_eq!(cell(MigrateType::Movable, 512, 512), movable);
        assert_eq!(cell(MigrateType::Movable, 511, 512), movable + 1);
        assert_eq!(cell(MigrateType::Movable, 0, 512), movable + 15);
    }
}
