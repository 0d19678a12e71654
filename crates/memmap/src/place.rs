//! Where the metadata goes.

use pageblock_frame::{MAX_NODES, MAX_PFN, PAGE_SIZE, PAGEBLOCK_FRAMES, Pfn, PfnRange};

use crate::map::MapRun;

/// Bytes of room, and their alignment.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) bytes: u64,
    pub(crate) align: u64,
}

/// The best place at or above `floor` in one of the runs, below its node's ceiling.
pub(crate) fn place(
    runs: impl Iterator<Item = MapRun>,
    Wanted { bytes, align }: Wanted,
    floor: Pfn,
    ceilings: &[u64; MAX_NODES],
) -> Option<PfnRange> {
    if !align.is_power_of_two() || bytes == 0 {
        return None;
    }
    let frames = bytes.div_ceil(PAGE_SIZE);
    let step = align.div_ceil(PAGE_SIZE);
    let mut best: Option<(u64, PfnRange)> = None;
    for run in runs {
        let ceiling = ceilings.get(run.node.index()).copied().unwrap_or(MAX_PFN);
        let (start, end) = (run.range.start.as_u64().max(floor.as_u64()), run.range.end.as_u64().min(ceiling));
        let Some(top) = end.checked_sub(frames) else { continue };
        let bottom = start.div_ceil(step) * step;
        for first in [bottom, top / step * step] {
            if first < start || first > top {
                continue;
            }
            let place = PfnRange::from_len(Pfn::new(first), frames);
            let whole = whole_blocks(run.range) - whole_blocks(PfnRange::new(run.range.start, place.start));
            let spoilt = whole - whole_blocks(PfnRange::new(place.end, run.range.end));
            // Runs come ascending and the upper end second, so that the last of equals is the highest.
            if best.is_none_or(|(least, _)| spoilt <= least) {
                best = Some((spoilt, place));
            }
        }
    }
    best.map(|(_, place)| place)
}

/// Pageblocks that are wholly in the range.
fn whole_blocks(range: PfnRange) -> u64 {
    let first = range.start.as_u64().div_ceil(PAGEBLOCK_FRAMES);
    (range.end.as_u64() / PAGEBLOCK_FRAMES).saturating_sub(first)
}
