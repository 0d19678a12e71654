//! Choices in scanning lists that differ between releases.

use pageblock_lru::Refault;

/// Treatment of a page that comes back after it was evicted.
///
/// ```
/// use pageblock_reclaim::{Refaults, ShrinkConfig};
/// assert_eq!(ShrinkConfig::default().refaults, Refaults::Streams);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Refaults {
    /// Nothing (before 3.15).
    Ignored,
    /// It is active if no more was evicted meanwhile than there are active pages of files (3.15 to 5.8).
    ActiveFiles,
    /// The same with all anonymous pages where they can be swapped (since 5.9).
    ActiveAndAnon,
    /// The same (not in Linux); and if more was, or next to nothing, it was used in a rhythm for which memory is too
    /// small, and is given up first once it was used: of a stream that goes round the rest stays, and is found there.
    /// A quarter is treated as any other, so that pages that are not used any more gives way.
    Streams,
}

/// Frames of a list's clock for which pages of a stream are left behind or not, in turn; of four such times one is
/// not. Neighbours on a disk should share their fate: pages kept in between save a reader nothing.
const RUN: u64 = 1024;

impl Refaults {
    /// True if the lists' clock advances by a page that goes out of the way to be written, as it does by one that is
    /// in use. Then pages that a writer evicts seem to be of long ago, and their followers of just now.
    pub(crate) const fn parking_ages(self) -> bool {
        !matches!(self, Self::Streams)
    }

    /// True if a page that comes back at this time of the lists' clock is to be given up first: too late, or so soon
    /// that it went just ahead of its reader. Were that one made active, the next page that is to be read would go for
    /// it, and so on: the reader would never get to where the rest of its stream is still in memory.
    pub(crate) const fn leaves_behind(self, age: u64, refault: Refault) -> bool {
        let of_a_stream = !refault.workingset || refault.distance < RUN;
        matches!(self, Self::Streams) && of_a_stream && !(age / RUN).is_multiple_of(4)
    }
}

/// The rules of scanning.
///
/// ```
/// use pageblock_reclaim::ShrinkConfig;
/// assert_ne!(ShrinkConfig::default(), ShrinkConfig::linux_6_1());
/// assert_eq!(ShrinkConfig::default().swappiness, 60);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShrinkConfig {
    /// How readily anonymous pages go, against file pages: 0 hardly, 100 as readily, 200 instead (`vm.swappiness`).
    pub swappiness: u8,
    /// An anonymous page that was used once is active (before 5.9).
    pub anon_active_at_once: bool,
    /// The inactive file list is long enough if it is as long as the active one (before 4.7), rather than by the ratio
    /// that grows with memory.
    pub files_half_active: bool,
    /// Pages that wait to be written go to the active list, out of the way (since 4.11), rather than for another turn.
    pub park_dirty: bool,
    /// Other caches are shrunk also while boosted watermarks are all there is to reclaim for (the third version of
    /// *Fragmentation avoidance and stalls*; its author saw it hurt).
    pub boost_shrinks_slab: bool,
    /// Pages above a round's zone limit that are stepped over for each page that is wanted.
    pub skips_a_page: u32,
    /// Treatment of a page that comes back.
    pub refaults: Refaults,
}

impl ShrinkConfig {
    /// Linux 6.1.
    #[must_use]
    pub const fn linux_6_1() -> Self {
        Self {
            swappiness: 60,
            anon_active_at_once: false,
            files_half_active: false,
            park_dirty: true,
            boost_shrinks_slab: false,
            skips_a_page: 1024,
            refaults: Refaults::ActiveAndAnon,
        }
    }
}

impl Default for ShrinkConfig {
    /// Linux 6.1's, with [`Refaults::Streams`].
    fn default() -> Self {
        Self { refaults: Refaults::Streams, ..Self::linux_6_1() }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_streams_pages_come_back_too_late_or_at_once() {
        let of = |rule: Refaults, age, distance, workingset| rule.leaves_behind(age, Refault { distance, workingset });
        for turn in [1, 2, 3, 5] {
            assert!(of(Refaults::Streams, turn * RUN, 9 * RUN, false), "too late");
            assert!(of(Refaults::Streams, turn * RUN, RUN - 1, true), "just ahead of its reader");
            assert!(!of(Refaults::Streams, turn * RUN, RUN, true), "of a working set");
            assert!(!of(Refaults::ActiveAndAnon, turn * RUN, 9 * RUN, false));
        }
        for kept in [0, RUN - 1, 4 * RUN] {
            assert!(!of(Refaults::Streams, kept, 9 * RUN, false) && !of(Refaults::Streams, kept, 0, true));
        }
    }
}
