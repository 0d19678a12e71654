//! Lists of bounded length: blocks that are isolated and moved together.

use arrayvec::ArrayVec;
use pageblock_buddy::Held;
use pageblock_frame::PAGEBLOCK_FRAMES;

/// Frames of a pageblock, as a distance of indices.
pub(crate) const BLOCK: u32 = PAGEBLOCK_FRAMES as u32;

/// Blocks that are isolated and moved at a time (`COMPACT_CLUSTER_MAX`).
pub(crate) const CLUSTER: usize = 32;

/// Up to a cluster of blocks of one order, with the state bytes that they had.
pub(crate) type Cluster = ArrayVec<Held, CLUSTER>;

/// Adds to a list that has room; the caller has seen to that.
pub(crate) fn keep<T, const N: usize>(list: &mut ArrayVec<T, N>, entry: T) {
    let kept = list.try_push(entry).is_ok();
    debug_assert!(kept, "the list is full");
}
