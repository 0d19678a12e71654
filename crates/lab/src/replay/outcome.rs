//! What a replay found. Its fields are the keys of `--json`; they are documented in the crate's README and stay.

#[cfg(feature = "experiments")]
use pageblock_frame::MigrateType;
use serde::Serialize;

use super::counters::{Disagreements, EventCounts, Moves};
use super::film::ZonePlace;
use super::plan::Origin;
use crate::trace::Skipped;

/// Everything that a replay found.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Outcome {
    /// Name of the trace's file.
    pub(crate) trace: String,
    /// Events in the trace.
    pub(crate) events: u64,
    /// Requests that Linux served and we did not.
    pub(crate) refused: u64,
    /// Of those, requests for which no zone had enough free frames.
    pub(crate) refused_for_memory: u64,
    /// Every frame is accounted for, the zones' check passed, and undoing everything gave back the initial state.
    pub(crate) conserved: bool,
    /// Why not, if not.
    pub(crate) conservation_faults: Vec<String>,
    /// Bytes of our metadata by frames of memory.
    pub(crate) metadata_bytes_per_frame: f64,
    /// Nanoseconds in the allocator by operation (a request or a free).
    pub(crate) ns_per_operation: f64,
    /// Calls of the allocator's functions by operation.
    pub(crate) calls_per_operation: f64,
    /// Operations that were executed: requests and frees.
    pub(crate) operations: u64,
    /// Operations a second of time in the allocator.
    pub(crate) operations_per_second: f64,
    /// Events of the trace a second of time in the allocator.
    pub(crate) events_per_second: f64,
    /// Seconds of the trace.
    pub(crate) recorded_seconds: f64,
    /// The recorded machine at the end.
    pub(crate) linux: Side,
    /// Ours at the end.
    pub(crate) ours: Side,
    /// The recorded machine at the end by the events alone, frames on per-CPU lists counted as free.
    pub(crate) linux_by_events: Side,
    /// Both at the start.
    pub(crate) start: Side,
    /// The start as Linux counted it.
    pub(crate) start_recorded: Side,
    /// Events by kind.
    pub(crate) event_counts: EventCounts,
    /// Requests and frees by order.
    pub(crate) by_order: Vec<OrderRow>,
    /// Frames that the trace allocated and did not free.
    pub(crate) live: Live,
    /// Where the map of frames and the events do not agree.
    pub(crate) disagreements: Disagreements,
    /// What compaction did.
    pub(crate) moves: Moves,
    /// Frees that our zones refused; 0 unless something is wrong.
    pub(crate) rejected_frees: u64,
    /// Where the starting occupancy comes from.
    pub(crate) start_from: Origin,
    /// What of the recorded state could not be matched.
    pub(crate) unmatched: Vec<String>,
    /// What is worth knowing about the input.
    pub(crate) notes: Vec<String>,
    /// Lines that were passed over.
    pub(crate) skipped: Skipped,
    /// Over time.
    #[serde(skip)]
    pub(crate) samples: Vec<Sample>,
    /// Where the zones' pageblocks are in the pictures.
    #[serde(skip)]
    pub(crate) zones: Vec<ZonePlace>,
    /// Linux's and our frames at the end, one byte each.
    #[serde(skip)]
    pub(crate) frames: [Vec<u8>; 2],
    /// Our zones at the end in the format of `/proc/buddyinfo`.
    #[serde(skip)]
    pub(crate) buddyinfo: String,
    /// The same in the format of `/proc/pagetypeinfo`.
    #[serde(skip)]
    pub(crate) pagetypeinfo: String,
}

/// One machine at one time.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Side {
    /// Where the figures come from.
    pub(crate) source: &'static str,
    /// Requests that were served from a pageblock of another type.
    pub(crate) fallbacks: u64,
    /// Of those, from a free block smaller than a pageblock.
    pub(crate) fallbacks_below_pageblock: u64,
    /// Free frames; where they are Linux's own count, without those on per-CPU lists.
    pub(crate) free_frames: u64,
    /// Frames on per-CPU lists, where they are counted apart.
    pub(crate) listed_frames: u64,
    /// Pageblocks with all frames free.
    pub(crate) free_pageblocks: u64,
    /// Part of the free frames that cannot serve a block of each order, from 0 to 1.
    pub(crate) unusable_free_index: Vec<f64>,
    /// Pageblocks that hold both movable and other allocations.
    pub(crate) mixed_pageblocks: u64,
    /// Zone by zone.
    pub(crate) zones: Vec<ZoneFigures>,
}

/// One zone at one time.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct ZoneFigures {
    /// Its node.
    pub(crate) node: u8,
    /// Its name.
    pub(crate) zone: String,
    /// Free blocks by order.
    pub(crate) free_blocks: Vec<u64>,
    /// Free blocks by migrate type and order; empty where that is not known.
    pub(crate) free_blocks_by_type: Vec<TypeFigures>,
    /// Part of the free frames that cannot serve a block of each order.
    pub(crate) unusable_free_index: Vec<f64>,
}

/// Free blocks and pageblocks of one type in one zone.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TypeFigures {
    /// Name of the migrate type.
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    /// Free blocks by order.
    pub(crate) free_blocks: Vec<u64>,
    /// Pageblocks of the type.
    pub(crate) pageblocks: u64,
}

/// Requests and frees of one order.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct OrderRow {
    /// The order.
    pub(crate) order: u8,
    /// Requests for unmovable blocks that Linux served.
    pub(crate) unmovable: u64,
    /// The same for movable blocks.
    pub(crate) movable: u64,
    /// The same for reclaimable blocks.
    pub(crate) reclaimable: u64,
    /// Requests that Linux did not serve.
    pub(crate) failed: u64,
    /// Frees.
    pub(crate) freed: u64,
    /// Requests that Linux served and we did not.
    pub(crate) refused: u64,
}

/// Frames that are held at the end.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Live {
    /// Blocks of the trace.
    pub(crate) blocks: u64,
    /// Their frames.
    pub(crate) frames: u64,
    /// The most frames of the trace that were held at a time, at the end of a batch.
    pub(crate) most_frames: u64,
    /// Frames held since before the trace.
    pub(crate) start_frames: u64,
}

/// Both machines at one time of the trace: Linux's figure, then ours.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    /// Microseconds since the first event.
    pub(crate) micros: u64,
    /// Wholly free pageblocks.
    pub(crate) free_pageblocks: [u64; 2],
    /// Free frames.
    pub(crate) free_frames: [u64; 2],
    /// Fallbacks so far.
    pub(crate) fallbacks: [u64; 2],
    /// One byte a pageblock.
    pub(crate) cells: [Vec<u8>; 2],
}

/// One pageblock.
#[cfg(feature = "experiments")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockState {
    /// Its type.
    pub(crate) kind: MigrateType,
    /// Free frames.
    pub(crate) free: u16,
    /// Frames that belong to the allocator.
    pub(crate) managed: u16,
}
