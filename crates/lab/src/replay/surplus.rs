//! Frames that the map of frames says were free, but that were taken before the recording began.
//!
//! Between the reading of the map and the first event other tasks allocate, and compaction moves pages, without a line
//! in the trace. Frames freed meanwhile show when the trace allocates them ([`early`](super::early)); frames taken
//! show only in the sum: the map's free frames and those are more than `zoneinfo` counted as free and on per-CPU
//! lists. So many frames of the map are held from the start: first those that are held in the map after the trace, then
//! those in the shortest runs, which requests are served from.

use pageblock_frame::MigrateType;

use super::early::Early;
use super::layout::ZoneLayout;
use super::linux::{FREE, Linux, START, kind_of};
use crate::state::{FrameClass, FrameMap};

/// Holds them; returns their number.
pub(crate) fn hold(linux: &mut Linux, layout: &[ZoneLayout], early: &Early, after: Option<&FrameMap>) -> u64 {
    let mut later = vec![0u64; linux.frames().div_ceil(64) as usize];
    for run in after.into_iter().flat_map(|map| &map.runs).filter(|run| run.class != FrameClass::Free) {
        for pfn in run.frames.start.as_u64()..run.frames.end.as_u64().min(linux.frames()) {
            later[(pfn / 64) as usize] |= 1 << (pfn % 64);
        }
    }
    layout.iter().map(|zone| hold_in(linux, zone, early, &later)).sum()
}

/// A frame that may have been taken.
struct Candidate {
    pfn: u64,
    is_held_later: bool,
    /// Frames of the free run around it.
    run: u64,
}

fn hold_in(linux: &mut Linux, zone: &ZoneLayout, early: &Early, later: &[u64]) -> u64 {
    let bit = |words: &[u64], pfn: u64| words[(pfn / 64) as usize] >> (pfn % 64) & 1 != 0;
    let mut candidates = Vec::new();
    let mut free = early.freed.iter().filter(|&&pfn| zone.config.span.contains(pageblock_frame::Pfn::new(pfn))).count();
    for range in &zone.ram {
        let (mut at, end) = (range.start.as_u64(), range.end.as_u64());
        while at < end {
            let stop = (at..end).find(|&pfn| linux.owner(pfn) != FREE).unwrap_or(end);
            for pfn in (at..stop).filter(|&pfn| !bit(&early.allocated, pfn)) {
                candidates.push(Candidate { pfn, is_held_later: bit(later, pfn), run: stop - at });
            }
            free += (stop - at) as usize;
            at = stop + 1;
        }
    }
    let surplus = (free as u64).saturating_sub(zone.recorded.free + zone.recorded.listed);
    candidates.sort_by_key(|frame| (!frame.is_held_later, frame.run, frame.pfn));
    candidates.truncate(surplus as usize);
    for frame in &candidates {
        linux.set(frame.pfn, START, kind_of(MigrateType::Movable));
    }
    candidates.len() as u64
}
