//! Outcome of a raw memory map.

use core::fmt;

use pageblock_frame::PAGE_SHIFT;

/// Why bytes or regions of a map did not become usable frames.
///
/// ```
/// use pageblock_memmap::DropReason;
/// assert_eq!(DropReason::Unaligned.name(), "not a whole frame");
/// assert_eq!(DropReason::ALL.len(), DropReason::COUNT);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum DropReason {
    /// The region has no bytes.
    Empty = 0,
    /// The region ends before it starts.
    Inverted = 1,
    /// A region that is no memory reaches beyond the largest frame number; that part was ignored.
    AboveLimit = 2,
    /// Another usable region had these bytes already.
    Duplicate = 3,
    /// The rest of a frame is not usable.
    Unaligned = 4,
    /// A region of another kind has these frames.
    Reserved = 5,
    /// Below [`MapOptions::reserve_low`](crate::MapOptions::reserve_low).
    LowMemory = 6,
    /// The caller reserved these frames; the index is the reservation's.
    Requested = 7,
    /// Taken by [`RegionMap::carve`](crate::RegionMap::carve).
    Carved = 8,
}

impl DropReason {
    /// Number of reasons.
    pub const COUNT: usize = 9;
    /// All reasons, in the order in which they apply.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Empty,
        Self::Inverted,
        Self::AboveLimit,
        Self::Duplicate,
        Self::Unaligned,
        Self::Reserved,
        Self::LowMemory,
        Self::Requested,
        Self::Carved,
    ];

    /// A few words for a table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "no bytes",
            Self::Inverted => "ends before it starts",
            Self::AboveLimit => "above the largest frame number",
            Self::Duplicate => "usable twice",
            Self::Unaligned => "not a whole frame",
            Self::Reserved => "overlapped by another kind",
            Self::LowMemory => "low memory kept back",
            Self::Requested => "reserved by the caller",
            Self::Carved => "carved out for metadata",
        }
    }

    /// A key for machine-readable output.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Inverted => "inverted",
            Self::AboveLimit => "above_limit",
            Self::Duplicate => "duplicate",
            Self::Unaligned => "unaligned",
            Self::Reserved => "reserved",
            Self::LowMemory => "low_memory",
            Self::Requested => "requested",
            Self::Carved => "carved",
        }
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How much was dropped for one reason.
///
/// ```
/// use pageblock_memmap::{DropReason, MapOptions, Region, RegionMap};
/// let map: RegionMap = RegionMap::build([Region::from((0x800, 0x1000, true))], &[], MapOptions::new()).unwrap();
/// let clipped = map.report().dropped(DropReason::Unaligned);
/// assert_eq!((clipped.regions, clipped.bytes, clipped.first), (1, 0x1000, Some(0)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DropCount {
    /// Regions (or reservations, or carvings) that it happened to.
    pub regions: u32,
    /// Bytes that were described as usable and are not, for this reason.
    pub bytes: u64,
    /// Index of the first such region in the order of the input, of the first such reservation in the caller's list;
    /// none for low memory and carvings.
    pub first: Option<usize>,
}

impl DropCount {
    /// Whole frames in [`DropCount::bytes`].
    #[must_use]
    pub const fn frames(self) -> u64 {
        self.bytes >> PAGE_SHIFT
    }
}

/// Counts of the input of [`RegionMap::build`](crate::RegionMap::build), and of ranges dropped, with reasons.
///
/// Every byte that was described as usable is either in a usable frame or in exactly one reason's count.
///
/// ```
/// use pageblock_memmap::{DropReason, MapOptions, Region, RegionMap};
/// let regions = [Region::from((0, 0x8000, true)), Region::from((0x4000, 0x8000, true)), Region::from((0x1000, 1, false))];
/// let map: RegionMap = RegionMap::build(regions, &[], MapOptions::new()).unwrap();
/// let report = map.report();
/// assert_eq!((report.regions(), report.usable_bytes()), (3, 0x1_0000));
/// assert_eq!(report.dropped(DropReason::Duplicate).bytes, 0x4000);
/// assert_eq!(report.dropped(DropReason::Reserved).frames(), 1);
/// assert_eq!(map.usable_frames(), 11);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RegionReport {
    regions: usize,
    usable_bytes: u64,
    dropped: [DropCount; DropReason::COUNT],
}

impl RegionReport {
    pub(crate) const fn new() -> Self {
        Self {
            regions: 0,
            usable_bytes: 0,
            dropped: [DropCount { regions: 0, bytes: 0, first: None }; DropReason::COUNT],
        }
    }

    /// Regions read.
    #[must_use]
    pub const fn regions(&self) -> usize {
        self.regions
    }

    /// Sum of the lengths of all usable regions, in bytes, overlaps counted as often as they occur.
    #[must_use]
    pub const fn usable_bytes(&self) -> u64 {
        self.usable_bytes
    }

    /// How much was dropped for this reason.
    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> DropCount {
        self.dropped.get(reason as usize).copied().unwrap_or_default()
    }

    /// The reasons for which anything was dropped.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, DropCount)> + '_ {
        let all = DropReason::ALL.into_iter().zip(self.dropped);
        all.filter(|(_, count)| *count != DropCount::default())
    }

    /// Bytes dropped for all reasons together.
    #[must_use]
    pub fn dropped_bytes(&self) -> u64 {
        self.dropped.iter().map(|count| count.bytes).sum()
    }

    pub(crate) fn saw(&mut self, usable_bytes: u64) {
        self.regions += 1;
        self.usable_bytes = self.usable_bytes.saturating_add(usable_bytes);
    }

    /// One region, `index`, is affected.
    pub(crate) fn note(&mut self, reason: DropReason, index: impl Into<Option<usize>>) {
        if let Some(count) = self.dropped.get_mut(reason as usize) {
            count.regions += 1;
            count.first = count.first.or(index.into());
        }
    }

    pub(crate) fn add_bytes(&mut self, reason: DropReason, bytes: u64) {
        if let Some(count) = self.dropped.get_mut(reason as usize) {
            count.bytes += bytes;
        }
    }

    pub(crate) fn add_frames(&mut self, reason: DropReason, frames: u64) {
        self.add_bytes(reason, frames << PAGE_SHIFT);
    }
}

impl fmt::Display for RegionReport {
    /// One line a reason.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} regions, {} usable bytes", self.regions, self.usable_bytes)?;
        for (reason, count) in self.iter() {
            write!(f, "{reason}: {} bytes, {} regions", count.bytes, count.regions)?;
            match count.first {
                Some(index) => writeln!(f, ", first {index}")?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}
