//! Watermark boost: the price of a mixing of migrate types for the zone (*Fragmentation avoidance and stalls*, patch 3;
//! Linux 5.0).
//!
//! A zone that mixed has too little free to keep types apart. All its watermarks are raised by one pageblock, up to a
//! cap, so that kswapd, which is woken, frees more than it would, and compaction after it makes whole pageblocks of
//! that. When kswapd is done it takes off the boost that it saw when it began; additions meanwhile stay.
//!
//! | field | legal values | changed by |
//! |---|---|---|
//! | [`Zone::boost`] | 0 up to the cap | the zone lock's holder; with [`BoostArithmetic::Posted`] a stall too, without it; 0 whenever watermarks are computed |
//! | [`Zone::take_boosted`] | true from a boost until a caller has told kswapd | set by the lock's holder, cleared by any CPU |
//! | [`Zone::take_short`] | true from the last whole pageblock on until a caller has told the compaction thread | the same |

use pageblock_frame::PAGEBLOCK_FRAMES;
use pageblock_frame::sync::Ordering;

use crate::Zone;

/// How the cap of a boost is computed.
///
/// ```
/// assert_eq!(pageblock_buddy::BoostArithmetic::default(), pageblock_buddy::BoostArithmetic::Corrected);
/// ```
#[cfg(feature = "history")]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BoostArithmetic {
    /// From the high watermark without boost; zones of less than four pageblocks or without watermarks are left alone
    /// (Linux 5.0).
    #[default]
    Corrected,
    /// From the high watermark with the boost that there is, so that the cap grows with it and never holds; every zone
    /// takes part, and a stall boosts without the zone lock (as posted).
    Posted,
}

/// `vm.watermark_boost_factor`, and the arithmetic.
///
/// ```
/// use pageblock_buddy::BoostRule;
/// // A machine of 8 GiB, high watermarks 11, 2601 and 4318: DMA32 and Normal may be boosted by half as much again.
/// let rule = BoostRule::new();
/// assert_eq!(rule.cap(2601, 0, 765_000), 3901);
/// assert_eq!(rule.cap(4318, 0, 1_270_000), 6477);
/// assert_eq!(rule.cap(11, 0, 3_840), 512); // at least a pageblock
/// assert_eq!(rule.cap(11, 0, 2_047), 0); // a zone of less than four pageblocks is not boosted
/// assert_eq!(BoostRule::off().cap(4318, 0, 1_270_000), 0);
/// // As posted, the cap grows with the boost.
/// assert_eq!(BoostRule::posted().cap(2601, 3901, 765_000), 9753);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BoostRule {
    /// The cap in ten-thousandths of the high watermark; 0: no boost.
    pub factor: u64,
    /// How the cap is computed.
    #[cfg(feature = "history")]
    pub arithmetic: BoostArithmetic,
}

impl BoostRule {
    /// Linux since 5.0: 150 % of the high watermark.
    #[must_use]
    pub const fn new() -> Self {
        Self::with_factor(15_000)
    }

    /// A cap of so many ten-thousandths of the high watermark.
    #[must_use]
    pub const fn with_factor(factor: u64) -> Self {
        Self {
            factor,
            #[cfg(feature = "history")]
            arithmetic: BoostArithmetic::Corrected,
        }
    }

    /// As posted in 2018.
    #[cfg(feature = "history")]
    #[must_use]
    pub const fn posted() -> Self {
        Self { factor: 15_000, arithmetic: BoostArithmetic::Posted }
    }

    /// No boost.
    #[must_use]
    pub const fn off() -> Self {
        Self::with_factor(0)
    }

    /// The arithmetic as posted.
    #[must_use]
    pub const fn is_posted(&self) -> bool {
        #[cfg(feature = "history")]
        let posted = matches!(self.arithmetic, BoostArithmetic::Posted);
        #[cfg(not(feature = "history"))]
        let posted = false;
        posted
    }

    /// The most, in frames, that a zone of `managed` frames with this high watermark (without boost) may be boosted by,
    /// where `boost` is its present boost; 0 if it is not to be boosted.
    #[must_use]
    pub const fn cap(&self, high: u64, boost: u64, managed: u64) -> u64 {
        let posted = self.is_posted();
        if self.factor == 0 || (!posted && 4 * PAGEBLOCK_FRAMES > managed) {
            return 0;
        }
        let base = if posted { high.saturating_add(boost) } else { high };
        let scaled = base as u128 * self.factor as u128 / 10_000;
        let cap = if scaled > u64::MAX as u128 { u64::MAX } else { scaled as u64 };
        if cap == 0 && !posted {
            // A zone without watermarks yet.
            return 0;
        }
        if cap < PAGEBLOCK_FRAMES { PAGEBLOCK_FRAMES } else { cap }
    }
}

impl Default for BoostRule {
    fn default() -> Self {
        Self::new()
    }
}

impl Zone<'_> {
    /// Present rise of all watermarks, in frames (`watermark_boost`).
    #[must_use]
    #[inline]
    pub fn boost(&self) -> u64 {
        self.marks.boost.load(Ordering::Relaxed)
    }

    /// Sets the boost, for a zone without other users yet: replayed states, tests.
    pub fn set_boost(&self, frames: u64) {
        self.marks.boost.store(frames, Ordering::Relaxed);
    }

    /// Takes `frames` off the boost, or all of it: for kswapd at its end, with the boost that it saw when it
    /// began.
    pub fn lower_boost(&self, frames: u64) {
        self.change_boost(|boost| boost.saturating_sub(frames));
    }

    /// The zone has been boosted, and kswapd has not been told yet (`ZONE_BOOSTED_WATERMARK`).
    #[must_use]
    #[inline]
    pub fn is_boosted(&self) -> bool {
        self.marks.boosted.load(Ordering::Relaxed)
    }

    /// True for one caller after a boost: that caller tells kswapd, with no lock held.
    #[must_use]
    pub fn take_boosted(&self) -> bool {
        // Relaxed: the flag says that a wake is owed, and nothing about other memory.
        self.marks.boosted.swap(false, Ordering::Relaxed)
    }

    /// The zone has no whole pageblock left for types that cannot move, and the compaction thread has not been told
    /// yet.
    #[must_use]
    #[inline]
    pub fn is_short(&self) -> bool {
        self.marks.short.load(Ordering::Relaxed)
    }

    /// True for one caller after the zone ran short of whole pageblocks
    /// ([`Policy::keep_whole`](crate::Policy::keep_whole)): that caller asks the compaction thread for one, with no
    /// lock held.
    #[must_use]
    pub fn take_short(&self) -> bool {
        // Relaxed: as above.
        self.marks.short.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn note_short(&self) {
        self.marks.short.store(true, Ordering::Relaxed);
    }

    /// Types were mixed, or would have been: the zone is boosted by a pageblock.
    #[cold]
    pub(crate) fn boost_for_mixing(&self) {
        self.boost_by(PAGEBLOCK_FRAMES);
    }

    pub(crate) fn boost_by(&self, frames: u64) {
        if self.raise_boost(frames) {
            self.marks.boosts.fetch_add(1, Ordering::Relaxed);
            // Swapped like where it is taken, so that one order of all changes is plain to the model checker, too.
            self.marks.boosted.swap(true, Ordering::Relaxed);
        }
    }

    /// Raises the boost up to the cap. True if the zone takes part, also at its cap.
    pub(crate) fn raise_boost(&self, frames: u64) -> bool {
        let cap = |boost| self.boost_rule().cap(self.watermarks().high, boost, self.managed());
        let may = cap(self.boost()) > 0;
        if may {
            self.change_boost(|boost| boost.saturating_add(frames).min(cap(boost)));
        }
        may
    }

    /// Changes the boost in one step, so that neither a boost nor a decay on another CPU is lost.
    fn change_boost(&self, change: impl Fn(u64) -> u64) {
        let mut seen = self.boost();
        while let Err(now) = self.marks.boost.compare_exchange(seen, change(seen), Ordering::Relaxed, Ordering::Relaxed)
        {
            seen = now;
        }
    }
}

#[cfg(all(test, feature = "history"))]
mod tests {
    use super::*;

    #[test]
    fn each_event_adds_a_pageblock_up_to_the_cap() {
        let raised = |rule: BoostRule, events: u32, by: u64| {
            (0..events).fold(0u64, |boost, _| (boost + by).min(rule.cap(2601, boost, 765_000)))
        };
        assert_eq!(raised(BoostRule::new(), 1, 512), 512);
        assert_eq!(raised(BoostRule::new(), 7, 512), 3584);
        assert_eq!(raised(BoostRule::new(), 8, 512), 3901);
        assert_eq!(raised(BoostRule::new(), 800, 512), 3901);
        assert_eq!(raised(BoostRule::posted(), 800, 512), 800 * 512, "the posted cap never holds");
    }

    #[test]
    fn zones_without_watermarks_or_of_three_pageblocks_are_left_alone() {
        assert_eq!(BoostRule::new().cap(0, 0, 765_000), 0);
        assert_eq!(BoostRule::new().cap(100, 0, 4 * 512 - 1), 0);
        assert_eq!(BoostRule::new().cap(100, 0, 4 * 512), 512);
        assert_eq!(BoostRule::posted().cap(0, 0, 1), 512, "as posted they take part");
    }

    #[test]
    fn extreme_factors_do_not_overflow() {
        let rule = BoostRule { factor: u64::MAX, ..BoostRule::new() };
        assert_eq!(rule.cap(u64::MAX, u64::MAX, u64::MAX), u64::MAX);
    }
}
