//! How zones are compacted, as a value.

use pageblock_frame::Order;

use crate::era::{Era, Patches};

/// How sources and targets are found.
///
/// ```
/// use pageblock_compaction::{CompactionConfig, Search};
/// assert_eq!(CompactionConfig::default().search, Search::Occupancy);
/// assert_eq!(CompactionConfig::linux_6_1().search, Search::FreeLists);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Search {
    /// Two scanners walk the zone from its ends (Linux up to 5.0).
    Linear,
    /// The same, but the free lists are asked first for a promising pageblock (Linux 5.1).
    FreeLists,
    /// Sources are the emptiest pageblocks, targets the fullest; a pageblock is emptied only if all of it can be.
    Occupancy,
}

/// How zones are compacted.
///
/// ```
/// use pageblock_compaction::CompactionConfig;
/// assert!(CompactionConfig::new().exact_need && !CompactionConfig::linux_6_1().exact_need);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompactionConfig {
    /// How sources and targets are found.
    pub search: Search,
    /// The patches of *Memory compaction efficiency improvements* (2013).
    #[cfg(feature = "history")]
    pub patches: Patches,
    /// In which form the two scanners run. Matters to [`Search::Linear`] and [`Search::FreeLists`] only.
    #[cfg(feature = "history")]
    pub era: Era,
    /// A block that a direct run frees goes to its caller at once (the aim of the series of 2013; merged for 5.1).
    pub capture: bool,
    /// A run by occupancy needs no more free frames than the block that it makes, down to the request's own watermark;
    /// Linux asks for twice the block above low, as its scanners may hold as much on the way.
    pub exact_need: bool,
    /// Movable blocks may fill pageblocks of other types, those of the most free frames last, once movable pageblocks
    /// have no room left, in runs for a request. Free frames in a pageblock that the kernel half gave up would
    /// otherwise help no large block.
    pub foreign_targets: bool,
    /// Fragmentation index, in thousandths, up to which memory is short rather than scattered (`extfrag_threshold`).
    pub extfrag_threshold: u16,
    /// Times that a move which answers "again" is tried.
    pub passes: u8,
    /// How eagerly memory is compacted before it is asked for, 0 (never) to 100 (`compaction_proactiveness`).
    pub proactiveness: u8,
    /// Largest movable block that is moved, rather than stepped over; at most order 5.
    pub largest_move: Order,
    /// Pageblocks that a search by occupancy compares at most, for zones larger than that.
    pub window: u32,
}

impl CompactionConfig {
    /// Linux 6.1.
    #[must_use]
    pub const fn linux_6_1() -> Self {
        Self {
            search: Search::FreeLists,
            #[cfg(feature = "history")]
            patches: Patches::today(),
            #[cfg(feature = "history")]
            era: Era::today(),
            capture: true,
            exact_need: false,
            foreign_targets: false,
            extfrag_threshold: 500,
            passes: 10,
            proactiveness: 20,
            largest_move: Order::ZERO,
            window: u32::MAX,
        }
    }

    /// The default: the best known of everything. Emptying the emptiest pageblocks moves about half as much for each
    /// as Linux's scanners do (`pageblock run highalloc`), so that twice the share of free memory is kept in whole
    /// pageblocks.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            search: Search::Occupancy,
            largest_move: Order::saturating(5),
            window: 1 << 14,
            exact_need: true,
            foreign_targets: true,
            proactiveness: 40,
            ..Self::linux_6_1()
        }
    }
}

impl CompactionConfig {
    /// The patches of 2013.
    #[cfg(feature = "history")]
    pub(crate) const fn patches(&self) -> Patches {
        self.patches
    }

    /// All of them.
    #[cfg(not(feature = "history"))]
    pub(crate) const fn patches(&self) -> Patches {
        Patches::today()
    }

    /// The form of the scanners.
    #[cfg(feature = "history")]
    pub(crate) const fn era(&self) -> Era {
        self.era
    }

    /// Today's.
    #[cfg(not(feature = "history"))]
    pub(crate) const fn era(&self) -> Era {
        Era::today()
    }
}

impl Default for CompactionConfig {
    fn default() -> Self {
        Self::new()
    }
}
