//! From a memory map to zones: how much metadata they take, where that goes, and how they are built.

use core::mem::MaybeUninit;

use arrayvec::ArrayVec;
use pageblock_buddy::{Absent, BoostRule, Node, NodeOrder, Zone, ZoneConfig, ZonePlace, ZoneStorage};
use pageblock_compaction::{Compactor, Kcompactd};
use pageblock_frame::sync::{AtomicU32, AtomicU64};
use pageblock_frame::{Carver, CpuId, Hooks, MAX_NODES, MAX_ZONES, NodeId, Pageblock, PfnRange, Platform, Slots};
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

/// The memory map, its zones, and the plan that follows, before a byte of memory is touched. In the allocator's own
/// memory: no boot stack has room for them.
#[derive(Debug)]
pub(crate) struct Draft {
    map: RegionMap,
    zones: ArrayVec<ZoneSpan, MAX_ZONES>,
    limits: ZoneLimits,
    /// Up to the highest that has memory or CPUs.
    nodes: usize,
    cpus: usize,
    /// Bytes of metadata, at most, wherever they start.
    pub(crate) required: usize,
}

impl Draft {
    pub(crate) const fn new() -> Self {
        Self {
            map: RegionMap::empty(),
            zones: ArrayVec::new_const(),
            limits: ZoneLimits::single(),
            nodes: 0,
            cpus: 0,
            required: 0,
        }
    }

    /// Reads the memory map, and makes the plan.
    pub(crate) fn read<P: Platform>(
        &mut self,
        next: &mut dyn FnMut() -> Option<Region>,
        config: &Config,
    ) -> Result<(), InitError> {
        self.read_map::<P>(next, config)?;
        self.find_zones::<P>(config)
    }

    #[inline(never)]
    fn read_map<P: Platform>(
        &mut self,
        next: &mut dyn FnMut() -> Option<Region>,
        config: &Config,
    ) -> Result<(), InitError> {
        config.check()?;
        self.cpus = config.cpus.unwrap_or(P::MAX_CPUS);
        if self.cpus == 0 || self.cpus > P::MAX_CPUS {
            return Err(ConfigError::Cpus { given: self.cpus }.into());
        }
        let reserved = config.reserved.get(..config.reservations).unwrap_or_default();
        Ok(self.map.rebuild(core::iter::from_fn(next), reserved, MapOptions::new().reserve_low(config.low))?)
    }

    #[inline(never)]
    fn find_zones<P: Platform>(&mut self, config: &Config) -> Result<(), InitError> {
        if self.map.usable_frames() == 0 {
            return Err(InitError::NoMemory);
        }
        self.limits = config.limits;
        if config.movable_share > 0 {
            self.limits.movable = self.map.present_frames() * u64::from(config.movable_share) / 100;
        }
        self.map.zones_into(&self.limits, &mut self.zones)?;
        self.nodes = 0;
        for node in self.zones.iter().map(|zone| zone.node).chain(node_of_cpus::<P>(self.cpus)) {
            self.nodes = self.nodes.max(node.index().min(MAX_NODES - 1) + 1);
        }
        self.required = Plan { draft: self, config }.metadata_bytes::<P>();
        Ok(())
    }

    /// Takes frames for the metadata out of the map.
    pub(crate) fn carve(&mut self) -> Result<PfnRange, InitError> {
        let required = self.required;
        let place = self.map.carve(required as u64, align_of::<Pageblock>() as u64, &self.limits);
        place.ok_or(InitError::MetadataWontFit { required })
    }

    /// Builds the allocator over these bytes.
    pub(crate) fn build<P: Platform>(
        &self,
        config: &Config,
        storage: &'static mut [MaybeUninit<u8>],
    ) -> Result<&'static Inner<P>, InitError> {
        let short = InitError::StorageTooSmall { required: self.required, given: storage.len() };
        if self.required > storage.len() {
            return Err(short);
        }
        match (Plan { draft: self, config }).build(storage) {
            Some(built) => built,
            None => Err(short),
        }
    }
}

/// How the parts are built.
///
/// Boot stacks are small, also where nothing is optimised: large values are made where they stay, loops stand in place
/// of adapters around adapters, and no step is alive while the next one runs. `None` stands for too few bytes.
#[derive(Clone, Copy)]
struct Plan<'p> {
    draft: &'p Draft,
    config: &'p Config,
}

impl Plan<'_> {
    fn metadata_bytes<P: Platform>(self) -> usize {
        let zones = self.draft.zones.len();
        let mut bytes = array_bytes::<Zone<'_>>(zones)
            + array_bytes::<SpanEntry>(zones)
            + array_bytes::<AtomicU64>(zones)
            + array_bytes::<NodeEntry>(self.draft.nodes)
            + array_bytes::<CpuEntry>(self.draft.cpus)
            + self.background_bytes::<P>()
            + array_bytes::<Inner<P>>(1);
        for zone in &self.draft.zones {
            bytes += ZoneStorage::bytes(zone.span, self.config.max_order) + self.lists_bytes::<P>(zone);
        }
        bytes
    }

    fn build<P: Platform>(
        self,
        storage: &'static mut [MaybeUninit<u8>],
    ) -> Option<Result<&'static Inner<P>, InitError>> {
        let metadata_bytes = storage.len();
        let mut carver = Carver::new(storage);
        let inner = self.build_inner::<P>(&mut carver)?;
        inner.metadata_bytes = metadata_bytes;
        match self.build_zones::<P>(&mut carver)? {
            Ok(zones) => inner.zones = zones,
            Err(error) => return Some(Err(error)),
        }
        let zones = inner.zones;
        let node_of = |cpu| Some(CpuEntry { node: P::node_of(CpuId::new(cpu as u32)), reclaiming: AtomicU32::new(0) });
        inner.commitments = Commitments::of(carver.take_with(zones.len(), |_| Some(AtomicU64::new(0)))?);
        inner.spans = carver.take_with(zones.len(), |rank| span_entry(zones, rank))?;
        inner.nodes = self.build_nodes::<P>(&mut carver)?;
        inner.cpus = carver.take_with(self.draft.cpus, node_of)?;
        inner.lists = self.build_lists::<P>(zones, &mut carver)?;
        self.build_background(inner, &mut carver)?;
        inner.apply_reserves();
        Some(Ok(inner))
    }

    /// An allocator without parts.
    #[inline(never)]
    fn build_inner<P: Platform>(self, carver: &mut Carver<'static>) -> Option<&'static mut Inner<P>> {
        carver.place(Inner {
            zones: &[],
            lists: &[],
            compactors: &[],
            kcompactds: &[],
            kswapds: &[],
            spans: &[],
            nodes: &[],
            cpus: &[],
            max_order: self.config.max_order,
            spreading: self.config.spreading,
            dirty_limit: self.config.dirty_limit,
            history: History::new(self.config.history),
            counters: Counters::new(),
            last_drain: LastDrain::new(),
            commitments: Commitments::new(),
            reserves: self.config.reserves,
            metadata_bytes: 0,
            report: *self.draft.map.report(),
        })
    }

    /// Bytes of a zone's per-CPU lists, at most.
    fn lists_bytes<P: Platform>(self, zone: &ZoneSpan) -> usize {
        match &self.config.pcp {
            Some(pcp) if P::PER_CPU_LISTS => {
                PcpLists::<P>::bytes(pcp, zone.span, self.draft.cpus as u32) + array_bytes::<PcpLists<'_, P>>(1)
            }
            _ => 0,
        }
    }

    #[inline(never)]
    fn build_lists<P: Platform>(
        self,
        zones: &'static [Zone<'static>],
        carver: &mut Carver<'static>,
    ) -> Option<&'static [PcpLists<'static, P>]> {
        let Some(pcp) = &self.config.pcp else { return Some(&[]) };
        if !P::PER_CPU_LISTS {
            return Some(&[]);
        }
        let mut lists = carver.slots(zones.len())?;
        for zone in zones {
            add(&mut lists, PcpLists::carve(*pcp, zone, self.draft.cpus as u32, carver))?;
        }
        Some(lists.filled())
    }

    /// How zones are to be compacted, if the kernel can move memory.
    fn compaction<P: Platform>(self) -> Option<pageblock_compaction::CompactionConfig> {
        P::hooks().migrator()?;
        self.config.compaction
    }

    /// Bytes of the memory of compaction, and of the background threads, at most.
    fn background_bytes<P: Platform>(self) -> usize {
        let mut bytes = 0;
        if self.compaction::<P>().is_some() {
            bytes += array_bytes::<Compactor>(self.draft.zones.len()) + array_bytes::<Kcompactd>(self.draft.nodes);
        }
        if P::hooks().reclaimer().is_some() {
            bytes += array_bytes::<Kswapd>(self.draft.nodes);
        }
        bytes
    }

    #[inline(never)]
    fn build_background<P: Platform>(self, inner: &mut Inner<P>, carver: &mut Carver<'static>) -> Option<()> {
        let nodes = self.draft.nodes;
        if let Some(config) = self.compaction::<P>() {
            inner.compactors = carver.take_with(inner.zones.len(), |_| Some(Compactor::new(config)))?;
            inner.kcompactds = carver.take_with(nodes, |node| Some(Kcompactd::new(node_id(node))))?;
        }
        if P::hooks().reclaimer().is_some() {
            inner.kswapds = carver.take_with(nodes, |node| Some(Kswapd::new(node_id(node), self.config.reclaim)))?;
        }
        Some(())
    }

    /// The zones with their frames.
    #[inline(never)]
    fn build_zones<P: Platform>(
        self,
        carver: &mut Carver<'static>,
    ) -> Option<Result<&'static [Zone<'static>], InitError>> {
        let mut zones = carver.slots(self.draft.zones.len())?;
        for span in &self.draft.zones {
            let storage = ZoneStorage::carve(span.span, self.config.max_order, carver)?;
            let zone = match self.add_zone::<P>(&mut zones, span, storage) {
                Ok(zone) => zone,
                Err(error) => return Some(Err(error)),
            };
            if let Err(error) = self.fill(zone, span) {
                return Some(Err(error));
            }
            self.mark_gaps(zone, span);
        }
        Some(Ok(zones.filled()))
    }

    #[inline(never)]
    fn add_zone<'z, P: Platform>(
        self,
        zones: &'z mut Slots<'static, Zone<'static>>,
        span: &ZoneSpan,
        storage: ZoneStorage<'static>,
    ) -> Result<&'z Zone<'static>, InitError> {
        // A boost would only withhold frames that cannot be freed.
        let boost = if P::hooks().reclaimer().is_some() { self.config.boost } else { BoostRule::off() };
        let config = ZoneConfig {
            max_order: self.config.max_order,
            policy: self.config.policy,
            boost,
            stall_order: self.config.history.stall_order(),
            ..ZoneConfig::new(span.kind, span.node, span.span)
        };
        let zone = zones.push(Zone::new::<P>(config, storage)?);
        // There are as many slots as zones.
        zone.map(|zone| &*zone).ok_or(InitError::NoMemory)
    }

    /// Gives a zone its frames.
    #[inline(never)]
    fn fill(self, zone: &Zone<'_>, span: &ZoneSpan) -> Result<(), InitError> {
        for run in self.draft.map.usable_of(span) {
            // SAFETY: the promise of `init`: usable memory is used by nothing else, and only this call releases it.
            #[expect(unsafe_code, reason = "the kernel's word for what is in the memory map")]
            unsafe { zone.release(run.range) }?;
        }
        Ok(())
    }

    /// Tells a zone of the other frames.
    #[inline(never)]
    fn mark_gaps(self, zone: &Zone<'_>, span: &ZoneSpan) {
        let mut at = span.span.start;
        for run in self.draft.map.usable_of(span) {
            self.mark(zone, span, PfnRange::new(at, run.range.start));
            at = run.range.end;
        }
        self.mark(zone, span, PfnRange::new(at, span.span.end));
    }

    /// Records which frames of a gap between usable ones exist.
    #[inline(never)]
    fn mark(self, zone: &Zone<'_>, span: &ZoneSpan, gap: PfnRange) {
        for present in self.draft.map.present_of(span) {
            zone.mark_absent(present.range.intersect(gap), Absent::Reserved);
        }
        zone.mark_absent(gap, Absent::Hole);
    }

    #[inline(never)]
    fn build_nodes<P: Platform>(self, carver: &mut Carver<'static>) -> Option<&'static [NodeEntry]> {
        let mut places: ArrayVec<ZonePlace, MAX_ZONES> = ArrayVec::new();
        let mut with_memory: ArrayVec<NodeId, MAX_NODES> = ArrayVec::new();
        for zone in &self.draft.zones {
            places.try_push(ZonePlace { kind: zone.kind, node: zone.node }).ok()?;
            if with_memory.last() != Some(&zone.node) {
                with_memory.try_push(zone.node).ok()?;
            }
        }
        let has_cpus = |node| node_of_cpus::<P>(self.draft.cpus).any(|other| other == node);
        let mut order = NodeOrder::new(self.config.distances.unwrap_or_default());
        let mut entries = carver.slots(self.draft.nodes)?;
        for id in (0..self.draft.nodes).map(node_id) {
            let exists = with_memory.contains(&id) || has_cpus(id);
            let nodes = if exists { &with_memory[..] } else { &[] };
            entries.push(NodeEntry::new(Node::new(id, nodes, &places, &mut order, has_cpus)))?;
        }
        Some(entries.filled())
    }
}

/// Puts a value there, if there is one. A function of its own, so that one copy less is on its caller's stack.
fn add<T>(slots: &mut Slots<'_, T>, value: Option<T>) -> Option<()> {
    slots.push(value?).map(|_| ())
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
