//! Deferral: a zone where compaction failed is left alone for a while, for longer each time.

use pageblock_frame::Order;
use pageblock_frame::const_unless_model;
use pageblock_frame::sync::{AtomicU32, Ordering};

/// Most doublings of the pause.
const MAX_SHIFT: u32 = 6;

/// Whether the block for which a zone was compacted is really allocated.
///
/// ```
/// assert_ne!(pageblock_compaction::Proof::Allocated, pageblock_compaction::Proof::Watermark);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proof {
    /// It is.
    Allocated,
    /// It could be, by the watermarks.
    Watermark,
}

/// A zone's deferral. Hints: CPUs that change it at once may lose one another's changes, and any value is safe.
///
/// ```
/// use pageblock_compaction::{Deferral, Proof};
/// use pageblock_frame::Order;
/// let huge = Order::new(9).unwrap();
/// let zone = Deferral::new();
/// assert!(!zone.is_deferred(huge)); // it never failed
/// zone.defer(huge);
/// assert!(zone.is_deferred(huge)); // one attempt is left out
/// assert!(!zone.is_deferred(huge));
/// assert!(!zone.is_deferred(Order::new(3).unwrap())); // smaller orders never are
/// zone.reset(huge, Proof::Allocated);
/// assert!(!zone.is_deferred(huge));
/// ```
#[derive(Debug)]
pub struct Deferral {
    considered: AtomicU32,
    shift: AtomicU32,
    failed: AtomicU32,
}

impl Default for Deferral {
    fn default() -> Self {
        Self::new()
    }
}

impl Deferral {
    const_unless_model! {
        /// Nothing has failed yet.
        #[must_use]
        pub const fn new() -> Self {
            Self {
                considered: AtomicU32::new(0),
                shift: AtomicU32::new(0),
                failed: AtomicU32::new(Order::COUNT as u32),
            }
        }
    }

    /// Attempts since the last failure; doublings of the pause; the smallest order that failed, [`Order::LIMIT`] if
    /// none.
    #[must_use]
    pub fn state(&self) -> (u32, u32, Order) {
        let load = |field: &AtomicU32| field.load(Ordering::Relaxed);
        (load(&self.considered), load(&self.shift).min(MAX_SHIFT), Order::saturating(load(&self.failed).min(255) as u8))
    }

    fn fails_at(&self, order: Order) -> bool {
        u32::from(order.as_u8()) >= self.failed.load(Ordering::Relaxed)
    }

    fn limit(&self) -> u32 {
        1 << self.shift.load(Ordering::Relaxed).min(MAX_SHIFT)
    }

    /// Records a failure (`defer_compaction()`).
    pub fn defer(&self, order: Order) {
        self.considered.store(0, Ordering::Relaxed);
        self.shift.store((self.shift.load(Ordering::Relaxed) + 1).min(MAX_SHIFT), Ordering::Relaxed);
        self.failed.store(self.failed.load(Ordering::Relaxed).min(u32::from(order.as_u8())), Ordering::Relaxed);
    }

    /// True if this attempt should be left out. Counts it (`compaction_deferred()`).
    #[must_use]
    pub fn is_deferred(&self, order: Order) -> bool {
        let paused = self.is_paused(order);
        if self.fails_at(order) {
            let considered = self.considered.load(Ordering::Relaxed).saturating_add(1);
            self.considered.store(considered.min(self.limit()), Ordering::Relaxed);
        }
        paused
    }

    /// True if the next attempt will be left out. Counts nothing.
    #[must_use]
    pub fn is_paused(&self, order: Order) -> bool {
        self.fails_at(order) && self.considered.load(Ordering::Relaxed).saturating_add(1) < self.limit()
    }

    /// Records a success (`compaction_defer_reset()`, the helper of the series' second patch).
    pub fn reset(&self, order: Order, proof: Proof) {
        if proof == Proof::Allocated {
            self.considered.store(0, Ordering::Relaxed);
            self.shift.store(0, Ordering::Relaxed);
        }
        if self.fails_at(order) {
            self.failed.store(u32::from(order.as_u8()) + 1, Ordering::Relaxed);
        }
    }

    /// True if the longest pause has just ended: skip bits and positions should be forgotten
    /// (`compaction_restarting()`).
    #[must_use]
    pub fn is_restarting(&self, order: Order) -> bool {
        self.fails_at(order)
            && self.shift.load(Ordering::Relaxed) == MAX_SHIFT
            && self.considered.load(Ordering::Relaxed) >= self.limit()
    }

    /// As [`reset`](Self::reset) after an allocation, written out as before the series' second patch.
    pub(crate) fn reset_inline(&self, order: Order) {
        self.considered.store(0, Ordering::Relaxed);
        self.shift.store(0, Ordering::Relaxed);
        let next = u32::from(order.as_u8()) + 1;
        if next > self.failed.load(Ordering::Relaxed) {
            self.failed.store(next, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn pauses_double() {
        let zone = Deferral::new();
        let order = Order::saturating(9);
        let mut pauses = Vec::new();
        for _ in 0..9 {
            let mut left_out = 0;
            loop {
                let paused = zone.is_paused(order);
                assert_eq!(zone.is_deferred(order), paused);
                if !paused {
                    break;
                }
                left_out += 1;
            }
            pauses.push(left_out);
            zone.defer(order);
        }
        assert_eq!(pauses, [0, 1, 3, 7, 15, 31, 63, 63, 63]);
    }

    #[test]
    fn restart_comes_after_the_longest_pause() {
        let zone = Deferral::new();
        let order = Order::saturating(9);
        for _ in 0..6 {
            assert!(!zone.is_restarting(order));
            zone.defer(order);
        }
        assert!(!zone.is_restarting(order));
        while zone.is_deferred(order) {}
        assert!(zone.is_restarting(order));
        assert!(!zone.is_restarting(Order::saturating(8)));
    }

    #[test]
    fn both_forms_of_the_second_patch_agree() {
        for failed in 0..11 {
            for order in (0..11).map(Order::saturating) {
                let (inline, helper) = (Deferral::new(), Deferral::new());
                for zone in [&inline, &helper] {
                    zone.defer(Order::saturating(failed));
                }
                inline.reset_inline(order);
                helper.reset(order, Proof::Allocated);
                assert_eq!(inline.state(), helper.state());
            }
        }
    }

    #[test]
    fn a_watermark_keeps_the_pause() {
        let zone = Deferral::new();
        let order = Order::saturating(9);
        zone.defer(order);
        zone.defer(order);
        zone.reset(order, Proof::Watermark);
        assert_eq!(zone.state(), (0, 2, Order::saturating(10)));
        assert!(!zone.is_deferred(order));
    }
}
