//! Watermarks, lowmem reserves, and the test that an allocation must pass.
//!
//! The formulas are pure functions over numbers of frames, so that a boot, a test and a command line use the same ones.

use pageblock_frame::sync::{AtomicBool, AtomicU64, Ordering};
use pageblock_frame::{AllocFlags, MigrateType, Order, ZoneKind};

use crate::Zone;

/// Integer square root, rounded down.
const fn isqrt(value: u64) -> u64 {
    value.isqrt()
}

/// `min_free_kbytes` for so many KiB of memory that a user request may use above the zones' high watermarks
/// (`calculate_min_free_kbytes()`): four times the square root, between 128 and 262,144.
///
/// ```
/// use pageblock_buddy::min_free_kbytes;
/// assert_eq!(min_free_kbytes(8 << 20), 11585);
/// assert_eq!(min_free_kbytes(16 << 10), 512);
/// assert_eq!(min_free_kbytes(0), 128);
/// ```
#[must_use]
pub const fn min_free_kbytes(lowmem_kbytes: u64) -> u64 {
    let value = isqrt(lowmem_kbytes.saturating_mul(16));
    if value < 128 {
        128
    } else if value > 262_144 {
        262_144
    } else {
        value
    }
}

/// A zone's three watermarks, in frames, without boost.
///
/// ```
/// use pageblock_buddy::Watermarks;
/// // DMA32 of a machine of 8 GiB: min_free_kbytes 11,423, scale factor 0.1 %
/// let marks = Watermarks::compute(765_000, 3_840 + 765_000 + 1_270_000, 11_423, 10);
/// assert_eq!((marks.min, marks.low, marks.high), (1071, 1836, 2601));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Watermarks {
    /// Below it only requests with access to reserves are served.
    pub min: u64,
    /// Below it kswapd is woken.
    pub low: u64,
    /// Up to it kswapd works.
    pub high: u64,
}

impl Watermarks {
    /// Watermarks of a zone with `managed` of `total` managed frames, by the rules of Linux 4.6 and later.
    /// `scale_factor` is in ten-thousandths of the zone (`watermark_scale_factor`, default 10).
    #[must_use]
    pub const fn compute(managed: u64, total: u64, min_free_kbytes: u64, scale_factor: u64) -> Self {
        let pages_min = min_free_kbytes / 4;
        let min = if total == 0 { 0 } else { (pages_min as u128 * managed as u128 / total as u128) as u64 };
        let scaled = (managed as u128 * scale_factor as u128 / 10_000) as u64;
        let step = if min / 4 > scaled { min / 4 } else { scaled };
        Self { min, low: min + step, high: min + 2 * step }
    }

    /// The same before Linux 4.6: low and high are 1.25 and 1.5 times min.
    ///
    /// ```
    /// use pageblock_buddy::Watermarks;
    /// let marks = Watermarks::compute_3_13(765_000, 3_840 + 765_000 + 1_270_000, 11_423);
    /// assert_eq!((marks.min, marks.low, marks.high), (1071, 1338, 1606));
    /// ```
    #[must_use]
    pub const fn compute_3_13(managed: u64, total: u64, min_free_kbytes: u64) -> Self {
        let Self { min, .. } = Self::compute(managed, total, min_free_kbytes, 0);
        Self { min, low: min + min / 4, high: min + min / 2 }
    }
}

/// Frames that each zone of a node keeps from requests that could have gone to a higher zone
/// (`setup_per_zone_lowmem_reserve()`): `reserve[i][j]` for zone `i` against requests limited to zone `j`.
///
/// ```
/// use pageblock_buddy::lowmem_reserves;
/// let reserve = lowmem_reserves([3_840, 765_000, 1_270_000, 0], [256, 256, 32, 0]);
/// assert_eq!(reserve[0], [0, 2988, 7949, 7949]);
/// assert_eq!(reserve[1], [0, 0, 4960, 4960]);
/// ```
#[must_use]
pub const fn lowmem_reserves(
    managed: [u64; ZoneKind::COUNT],
    ratios: [u64; ZoneKind::COUNT],
) -> [[u64; ZoneKind::COUNT]; ZoneKind::COUNT] {
    let mut reserve = [[0; ZoneKind::COUNT]; ZoneKind::COUNT];
    let mut zone = 0;
    while zone < ZoneKind::COUNT {
        let mut above = 0;
        let mut limit = zone + 1;
        while limit < ZoneKind::COUNT {
            above += managed[limit];
            if ratios[zone] != 0 && managed[zone] != 0 {
                reserve[zone][limit] = above / ratios[zone];
            }
            limit += 1;
        }
        zone += 1;
    }
    reserve
}

/// Linux's default `lowmem_reserve_ratio`.
pub const LOWMEM_RESERVE_RATIO: [u64; ZoneKind::COUNT] = [256, 256, 32, 0];

/// The watermarks of a live zone. Readers take no lock and may see a mix of old and new values.
#[derive(Debug)]
pub(crate) struct Marks {
    min: AtomicU64,
    low: AtomicU64,
    high: AtomicU64,
    pub(crate) boost: AtomicU64,
    pub(crate) boosted: AtomicBool,
    #[cfg(feature = "history")]
    pub(crate) turn: crate::history::Turn,
    /// Boosts, and mixings that were refused, since boot.
    pub(crate) boosts: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) short: AtomicBool,
    reserve: [AtomicU64; ZoneKind::COUNT],
}

impl Marks {
    pub(crate) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            min: zero(),
            low: zero(),
            high: zero(),
            boost: zero(),
            boosted: AtomicBool::new(false),
            #[cfg(feature = "history")]
            turn: crate::history::Turn::new(),
            boosts: zero(),
            refused: zero(),
            short: AtomicBool::new(false),
            reserve: [zero(), zero(), zero(), zero()],
        }
    }
}

/// A request that a zone's watermark is to allow.
///
/// ```
/// use pageblock_buddy::WatermarkTest;
/// use pageblock_frame::{AllocFlags, Order, ZoneKind};
/// let test = WatermarkTest { order: Order::ZERO, mark: 64, limit: ZoneKind::Normal, flags: AllocFlags::empty() };
/// assert_eq!(test.mark, 64);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WatermarkTest {
    /// Its order.
    pub order: Order,
    /// Frames that stay free.
    pub mark: u64,
    /// The highest zone that it could use.
    pub limit: ZoneKind,
    /// Its flags.
    pub flags: AllocFlags,
}

impl Zone<'_> {
    /// Sets the watermarks; the boost ends, and the zone's turn under the fair-zone policy begins.
    pub fn set_watermarks(&self, marks: Watermarks) {
        self.marks.min.store(marks.min, Ordering::Relaxed);
        self.marks.low.store(marks.low, Ordering::Relaxed);
        self.marks.high.store(marks.high, Ordering::Relaxed);
        self.marks.boost.store(0, Ordering::Relaxed);
        #[cfg(feature = "history")]
        self.reset_fair();
    }

    /// The watermarks without boost.
    #[must_use]
    pub fn watermarks(&self) -> Watermarks {
        Watermarks {
            min: self.marks.min.load(Ordering::Relaxed),
            low: self.marks.low.load(Ordering::Relaxed),
            high: self.marks.high.load(Ordering::Relaxed),
        }
    }

    /// Sets the frames kept from requests limited to each higher zone.
    pub fn set_lowmem_reserve(&self, reserve: [u64; ZoneKind::COUNT]) {
        for (slot, frames) in self.marks.reserve.iter().zip(reserve) {
            slot.store(frames, Ordering::Relaxed);
        }
    }

    /// The frames kept from requests limited to each higher zone (`protection` in `/proc/zoneinfo`).
    #[must_use]
    pub fn lowmem_reserve(&self) -> [u64; ZoneKind::COUNT] {
        core::array::from_fn(|limit| self.marks.reserve[limit].load(Ordering::Relaxed))
    }

    /// The watermark that an attempt with these flags must leave untouched, boost included.
    #[must_use]
    #[inline]
    pub fn mark_for(&self, flags: AllocFlags) -> u64 {
        let mark = if flags.contains(AllocFlags::WMARK_HIGH) {
            &self.marks.high
        } else if flags.contains(AllocFlags::WMARK_LOW) {
            &self.marks.low
        } else {
            &self.marks.min
        };
        mark.load(Ordering::Relaxed) + self.boost()
    }

    /// True if the zone can serve a block of `order` and keep more than `mark` frames, plus the frames it keeps from
    /// requests limited to zone `limit` (`__zone_watermark_ok()`, Linux 6.1). Takes the zone lock for orders above 0.
    #[must_use]
    pub fn watermark_ok(&self, order: Order, mark: u64, limit: ZoneKind, flags: AllocFlags) -> bool {
        if order == Order::ZERO && !flags.intersects(AllocFlags::RESERVES) {
            // Nothing but free frames counts, less those that this request may not touch.
            let unusable = self.unusable_free(flags);
            let floor = mark + self.marks.reserve[limit.index()].load(Ordering::Relaxed);
            return self.free_frames().saturating_sub(unusable) > floor;
        }
        self.watermark_ok_with(self.free_frames(), &WatermarkTest { order, mark, limit, flags })
    }

    /// Free frames of CMA pageblocks, as they were a moment ago.
    #[must_use]
    pub fn free_cma(&self) -> u64 {
        self.free_cma.load(Ordering::Relaxed)
    }

    /// Free frames that a request with these flags may not use: the high-order atomic reserve, and CMA.
    fn unusable_free(&self, flags: AllocFlags) -> u64 {
        let mut unusable = 0;
        if !flags.intersects(AllocFlags::RESERVES) {
            unusable += self.highatomic.load(Ordering::Relaxed);
        }
        if !flags.contains(AllocFlags::CMA) {
            unusable += self.free_cma.load(Ordering::Relaxed);
        }
        unusable
    }

    /// The full test with a number of free frames that the caller supplies.
    #[must_use]
    pub fn watermark_ok_with(&self, free: u64, test: &WatermarkTest) -> bool {
        self.frames_ok_with(free, test) && (test.order == Order::ZERO || self.has_block(test.order, test.flags))
    }

    /// The part of [`watermark_ok`](Self::watermark_ok) that counts frames: without the lock, and without the question
    /// whether there is a block of `order`, which an allocation that follows at once finds out itself.
    #[must_use]
    #[inline]
    pub fn frames_ok(&self, order: Order, mark: u64, limit: ZoneKind, flags: AllocFlags) -> bool {
        self.frames_ok_with(self.free_frames(), &WatermarkTest { order, mark, limit, flags })
    }

    fn frames_ok_with(&self, free: u64, test: &WatermarkTest) -> bool {
        let WatermarkTest { order, mark, limit, flags } = *test;
        let signed = |frames: u64| i64::try_from(frames).unwrap_or(i64::MAX);
        let free = signed(free) - signed(order.frames() - 1) - signed(self.unusable_free(flags));
        let mut min = signed(mark);
        if flags.contains(AllocFlags::MIN_RESERVE) {
            min -= min / 2;
            if flags.contains(AllocFlags::NON_BLOCK) {
                min -= min / 4;
            }
        }
        if flags.contains(AllocFlags::OOM) {
            min -= min / 2;
        }
        free > min.saturating_add(signed(self.marks.reserve[limit.index()].load(Ordering::Relaxed)))
    }

    /// True if some list that the request may use holds a block of at least `order`.
    #[must_use]
    pub fn has_block(&self, order: Order, flags: AllocFlags) -> bool {
        let has = |migrate_type: MigrateType| self.can_serve(migrate_type, order);
        MigrateType::ALL.into_iter().filter(|t| t.is_ordinary()).any(has)
            || (flags.contains(AllocFlags::CMA) && has(MigrateType::Cma))
            || (flags.intersects(AllocFlags::HIGHATOMIC | AllocFlags::OOM) && has(MigrateType::HighAtomic))
    }
}
