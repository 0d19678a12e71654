//! From a memory map to zones: the zones found, the size of their metadata, and its place.

use core::mem::MaybeUninit;

use arrayvec::ArrayVec;
use pageblock_buddy::{Absent, BoostRule, Node, NodeOrder, Zone, ZoneConfig, ZoneStorage};
use pageblock_compaction::{Compactor, Kcompactd};
use pageblock_frame::sync::AtomicU32;
use pageblock_frame::{Carver, CpuId, Hooks, MAX_NODES, MAX_ZONES, NodeId, Pageblock, PfnRange, Platform, ZoneKind};
use pageblock_memmap::{MapOptions, Region, RegionMap, ZoneLimits, ZoneSpan};
use pageblock_pcp::PcpLists;
use pageblock_reclaim::Kswapd;

use crate::commit::Commitments;
use crate::config::Config;
use crate::counters::Counters;
use crate::error::{ConfigError, InitError};
use crate::history::History;
use crate::inner::{CpuEntry, Inner, NodeEntry, SpanEntry};
use crate::slowpath::LastDrain;

/// The plan, before a byte of memory is touched.
///
/// Boot stacks are small: large values are where the caller has them, or are made in
/// their place, the zones are found in the map each time, and each step has a stack frame of its own.
#[derive(Debug)]
pub(crate) struct Plan<'p> {
    map: &'p mut RegionMap,
    config: &'p Config,
    limits: ZoneLimits,
    /// Zones that have memory.
    zones: usize,
    /// Up to the highest that has memory or CPUs.
    nodes: usize,
    cpus: usize,
}

impl<'p> Plan<'p> {
    /// Reads the memory map into `map`.
    pub(crate) fn new<P: Platform>(
        map: &'p mut RegionMap,
        regions: impl IntoIterator<Item = Region>,
        config: &'p Config,
    ) -> Result<Self, InitError> {
        config.check()?;
        let cpus = config.cpus.unwrap_or(P::MAX_CPUS);
        if cpus == 0 || cpus > P::MAX_CPUS {
            return Err(ConfigError::Cpus { given: cpus }.into());
        }
        let reserved = config.reserved.get(..config.reservations).unwrap_or_default();
        map.rebuild(regions, reserved, MapOptions::new().reserve_low(config.low))?;
        if map.usable_frames() == 0 {
            return Err(InitError::NoMemory);
        }
        let mut limits = config.limits;
        if config.movable_share > 0 {
            limits.movable = map.present_frames() * u64::from(config.movable_share) / 100;
        }
        let (mut zones, mut last) = (0, 0);
        for zone in map.each_zone(&limits)? {
            zones += 1;
            last = zone.node.index().max(last);
        }
        for node in node_of_cpus::<P>(cpus) {
            last = node.index().min(MAX_NODES - 1).max(last);
        }
        let nodes = last + 1;
        Ok(Self { map, config, limits, zones, nodes, cpus })
    }

    /// The zone with this number, by node and then by kind. The search ends before its caller goes deeper.
    #[inline(never)]
    fn zone(&self, number: usize) -> Option<ZoneSpan> {
        // `new` has checked the limits.
        self.map.each_zone(&self.limits).ok()?.nth(number)
    }

    fn zones(&self) -> impl Iterator<Item = ZoneSpan> + '_ {
        (0..self.zones).filter_map(|number| self.zone(number))
    }

    /// Bytes of metadata, at most, wherever they start.
    pub(crate) fn metadata_bytes<P: Platform>(&self) -> usize {
        let zones = self.zones;
        let storage: usize = self.zones().map(|zone| ZoneStorage::bytes(zone.span, self.config.max_order)).sum();
        storage
            + array_bytes::<Zone<'_>>(zones)
            + array_bytes::<SpanEntry>(zones)
            + array_bytes::<NodeEntry>(self.nodes)
            + array_bytes::<CpuEntry>(self.cpus)
            + self.lists_bytes::<P>()
            + self.background_bytes::<P>()
            + array_bytes::<Inner<P>>(1)
    }

    /// Takes frames for the metadata out of the map.
    pub(crate) fn carve<P: Platform>(&mut self) -> Result<PfnRange, InitError> {
        let required = self.metadata_bytes::<P>();
        let place = self.map.carve(required as u64, align_of::<Pageblock>() as u64);
        place.ok_or(InitError::MetadataWontFit { required })
    }

    /// Builds the allocator over these bytes.
    pub(crate) fn build<P: Platform>(
        &self,
        storage: &'static mut [MaybeUninit<u8>],
    ) -> Result<&'static Inner<P>, InitError> {
        let metadata_bytes = storage.len();
        let short = InitError::StorageTooSmall { required: self.metadata_bytes::<P>(), given: metadata_bytes };
        if self.metadata_bytes::<P>() > metadata_bytes {
            return Err(short);
        }
        let mut carver = Carver::new(storage);
        let zones = self.build_zones::<P>(&mut carver)?;
        let spans = carver.take_with(zones.len(), |rank| span_entry(zones, rank)).ok_or(short)?;
        let nodes = self.build_nodes::<P>(&mut carver).ok_or(short)?;
        let node_of = |cpu| Some(CpuEntry { node: P::node_of(CpuId::new(cpu as u32)), reclaiming: AtomicU32::new(0) });
        let cpus = carver.take_with(self.cpus, node_of).ok_or(short)?;
        let lists = self.build_lists::<P>(zones, &mut carver).ok_or(short)?;
        let Background { compactors, kcompactds, kswapds } = self.build_background::<P>(&mut carver).ok_or(short)?;
        let report = self.map.report();
        let inner = |_| {
            Some(Inner {
                zones,
                lists,
                compactors,
                kcompactds,
                kswapds,
                spans,
                nodes,
                cpus,
                max_order: self.config.max_order,
                spreading: self.config.spreading,
                dirty_limit: self.config.dirty_limit,
                history: History::new(self.config.history),
                counters: Counters::new(),
                last_drain: LastDrain::new(),
                commitments: Commitments::new(),
                reserves: self.config.reserves,
                metadata_bytes,
                report: *report,
            })
        };
        let placed = carver.take_with(1, inner);
        let placed = placed.and_then(|placed| placed.first()).ok_or(short)?;
        placed.apply_reserves();
        Ok(placed)
    }

    /// Bytes of the per-CPU lists, at most.
    fn lists_bytes<P: Platform>(&self) -> usize {
        let Some(pcp) = self.config.pcp.filter(|_| P::PER_CPU_LISTS) else { return 0 };
        let of_zone = |zone: ZoneSpan| PcpLists::<P>::bytes(&pcp, zone.span, self.cpus as u32);
        self.zones().map(of_zone).sum::<usize>() + array_bytes::<PcpLists<'_, P>>(self.zones)
    }

    #[inline(never)]
    fn build_lists<P: Platform>(
        &self,
        zones: &'static [Zone<'static>],
        carver: &mut Carver<'static>,
    ) -> Option<&'static [PcpLists<'static, P>]> {
        let Some(pcp) = self.config.pcp.filter(|_| P::PER_CPU_LISTS) else { return Some(&[]) };
        let of_zone = |zone: usize, carver: &mut Carver<'static>| {
            PcpLists::carve(pcp, zones.get(zone)?, self.cpus as u32, carver)
        };
        carver.take_each(zones.len(), of_zone).map(|lists| &*lists)
    }

    /// How zones are to be compacted, if the kernel can move memory.
    fn compaction<P: Platform>(&self) -> Option<pageblock_compaction::Config> {
        P::hooks().migrator()?;
        self.config.compaction
    }

    /// Bytes of compaction's memory, and of the background threads, at most.
    fn background_bytes<P: Platform>(&self) -> usize {
        let mut bytes = 0;
        if self.compaction::<P>().is_some() {
            bytes += array_bytes::<Compactor>(self.zones) + array_bytes::<Kcompactd>(self.nodes);
        }
        if P::hooks().reclaimer().is_some() {
            bytes += array_bytes::<Kswapd>(self.nodes);
        }
        bytes
    }

    #[inline(never)]
    fn build_background<P: Platform>(&self, carver: &mut Carver<'static>) -> Option<Background> {
        let mut background = Background::default();
        if let Some(config) = self.compaction::<P>() {
            background.compactors = carver.take_with(self.zones, |_| Some(Compactor::new(config)))?;
            background.kcompactds = carver.take_with(self.nodes, |node| Some(Kcompactd::new(node_id(node))))?;
        }
        if P::hooks().reclaimer().is_some() {
            let kswapd = |node| Some(Kswapd::new(node_id(node), self.config.reclaim));
            background.kswapds = carver.take_with(self.nodes, kswapd)?;
        }
        Some(background)
    }

    #[inline(never)]
    fn build_zones<P: Platform>(&self, carver: &mut Carver<'static>) -> Result<&'static [Zone<'static>], InitError> {
        let short = InitError::StorageTooSmall { required: self.metadata_bytes::<P>(), given: carver.remaining() };
        let mut failure = short;
        // A boost would only withhold frames that cannot be freed.
        let boost = if P::hooks().reclaimer().is_some() { self.config.boost } else { BoostRule::off() };
        let zones = carver.take_each(self.zones, |number, carver| {
            let (span, config) = (self.zone(number)?, self.config);
            let Config { max_order, policy, .. } = *config;
            let stall_order = config.history.stall_order();
            let config = ZoneConfig { max_order, policy, boost, stall_order, ..zone_config(&span) };
            let made = Zone::new::<P>(config, ZoneStorage::carve(span.span, max_order, carver)?);
            made.map_err(|error| failure = error.into()).ok()
        });
        let zones = zones.ok_or(failure)?;
        for (zone, span) in zones.iter().zip(self.zones()) {
            self.fill(zone, &span)?;
        }
        Ok(zones)
    }

    /// Gives a zone its frames, and tells it of the others.
    #[inline(never)]
    fn fill(&self, zone: &Zone<'_>, span: &ZoneSpan) -> Result<(), InitError> {
        for run in self.map.usable_of(span) {
            // SAFETY: the promise of `init`: usable memory is used by nothing else, and only this call releases it.
            #[expect(unsafe_code, reason = "the kernel's word for what is in the memory map")]
            unsafe { zone.release(run) }?;
        }
        let mut at = span.span.start;
        let mut usable = self.map.usable_of(span);
        loop {
            let run = usable.next();
            let gap = PfnRange::new(at, run.map_or(span.span.end, |run| run.start));
            for present in self.map.present_of(span) {
                zone.mark_absent(present.intersect(gap), Absent::Reserved);
            }
            zone.mark_absent(gap, Absent::Hole);
            let Some(run) = run else { return Ok(()) };
            at = run.end;
        }
    }

    #[inline(never)]
    fn build_nodes<P: Platform>(&self, carver: &mut Carver<'static>) -> Option<&'static [NodeEntry]> {
        let mut places: ArrayVec<(ZoneKind, NodeId), MAX_ZONES> = ArrayVec::new();
        let mut with_memory: ArrayVec<NodeId, MAX_NODES> = ArrayVec::new();
        for zone in self.zones() {
            places.try_push((zone.kind, zone.node)).ok()?;
            if with_memory.last() != Some(&zone.node) {
                with_memory.try_push(zone.node).ok()?;
            }
        }
        let has_cpus = |node| node_of_cpus::<P>(self.cpus).any(|other| other == node);
        let mut order = NodeOrder::new(self.config.distances.unwrap_or_default());
        let entries = carver.take_with(self.nodes, |number| {
            let id = node_id(number);
            let exists = with_memory.contains(&id) || has_cpus(id);
            let nodes = if exists { &with_memory[..] } else { &[] };
            Some(NodeEntry::new(Node::new(id, nodes, &places, &mut order, has_cpus)))
        });
        entries.map(|entries| &*entries)
    }
}

/// Parts beside the zones where memory is moved and given up.
#[derive(Default)]
struct Background {
    compactors: &'static [Compactor],
    kcompactds: &'static [Kcompactd],
    kswapds: &'static [Kswapd],
}

const fn node_id(number: usize) -> NodeId {
    NodeId::new(number as u8)
}

/// Room for `count` values, wherever it starts.
const fn array_bytes<T>(count: usize) -> usize {
    size_of::<T>() * count + align_of::<T>()
}

fn node_of_cpus<P: Platform>(cpus: usize) -> impl Iterator<Item = NodeId> {
    (0..cpus as u32).map(|cpu| P::node_of(CpuId::new(cpu)))
}

/// The zone that comes `rank`th by size, from the largest down. (A sort could panic if the order were none.)
fn span_entry(zones: &[Zone<'_>], rank: usize) -> Option<SpanEntry> {
    let size = |(number, zone): (usize, &Zone<'_>)| (zone.span().len(), core::cmp::Reverse(number));
    let larger = |than: (usize, &Zone<'_>)| zones.iter().enumerate().filter(|zone| size(*zone) > size(than)).count();
    let (number, zone) = zones.iter().enumerate().find(|zone| larger(*zone) == rank)?;
    let span = zone.span();
    Some(SpanEntry { start: span.start.as_u64(), frames: span.len(), zone: u8::try_from(number).ok()? })
}

fn zone_config(zone: &ZoneSpan) -> ZoneConfig {
    ZoneConfig::new(zone.kind, zone.node, zone.span)
}
