//! Counts made while a trace goes by.

use pageblock_frame::{MigrateType, Order};
use serde::Serialize;

use crate::trace::{Compaction, Event};

/// Lines of the trace by kind.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct EventCounts {
    /// All of them.
    pub(crate) total: u64,
    /// `mm_page_alloc`, served.
    pub(crate) alloc: u64,
    /// `mm_page_alloc`, failed.
    pub(crate) alloc_failed: u64,
    /// `mm_page_free`.
    pub(crate) free: u64,
    /// `mm_page_free_batched`: repeats of the former.
    pub(crate) free_batched: u64,
    /// `mm_page_alloc_extfrag`.
    pub(crate) extfrag: u64,
    /// `mm_page_alloc_zone_locked`.
    pub(crate) zone_locked: u64,
    /// `mm_page_pcpu_drain`.
    pub(crate) pcpu_drain: u64,
    /// `mm_compaction_*`.
    pub(crate) compaction: u64,
    /// Compaction runs (`mm_compaction_begin`).
    pub(crate) compaction_runs: u64,
    /// Pages that compaction moved.
    pub(crate) pages_migrated: u64,
    /// Free frames that compaction took without an allocation event.
    pub(crate) frames_isolated: u64,
    /// Everything else.
    pub(crate) other: u64,
}

impl EventCounts {
    /// Counts one event.
    pub(crate) fn count(&mut self, event: &Event) {
        self.total += 1;
        let counter = match event {
            Event::Alloc(alloc) if alloc.pfn.is_none() => &mut self.alloc_failed,
            Event::Alloc(_) => &mut self.alloc,
            Event::Free { .. } => &mut self.free,
            Event::FreeBatched { .. } => &mut self.free_batched,
            Event::Extfrag(_) => &mut self.extfrag,
            Event::ZoneLocked(_) => &mut self.zone_locked,
            Event::PcpuDrain(_) => &mut self.pcpu_drain,
            Event::Compaction(compaction) => {
                match compaction {
                    Compaction::Begin => self.compaction_runs += 1,
                    Compaction::Migrate { migrated, .. } => self.pages_migrated += migrated,
                    Compaction::IsolateFree { taken, .. } => self.frames_isolated += taken,
                    _ => {}
                }
                &mut self.compaction
            }
            Event::Other => &mut self.other,
        };
        *counter += 1;
    }
}

/// Allocations and frees by order.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct OrderCounts {
    /// Served requests by order, and within by migrate type.
    pub(crate) alloc: [[u64; MigrateType::COUNT]; Order::COUNT],
    /// Requests that Linux could not serve, by order.
    pub(crate) failed: [u64; Order::COUNT],
    /// Frees by order.
    pub(crate) free: [u64; Order::COUNT],
}

/// Where the map and the events do not agree; counts of frames unless said otherwise.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Disagreements {
    /// Held by the map without a type flag, and allocated before anything else happens to them: on a per-CPU list at
    /// the start. Freed in our machine before the first event.
    pub(crate) listed_at_start: u64,
    /// The same with a type flag: freed after the map was taken and before the recording began.
    pub(crate) freed_before_trace: u64,
    /// Free by the map, but taken before the recording began: held from the start.
    pub(crate) taken_before_trace: u64,
    /// Allocated, though they were held by the map and the events: the free was not seen. Ours is freed first.
    pub(crate) allocated_while_held: u64,
    /// Freed, though free by the map and the events: the allocation was not seen (bulk allocation, compaction).
    pub(crate) freed_while_free: u64,
    /// Allocated or freed outside the zones' memory, or reserved at the start. Nothing is replayed for them.
    pub(crate) outside: u64,
    /// Frees of frames that do not belong to one allocation; no fault, they are freed piece by piece.
    pub(crate) frees_in_pieces: u64,
}

/// Work of Linux's compaction. It takes free frames without an allocation event, so where a page went is not known
/// until a frame that seems free is freed. Ours compact when they have reason to: sources and targets of their moves
/// are their own decisions.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Moves {
    /// Frames of pages that Linux moved.
    pub(crate) moved: u64,
    /// Frames freed later, though free by map and events, that were taken for a moved page.
    pub(crate) freed_after: u64,
    /// Frames that Linux's compaction took and gave back unused.
    pub(crate) given_back: u64,
}
