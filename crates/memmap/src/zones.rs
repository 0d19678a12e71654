//! Splitting the memory map into zones.

use arrayvec::ArrayVec;

use crate::map::{ALL_FRAMES, RegionMap};
use crate::movable::movable_starts;
use pageblock_frame::{MAX_NODES, MAX_PFN, MAX_ZONES, NodeId, PAGEBLOCK_ORDER, Pfn, PfnRange, ZoneKind};

/// Which frames a zone spans.
///
/// ```
/// use pageblock_memmap::{MapOptions, Region, RegionMap, SpanRule, ZoneLimits};
/// let ram = [Region::from((0, 0xc000_0000, true)), Region::from((0x1_0000_0000, 0x4000_0000, true))];
/// let map: RegionMap = RegionMap::build(ram, &[], MapOptions::new()).unwrap();
/// let spanned = |rule| map.zones(&ZoneLimits::default().spans(rule)).unwrap()[1].span.len();
/// assert_eq!(spanned(SpanRule::Memory), 0xc_0000 - 0x1000);
/// assert_eq!(spanned(SpanRule::Node), 0x10_0000 - 0x1000); // the hole below 4 GiB counts
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SpanRule {
    /// From the zone's first frame of memory to its last: metadata only for frames between them.
    #[default]
    Memory,
    /// As Linux does: from where the zone begins on the node to where it or the node ends, holes at the ends included.
    Node,
}

/// Where zones begin and end.
///
/// ```
/// use pageblock_frame::{Pfn, ZoneKind};
/// use pageblock_memmap::{MapOptions, Region, RegionMap, ZoneLimits};
/// let ram = [Region::from((0, 0x4000_0000, true))];
/// let map: RegionMap = RegionMap::build(ram, &[], MapOptions::new()).unwrap();
/// // A machine without old devices that keeps a quarter of its memory movable:
/// let zones = map.zones(&ZoneLimits::single().movable_frames(0x1_0000)).unwrap();
/// let kinds: Vec<_> = zones.iter().map(|zone| (zone.kind, zone.usable)).collect();
/// assert_eq!(kinds, [(ZoneKind::Normal, 0x3_0000), (ZoneKind::Movable, 0x1_0000)]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneLimits {
    /// First frame above DMA; no such zone if `None`. A multiple of the pageblock, like the next.
    pub dma_end: Option<Pfn>,
    /// First frame above DMA32; no such zone if `None`.
    pub dma32_end: Option<Pfn>,
    /// Frames wanted in Movable zones on all nodes together (`movablecore=`), rounded up to blocks of the largest
    /// order; 0 for no such wish.
    pub movable: u64,
    /// Frames wanted outside Movable zones (`kernelcore=`), spread evenly over the nodes; 0 for no such wish. Where
    /// both are given the larger share of the kernel counts.
    pub kernel: u64,
    /// Which frames a zone spans.
    pub span_rule: SpanRule,
}

impl Default for ZoneLimits {
    /// As on x86-64: DMA below 16 MiB, DMA32 below 4 GiB, no Movable zone.
    fn default() -> Self {
        Self::x86_64()
    }
}

impl ZoneLimits {
    /// DMA below 16 MiB, DMA32 below 4 GiB, no Movable zone: the default.
    #[must_use]
    pub const fn x86_64() -> Self {
        Self { dma_end: Some(Pfn::new(0x1000)), dma32_end: Some(Pfn::new(0x10_0000)), ..Self::single() }
    }

    /// One Normal zone a node.
    #[must_use]
    pub const fn single() -> Self {
        Self { dma_end: None, dma32_end: None, movable: 0, kernel: 0, span_rule: SpanRule::Memory }
    }

    /// This many frames in Movable zones.
    #[must_use]
    pub const fn movable_frames(self, frames: u64) -> Self {
        Self { movable: frames, ..self }
    }

    /// This many frames outside Movable zones, and all else in them.
    #[must_use]
    pub const fn kernel_frames(self, frames: u64) -> Self {
        Self { kernel: frames, ..self }
    }

    /// Zones span as this rule says.
    #[must_use]
    pub const fn spans(self, span_rule: SpanRule) -> Self {
        Self { span_rule, ..self }
    }

    /// Refuses limits that cross or cut a pageblock.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn check(&self) -> Result<(), ZoneLimitError> {
        for (kind, end) in [(ZoneKind::Dma, self.dma_end), (ZoneKind::Dma32, self.dma32_end)] {
            if let Some(end) = end.filter(|end| !end.is_aligned(PAGEBLOCK_ORDER)) {
                return Err(ZoneLimitError::Unaligned { kind, end });
            }
        }
        match (self.dma_end, self.dma32_end) {
            (Some(dma_end), Some(dma32_end)) if dma_end > dma32_end => {
                Err(ZoneLimitError::Crossed { dma_end, dma32_end })
            }
            _ => Ok(()),
        }
    }

    /// The frames of each kind of zone, indexed by kind, where the Movable zone starts at `movable`.
    pub(crate) fn windows(&self, movable: u64) -> [PfnRange; ZoneKind::COUNT] {
        let dma = self.dma_end.unwrap_or_default().as_u64();
        let dma32 = self.dma32_end.map_or(dma, Pfn::as_u64);
        let window = |start: u64, end: u64| PfnRange::new(Pfn::new(start), Pfn::new(end.min(movable)));
        let above = PfnRange::new(Pfn::new(movable), Pfn::new(MAX_PFN));
        [window(0, dma), window(dma, dma32), window(dma32, MAX_PFN), above]
    }
}

/// Fault of [`ZoneLimits`].
///
/// ```
/// use pageblock_frame::{Pfn, ZoneKind};
/// use pageblock_memmap::{ZoneLimitError, ZoneLimits};
/// let end = Pfn::new(1000);
/// let limits = ZoneLimits { dma_end: Some(end), ..ZoneLimits::default() };
/// assert_eq!(limits.check(), Err(ZoneLimitError::Unaligned { kind: ZoneKind::Dma, end }));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ZoneLimitError {
    /// The zone would end inside a pageblock.
    #[error("zone {kind} ends at {end}, inside a pageblock")]
    Unaligned {
        /// The zone.
        kind: ZoneKind,
        /// The end that was asked for.
        end: Pfn,
    },
    /// DMA would end above DMA32.
    #[error("zone DMA ends at {dma_end}, above the end of DMA32 at {dma32_end}")]
    Crossed {
        /// End of DMA.
        dma_end: Pfn,
        /// End of DMA32.
        dma32_end: Pfn,
    },
    /// More movable memory is wanted than there is.
    #[error("{wanted} movable frames are wanted of {present}")]
    MovableTooLarge {
        /// Frames wanted, rounded up.
        wanted: u64,
        /// Frames of memory.
        present: u64,
    },
}

/// A zone that has memory.
///
/// ```
/// use pageblock_frame::{NodeId, ZoneKind};
/// use pageblock_memmap::{MapOptions, Region, RegionMap, ZoneLimits, ZoneSpan};
/// let ram = [Region::from((0, 0x100_0000, true))];
/// let map: RegionMap = RegionMap::build(ram, &[], MapOptions::new().reserve_low(0x10_0000)).unwrap();
/// let dma: ZoneSpan = map.zones(&ZoneLimits::default()).unwrap()[0];
/// assert_eq!((dma.kind, dma.node), (ZoneKind::Dma, NodeId::new(0)));
/// assert_eq!((dma.span.len(), dma.present, dma.usable), (4096, 4096, 3840));
/// assert_eq!(map.usable_of(&dma).count(), 1);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneSpan {
    /// Kind of zone.
    pub kind: ZoneKind,
    /// Its node.
    pub node: NodeId,
    /// From its first frame to its last, holes and other nodes' frames between them included.
    pub span: PfnRange,
    /// Frames of memory in it.
    pub present: u64,
    /// Frames in it that the allocator may give out.
    pub usable: u64,
}

impl<const N: usize> RegionMap<N> {
    /// The zones that have memory, by node and then by kind, both ascending.
    ///
    /// # Errors
    /// [`ZoneLimitError`] for limits that make no sense.
    pub fn zones(&self, limits: &ZoneLimits) -> Result<ArrayVec<ZoneSpan, MAX_ZONES>, ZoneLimitError> {
        // There are no more kinds and nodes than there is room.
        Ok(self.each_zone(limits)?.take(MAX_ZONES).collect())
    }

    /// The same one by one, found anew each time, where the stack has no room for a list of them.
    ///
    /// # Errors
    /// As for [`zones`](Self::zones).
    pub fn each_zone(&self, limits: &ZoneLimits) -> Result<impl Iterator<Item = ZoneSpan> + '_, ZoneLimitError> {
        limits.check()?;
        let movable = movable_starts(self, limits)?;
        Ok(Zones { map: self, limits: *limits, movable, passed: 0 })
    }

    /// The usable runs of a zone of this map.
    pub fn usable_of(&self, zone: &ZoneSpan) -> impl Iterator<Item = PfnRange> + '_ {
        self.usable_on(zone.node, zone.span).map(|run| run.range)
    }

    /// The runs of memory of a zone of this map, usable or not.
    pub fn present_of(&self, zone: &ZoneSpan) -> impl Iterator<Item = PfnRange> + '_ {
        self.present_on(zone.node, zone.span).map(|run| run.range)
    }

    /// From the first frame of a node's memory in a window to the last.
    pub(crate) fn hull(&self, node: NodeId, window: PfnRange) -> Option<PfnRange> {
        let runs = self.present_on(node, window).map(|run| run.range);
        runs.reduce(|low, high| PfnRange::new(low.start.min(high.start), low.end.max(high.end)))
    }

    fn zone(&self, kind: ZoneKind, window: PfnRange, node: NodeId, rule: SpanRule) -> Option<ZoneSpan> {
        let memory = self.hull(node, window)?;
        let span = match rule {
            SpanRule::Memory => memory,
            SpanRule::Node => self.hull(node, ALL_FRAMES)?.intersect(window),
        };
        let mut zone = ZoneSpan { kind, node, span, present: 0, usable: 0 };
        zone.present = self.present_of(&zone).map(PfnRange::len).sum();
        zone.usable = self.usable_of(&zone).map(PfnRange::len).sum();
        Some(zone)
    }
}

/// The zones of a map that have memory, one by one.
struct Zones<'a, const N: usize> {
    map: &'a RegionMap<N>,
    limits: ZoneLimits,
    /// Where each node's Movable zone starts.
    movable: [u64; MAX_NODES],
    /// Kinds of zone that have been looked at, node after node.
    passed: usize,
}

impl<const N: usize> Iterator for Zones<'_, N> {
    type Item = ZoneSpan;

    #[inline(never)]
    fn next(&mut self) -> Option<ZoneSpan> {
        while let Some(&start) = self.movable.get(self.passed / ZoneKind::COUNT) {
            let node = NodeId::new((self.passed / ZoneKind::COUNT) as u8);
            let place = self.passed % ZoneKind::COUNT;
            let (kind, window) = (ZoneKind::ALL[place], self.limits.windows(start)[place]);
            self.passed += 1;
            if let Some(zone) = self.map.zone(kind, window, node, self.limits.span_rule) {
                return Some(zone);
            }
        }
        None
    }
}
