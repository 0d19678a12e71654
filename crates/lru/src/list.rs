//! The five lists, and the flags of a page that name its list.

use core::fmt;

use pageblock_frame::{DescFlags, PAGEBLOCK_FRAMES};

/// Frames in a huge page: a list entry with the flag `HUGE` stands for so many.
pub const HUGE_FRAMES: u64 = PAGEBLOCK_FRAMES;

/// One of the lists of an [`Lru`](crate::Lru).
///
/// ```
/// use pageblock_frame::DescFlags;
/// use pageblock_lru::LruList;
/// assert_eq!(LruList::of(DescFlags::FILE | DescFlags::ACTIVE), LruList::ActiveFile);
/// assert_eq!(LruList::of(DescFlags::UNEVICTABLE | DescFlags::FILE), LruList::Unevictable);
/// assert_eq!(LruList::InactiveAnon.name(), "nr_inactive_anon");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum LruList {
    /// Anonymous pages that reclaim looks at next.
    InactiveAnon = 0,
    /// Anonymous pages used more than once.
    ActiveAnon = 1,
    /// File pages that reclaim looks at next.
    InactiveFile = 2,
    /// File pages used more than once.
    ActiveFile = 3,
    /// Pages that reclaim leaves alone.
    Unevictable = 4,
}

impl LruList {
    /// Number of lists.
    pub const COUNT: usize = 5;
    /// All lists, in Linux's order.
    pub const ALL: [Self; Self::COUNT] =
        [Self::InactiveAnon, Self::ActiveAnon, Self::InactiveFile, Self::ActiveFile, Self::Unevictable];

    /// The list for a page with these flags. Mirrors `folio_lru_list()` (6.1).
    #[must_use]
    #[inline]
    pub const fn of(flags: DescFlags) -> Self {
        if flags.contains(DescFlags::UNEVICTABLE) {
            return Self::Unevictable;
        }
        match (flags.contains(DescFlags::FILE), flags.contains(DescFlags::ACTIVE)) {
            (false, false) => Self::InactiveAnon,
            (false, true) => Self::ActiveAnon,
            (true, false) => Self::InactiveFile,
            (true, true) => Self::ActiveFile,
        }
    }

    /// The number, as an array index below [`LruList::COUNT`].
    #[must_use]
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Linux's name of its counter in `/proc/vmstat`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::InactiveAnon => "nr_inactive_anon",
            Self::ActiveAnon => "nr_active_anon",
            Self::InactiveFile => "nr_inactive_file",
            Self::ActiveFile => "nr_active_file",
            Self::Unevictable => "nr_unevictable",
        }
    }
}

impl fmt::Display for LruList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Frames that a list entry with these flags stands for: 1, or [`HUGE_FRAMES`].
///
/// ```
/// use pageblock_frame::DescFlags;
/// assert_eq!(pageblock_lru::frames_of(DescFlags::HUGE), 512);
/// ```
#[must_use]
#[inline]
pub const fn frames_of(flags: DescFlags) -> u64 {
    if flags.contains(DescFlags::HUGE) { HUGE_FRAMES } else { 1 }
}
