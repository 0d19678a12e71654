//! Splitting the memory map into zones.

use arrayvec::ArrayVec;

use crate::map::{RegionMap, Runs};
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

    /// The frames of a kind of zone, where the Movable zone starts at `movable`.
    pub(crate) fn window(&self, kind: ZoneKind, movable: u64) -> PfnRange {
        let dma = self.dma_end.unwrap_or_default().as_u64();
        let dma32 = self.dma32_end.map_or(dma, Pfn::as_u64);
        let (start, end) = match kind {
            ZoneKind::Dma => (0, dma.min(movable)),
            ZoneKind::Dma32 => (dma, dma32.min(movable)),
            ZoneKind::Normal => (dma32, movable),
            ZoneKind::Movable => (movable, MAX_PFN),
        };
        PfnRange::new(Pfn::new(start), Pfn::new(end))
    }
}

pageblock_frame::errors! {
    /// Fault of [`ZoneLimits`].
    ///
    /// ```
    /// use pageblock_frame::{Pfn, ZoneKind};
    /// use pageblock_memmap::{ZoneLimitError, ZoneLimits};
    /// let end = Pfn::new(1000);
    /// let limits = ZoneLimits { dma_end: Some(end), ..ZoneLimits::default() };
    /// assert_eq!(limits.check(), Err(ZoneLimitError::Unaligned { kind: ZoneKind::Dma, end }));
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
        let mut zones = ArrayVec::new();
        self.zones_into(limits, &mut zones)?;
        Ok(zones)
    }

    /// The same in the place of another list, where the stack has no room for one.
    ///
    /// # Errors
    /// As for [`zones`](Self::zones).
    pub fn zones_into(
        &self,
        limits: &ZoneLimits,
        zones: &mut ArrayVec<ZoneSpan, MAX_ZONES>,
    ) -> Result<(), ZoneLimitError> {
        limits.check()?;
        zones.clear();
        let mut movable = [0; MAX_NODES];
        movable_starts(self, limits, &mut movable)?;
        for (number, start) in (0..).zip(&movable) {
            for kind in ZoneKind::ALL {
                let window = limits.window(kind, *start);
                if let Some(zone) = self.zone(kind, window, NodeId::new(number), limits.span_rule) {
                    // There are no more kinds and nodes than there is room.
                    let _ = zones.try_push(zone);
                }
            }
        }
        Ok(())
    }

    /// The usable runs of a zone of this map.
    pub fn usable_of(&self, zone: &ZoneSpan) -> Runs<'_, N> {
        self.usable_in(zone.span).on(zone.node)
    }

    /// The runs of memory of a zone of this map, usable or not.
    pub fn present_of(&self, zone: &ZoneSpan) -> Runs<'_, N> {
        self.present_in(zone.span).on(zone.node)
    }

    /// The memory of a node inside a window, as a zone. `None` if there is none.
    fn zone(&self, kind: ZoneKind, window: PfnRange, node: NodeId, rule: SpanRule) -> Option<ZoneSpan> {
        let memory = self.present_in(window).on(node).hull()?;
        let span = match rule {
            SpanRule::Memory => memory,
            SpanRule::Node => self.present().on(node).hull()?.intersect(window),
        };
        let mut zone = ZoneSpan { kind, node, span, present: 0, usable: 0 };
        zone.present = self.present_of(&zone).frames();
        zone.usable = self.usable_of(&zone).frames();
        Some(zone)
    }
}
