//! Migrate types: the purpose of a pageblock, so that movable frames stay apart from others.

use core::fmt;

/// Expected behaviour of a pageblock's frames when their place is wanted.
///
/// The numbers are Linux's of 4.4 and later, as they appear in traces. (Before, `Reclaimable` was 1 and `Movable` 2.)
///
/// ```
/// use pageblock_frame::MigrateType;
/// assert_eq!(MigrateType::from_index(1), Some(MigrateType::Movable));
/// assert_eq!(MigrateType::Movable.name(), "Movable");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum MigrateType {
    /// Kernel memory that stays where it is until freed.
    Unmovable = 0,
    /// Memory that its owner can move: a [`Pfn`](crate::Pfn) is only where it is now.
    #[default]
    Movable = 1,
    /// Memory that cannot move but can be given up: caches of kernel objects.
    Reclaimable = 2,
    /// Kept for high-order allocations that may not wait (`MIGRATE_HIGHATOMIC`, Linux 4.4).
    HighAtomic = 3,
    /// Belongs to a contiguous-memory area: serves movable requests only, and never changes type.
    Cma = 4,
    /// Withheld from allocation while a caller empties it.
    Isolate = 5,
}

impl MigrateType {
    /// Number of types: the length of an array with one element a type.
    pub const COUNT: usize = 6;
    /// Number of types that per-CPU lists know: the first three.
    pub const PCP_COUNT: usize = 3;
    /// Every type, in numeric order.
    pub const ALL: [Self; Self::COUNT] =
        [Self::Unmovable, Self::Movable, Self::Reclaimable, Self::HighAtomic, Self::Cma, Self::Isolate];

    /// The type with this number, if there is one.
    #[must_use]
    pub const fn from_index(index: u8) -> Option<Self> {
        if (index as usize) < Self::COUNT { Some(Self::ALL[index as usize]) } else { None }
    }

    /// The number, as an array index below [`MigrateType::COUNT`].
    #[must_use]
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// One of the three types between which pageblocks may be stolen, and which merge with one another.
    #[must_use]
    pub const fn is_ordinary(self) -> bool {
        (self as usize) < Self::PCP_COUNT
    }

    /// Linux's name in `/proc/pagetypeinfo`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unmovable => "Unmovable",
            Self::Movable => "Movable",
            Self::Reclaimable => "Reclaimable",
            Self::HighAtomic => "HighAtomic",
            Self::Cma => "CMA",
            Self::Isolate => "Isolate",
        }
    }
}

impl fmt::Display for MigrateType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
