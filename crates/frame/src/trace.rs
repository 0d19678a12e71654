//! Structured events: the content of Linux's tracepoints, as values.

mod compaction;
mod reclaim;

pub use compaction::{CompactEvent, CompactResult, DeferState, In313, RunCounts, ScanPositions};
pub use reclaim::ReclaimEvent;

use crate::{Gfp, MigrateType, NodeId, Order, Pfn, ZoneKind};

/// A mixing of migrate types: a request was served from a pageblock of another type (`mm_page_alloc_extfrag`).
///
/// ```
/// use pageblock_frame::{trace::Fallback, MigrateType, Order, Pfn};
/// let event = Fallback {
///     pfn: Pfn::new(512), alloc_order: Order::ZERO, fallback_order: Order::new(9).unwrap(),
///     wanted: MigrateType::Unmovable, from: MigrateType::Movable, change_ownership: true,
/// };
/// assert!(!event.is_fragmenting()); // a whole pageblock changed hands
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fallback {
    /// First frame of the free block that was taken from.
    pub pfn: Pfn,
    /// Order of the request.
    pub alloc_order: Order,
    /// Order of the free block.
    pub fallback_order: Order,
    /// Migrate type of the request.
    pub wanted: MigrateType,
    /// Migrate type of the pageblock before.
    pub from: MigrateType,
    /// The pageblock (or pageblocks) now has the type of the request.
    pub change_ownership: bool,
}

impl Fallback {
    /// The free block was smaller than a pageblock: types are mixed within one.
    #[must_use]
    pub fn is_fragmenting(&self) -> bool {
        self.fallback_order < crate::PAGEBLOCK_ORDER
    }
}

/// One event. More kinds come with the rooms that emit them.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A block was handed out (`mm_page_alloc`).
    Alloc {
        /// First frame.
        pfn: Pfn,
        /// Size of the block.
        order: Order,
        /// Flags of the request.
        gfp: Gfp,
        /// Migrate type of the request.
        migrate_type: MigrateType,
    },
    /// A block came back (`mm_page_free`).
    Free {
        /// First frame.
        pfn: Pfn,
        /// Size of the block.
        order: Order,
    },
    /// Migrate types were mixed (`mm_page_alloc_extfrag`).
    Fallback(Fallback),
    /// A pageblock joined the high-order atomic reserve, or left it.
    HighAtomic {
        /// First frame of the pageblock.
        pfn: Pfn,
        /// Joined rather than left.
        reserved: bool,
    },
    /// A zone ran short; its reclaim thread was woken (`mm_vmscan_wakeup_kswapd`).
    WakeKswapd {
        /// Node of the zone.
        node: NodeId,
        /// The zone.
        zone: ZoneKind,
        /// Order of the request.
        order: Order,
    },
    /// A request waited rather than mix migrate types at once (`mm_fragmentation_stall`, *Fragmentation avoidance and
    /// stalls*).
    FragmentStall {
        /// Node of the zone that the request preferred.
        node: NodeId,
        /// How long, in nanoseconds.
        duration: u64,
    },
    /// Compaction did something (`mm_compaction_*`).
    Compaction(CompactEvent),
    /// Reclaim did something (`mm_vmscan_*`).
    Reclaim(ReclaimEvent),
}
