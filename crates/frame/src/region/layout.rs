//! How much metadata frames need, and where to put it.

use core::alloc::Layout;

use super::map::FrameRun;
use crate::{Order, PAGE_SIZE, PAGEBLOCK_FRAMES, Pageblock, Pfn, PfnRange};

/// Bytes of metadata for one pageblock: its line of free bits and what is derived from them, and a state byte a frame.
const BLOCK_BYTES: u64 = size_of::<Pageblock>() as u64 + PAGEBLOCK_FRAMES;
/// Bytes that aligning the lists of pageblocks and skip bits may skip.
const ALIGNMENT_BYTES: u64 = (align_of::<Pageblock>() + size_of::<u64>()) as u64;
/// Pageblocks for which one word holds the skip bits.
const WORD_BITS: u64 = u64::BITS as u64;

/// Bytes for the sets of pageblocks that can serve an order: one word for each set, for 64 pageblocks.
const SET_ROW_BYTES: u64 = 64 * size_of::<u64>() as u64;

/// Rows of words over all levels of the sets' tree, which has at least two.
const fn set_rows(blocks: u64) -> u64 {
    let mut entries = blocks.div_ceil(WORD_BITS);
    let mut rows = entries;
    loop {
        entries = entries.div_ceil(WORD_BITS);
        rows += entries;
        if entries <= 1 {
            return rows;
        }
    }
}

/// The room that the metadata of one zone spanning `frames` frames takes: a [`Pageblock`] a pageblock, a state byte a
/// frame, a skip bit a pageblock, and the sets of pageblocks that can serve an order. The zone may start and end anywhere in a block of [`Order::MAX`], down to whose start
/// metadata reaches, and the room may start at any byte.
///
/// Sizes beyond the address space are cut to its end, which no memory map can serve.
///
/// ```
/// use pageblock_frame::region::zone_layout;
/// const LAYOUT: core::alloc::Layout = zone_layout(1 << 20); // 4 GiB
/// assert!((LAYOUT.size() as f64) < 1.28 * 1048576.0);
/// assert_eq!(LAYOUT.align(), 128);
/// ```
#[must_use]
pub const fn zone_layout(frames: u64) -> Layout {
    let before = if Order::MAX.frames() > PAGEBLOCK_FRAMES { Order::MAX.frames() } else { PAGEBLOCK_FRAMES } - 1;
    let blocks = frames.saturating_add(before).div_ceil(PAGEBLOCK_FRAMES);
    let words = blocks.div_ceil(WORD_BITS);
    let bytes = blocks.saturating_mul(BLOCK_BYTES).saturating_add(words * size_of::<u64>() as u64);
    let bytes = bytes.saturating_add(set_rows(blocks).saturating_mul(SET_ROW_BYTES));
    layout(bytes.saturating_add(ALIGNMENT_BYTES), align_of::<Pageblock>())
}

/// The room that a zone of `frames` frames takes on a machine of `cpus` CPUs, each of which keeps `per_cpu` for it (its
/// lists and counters; `Layout::new::<()>()` where there are none).
///
/// ```
/// use core::alloc::Layout;
/// use pageblock_frame::region::{metadata_layout, zone_layout};
/// let lists = Layout::new::<[u64; 16]>();
/// assert_eq!(metadata_layout(4096, 8, lists).size(), zone_layout(4096).size() + 8 * lists.size());
/// assert_eq!(metadata_layout(4096, 8, Layout::new::<()>()), zone_layout(4096));
/// ```
#[must_use]
pub const fn metadata_layout(frames: u64, cpus: usize, per_cpu: Layout) -> Layout {
    let zone = zone_layout(frames);
    let align = if per_cpu.align() > zone.align() { per_cpu.align() } else { zone.align() };
    let step = (per_cpu.size() as u64).saturating_add(per_cpu.align() as u64 - 1) & !(per_cpu.align() as u64 - 1);
    let start = (zone.size() as u64).next_multiple_of(per_cpu.align() as u64);
    layout(start.saturating_add(step.saturating_mul(cpus as u64)), align)
}

/// The layout of this many bytes, rounded up to `align`, a power of two; cut to the largest that there is.
const fn layout(bytes: u64, align: usize) -> Layout {
    let largest = (isize::MAX as usize - (align - 1)) & !(align - 1);
    let rounded = bytes.saturating_add(align as u64 - 1) & !(align as u64 - 1);
    let size = if rounded < largest as u64 { rounded as usize } else { largest };
    match Layout::from_size_align(size, align) {
        Ok(layout) => layout,
        Err(_) => Layout::new::<()>(), // `size` and `align` are in bounds
    }
}

/// The best place for `bytes` bytes at or above `floor` in one of the runs.
pub(super) fn place(runs: impl Iterator<Item = FrameRun>, bytes: u64, align: u64, floor: Pfn) -> Option<PfnRange> {
    if !align.is_power_of_two() || bytes == 0 {
        return None;
    }
    let frames = bytes.div_ceil(PAGE_SIZE);
    let step = align.div_ceil(PAGE_SIZE);
    let mut best: Option<(u64, PfnRange)> = None;
    for run in runs {
        let (start, end) = (run.range.start.as_u64().max(floor.as_u64()), run.range.end.as_u64());
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
