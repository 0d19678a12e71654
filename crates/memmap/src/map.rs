//! The normalised memory map.

use crate::movable::movable_starts;
use crate::node::{Head, NodeClaims};
use crate::place::{Wanted, place};
use crate::region::{LIMIT_BYTES, PhysRange, Region, RegionKind};
use crate::report::{DropReason, RegionReport};
use crate::set::{RangeSet, Span};
use crate::zones::ZoneLimits;
use pageblock_frame::{MAX_NODES, MAX_PFN, NodeId, PAGE_SHIFT, Pfn, PfnRange};

pageblock_frame::errors! {
    /// Why a memory map was refused.
    ///
    /// ```
    /// use pageblock_memmap::{MapOptions, Region, RegionError, RegionMap};
    /// let far = Region::from((1 << 44, 0x1000, true));
    /// let error = RegionMap::<8>::build([far], &[], MapOptions::new()).unwrap_err();
    /// assert_eq!(error, RegionError::AboveLimit { index: 0 });
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum RegionError {
        /// This region is memory and has frames that no [`Pfn`] below [`MAX_PFN`] names.
        #[error("region {index} is memory above the largest frame number")]
        AboveLimit {
            /// Place in the input, from 0.
            index: usize,
        },
        /// The regions up to this one do not merge into `capacity` runs.
        #[error("region {index} is one too many for a map of {capacity} runs")]
        TooManyRegions {
            /// Place in the input, from 0.
            index: usize,
            /// How many runs the map can hold.
            capacity: usize,
        },
        /// The region names a node beyond [`MAX_NODES`].
        #[error("region {index} is on node {node}, nodes end at {}", MAX_NODES - 1)]
        NodeOutOfRange {
            /// Place in the input, from 0.
            index: usize,
            /// The node.
            node: NodeId,
        },
        /// Taking the reserved regions out of the usable ones leaves more runs than the map can hold.
        #[error("reserved regions cut the usable ones into more than {capacity} runs")]
        TooManyRuns {
            /// How many runs the map can hold.
            capacity: usize,
        },
        /// This reservation makes more runs than the map can hold.
        #[error("reservation {index} is one too many for a map of {capacity} runs")]
        TooManyReservations {
            /// Place in the caller's list, from 0.
            index: usize,
            /// How many runs the map can hold.
            capacity: usize,
        },
        /// This reservation ends before it starts.
        #[error("reservation {index} ends before it starts")]
        InvertedReservation {
            /// Place in the caller's list, from 0.
            index: usize,
        },
    }
}

pageblock_frame::errors! {
    /// Fault of a map; [`RegionMap::check`] says so.
    ///
    /// ```
    /// use pageblock_memmap::RegionMap;
    /// assert_eq!(RegionMap::<4>::empty().check(), Ok(()));
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum RegionViolation {
        /// A list of runs is not sorted, has an empty run, or has runs that overlap or touch.
        #[error("runs out of order")]
        Order,
        /// A usable or reclaimable run is not memory.
        #[error("{0} is usable and not present")]
        NotPresent(PfnRange),
        /// Usable bytes plus dropped bytes are not the bytes that came in.
        #[error("{expected} bytes came in, {found} are accounted for")]
        Accounting {
            /// Bytes that were described as usable.
            expected: u64,
            /// Bytes in usable frames and in the report.
            found: u64,
        },
    }
}

/// Work of [`RegionMap::build`] besides following the map.
///
/// ```
/// use pageblock_memmap::{MapOptions, Region, RegionMap};
/// let ram = [Region::from((0, 0x20_0000, true))];
/// let map: RegionMap = RegionMap::build(ram, &[], MapOptions::new().reserve_low(0x10_0000)).unwrap();
/// assert_eq!((map.usable_frames(), map.present_frames()), (256, 512));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MapOptions {
    low: u64,
}

impl MapOptions {
    /// The map as it is: frame 0 is a frame like any other.
    #[must_use]
    pub const fn new() -> Self {
        Self { low: 0 }
    }

    /// Keeps back the frames below this address, in bytes. x86 kernels keep the low 1 MiB, which start-up code of other
    /// CPUs and firmware use.
    #[must_use]
    pub const fn reserve_low(self, bytes: u64) -> Self {
        Self { low: bytes }
    }
}

/// Kind of a frame, as far as the memory map knows.
///
/// ```
/// use pageblock_frame::Pfn;
/// use pageblock_memmap::{FrameClass, MapOptions, Region, RegionMap};
/// let map: RegionMap = RegionMap::build([Region::from((0, 0x4000, true))], &[(0..1).into()], MapOptions::new()).unwrap();
/// assert_eq!(map.class(Pfn::new(0)), FrameClass::Reserved);
/// assert_eq!(map.class(Pfn::new(3)), FrameClass::Usable);
/// assert_eq!(map.class(Pfn::new(4)), FrameClass::Hole);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameClass {
    /// The allocator's to give.
    Usable,
    /// Memory that holds something, or addresses that the map says not to touch.
    Reserved,
    /// The map says nothing of it.
    Hole,
}

/// A run of frames on one node.
///
/// ```
/// use pageblock_frame::NodeId;
/// use pageblock_memmap::{MapRun, MapOptions, Region, RegionKind, RegionMap};
/// let second = NodeId::new(1);
/// let regions = [
///     Region::from((0, 0x8000, true)),
///     Region::new(0x6000, 0x1_0000, RegionKind::Affinity).with_node(second),
/// ];
/// let map: RegionMap = RegionMap::build(regions, &[], MapOptions::new()).unwrap();
/// let upper: MapRun = map.usable().nth(1).unwrap();
/// assert_eq!((upper.node, upper.range.len()), (second, 2));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapRun {
    /// The frames.
    pub range: PfnRange,
    /// Where they are.
    pub node: NodeId,
}

/// Runs of frames in ascending order, each on one node.
///
/// ```
/// use pageblock_memmap::{MapOptions, Region, RegionMap, Runs};
/// let map: RegionMap<8> = RegionMap::build([Region::from((0, 0x4000, true))], &[], MapOptions::new()).unwrap();
/// let mut runs: Runs<'_, 8> = map.usable();
/// assert_eq!(runs.next().map(|run| run.range.len()), Some(4));
/// assert_eq!(runs.next(), None);
/// ```
#[derive(Clone, Debug)]
pub struct Runs<'a, const N: usize> {
    spans: core::slice::Iter<'a, Span>,
    /// Frames outside are left out.
    window: Span,
    /// The part of the last span that has not been given out.
    rest: Span,
    nodes: &'a NodeClaims<N>,
    /// Only runs on this node.
    node: Option<NodeId>,
}

impl<const N: usize> Runs<'_, N> {
    /// Those that are on this node.
    pub(crate) fn on(self, node: NodeId) -> Self {
        Self { node: Some(node), ..self }
    }

    /// From the first frame to the last.
    pub(crate) fn hull(mut self) -> Option<PfnRange> {
        let mut hull = self.next()?.range;
        for run in self.by_ref() {
            hull.end = run.range.end;
        }
        Some(hull)
    }

    /// Number of frames.
    pub(crate) fn frames(self) -> u64 {
        let mut frames = 0;
        for run in self {
            frames += run.range.len();
        }
        frames
    }
}

// A loop rather than adapters: without optimisation each of those takes a part of a boot stack.
impl<const N: usize> Iterator for Runs<'_, N> {
    type Item = MapRun;

    #[inline(never)]
    fn next(&mut self) -> Option<MapRun> {
        loop {
            while self.rest.len() == 0 {
                let span = self.spans.next()?;
                self.rest = Span::new(span.start.max(self.window.start), span.end.min(self.window.end));
            }
            let start = self.rest.start;
            let Head { node, end } = self.nodes.head(self.rest);
            self.rest.start = end;
            if self.node.is_none_or(|wanted| wanted == node) {
                return Some(MapRun { range: PfnRange::new(Pfn::new(start), Pfn::new(end)), node });
            }
        }
    }
}

/// A memory map that is sorted, disjoint, merged and in whole frames. `N` is how many runs each of its lists can hold;
/// the map is about `90 * N` bytes large (11 KiB for the default), a smaller `N` suits a small boot stack.
///
/// # Invariants
/// 1. The lists of usable, present and reclaimable runs ascend; no run is empty, overlaps another or touches it.
/// 2. Usable and reclaimable frames are present, and never both.
/// 3. `report` accounts for every byte that was described as usable.
///
/// ```
/// use pageblock_memmap::{MapOptions, Region, RegionKind, RegionMap};
/// let regions = [
///     Region::new(0x5000, 0x9000, RegionKind::Usable),
///     Region::new(0x0000, 0x5000, RegionKind::Usable),
///     Region::new(0x2fff, 0x3000, RegionKind::Reserved),
/// ];
/// let map: RegionMap = RegionMap::build(regions, &[], MapOptions::new()).unwrap();
/// let runs = map.usable().map(|run| (run.range.start.as_u64(), run.range.end.as_u64()));
/// assert!(runs.eq([(0, 2), (3, 9)]));
/// ```
#[derive(Clone, Debug)]
pub struct RegionMap<const N: usize = 128> {
    // Bytes while regions are being added; frames once the map has settled.
    usable: RangeSet<N>,
    present: RangeSet<N>,
    reclaimable: RangeSet<N>,
    /// Kinds that take away from `usable` for good.
    taken: RangeSet<N>,
    nodes: NodeClaims<N>,
    report: RegionReport,
}

impl<const N: usize> RegionMap<N> {
    /// A map of no memory.
    #[must_use]
    pub const fn empty() -> Self {
        Self {
            usable: RangeSet::new(),
            present: RangeSet::new(),
            reclaimable: RangeSet::new(),
            taken: RangeSet::new(),
            nodes: NodeClaims::new(),
            report: RegionReport::new(),
        }
    }

    /// Normalises `regions`, then takes away every frame that a range of `reserve` touches.
    ///
    /// # Errors
    /// [`RegionError`] names the region or reservation at fault. A map without usable frames is not an error.
    pub fn build(
        regions: impl IntoIterator<Item = Region>,
        reserve: &[PhysRange],
        options: MapOptions,
    ) -> Result<Self, RegionError> {
        let mut map = Self::empty();
        map.rebuild(regions, reserve, options)?;
        Ok(map)
    }

    /// As [`build`](Self::build), in the place of a map, where the stack has no room for one.
    ///
    /// ```
    /// use pageblock_memmap::{MapOptions, Region, RegionMap};
    /// let mut map = Box::new(RegionMap::<128>::empty());
    /// map.rebuild([Region::from((0, 0x4000, true))], &[], MapOptions::new()).unwrap();
    /// map.rebuild([Region::from((0, 0x8000, true))], &[], MapOptions::new()).unwrap();
    /// assert_eq!(map.usable_frames(), 8);
    /// ```
    ///
    /// # Errors
    /// As for [`build`](Self::build); the content of the map then is of no use but for another attempt.
    pub fn rebuild(
        &mut self,
        regions: impl IntoIterator<Item = Region>,
        reserve: &[PhysRange],
        options: MapOptions,
    ) -> Result<(), RegionError> {
        let mut regions = regions.into_iter();
        self.read(&mut || regions.next())?;
        self.keep_back(reserve, options)
    }

    /// Takes in all raw regions.
    fn read(&mut self, next: &mut dyn FnMut() -> Option<Region>) -> Result<(), RegionError> {
        self.clear();
        let mut index = 0;
        while let Some(region) = next() {
            self.add(index, region)?;
            index += 1;
        }
        self.settle().ok_or(RegionError::TooManyRuns { capacity: N })
    }

    /// Takes away low memory and the caller's reservations.
    fn keep_back(&mut self, reserve: &[PhysRange], options: MapOptions) -> Result<(), RegionError> {
        if options.low > 0 {
            let low = Span::new(0, options.low.min(LIMIT_BYTES));
            self.reserve(low, DropReason::LowMemory, None).ok_or(RegionError::TooManyRuns { capacity: N })?;
        }
        for (index, range) in reserve.iter().enumerate() {
            if range.is_inverted() {
                return Err(RegionError::InvertedReservation { index });
            }
            let bytes = Span::new(range.start.as_u64().min(LIMIT_BYTES), range.end.as_u64().min(LIMIT_BYTES));
            self.reserve(bytes, DropReason::Requested, Some(index))
                .ok_or(RegionError::TooManyReservations { index, capacity: N })?;
        }
        Ok(())
    }

    fn clear(&mut self) {
        let Self { usable, present, reclaimable, taken, nodes, report } = self;
        [usable, present, reclaimable, taken].into_iter().for_each(RangeSet::clear);
        nodes.clear();
        *report = RegionReport::new();
    }

    /// Takes in one raw region.
    fn add(&mut self, index: usize, region: Region) -> Result<(), RegionError> {
        self.report.saw(if region.kind == RegionKind::Usable { region.len() } else { 0 });
        if region.range().is_inverted() {
            self.report.note(DropReason::Inverted, index);
            return Ok(());
        }
        if region.is_empty() {
            self.report.note(DropReason::Empty, index);
            return Ok(());
        }
        if region.node.index() >= MAX_NODES {
            return Err(RegionError::NodeOutOfRange { index, node: region.node });
        }
        let mut bytes = Span::new(region.start.as_u64(), region.end.as_u64());
        if bytes.end > LIMIT_BYTES {
            if region.kind.is_ram() {
                return Err(RegionError::AboveLimit { index });
            }
            self.report.note(DropReason::AboveLimit, index);
            bytes = Span::new(bytes.start.min(LIMIT_BYTES), LIMIT_BYTES);
        }
        self.sort_in(index, &region, bytes).ok_or(RegionError::TooManyRegions { index, capacity: N })
    }

    /// Puts the bytes of one region into the sets of its kind. `None` if a set is full.
    fn sort_in(&mut self, index: usize, region: &Region, bytes: Span) -> Option<()> {
        if region.kind.is_ram() {
            self.present.insert(bytes).ok()?;
        }
        if region.kind.is_ram() || region.kind == RegionKind::Affinity {
            self.nodes.add(bytes.frames_outward(), region.node).ok()?;
        }
        let takes = match region.kind {
            RegionKind::Usable => return self.add_usable(index, bytes),
            RegionKind::Affinity => return Some(()),
            RegionKind::Reclaimable => &mut self.reclaimable,
            RegionKind::Kernel | RegionKind::Reserved => &mut self.taken,
        };
        takes.insert(bytes).ok()?;
        if self.usable.overlaps(bytes) {
            self.report.note(DropReason::Reserved, index);
        }
        Some(())
    }

    fn add_usable(&mut self, index: usize, bytes: Span) -> Option<()> {
        if bytes.frames_outward().bytes() != bytes {
            self.report.note(DropReason::Unaligned, index);
        }
        let new = self.usable.insert(bytes).ok()?;
        if new < bytes.len() {
            self.report.note(DropReason::Duplicate, index);
            self.report.add_bytes(DropReason::Duplicate, bytes.len() - new);
        }
        if self.taken.overlaps(bytes) || self.reclaimable.overlaps(bytes) {
            self.report.note(DropReason::Reserved, index);
        }
        Some(())
    }

    /// From bytes to frames, and everything else out of the usable ones. `None` if a set is full.
    fn settle(&mut self) -> Option<()> {
        let Self { usable, present, reclaimable, taken, report, .. } = self;
        let bytes = usable.total();
        usable.clip_to_frames();
        report.add_bytes(DropReason::Unaligned, bytes - (usable.total() << PAGE_SHIFT));
        taken.grow_to_frames();
        let mut lost = usable.subtract_all(taken.spans().iter().copied()).ok()?;
        lost += usable.subtract_all(reclaimable.spans().iter().map(|bytes| bytes.frames_outward())).ok()?;
        report.add_frames(DropReason::Reserved, lost);
        reclaimable.clip_to_frames();
        reclaimable.subtract_all(taken.spans().iter().copied()).ok()?;
        present.clip_to_frames();
        Some(())
    }

    /// Takes these bytes' frames away, after `settle`. `None` if a set is full.
    fn reserve(&mut self, bytes: Span, reason: DropReason, index: Option<usize>) -> Option<()> {
        if bytes.len() == 0 {
            return Some(());
        }
        let frames = bytes.frames_outward();
        let lost = self.usable.subtract(frames).ok()?;
        self.reclaimable.subtract(frames).ok()?;
        self.taken.insert(frames).ok()?;
        if lost > 0 {
            self.report.note(reason, index);
            self.report.add_frames(reason, lost);
        }
        Some(())
    }

    /// The usable runs, ascending; runs that touch are on different nodes.
    pub fn usable(&self) -> Runs<'_, N> {
        self.usable_in(ALL_FRAMES)
    }

    /// The parts of usable runs that are in `window`.
    pub(crate) fn usable_in(&self, window: PfnRange) -> Runs<'_, N> {
        self.runs(&self.usable, window)
    }

    /// The runs of memory, usable or not. Addresses that the map only calls reserved are not memory.
    pub fn present(&self) -> Runs<'_, N> {
        self.present_in(ALL_FRAMES)
    }

    /// The parts of runs of memory that are in `window`.
    pub(crate) fn present_in(&self, window: PfnRange) -> Runs<'_, N> {
        self.runs(&self.present, window)
    }

    /// The runs that can be added later, when the loader's data and the firmware's tables are no longer needed.
    pub fn reclaimable(&self) -> Runs<'_, N> {
        self.runs(&self.reclaimable, ALL_FRAMES)
    }

    fn runs<'a>(&'a self, set: &'a RangeSet<N>, window: PfnRange) -> Runs<'a, N> {
        let window = Span::new(window.start.as_u64(), window.end.as_u64());
        Runs { spans: set.spans().iter(), window, rest: Span::new(0, 0), nodes: &self.nodes, node: None }
    }

    /// Kind of this frame.
    #[must_use]
    pub fn class(&self, pfn: Pfn) -> FrameClass {
        let number = pfn.as_u64();
        if self.usable.contains(number) {
            FrameClass::Usable
        } else if self.present.contains(number) || self.taken.contains(number) {
            FrameClass::Reserved
        } else {
            FrameClass::Hole
        }
    }

    /// The node this frame belongs to; node 0 if no region says.
    #[must_use]
    pub fn node_of(&self, pfn: Pfn) -> NodeId {
        self.nodes.node_of(pfn.as_u64())
    }

    /// Number of usable frames.
    #[must_use]
    pub fn usable_frames(&self) -> u64 {
        self.usable.total()
    }

    /// Number of frames that are memory.
    #[must_use]
    pub fn present_frames(&self) -> u64 {
        self.present.total()
    }

    /// Ranges that were dropped, and why.
    #[must_use]
    pub const fn report(&self) -> &RegionReport {
        &self.report
    }

    /// Takes frames for `bytes` bytes at a physical address that is a multiple of `align` out of the usable runs, and
    /// returns them; `None`, with nothing changed, if no run has room or `align` is no power of two.
    ///
    /// Of the zones that `limits` make, the highest that is neither DMA nor Movable is preferred, since the frames stay
    /// taken for good; then lower ones, Movable last. Among runs of the best zone the one is taken that loses the
    /// fewest whole pageblocks, and of those the highest.
    pub fn carve(&mut self, bytes: u64, align: u64, limits: &ZoneLimits) -> Option<PfnRange> {
        let wanted = Wanted { bytes, align };
        let mut ceilings = [MAX_PFN; MAX_NODES];
        movable_starts(self, limits, &mut ceilings).ok()?;
        let floors = [limits.dma32_end.or(limits.dma_end), limits.dma_end, None].map(Option::unwrap_or_default);
        let mut found = floors.into_iter().find_map(|floor| place(self.usable(), wanted, floor, &ceilings));
        if found.is_none() {
            found = place(self.usable(), wanted, Pfn::new(0), &[MAX_PFN; MAX_NODES]);
        }
        let place = found?;
        let lost = self.usable.subtract(Span::new(place.start.as_u64(), place.end.as_u64())).ok()?;
        self.report.note(DropReason::Carved, None);
        self.report.add_frames(DropReason::Carved, lost);
        Some(place)
    }

    /// Recomputes the invariants.
    ///
    /// # Errors
    /// The first that is broken.
    pub fn check(&self) -> Result<(), RegionViolation> {
        let sets = [&self.usable, &self.present, &self.reclaimable, &self.taken];
        if !sets.into_iter().all(RangeSet::is_sound) {
            return Err(RegionViolation::Order);
        }
        for run in self.usable().chain(self.reclaimable()) {
            if self.present_in(run.range).map(|part| part.range.len()).sum::<u64>() != run.range.len() {
                return Err(RegionViolation::NotPresent(run.range));
            }
        }
        let found = (self.usable_frames() << PAGE_SHIFT) + self.report.dropped_bytes();
        if found != self.report.usable_bytes() {
            return Err(RegionViolation::Accounting { expected: self.report.usable_bytes(), found });
        }
        Ok(())
    }
}

const ALL_FRAMES: PfnRange = PfnRange::new(Pfn::new(0), Pfn::new(MAX_PFN));
