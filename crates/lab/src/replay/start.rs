//! The start: every frame as it was recorded, in the model of Linux and in our zones.

use pageblock_frame::{MigrateType, Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, Pfn, PfnRange, StateByte};
use pageblock_testkit::simulated::SimulatedZone;

use super::cpu::Recorded as Cpu;
use super::early::Early;
use super::layout::{ZoneLayout, top};
use super::linux::{ABSENT, FREE, Linux, PLAIN, START, kind_of, type_of};
use super::machine::Machine;
use super::plan::Origin;
use super::synthetic;
use super::types::{Census, Wanted, assign, leave_out_listed};
use crate::InputError;
use crate::state::{FrameClass, FrameMap, State};

/// How the machine was at the start.
#[derive(Debug)]
pub(crate) struct Start {
    /// Frame by frame.
    pub(crate) linux: Linux,
    /// Where that comes from.
    pub(crate) origin: Origin,
    /// Types of the pageblocks that are not movable, by zone; chosen by [`assign_types`](Self::assign_types).
    pub(crate) types: Vec<Vec<(u64, MigrateType)>>,
    /// Parts that could not be matched, in words.
    pub(crate) unmatched: Vec<String>,
}

impl Start {
    /// From the recorded map of frames, or from counts where there is none.
    pub(crate) fn new(state: &State, layout: &[ZoneLayout]) -> Self {
        match &state.frames {
            Some(frames) => recorded(frames, layout),
            None => synthetic::start(state, layout),
        }
    }

    /// Chooses the pageblocks' types, once it is known which frames were on per-CPU lists: in the map of frames these
    /// look like the kernel's.
    pub(crate) fn assign_types(&mut self, state: &State, layout: &[ZoneLayout], early: &Early) {
        let Some(frames) = &state.frames else { return };
        for zone in layout {
            let mut census = census(frames, zone);
            leave_out_listed(&mut census, early.freed.iter().copied().filter(|&pfn| self.linux.was_plain(pfn)));
            let types = assign(&census, &wanted(state, zone));
            types.iter().for_each(|&(block, kind)| self.linux.set_block_type(block, kind));
            self.types.push(types);
        }
        untyped(&mut self.linux);
    }

    /// Brings a machine in which all is free into the same state.
    ///
    /// # Errors
    /// A zone refuses its layout.
    pub(crate) fn build(&self, layout: &[ZoneLayout], machine: &Machine) -> Result<(), InputError> {
        for (index, zone) in layout.iter().enumerate() {
            let refused = |why: String| InputError::content("zoneinfo".as_ref(), format!("a usable zone: {why}"));
            let ours = machine.zones()[index];
            for &range in &zone.ram {
                for (part, owner, kind) in self.runs(range) {
                    if owner == START {
                        hold(ours, part, kind).map_err(|error| refused(error.to_string()))?;
                    } else if owner == FREE {
                        machine.seat.places.borrow_mut().occupancy.give(part.start.as_u64(), part.len());
                    }
                }
            }
            // Only now: types of neighbouring pageblocks that are both wholly free would become one.
            for &(block, kind) in &self.types[index] {
                let pfn = Pfn::new((block * PAGEBLOCK_FRAMES).max(zone.config.span.start.as_u64()));
                ours.set_block_type::<Cpu>(pfn, kind).map_err(|error| refused(error.to_string()))?;
            }
        }
        Ok(())
    }

    /// Neighbouring frames with the same owner and kind.
    pub(crate) fn runs(&self, range: PfnRange) -> impl Iterator<Item = (PfnRange, u32, u8)> + '_ {
        let what = |pfn: u64| (self.linux.owner(pfn), self.linux.kind(pfn));
        let (mut at, end) = (range.start.as_u64(), range.end.as_u64());
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let start = at;
            let same = what(start);
            while at < end && what(at) == same {
                at += 1;
            }
            Some((PfnRange::new(Pfn::new(start), Pfn::new(at)), same.0, same.1))
        })
    }
}

/// Allocates frames at their place, each on its own, as of the migrate type with which Linux allocated them.
fn hold(zone: &pageblock_buddy::Zone<'_>, range: PfnRange, kind: u8) -> Result<(), pageblock_buddy::AllocAtError> {
    let (mut at, end) = (range.start.as_u64(), range.end.as_u64());
    while at < end {
        let aligned = at.trailing_zeros().min(63 - (end - at).leading_zeros());
        let order = Order::saturating(aligned as u8).min(PAGEBLOCK_ORDER);
        let pfn = Pfn::new(at);
        zone.alloc_at::<Cpu>(pfn, order)?;
        if order > Order::ZERO {
            // The block was handed out just now with this order, so that it can be split.
            let _ = zone.split_simulated::<Cpu>(pfn, order, Order::ZERO);
        }
        let byte = StateByte::allocated(Order::ZERO, type_of(kind));
        for frame in at..at + order.frames() {
            // The frames are this caller's: it says of which type they are.
            zone.set_state_simulated::<Cpu>(Pfn::new(frame), byte);
        }
        at += order.frames();
    }
    Ok(())
}

/// A zone's pageblocks in the recording.
pub(crate) fn wanted(state: &State, zone: &ZoneLayout) -> Wanted {
    let node = zone.recorded.node;
    let mut wanted = Wanted::default();
    if let Some(row) = state.pagetypeinfo.blocks(node, zone.name()) {
        wanted.blocks = row.blocks;
    }
    for row in state.pagetypeinfo.types(node, zone.name()) {
        for (order, &blocks) in row.free.iter().enumerate().take(Order::COUNT) {
            wanted.free[row.kind.index()][order] = blocks;
        }
    }
    wanted
}

fn recorded(frames: &FrameMap, layout: &[ZoneLayout]) -> Start {
    let mut linux = Linux::new(top(layout));
    let mut unmatched = Vec::new();
    for range in layout.iter().flat_map(|zone| zone.ram.clone()) {
        for pfn in range.start.as_u64()..range.end.as_u64() {
            linux.set(pfn, START, kind_of(MigrateType::Unmovable) | PLAIN);
        }
    }
    let mut outside = 0;
    for run in &frames.runs {
        for pfn in run.frames.start.as_u64()..run.frames.end.as_u64() {
            if linux.owner(pfn) == ABSENT {
                outside += u64::from(run.class == FrameClass::Free);
                continue;
            }
            match run.class {
                FrameClass::Free => linux.set(pfn, FREE, 0),
                class if !class.is_managed() => linux.set(pfn, ABSENT, 0),
                class => linux.set(pfn, START, start_kind(class)),
            }
        }
    }
    if outside > 0 {
        unmatched.push(format!("{outside} frames are free by kpageflags but not System RAM of a zone by iomem"));
    }
    Start { linux, origin: Origin::Recorded, types: Vec::new(), unmatched }
}

/// The kind of a frame of this class; 7 where it depends on the pageblock.
fn start_kind(class: FrameClass) -> u8 {
    match class {
        FrameClass::Plain => DEPENDS | PLAIN,
        class => class.migrate_type().map_or(DEPENDS, kind_of),
    }
}

const DEPENDS: u8 = 7;

/// Gives frames of a class that does not tell their type that of their pageblock; slab in a movable pageblock is
/// unmovable.
fn untyped(linux: &mut Linux) {
    for pfn in 0..linux.frames() {
        if linux.owner(pfn) == START && linux.kind(pfn) == DEPENDS {
            let of_block = linux.block_type(pfn / PAGEBLOCK_FRAMES);
            let plain = if linux.was_plain(pfn) { PLAIN } else { 0 };
            // A frame without a flag in a movable pageblock is most likely on a per-CPU list, or a movable page in
            // transit.
            let certain = plain == 0 && of_block == MigrateType::Movable;
            let kind = if certain { MigrateType::Unmovable } else { of_block };
            linux.set(pfn, START, kind_of(kind) | plain);
        }
    }
}

/// Contents of each pageblock of a zone.
fn census(frames: &FrameMap, zone: &ZoneLayout) -> Vec<Census> {
    let mut blocks = std::collections::BTreeMap::<u64, Census>::new();
    for run in &frames.runs {
        for range in zone.ram.iter().map(|ram| ram.intersect(run.frames)) {
            let mut at = range.start.as_u64();
            while at < range.end.as_u64() {
                let block = at / PAGEBLOCK_FRAMES;
                let end = ((block + 1) * PAGEBLOCK_FRAMES).min(range.end.as_u64());
                let entry = blocks.entry(block).or_insert(Census { block, ..Census::default() });
                let counter = match run.class {
                    FrameClass::Free => &mut entry.free,
                    FrameClass::Slab => &mut entry.slab,
                    FrameClass::Reserved | FrameClass::Zero => &mut entry.reserved,
                    class if class.migrate_type() == Some(MigrateType::Movable) => &mut entry.movable,
                    _ => &mut entry.kernel,
                };
                *counter += (end - at) as u32;
                at = end;
            }
        }
    }
    blocks.into_values().collect()
}
