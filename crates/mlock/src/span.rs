//! Virtual page numbers, ranges of them, and where page tables end.

use core::fmt;

use pageblock_frame::{PAGE_SHIFT, PAGE_SIZE};

/// A virtual page number: a virtual address divided by the page size.
///
/// ```
/// assert_eq!(pageblock_mlock::Vpn::of(0x2fff).as_u64(), 2);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Vpn(u64);

impl Vpn {
    /// The page with this number.
    #[must_use]
    #[inline]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The page that holds the byte at `address`.
    #[must_use]
    pub const fn of(address: u64) -> Self {
        Self(address >> PAGE_SHIFT)
    }

    /// The number.
    #[must_use]
    #[inline]
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The page `pages` further up, saturating.
    #[must_use]
    #[inline]
    pub const fn add(self, pages: u64) -> Self {
        Self(self.0.saturating_add(pages))
    }

    /// The smaller of two.
    #[must_use]
    pub const fn min(self, other: Self) -> Self {
        if self.0 < other.0 { self } else { other }
    }
}

impl fmt::Debug for Vpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vpn:{:#x}", self.0)
    }
}

impl fmt::Display for Vpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

pageblock_frame::errors! {
    /// Why some bytes are not a range of pages.
    ///
    /// ```
    /// use pageblock_mlock::{Span, SpanError};
    /// assert_eq!(Span::of_bytes(u64::MAX - 10, 100), Err(SpanError::Wraps));
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum SpanError {
        /// The range runs over the end of the address space.
        #[error("the range runs over the end of the address space")]
        Wraps,
    }
}

pageblock_frame::number_range! {
    /// The pages `start..end` (the end is not in it).
    ///
    /// ```
    /// use pageblock_mlock::{Span, Vpn};
    /// let span = Span::of_bytes(0x1fff, 2).unwrap(); // two bytes, on two pages
    /// assert_eq!(span, Span::new(Vpn::new(1), Vpn::new(3)));
    /// assert_eq!(span.len(), 2);
    /// assert!(Span::of_bytes(0x1234, 0).unwrap().is_empty() == false); // Linux rounds the end up first
    /// ```
    pub struct Span of Vpn, "page"
}

impl Span {
    /// The pages that hold `length` bytes from `address` on, rounded outwards as `mlock(2)` does in Linux: the length
    /// is that from the start of the first page. So no bytes from within a page are that page, and none from its start
    /// are none.
    ///
    /// # Errors
    /// [`SpanError::Wraps`] if they run over the end of the address space.
    pub fn of_bytes(address: u64, length: u64) -> Result<Self, SpanError> {
        let offset = address & (PAGE_SIZE - 1);
        let bytes = length.checked_add(offset).ok_or(SpanError::Wraps)?;
        let pages = bytes.div_ceil(PAGE_SIZE);
        let start = Vpn::of(address);
        let end = start.0.checked_add(pages).ok_or(SpanError::Wraps)?;
        if end > u64::MAX >> PAGE_SHIFT { Err(SpanError::Wraps) } else { Ok(Self::new(start, Vpn(end))) }
    }
}

/// The levels of a page table: how many bits of a page number each takes, from the lowest level up; 0 for a level that
/// is folded away.
///
/// ```
/// use pageblock_mlock::{Levels, Vpn};
/// assert_eq!(Levels::X86_64.table_end(Vpn::new(513)), Vpn::new(1024));
/// // 32-bit x86 without PAE: 1024 entries a table, the two middle levels folded away.
/// assert_eq!(Levels::new([10, 0, 0, 10]).table_end(Vpn::new(513)), Vpn::new(1024));
/// assert_eq!(Levels::new([0, 9, 0, 9]).table_end(Vpn::new(513)), Vpn::new(1024));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Levels {
    bits: [u8; 4],
}

impl Levels {
    /// Four levels of 512 entries.
    pub const X86_64: Self = Self::new([9, 9, 9, 9]);

    /// Levels with so many bits each, the lowest first. A total of 0 bits means one table for everything.
    #[must_use]
    pub const fn new(bits: [u8; 4]) -> Self {
        Self { bits }
    }

    /// The first page after the table that maps `at`: the nearest end of a table on any level.
    ///
    /// The level that ends first is the lowest one that is not folded. Taking the end of one fixed level instead ran
    /// past the table on machines where that level is folded (fixed in Linux 3.12).
    #[must_use]
    pub const fn table_end(self, at: Vpn) -> Vpn {
        let mut level = 0;
        while level < self.bits.len() {
            let bits = self.bits[level] as u32;
            if bits != 0 {
                let pages = 1_u64 << if bits < 63 { bits } else { 63 };
                return Vpn((at.0 & !(pages - 1)).saturating_add(pages));
            }
            level += 1;
        }
        Vpn(u64::MAX)
    }
}
