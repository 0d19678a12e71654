//! Our zones, and the walk over them that serves a request.

use std::mem::MaybeUninit;

use pageblock_buddy::{FreeError, Unreserve, Zone, ZoneStorage};
use pageblock_frame::{AllocFlags, Carver, Gfp, NodeId, Order, PAGEBLOCK_FRAMES, Pfn, PfnRange, ZoneKind};
use pageblock_testkit::host::Host;

use super::layout::ZoneLayout;
use crate::InputError;

/// The platform: a thread of this process is the CPU.
pub(crate) type Cpu = Host<0>;

/// The memory for the metadata of a machine's zones.
#[derive(Debug, Default)]
pub(crate) struct Storage {
    parts: Vec<Vec<MaybeUninit<u8>>>,
}

impl Storage {
    /// Room for these zones.
    pub(crate) fn new(zones: &[ZoneLayout]) -> Self {
        let bytes = |zone: &ZoneLayout| ZoneStorage::bytes(zone.config.span, zone.config.max_order);
        Self { parts: zones.iter().map(|zone| vec![MaybeUninit::uninit(); bytes(zone)]).collect() }
    }

    /// Bytes of it.
    pub(crate) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.len() as u64).sum()
    }
}

/// One machine.
#[derive(Debug)]
pub(crate) struct Machine<'m> {
    zones: Vec<Zone<'m>>,
    /// For each node its zones and then those of the others, each from the highest kind down.
    lists: Vec<Vec<usize>>,
    /// For each node, whether fragmentation is avoided at first: its DMA32 zone exists beside Normal.
    avoids: Vec<bool>,
    /// Calls of zone functions that allocate or free.
    pub(crate) calls: u64,
}

impl<'m> Machine<'m> {
    /// Zones in which nothing is free yet.
    pub(crate) fn new(layout: &[ZoneLayout], storage: &'m mut Storage) -> Result<Self, InputError> {
        let mut zones = Vec::with_capacity(layout.len());
        for (zone, part) in layout.iter().zip(&mut storage.parts) {
            let refused = |why: String| InputError::content("zoneinfo".as_ref(), format!("a usable zone: {why}"));
            let carved = ZoneStorage::carve(zone.config.span, zone.config.max_order, &mut Carver::new(part));
            let carved = carved.ok_or_else(|| refused("its metadata does not fit".into()))?;
            let made = Zone::new::<Cpu>(zone.config, carved).map_err(|error| refused(error.to_string()))?;
            made.set_watermarks(zone.marks);
            made.set_lowmem_reserve(zone.reserve);
            made.set_boost(zone.recorded.boost);
            zones.push(made);
        }
        let nodes = layout.iter().map(|zone| zone.config.node.index() + 1).max().unwrap_or(1);
        let lists = (0..nodes).map(|node| zonelist(&zones, node)).collect();
        let on_node = |node: usize, kind| zones.iter().any(|zone| zone.node().index() == node && zone.kind() == kind);
        let avoids = (0..nodes).map(|node| on_node(node, ZoneKind::Normal) && on_node(node, ZoneKind::Dma32)).collect();
        Ok(Self { zones, lists, avoids, calls: 0 })
    }

    /// The zones, ascending by address.
    pub(crate) fn zones(&self) -> &[Zone<'m>] {
        &self.zones
    }

    /// The zone that spans the frame.
    #[inline]
    pub(crate) fn zone_of(&self, pfn: Pfn) -> Option<&Zone<'m>> {
        self.zones.iter().rev().find(|zone| zone.span().contains(pfn))
    }

    /// Free frames of all zones.
    pub(crate) fn free_frames(&self) -> u64 {
        self.zones.iter().map(Zone::free_frames).sum()
    }

    /// Frames of all zones that belong to the allocator.
    pub(crate) fn managed(&self) -> u64 {
        self.zones.iter().map(Zone::managed).sum()
    }

    /// Pageblocks with every frame free.
    pub(crate) fn free_pageblocks(&self) -> u64 {
        self.zones.iter().map(Zone::whole_blocks).sum()
    }

    /// Serves a request as Linux's allocator would, reclaim and compaction excepted: first above the low watermark and without
    /// mixing types, then mixing, then above the min watermark as the slow path.
    #[inline]
    pub(crate) fn alloc(&mut self, order: Order, gfp: Gfp, node: NodeId) -> Option<Pfn> {
        let limit = gfp.zone_limit().unwrap_or_default();
        let fast = gfp.fast_alloc_flags();
        let avoids = limit >= ZoneKind::Normal && self.avoids.get(node.index()).is_some_and(|&avoids| avoids);
        let place = (node, limit);
        let pure = if avoids { self.walk(order, gfp, place, fast | AllocFlags::NOFRAGMENT) } else { None };
        let found = pure.or_else(|| self.walk(order, gfp, place, fast));
        found.or_else(|| self.walk(order, gfp, place, gfp.slow_alloc_flags(order)))
    }

    /// Serves a request without regard for watermarks and reserves: Linux did serve it, after reclaim that the trace shows
    /// as frees at other times.
    #[cold]
    pub(crate) fn alloc_anyhow(&mut self, order: Order, gfp: Gfp, node: NodeId) -> Option<Pfn> {
        let place = (node, gfp.zone_limit().unwrap_or_default());
        let anyhow = gfp.slow_alloc_flags(order) | AllocFlags::NO_WATERMARKS;
        if let Some(pfn) = self.walk(order, gfp, place, anyhow) {
            return Some(pfn);
        }
        let mut gave = false;
        for zone in self.zones.iter().filter(|zone| zone.kind() <= place.1 && zone.highatomic() > 0) {
            gave |= zone.unreserve_highatomic::<Cpu>(Unreserve::Last, gfp.migrate_type());
            self.calls += 1;
        }
        if gave { self.walk(order, gfp, place, anyhow) } else { None }
    }

    /// The zones for requests from a node, by their numbers, in the order in which they are tried.
    pub(crate) fn list(&self, node: NodeId) -> &[usize] {
        self.lists.get(node.index()).or_else(|| self.lists.first()).map_or(&[], Vec::as_slice)
    }

    #[inline]
    fn walk(&mut self, order: Order, gfp: Gfp, (node, limit): (NodeId, ZoneKind), flags: AllocFlags) -> Option<Pfn> {
        let list = self.lists.get(node.index()).or_else(|| self.lists.first())?;
        for &index in list {
            let zone = &self.zones[index];
            if zone.kind() > limit || (gfp.contains(Gfp::THISNODE) && zone.node() != node) {
                continue;
            }
            let unlimited = flags.contains(AllocFlags::NO_WATERMARKS);
            if !unlimited && !zone.watermark_ok(order, zone.mark_for(flags), limit, flags) {
                continue;
            }
            self.calls += 1;
            if let Some(pfn) = zone.alloc::<Cpu>(order, gfp.migrate_type(), flags) {
                if flags.contains(AllocFlags::HIGHATOMIC) {
                    zone.reserve_highatomic::<Cpu>(pfn);
                }
                return Some(pfn);
            }
        }
        None
    }

    /// Takes back a whole block.
    #[inline]
    pub(crate) fn free(&mut self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.calls += 1;
        self.zone_of(pfn).ok_or(FreeError::OutOfRange)?.free::<Cpu>(pfn, order)
    }

    /// Takes back frames in whatever blocks they are held.
    pub(crate) fn free_range(&mut self, range: PfnRange) -> Result<(), FreeError> {
        self.calls += 1;
        self.zone_of(range.start).ok_or(FreeError::OutOfRange)?.free_range::<Cpu>(range)
    }

    /// True if some zone that the request may use has enough free frames for it, in whatever pieces.
    pub(crate) fn has_frames(&self, order: Order, gfp: Gfp) -> bool {
        let limit = gfp.zone_limit().unwrap_or_default();
        self.zones.iter().any(|zone| zone.kind() <= limit && zone.free_frames() >= order.frames())
    }

    /// The free maps of all pageblocks, zone by zone.
    pub(crate) fn maps(&self) -> Vec<[u64; PAGEBLOCK_FRAMES as usize / 64]> {
        let mut maps = Vec::new();
        for zone in &self.zones {
            zone.for_each_pageblock(|_, block| maps.push(block.map));
        }
        maps
    }

    /// The first thing that is wrong with a zone, by recomputing everything from the bits.
    pub(crate) fn check(&self) -> Result<(), String> {
        for zone in &self.zones {
            zone.check().map_err(|violation| format!("zone {}: {violation}", zone.kind()))?;
        }
        Ok(())
    }
}

fn zonelist(zones: &[Zone<'_>], node: usize) -> Vec<usize> {
    let mut list: Vec<usize> = (0..zones.len()).collect();
    list.sort_by_key(|&index| {
        let zone = &zones[index];
        (zone.node().index() != node, zone.node().index(), std::cmp::Reverse(zone.kind()))
    });
    list
}
