//! Results of a replay. Its fields are the keys of `--json`; they are documented in the crate's README and stay.

#[cfg(feature = "experiments")]
use pageblock_frame::MigrateType;
use serde::Serialize;

use super::counters::{Disagreements, EventCounts, Moves};
use super::film::ZonePlace;
use super::plan::Origin;
use super::rules::Rules;
use crate::trace::Skipped;

/// Everything that a replay found.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Outcome {
    /// Name of the trace's file.
    pub(crate) trace: String,
    /// Events in the trace.
    pub(crate) events: u64,
    /// Every frame is accounted for, each machine's check passed, and undoing everything gave back the initial state.
    pub(crate) conserved: bool,
    /// Why not, if not.
    pub(crate) conservation_faults: Vec<String>,
    /// Seconds of the trace.
    pub(crate) recorded_seconds: f64,
    /// The recorded machine at the end.
    pub(crate) linux: Side,
    /// Each of our machines, in the order in which their rules were named.
    pub(crate) rules: Vec<Ruled>,
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
    /// Work of Linux's compaction.
    pub(crate) moves: Moves,
    /// Where the starting occupancy comes from.
    pub(crate) start_from: Origin,
    /// Parts of the recorded state that could not be matched.
    pub(crate) unmatched: Vec<String>,
    /// Notes on the input.
    pub(crate) notes: Vec<String>,
    /// Lines that were passed over.
    pub(crate) skipped: Skipped,
    /// Over time.
    #[serde(skip)]
    pub(crate) samples: Vec<Sample>,
    /// Where the zones' pageblocks are in the pictures.
    #[serde(skip)]
    pub(crate) zones: Vec<ZonePlace>,
    /// Linux's frames at the end and those of each of our machines, one byte each.
    #[serde(skip)]
    pub(crate) frames: Vec<Vec<u8>>,
}

impl Outcome {
    /// Linux, and the rules of each of our machines.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once("Linux").chain(self.rules.iter().map(|ruled| ruled.rules))
    }

    /// The machine that a verdict is about: the default's if it is there, else the last one.
    pub(crate) fn ours(&self) -> Option<&Ruled> {
        self.rules.iter().find(|ruled| ruled.rules == Rules::Default.name()).or(self.rules.last())
    }
}

/// One of our machines at the end of the trace.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Ruled {
    /// The name of its rules.
    pub(crate) rules: &'static str,
    /// The machine, after its per-CPU lists have been emptied.
    pub(crate) end: Side,
    /// Frames that were on the lists before that.
    pub(crate) listed_frames: u64,
    /// Requests that Linux served and this machine did not.
    pub(crate) refused: u64,
    /// The same by order.
    pub(crate) refused_by_order: Vec<u64>,
    /// Of those, requests for which no zone had enough free frames.
    pub(crate) refused_for_memory: u64,
    /// Requests that were served from below the watermarks: Linux served them after reclaim, which the trace shows at
    /// another time.
    pub(crate) below_watermarks: u64,
    /// Requests that Linux refused and this machine could have served.
    pub(crate) served_beyond: u64,
    /// Requests and frees.
    pub(crate) operations: u64,
    /// Runs of its compaction.
    pub(crate) compaction_runs: u64,
    /// Of those, the ones that made the block which was wanted.
    pub(crate) compaction_successes: u64,
    /// Frames that they moved.
    pub(crate) moved: u64,
    /// Frees that it refused; 0 unless something is wrong.
    pub(crate) rejected_frees: u64,
    /// Bytes of metadata by frames of memory.
    pub(crate) metadata_bytes_per_frame: f64,
    /// CPUs with lists of their own.
    pub(crate) cpus: u32,
    /// Its files.
    #[serde(skip)]
    pub(crate) files: Files,
}

/// A machine's files at the end, as Linux would print them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files {
    /// `/proc/buddyinfo`.
    pub(crate) buddyinfo: String,
    /// `/proc/pagetypeinfo`.
    pub(crate) pagetypeinfo: String,
    /// `/proc/zoneinfo`.
    pub(crate) zoneinfo: String,
    /// `/proc/vmstat`, as far as it is the allocator's.
    pub(crate) vmstat: String,
    /// Both files of debugfs' `extfrag`.
    pub(crate) extfrag: String,
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

/// All machines at one time of the trace: Linux's figure, then those of ours.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    /// Microseconds since the first event.
    pub(crate) micros: u64,
    /// Wholly free pageblocks.
    pub(crate) free_pageblocks: Vec<u64>,
    /// Free frames.
    pub(crate) free_frames: Vec<u64>,
    /// Fallbacks so far.
    pub(crate) fallbacks: Vec<u64>,
    /// One byte a pageblock.
    pub(crate) cells: Vec<Vec<u8>>,
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
