//! Pictures of the zones: each pageblock's type and how much of it is held, and where the scanners last were.

use pageblock_frame::{PAGEBLOCK_FRAMES, Pfn};

use super::outcome::{Map, ZoneMap};
use super::script::Moment;
use crate::machine::Machine;
use crate::replay::BlockState;

/// The zones now.
pub(super) fn picture(machine: &Machine, phase: usize, moment: Moment) -> Map {
    let when = match moment {
        Moment::Before => "before",
        Moment::After => "after",
    };
    let zones = machine.memory().zones().iter().map(|zone| {
        let blocks = BlockState::of_zone(zone);
        let first = zone.span().start.as_u64() / PAGEBLOCK_FRAMES;
        let place = |pfn: Pfn| (pfn.as_u64() / PAGEBLOCK_FRAMES).saturating_sub(first) as usize;
        let scanners = machine.scanners(zone.kind()).map(|(migrate, free)| (place(migrate), place(free)));
        ZoneMap { name: zone.kind().to_string(), blocks, scanners }
    });
    Map { title: format!("{when} phase {phase}"), zones: zones.collect() }
}
