//! One of our machines: an allocator with its per-CPU lists, in zones like those of the recorded machine.

use std::cell::{Cell, RefCell};
use std::mem::MaybeUninit;
use std::rc::Rc;

use pageblock::{Config, FreeError, PageAllocator, Region, RegionKind, ZoneLimits};
use pageblock_buddy::Zone;
use pageblock_frame::{Gfp, NodeId, Order, PAGE_SIZE, PAGEBLOCK_FRAMES, Pfn, PfnRange, ZoneKind};
use pageblock_memmap::SpanRule;

use super::cpu::{CPUS, Noted, Recorded, Seat, enter};
use super::layout::{ZoneLayout, top};
use super::linux::ABSENT;
use super::places::{Occupancy, Places};
use super::rules::Rules;
use super::start::Start;
use crate::InputError;

/// One machine.
#[derive(Debug)]
pub(crate) struct Machine {
    /// Its rules.
    pub(crate) rules: Rules,
    /// The allocator, and the held blocks.
    pub(crate) seat: Rc<Seat>,
    /// The zones in the order of the layout.
    zones: Vec<&'static Zone<'static>>,
    nodes: usize,
    /// Bytes of metadata.
    pub(crate) metadata: u64,
    /// CPUs.
    pub(crate) cpus: u32,
}

impl Machine {
    /// A machine in which every frame that the allocator has is free.
    ///
    /// # Errors
    /// These rules cannot serve this layout; the message names them and the zone.
    pub(crate) fn new(rules: Rules, start: &Start, layout: &[ZoneLayout]) -> Result<Self, InputError> {
        let refused = |why: String| {
            InputError::content("zoneinfo".as_ref(), format!("zones that {} can have: {why}", rules.name()))
        };
        let cpus = cpus(layout);
        let regions: Vec<Region> = regions(start, layout);
        let config = config(rules, layout).cpus(cpus as usize);
        let bytes = PageAllocator::<Recorded>::metadata_bytes(regions.iter().copied(), &config);
        let bytes = bytes.map_err(|error| refused(error.to_string()))?;
        let frames = top(layout).as_u64();
        let allocator = PageAllocator::new();
        // It stays to the end of the program, as a kernel's does.
        let storage = vec![MaybeUninit::uninit(); bytes].leak();
        let booted = allocator.init_simulated(regions.iter().copied(), &config, storage);
        booted.map_err(|error| refused(error.to_string()))?;
        let places = RefCell::new(Places::new(frames, Occupancy::new(frames)));
        let seat = Rc::new(Seat { allocator, places, noted: Cell::new(Noted::default()) });
        // SAFETY: the zones are looked at; `Start::build` changes them before the first request, and
        // the proof at the end after the lists have been emptied.
        #[expect(unsafe_code, reason = "the recorded start is not one that requests lead to")]
        let all = unsafe { seat.allocator.raw_zones() };
        let zones = layout.iter().map(|zone| found(zone, all)).collect::<Result<Vec<_>, _>>().map_err(refused)?;
        if all.len() != layout.len() {
            return Err(refused(format!("{} recorded, {} by these rules", layout.len(), all.len())));
        }
        for (zone, layout) in zones.iter().zip(layout) {
            zone.set_watermarks(layout.marks);
            zone.set_lowmem_reserve(layout.reserve);
        }
        let nodes = layout.iter().map(|zone| zone.config.node.index() + 1).max().unwrap_or(1);
        Ok(Self { rules, seat, zones, nodes, metadata: bytes as u64, cpus })
    }

    /// The zones in the order of the layout.
    pub(crate) fn zones(&self) -> &[&'static Zone<'static>] {
        &self.zones
    }

    /// Its nodes.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes).map(|node| NodeId::new(node as u8))
    }

    /// The zone that spans the frame.
    pub(crate) fn zone_of(&self, pfn: Pfn) -> Option<&'static Zone<'static>> {
        self.zones.iter().rev().find(|zone| zone.span().contains(pfn)).copied()
    }

    /// Free frames, those on per-CPU lists included.
    pub(crate) fn free_frames(&self) -> u64 {
        self.seat.places.borrow().occupancy.free()
    }

    /// Pageblocks with every frame free, on a per-CPU list or not.
    pub(crate) fn free_pageblocks(&self) -> u64 {
        self.seat.places.borrow().occupancy.whole()
    }

    /// Frames of all zones that belong to the allocator.
    pub(crate) fn managed(&self) -> u64 {
        self.zones.iter().map(|zone| zone.managed()).sum()
    }

    /// Serves a request from a node.
    #[inline]
    pub(crate) fn alloc(&self, order: Order, gfp: Gfp, node: NodeId) -> Option<Pfn> {
        let allocator = &self.seat.allocator;
        let served =
            if self.nodes == 1 { allocator.alloc_order(order, gfp) } else { allocator.alloc_on(node, order, gfp) };
        served.ok().map(|frames| frames.into_raw().pfn)
    }

    /// Takes back a whole block.
    #[inline]
    pub(crate) fn free(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        // SAFETY: the frames have been given out, here or at the start, and nothing is behind them.
        #[expect(unsafe_code, reason = "the word of the one that holds every frame of this machine")]
        let freed = unsafe { self.seat.allocator.free(pfn, order) };
        if freed.is_ok() {
            self.seat.places.borrow_mut().occupancy.give(pfn.as_u64(), order.frames());
        }
        freed
    }

    /// Takes back frames in whatever blocks they are held.
    pub(crate) fn free_range(&self, range: PfnRange) -> Result<(), FreeError> {
        // SAFETY: as in `free`.
        #[expect(unsafe_code, reason = "the word of the one that holds every frame of this machine")]
        let freed = unsafe { self.seat.allocator.free_range(range) };
        if freed.is_ok() {
            self.seat.places.borrow_mut().occupancy.give(range.start.as_u64(), range.len());
        }
        freed
    }

    /// True if some zone that the request may use has enough free frames for it, in whatever pieces.
    pub(crate) fn has_frames(&self, order: Order, gfp: Gfp) -> bool {
        let limit = gfp.zone_limit().unwrap_or_default();
        self.zones.iter().any(|zone| zone.kind() <= limit && zone.free_frames() >= order.frames())
    }

    /// Empties the per-CPU lists. Returns the frames that were on them.
    pub(crate) fn drain(&self) -> u64 {
        enter(&self.seat);
        let listed = self.seat.allocator.stats().listed;
        // Each answer to a kick gives back a part.
        let most = 2 + listed;
        let _ = (0..most).find(|_| self.seat.allocator.drain() == 0);
        listed
    }

    /// The free maps of all pageblocks, zone by zone.
    pub(crate) fn maps(&self) -> Vec<[u64; PAGEBLOCK_FRAMES as usize / 64]> {
        let mut maps = Vec::new();
        for zone in &self.zones {
            zone.for_each_pageblock(|_, block| maps.push(*block.map()));
        }
        maps
    }

    /// The first thing that is wrong, by recomputing everything from the bits; the lists are empty.
    pub(crate) fn check(&self) -> Result<(), String> {
        for zone in &self.zones {
            zone.check().map_err(|violation| format!("zone {}: {violation}", zone.kind()))?;
        }
        let (counted, free) = (self.free_frames(), self.seat.allocator.stats().free);
        if counted == free { Ok(()) } else { Err(format!("{free} frames are free, {counted} should be")) }
    }
}

/// CPUs of the recorded machine.
fn cpus(layout: &[ZoneLayout]) -> u32 {
    layout.iter().map(|zone| zone.recorded.cpus).max().unwrap_or(1).clamp(1, CPUS as u32)
}

/// The memory map: the allocator's ranges, and the others.
fn regions(start: &Start, layout: &[ZoneLayout]) -> Vec<Region> {
    let mut regions = Vec::new();
    for zone in layout {
        for (range, owner, _) in zone.ram.iter().flat_map(|&range| start.runs(range)) {
            let bytes = range.start.as_u64() * PAGE_SIZE..range.end.as_u64() * PAGE_SIZE;
            let absent = owner == ABSENT;
            match regions.last_mut() {
                Some((last, was_absent, node))
                    if same_run(last, &bytes) && *was_absent == absent && *node == zone.config.node =>
                {
                    last.end = bytes.end;
                }
                _ => regions.push((bytes, absent, zone.config.node)),
            }
        }
    }
    let region = |(bytes, absent, node): (std::ops::Range<u64>, bool, NodeId)| {
        let kind = if absent { RegionKind::Kernel } else { RegionKind::Usable };
        Region::new(bytes.start, bytes.end, kind).with_node(node)
    };
    regions.into_iter().map(region).collect()
}

fn same_run(last: &std::ops::Range<u64>, next: &std::ops::Range<u64>) -> bool {
    last.end == next.start
}

/// The rules, with the recorded machine's limits between zones and its reserves.
fn config(rules: Rules, layout: &[ZoneLayout]) -> Config {
    let of = |kind: ZoneKind| layout.iter().filter(move |zone| zone.config.kind == kind);
    // The next zone begins where this one ends, or after a hole; zones begin at pageblocks.
    let end = |kind: ZoneKind| {
        let end = of(kind).map(|zone| zone.config.span.end.as_u64()).max()?;
        Some(Pfn::new(end.next_multiple_of(PAGEBLOCK_FRAMES)))
    };
    let movable = of(ZoneKind::Movable).map(ZoneLayout::present).sum();
    let limits = ZoneLimits {
        dma_end: end(ZoneKind::Dma),
        dma32_end: end(ZoneKind::Dma32),
        movable,
        span_rule: SpanRule::Node,
        ..ZoneLimits::single()
    };
    let min: u64 = layout.iter().map(|zone| zone.marks.min).sum();
    let max_order = layout.first().map_or(Order::MAX, |zone| zone.config.max_order);
    rules.config().zones(limits).max_order(max_order).min_free_kbytes(Some(min * PAGE_SIZE / 1024))
}

/// Our zone for a recorded one: the same frames.
fn found(zone: &ZoneLayout, all: &'static [Zone<'static>]) -> Result<&'static Zone<'static>, String> {
    let name = format!("zone {} of node {}", zone.name(), zone.recorded.node);
    let same = |one: &&Zone<'_>| one.kind() == zone.config.kind && one.node() == zone.config.node;
    let one = all.iter().find(same).ok_or_else(|| format!("no {name}"))?;
    let outside = zone.ram.iter().find(|ram| ram.intersect(one.span()).len() != ram.len());
    match outside {
        Some(ram) => Err(format!("{name} with frames {} to {}, which is in another", ram.start, ram.end)),
        None => Ok(one),
    }
}
