//! Parts of an initialised allocator. Nothing here changes after boot but the zones, which have their own locks.

use pageblock_buddy::{FreeError, Node, Reserves, Zone};
use pageblock_compaction::{CompactZone, Compactor, Kcompactd};
use pageblock_frame::sync::{AtomicU32, Pinned};
use pageblock_frame::{AllocFlags, Gfp, MigrateType, NodeId, Order, Pfn, PfnRange, Platform, StateByte, ZoneKind};
use pageblock_memmap::{Region, RegionReport};
use pageblock_pcp::PcpLists;
use pageblock_reclaim::Kswapd;

use crate::commit::Commitments;
use crate::config::ZoneSpreading;
use crate::counters::Counters;
use crate::dirty::DirtyLimit;
use crate::error::AddError;
use crate::history::History;
use crate::slowpath::LastDrain;

/// Low bits of a request's flags that decide its zone (four bits) and its migrate type (two, one of them shared).
pub(crate) const PLACE_BITS: u32 = 0x1f;
/// In [`NodeEntry::preferred`]: the flags make no sense, or no zone of the machine can serve them.
pub(crate) const NO_ZONE: u8 = u8::MAX;

/// The allocator behind the `OnceRef`.
#[derive(Debug)]
pub(crate) struct Inner<P: Platform> {
    /// By node, and then by kind.
    pub(crate) zones: &'static [Zone<'static>],
    /// Each zone's per-CPU lists; no elements if there are to be none.
    pub(crate) lists: &'static [PcpLists<'static, P>],
    /// Each zone's compaction; no elements if there is to be none.
    pub(crate) compactors: &'static [Compactor],
    /// The reclaim threads, by node number; no elements if no reclaimer gives memory up.
    pub(crate) kswapds: &'static [Kswapd],
    /// The compaction threads, by node number; no elements if there is no compaction.
    pub(crate) kcompactds: &'static [Kcompactd],
    /// The same zones' spans, the largest first, so that most frames are found at the first look.
    pub(crate) spans: &'static [SpanEntry],
    /// By node number, up to the highest that has memory or CPUs.
    pub(crate) nodes: &'static [NodeEntry],
    /// By CPU number.
    pub(crate) cpus: &'static [CpuEntry],
    pub(crate) max_order: Order,
    pub(crate) spreading: ZoneSpreading,
    pub(crate) dirty_limit: DirtyLimit,
    /// Forms of old kernels only; empty without the feature `history`.
    pub(crate) history: History,
    pub(crate) counters: Counters,
    pub(crate) last_drain: LastDrain,
    pub(crate) commitments: Commitments,
    pub(crate) reserves: Reserves,
    pub(crate) metadata_bytes: usize,
    pub(crate) report: RegionReport,
}

/// Where a zone is, for finding a frame's zone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpanEntry {
    pub(crate) start: u64,
    pub(crate) frames: u64,
    /// Index of the zone.
    pub(crate) zone: u8,
}

/// A node and its table of preferred zones.
#[derive(Debug)]
pub(crate) struct NodeEntry {
    pub(crate) node: Node,
    /// The first zone of the fallback list for the flags' [`PLACE_BITS`], or [`NO_ZONE`].
    preferred: [u8; PLACE_BITS as usize + 1],
}

impl NodeEntry {
    pub(crate) fn new(node: Node) -> Self {
        let preferred = core::array::from_fn(|bits| {
            let gfp = Gfp::from_bits_retain(bits as u32);
            let limit = if gfp.check().is_ok() { gfp.zone_limit().ok() } else { None };
            limit.and_then(|limit| node.fallback.preferred(limit)).unwrap_or(NO_ZONE)
        });
        Self { node, preferred }
    }

    /// Index of the zone that a request from this node tries first, or [`NO_ZONE`].
    #[inline(always)]
    pub(crate) fn preferred(&self, gfp: Gfp) -> u8 {
        self.preferred[(gfp.bits() & PLACE_BITS) as usize]
    }
}

/// The allocator's knowledge of a CPU.
///
/// | field | legal values | changed by |
/// |---|---|---|
/// | `reclaiming` | number of requests that began to reclaim or compact on this CPU and have not ended | [`Depth`](crate::slowpath::Depth) |
#[derive(Debug)]
pub(crate) struct CpuEntry {
    pub(crate) node: NodeId,
    pub(crate) reclaiming: AtomicU32,
}

impl<P: Platform> Inner<P> {
    /// The node of the CPU that executes this: a hint, since nothing keeps the caller there.
    #[inline(always)]
    pub(crate) fn local_node(&self) -> Option<&'static NodeEntry> {
        if let [only] = self.nodes {
            return Some(only);
        }
        let cpu = Pinned::<P>::new().cpu();
        let node = self.cpus.get(cpu.index()).map(|cpu| cpu.node).unwrap_or_default();
        self.nodes.get(node.index())
    }

    /// A node that a caller names.
    pub(crate) fn node(&self, id: NodeId) -> Option<&'static NodeEntry> {
        let entry = self.nodes.get(id.index())?;
        entry.node.fallback.preferred(ZoneKind::Movable).map(|_| entry)
    }

    #[inline(always)]
    pub(crate) fn zone(&self, index: u8) -> Option<&'static Zone<'static>> {
        self.zones.get(usize::from(index))
    }

    /// A zone that spans the frame. Where the spans of several nodes overlap, this may not be the one that has it.
    #[inline(always)]
    pub(crate) fn spanning(&self, pfn: Pfn) -> Option<&'static Zone<'static>> {
        let entry = self.spans.iter().find(|entry| pfn.as_u64().wrapping_sub(entry.start) < entry.frames)?;
        self.zone(entry.zone)
    }

    /// The zone that has the frame, be it reserved.
    pub(crate) fn zone_of(&self, pfn: Pfn) -> Option<&'static Zone<'static>> {
        let spanning = self.zones.iter().filter(|zone| zone.span().contains(pfn));
        let mut found = None;
        for zone in spanning {
            let index = zone.index_of(pfn)?;
            if zone.states().get(index) != StateByte::HOLE {
                return Some(zone);
            }
            found = Some(zone);
        }
        found
    }

    /// The zone that has all of these frames.
    pub(crate) fn zone_of_range(&self, range: PfnRange) -> Option<&'static Zone<'static>> {
        let zone = self.zone_of(range.start)?;
        (range.end <= zone.span().end).then_some(zone)
    }

    /// # Safety
    /// As [`PcpLists::free`].
    #[expect(unsafe_code, reason = "the caller's word that it holds the block")]
    #[inline]
    pub(crate) unsafe fn free(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let zone = self.spanning(pfn).ok_or(FreeError::OutOfRange)?;
        // SAFETY: the caller's promise is passed on.
        match unsafe { self.free_to(zone, pfn, order) } {
            Ok(()) => Ok(()),
            // SAFETY: as above.
            Err(error) => unsafe { self.free_elsewhere((zone, error), pfn, order) },
        }
    }

    /// A zone that spans the frame refused it: perhaps because another has it.
    ///
    /// # Safety
    /// As [`PcpLists::free`].
    #[expect(unsafe_code, reason = "the caller's word that it holds the block")]
    #[cold]
    unsafe fn free_elsewhere(
        &self,
        (refused, error): (&'static Zone<'static>, FreeError),
        pfn: Pfn,
        order: Order,
    ) -> Result<(), FreeError> {
        match self.zone_of(pfn) {
            // SAFETY: the caller's promise is passed on.
            Some(zone) if !core::ptr::eq(zone, refused) => unsafe { self.free_to(zone, pfn, order) },
            _ => Err(error),
        }
    }

    /// The lists of all zones, or none.
    #[inline(always)]
    pub(crate) fn lists(&self) -> &'static [PcpLists<'static, P>] {
        if P::PER_CPU_LISTS { self.lists } else { &[] }
    }

    /// The lists of a zone.
    #[inline]
    pub(crate) fn lists_of(&self, zone: &'static Zone<'static>) -> Option<&'static PcpLists<'static, P>> {
        let place = self.zones.element_offset(zone)?;
        self.lists().get(place)
    }

    /// A zone with its compaction, if there is any.
    pub(crate) fn compact_zone(&self, zone: &'static Zone<'static>) -> Option<CompactZone<'static, 'static>> {
        let place = self.zones.element_offset(zone)?;
        Some(CompactZone { zone, compactor: self.compactors.get(place)? })
    }

    /// Takes a block from a zone after a test of its watermarks: through the CPU's list, or past it.
    pub(crate) fn alloc_from(
        &self,
        zone: &'static Zone<'static>,
        (order, migrate_type): (Order, MigrateType),
        flags: AllocFlags,
    ) -> Option<Pfn> {
        match self.lists_of(zone) {
            Some(lists) => lists.alloc_slow(order, migrate_type, flags),
            None => {
                let pfn = zone.alloc::<P>(order, migrate_type, flags)?;
                self.count_past_lists(zone, order.frames());
                Some(pfn)
            }
        }
    }

    /// # Safety
    /// As [`PcpLists::free`].
    #[expect(unsafe_code, reason = "the caller's word that it holds the block")]
    #[inline]
    unsafe fn free_to(&self, zone: &'static Zone<'static>, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        // SAFETY: the caller's promise is passed on.
        unsafe {
            match self.lists_of(zone) {
                Some(lists) => lists.free(pfn, order),
                None => zone.free::<P>(pfn, order),
            }
        }
    }

    /// Computes watermarks, reserves, and the sizes of the lists that follow from them.
    #[inline(never)]
    pub(crate) fn apply_reserves(&self) {
        self.reserves.apply(self.zones);
        for (zone, lists) in self.zones.iter().zip(self.lists()) {
            let near = self.cpus.iter().filter(|cpu| cpu.node == zone.node()).count();
            let cpus = if near == 0 { self.cpus.len() } else { near };
            let sizes = lists.config().sizes(zone.managed(), zone.watermarks().low, cpus as u32);
            // Sizes by formula are in range; a fixed configuration was checked at boot.
            let _ = lists.set_sizes(sizes);
        }
    }

    /// Adds memory inside the spans of the zones of its node: all of it or nothing.
    pub(crate) fn add(&self, region: Region) -> Result<u64, AddError> {
        let range = PfnRange::new(region.start.pfn_ceil(), region.end.pfn_floor());
        if range.is_empty() {
            return Err(AddError::Empty);
        }
        let parts = || {
            let of_node = self.zones.iter().filter(|zone| zone.node() == region.node);
            of_node.map(|zone| (zone, range.intersect(zone.span()))).filter(|(_, part)| !part.is_empty())
        };
        if parts().map(|(_, part)| part.len()).sum::<u64>() != range.len() {
            return Err(AddError::OutsideZones(range));
        }
        // All is looked at first, so that a refusal leaves nothing behind. Spans of several nodes may interleave, so
        // that a frame inside a zone of the region's node may be another zone's.
        for zone in self.zones {
            if let Some(taken) = first_managed(zone, range.intersect(zone.span())) {
                return Err(AddError::Overlap(taken));
            }
        }
        let mut added = 0;
        for (zone, part) in parts() {
            // SAFETY: the promise of `add_memory`.
            #[expect(unsafe_code, reason = "the kernel's word for what is in the region")]
            let released = unsafe { zone.release(part) };
            added += released.unwrap_or(0);
        }
        self.apply_reserves();
        Ok(added)
    }
}

/// The first of these frames that belongs to the allocator already: free or held.
fn first_managed(zone: &Zone<'_>, range: PfnRange) -> Option<Pfn> {
    (range.start.as_u64()..range.end.as_u64()).map(Pfn::new).find(|pfn| {
        let state = zone.index_of(*pfn).map_or(StateByte::HOLE, |index| zone.states().get(index));
        state != StateByte::HOLE && state != StateByte::RESERVED
    })
}
