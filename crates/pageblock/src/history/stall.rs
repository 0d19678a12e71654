//! The stall of 2018 (*Fragmentation avoidance and stalls*, patch 4; never merged): a movable request waits for reclaim
//! once, before it takes a small free block from another type's pageblock.
//!
//! ```text
//! slow path, first attempt, MOVABLE and DIRECT_RECLAIM ─► the zones refuse to mix below the stall order
//!     │ none served: the preferred zone is boosted by seven pageblocks, kswapd woken
//!     │ the request waits until kswapd makes progress, at most 20 ms
//!     └─► the same attempt again, and now mixing is allowed
//! ```
//! A request stalls once at most, and always goes on: where nothing can wait, `wait_until` returns at once, and all
//! that is lost is the time of two attempts.

use pageblock_frame::sync::{AtomicU64, Ordering};
use pageblock_frame::trace::Event;
use pageblock_frame::{AllocFlags, Gfp, Hooks, Order, Platform};

use crate::PageAllocator;
use crate::request::Request;
use crate::slowpath::wake_kswapd;

/// Longest stall, in nanoseconds: 20 ms (`HZ/50`). [`Experiment::StallLimit`](crate::Experiment::StallLimit) sets
/// another.
pub const STALL_LIMIT: u64 = 20_000_000;
/// Classes of durations that [`Stalls`] tells apart.
pub const STALL_BUCKETS: usize = 6;
/// One class, in nanoseconds: a tick of a kernel with 250 a second, the unit in which the patch's author counted.
const TICK: u64 = 4_000_000;

/// Stalls since boot.
///
/// ```
/// let stalls = pageblock::Stalls::default();
/// assert_eq!((stalls.count, stalls.longest), (0, 0));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Stalls {
    /// How many with a tick of the clock in them (`fragment_stall` of `/proc/vmstat`).
    pub count: u64,
    /// All waits together, in nanoseconds, also of those that no tick fell into.
    pub total: u64,
    /// The longest, in nanoseconds.
    pub longest: u64,
    /// How many had one tick in them (4 ms), two, three, four, five, and more.
    pub durations: [u64; STALL_BUCKETS],
}

/// The same, live: each number is changed by the CPU that stalled, and read at any time, perhaps between two changes.
#[derive(Debug)]
pub(crate) struct StallCounters {
    total: AtomicU64,
    longest: AtomicU64,
    durations: [AtomicU64; STALL_BUCKETS],
}

impl StallCounters {
    pub(crate) fn new() -> Self {
        let zero = |_| AtomicU64::new(0);
        Self { total: AtomicU64::new(0), longest: AtomicU64::new(0), durations: core::array::from_fn(zero) }
    }

    /// A wait from `start` to `end`. Linux counts it if a tick of the clock fell into it, by the number of ticks; its
    /// time is counted
    /// in any case.
    fn note(&self, start: u64, end: u64) {
        let duration = end.saturating_sub(start);
        let ticks = (end / TICK).saturating_sub(start / TICK);
        let bucket = ticks.checked_sub(1).map(|place| usize::try_from(place).unwrap_or(usize::MAX));
        if let Some(slot) = bucket.and_then(|place| self.durations.get(place.min(STALL_BUCKETS - 1))) {
            slot.fetch_add(1, Ordering::Relaxed);
        }
        self.total.fetch_add(duration, Ordering::Relaxed);
        let mut longest = self.longest.load(Ordering::Relaxed);
        while duration > longest {
            let swapped = self.longest.compare_exchange(longest, duration, Ordering::Relaxed, Ordering::Relaxed);
            longest = swapped.map_or_else(|found| found, |_| duration);
        }
    }

    pub(crate) fn read(&self) -> Stalls {
        let durations = core::array::from_fn(|i| self.durations.get(i).map_or(0, |n| n.load(Ordering::Relaxed)));
        Stalls {
            count: durations.iter().sum(),
            total: self.total.load(Ordering::Relaxed),
            longest: self.longest.load(Ordering::Relaxed),
            durations,
        }
    }
}

impl<P: Platform> Request<P> {
    /// [`AllocFlags::FRAGMENT_STALL`] if the request may stall: it is movable, so that compaction can follow, and may
    /// wait. A request that reclaims and compacts before it mixes has no use for it.
    pub(crate) fn stall_flag(&self) -> AllocFlags {
        let suits = self.gfp.contains(Gfp::MOVABLE.union(Gfp::DIRECT_RECLAIM));
        if self.inner.history.settings.stall_order > 0 && suits && !self.avoids_mixing() {
            AllocFlags::FRAGMENT_STALL
        } else {
            AllocFlags::empty()
        }
    }

    /// Waits for kswapd (`stall_fragmentation()`).
    #[cold]
    pub(crate) fn stall(&self) {
        let Some(zone) = self.zones().next() else { return };
        if self.gfp.contains(Gfp::MEMALLOC) || !P::hooks().enter_reclaim() {
            // The task is reclaiming: others would wait for it.
            return;
        }
        P::hooks().leave_reclaim();
        zone.boost_fast();
        // This wake is the one that the boost owes, too.
        let _ = zone.take_boosted();
        wake_kswapd(self.inner, zone, Order::ZERO, self.limit);
        let start = P::hooks().now();
        P::hooks().wait_until(zone.node(), start.saturating_add(self.inner.history.settings.stall_limit));
        let end = P::hooks().now();
        let duration = end.saturating_sub(start);
        if duration > 0 {
            self.inner.history.stalls.note(start, end);
            P::hooks().trace(&Event::FragmentStall { node: zone.node(), duration });
        }
    }
}

impl<P: Platform> PageAllocator<P> {
    /// How often and how long requests waited rather than mix migrate types at once.
    ///
    /// ```
    /// # use pageblock::{Config, Experiment, Gfp, PageAllocator, Region};
    /// # use pageblock::hosted::Simulated;
    /// # let frames = PageAllocator::<Simulated>::new();
    /// # let storage = vec![core::mem::MaybeUninit::uninit(); 1 << 20].leak();
    /// # frames.init_simulated([Region::from((0, 16 << 20, true))],
    /// &Config::new().experiment(Experiment::StallOrder(4)), storage).unwrap();
    /// assert_eq!(frames.stalls().count, 0);
    /// ```
    #[must_use]
    pub fn stalls(&self) -> Stalls {
        self.inner().map_or(Stalls::default(), |inner| inner.history.stalls.read())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The distribution that the patch's author printed: 209 stalls of 4 ms, one of 8, nine of 20.
    #[test]
    fn durations_fall_into_ticks() {
        let counters = StallCounters::new();
        for (count, ms) in [(209, 4), (1, 8), (9, 20)] {
            (0..count).for_each(|_| counters.note(1, 1 + ms * 1_000_000));
        }
        let stalls = counters.read();
        assert_eq!((stalls.count, stalls.total, stalls.longest), (219, 1_024_000_000, 20_000_000));
        assert_eq!(stalls.durations, [209, 1, 0, 0, 9, 0]);
        counters.note(1, u64::MAX / 2);
        assert_eq!(counters.read().durations, [209, 1, 0, 0, 9, 1]);
        counters.note(4_000_001, 7_999_999);
        counters.note(3_999_999, 4_000_000);
        assert_eq!(counters.read().durations, [210, 1, 0, 0, 9, 1], "only the second has a tick in it");
    }
}
