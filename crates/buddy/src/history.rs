//! Forms of old kernels and of patches that were never merged (feature `history`): the fair-zone policy, and the boost
//! of a stall.
//!
//! Under the fair-zone policy (*Fair zone policy*, Linux 3.12 to 4.7) a node's zones fill, and so age, at rates in
//! proportion to their sizes.
//!
//! Each zone has a batch of frames to hand out: the distance of its low and high watermark, which is in
//! proportion to its size. Every allocation charges it, also one from a per-CPU list. The first attempt of a request
//! passes over zones that have used up theirs; when none is left, all begin again. A zone must pass its watermark and
//! lowmem reserve all the same.
//!
//! | field | legal values | changed by |
//! |---|---|---|
//! | [`Zone::fair_batch`] | from far below 0 up to high - low | an allocation takes from it; a reset sets it |
//! | depleted | – | the allocation that takes the batch to its end sets it, a reset clears it |
//!
//! No lock: the batch is one number, and the bit follows from a number that its setter has seen. A bit set late, after
//! a reset on another CPU, costs that zone's turn until the next reset, and the pass over it counts as a reason for
//! one.

use pageblock_frame::sync::{AtomicBool, AtomicU64, Ordering};
use pageblock_frame::{MigrateType, PAGEBLOCK_FRAMES};

use crate::{BoostArithmetic, Watermarks, Zone};

/// Pageblocks by which a stall boosts: one, and two for each type with per-CPU lists.
const FAST_BLOCKS: u64 = 1 + 2 * MigrateType::PCP_COUNT as u64;

/// Which form of the policy.
///
/// ```
/// use pageblock_buddy::FairPolicy;
/// assert!(!FairPolicy::Off.is_on());
/// assert!(FairPolicy::Linux3_17.uses_bit());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum FairPolicy {
    /// The first zone above its watermark serves (before 3.12, and since 4.8, where LRU lists belong to nodes).
    #[default]
    Off,
    /// 3.12: passes over zones without batch, and goes on to other nodes in the same pass. All zones of the list are
    /// reset where the slow path begins.
    Linux3_12,
    /// 3.13: the same on the preferred node only. Other nodes are tried in the slow path, after kswapd has been woken.
    Linux3_13,
    /// 3.15 and 3.16: when the node's zones have no batch left they are reset at once, and the whole list is tried
    /// again, kswapd asleep.
    Linux3_15,
    /// The draft that *Fair zone policy* measured (v4r8): as 3.17, but resets depleted zones only, and takes part only
    /// where the list's second zone is on the same node.
    SeriesV4R8,
    /// 3.17 as released: a zone that has used up its batch is marked, and passes look at the mark. The test for it is
    /// "nothing left" in the sense of exactly 0, which a block of several frames can jump over: such a zone is never
    /// marked.
    Linux3_17AsReleased,
    /// 3.17 with that repaired: nothing left, or less.
    Linux3_17,
}

impl FairPolicy {
    /// Some form of the policy.
    #[must_use]
    pub const fn is_on(self) -> bool {
        !matches!(self, Self::Off)
    }

    /// Passes look at the zones' mark rather than at their batch.
    #[must_use]
    pub const fn uses_bit(self) -> bool {
        matches!(self, Self::SeriesV4R8 | Self::Linux3_17AsReleased | Self::Linux3_17)
    }

    /// True if a zone with so much left has used up its batch.
    const fn is_depleted(self, left: i64) -> bool {
        if matches!(self, Self::Linux3_17AsReleased) { left == 0 } else { left <= 0 }
    }
}

/// A zone's turn; see the table above.
#[derive(Debug)]
pub(crate) struct Turn {
    batch: AtomicU64,
    depleted: AtomicBool,
}

impl Turn {
    pub(crate) fn new() -> Self {
        Self { batch: AtomicU64::new(0), depleted: AtomicBool::new(false) }
    }
}

impl Watermarks {
    /// Frames that a zone hands out in its turn (`NR_ALLOC_BATCH` when it is full).
    ///
    /// ```
    /// use pageblock_buddy::Watermarks;
    /// // The zones of a machine of 8 GiB under Linux 3.x: a ratio of 37.6 to 62.4.
    /// let batch = |managed| Watermarks::compute_3_13(managed, 3_840 + 765_000 + 1_270_000, 11_423).fair_batch();
    /// assert_eq!([3_840, 765_000, 1_270_000].map(batch), [1, 268, 445]);
    /// ```
    #[must_use]
    pub const fn fair_batch(&self) -> u64 {
        self.high.saturating_sub(self.low)
    }
}

impl Zone<'_> {
    /// Rest of the zone's batch, in frames; below 0 if more was taken.
    #[must_use]
    pub fn fair_batch(&self) -> i64 {
        self.marks.turn.batch.load(Ordering::Relaxed).cast_signed()
    }

    /// True if the zone's turn is over.
    #[must_use]
    pub fn fair_is_over(&self, policy: FairPolicy) -> bool {
        if policy.uses_bit() { self.marks.turn.depleted.load(Ordering::Relaxed) } else { self.fair_batch() <= 0 }
    }

    /// Charges an allocation.
    pub fn charge_fair(&self, frames: u64, policy: FairPolicy) {
        let left = self.marks.turn.batch.fetch_sub(frames, Ordering::Relaxed).wrapping_sub(frames).cast_signed();
        if policy.uses_bit() && policy.is_depleted(left) {
            self.marks.turn.depleted.swap(true, Ordering::Relaxed);
        }
    }

    /// The zone's turn begins anew.
    pub fn reset_fair(&self) {
        // A charge between the two, on another CPU, may leave a mark that the second takes away: that zone's turn lasts
        // until the next allocation from it.
        self.marks.turn.batch.swap(self.watermarks().fair_batch(), Ordering::Relaxed);
        self.marks.turn.depleted.swap(false, Ordering::Relaxed);
    }

    /// The boost of a request that is about to stall: seven pageblocks at once, up to the cap.
    pub fn boost_fast(&self) {
        let frames = FAST_BLOCKS * PAGEBLOCK_FRAMES;
        match self.boost_rule().arithmetic {
            BoostArithmetic::Posted => _ = self.raise_boost(frames),
            BoostArithmetic::Corrected => self.boost_by(frames),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_several_frames_jumps_over_nothing_left() {
        for (left, as_released, repaired) in
            [(1, false, false), (0, true, true), (-1, false, true), (-300, false, true)]
        {
            assert_eq!(FairPolicy::Linux3_17AsReleased.is_depleted(left), as_released);
            assert_eq!(FairPolicy::Linux3_17.is_depleted(left), repaired);
        }
    }

    #[test]
    fn a_stall_boosts_by_seven_pageblocks() {
        assert_eq!(FAST_BLOCKS * PAGEBLOCK_FRAMES, 3584);
    }

    #[test]
    fn batches_of_a_machine_of_4_gib() {
        let total = 3_977 + 742_000 + 262_144;
        let marks = |managed| Watermarks::compute_3_13(managed, total, 8_032);
        assert_eq!((marks(742_000).low, marks(742_000).high), (1846, 2215));
        assert_eq!((marks(262_144).low, marks(262_144).high), (652, 783));
        assert_eq!([3_977, 742_000, 262_144].map(|m| marks(m).fair_batch()), [2, 369, 131]);
    }
}
