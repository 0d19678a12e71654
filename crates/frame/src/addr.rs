//! Page frame numbers, ranges of them, and physical addresses.

use core::fmt;

/// log2 of the frame size: frames are 4 KiB.
pub const PAGE_SHIFT: u32 = 12;
/// Bytes in one frame.
pub const PAGE_SIZE: u64 = 1 << PAGE_SHIFT;
/// Frame numbers at or above this are refused: block links and per-CPU lists hold `u32` indices.
pub const MAX_PFN: u64 = 1 << 32;

/// A page frame number: a physical address divided by [`PAGE_SIZE`].
///
/// Frame 0 is a frame like any other.
///
/// ```
/// use pageblock_frame::{Pfn, PhysAddr};
/// let pfn = Pfn::new(0x100);
/// assert_eq!(pfn.phys(), 0x10_0000);
/// assert_eq!(PhysAddr::new(0x10_0fff).pfn_floor(), pfn);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Pfn(u64);

impl Pfn {
    /// The frame with this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number itself.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The frame that holds the byte at this physical address.
    ///
    /// ```
    /// use pageblock_frame::Pfn;
    /// assert_eq!(Pfn::from_phys(0x10_0fff), Pfn::new(0x100));
    /// ```
    #[must_use]
    pub const fn from_phys(address: u64) -> Self {
        Self(address >> PAGE_SHIFT)
    }

    /// The physical address of the frame's first byte.
    #[must_use]
    pub const fn phys(self) -> u64 {
        self.0 << PAGE_SHIFT
    }

    /// The frame `frames` further up, saturating at the end of the number space.
    #[must_use]
    pub const fn add(self, frames: u64) -> Self {
        Self(self.0.saturating_add(frames))
    }

    /// True if a block of `order` may start here.
    ///
    /// ```
    /// use pageblock_frame::{Order, Pfn};
    /// assert!(Pfn::new(24).is_aligned(Order::new(3).unwrap()));
    /// assert!(!Pfn::new(24).is_aligned(Order::new(4).unwrap()));
    /// ```
    #[must_use]
    pub const fn is_aligned(self, order: crate::Order) -> bool {
        self.0 & (order.frames() - 1) == 0
    }
}

impl fmt::Debug for Pfn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pfn:{:#x}", self.0)
    }
}

impl fmt::Display for Pfn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// A physical byte address.
///
/// ```
/// use pageblock_frame::{Pfn, PhysAddr};
/// assert_eq!(PhysAddr::new(0x1001).pfn_ceil(), Pfn::new(2));
/// assert_eq!(PhysAddr::new(0x1001).pfn_floor(), Pfn::new(1));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct PhysAddr(u64);

impl PhysAddr {
    /// The address with this value, in bytes.
    #[must_use]
    pub const fn new(address: u64) -> Self {
        Self(address)
    }

    /// The value in bytes.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The frame that holds this byte.
    #[must_use]
    pub const fn pfn_floor(self) -> Pfn {
        Pfn(self.0 >> PAGE_SHIFT)
    }

    /// The first frame that starts at or after this byte.
    #[must_use]
    pub const fn pfn_ceil(self) -> Pfn {
        let whole = self.0 >> PAGE_SHIFT;
        Pfn(whole + ((self.0 & (PAGE_SIZE - 1) != 0) as u64))
    }
}

impl fmt::Debug for PhysAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "phys:{:#x}", self.0)
    }
}

impl From<PhysAddr> for u64 {
    fn from(address: PhysAddr) -> u64 {
        address.0
    }
}

impl From<u64> for PhysAddr {
    fn from(address: u64) -> Self {
        Self(address)
    }
}

crate::number_range! {
    /// The frames `start..end` (the end is not in it).
    ///
    /// ```
    /// use pageblock_frame::{Pfn, PfnRange};
    /// let range = PfnRange::new(Pfn::new(16), Pfn::new(32));
    /// assert_eq!(range.len(), 16);
    /// assert!(range.contains(Pfn::new(31)) && !range.contains(Pfn::new(32)));
    /// assert_eq!(range.intersect(PfnRange::new(Pfn::new(0), Pfn::new(20))).len(), 4);
    /// ```
    pub struct PfnRange of Pfn, "frame"
}

impl PfnRange {
    /// `frames` frames from `start`.
    #[must_use]
    pub const fn from_len(start: Pfn, frames: u64) -> Self {
        Self { start, end: start.add(frames) }
    }
}

impl fmt::Display for PfnRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}
