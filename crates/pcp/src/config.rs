//! Properties of the lists: one value a mechanism, and presets for the kernels in which they changed.

use pageblock_frame::PfnRange;

use crate::list::{HIGHEST_ORDER, LISTS, List};
use crate::sizing::{Sizes, batch, high, high_max};

/// Which orders have lists, and which types share one.
///
/// ```
/// use pageblock_pcp::{List, ListSet};
/// assert_eq!(List::all(ListSet::Shared).count(), 6);
/// assert_eq!(List::all(ListSet::Typed).count(), 14);
/// assert_eq!(List::all(ListSet::Every).count(), 31);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListSet {
    /// Order 0 by type: three lists (up to Linux 5.13).
    OrderZero,
    /// Order 0 by type and one list for each of orders 1 to 3, shared by the types: six lists (*High-order per-CPU
    /// lists*).
    Shared,
    /// Orders 0 to 3 by type, and the pageblock order for movable blocks and for others: fourteen lists (mainline).
    Typed,
    /// Orders 0 to 8 by type, and orders 9 and 10 for movable blocks and for others: thirty-one lists.
    Every,
}

/// Where batch and high come from.
///
/// ```
/// use pageblock_pcp::{PcpConfig, Sizing};
/// let config = PcpConfig { sizing: Sizing::Fixed { batch: 8, high: 64 }, ..PcpConfig::new() };
/// assert_eq!(config.sizes(1 << 20, 0, 1).high, 64);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sizing {
    /// The batch of Linux 4.9 (31 at most), and so many batches as high: 6 in mainline, 11 in *High-order per-CPU
    /// lists*.
    Batches(u32),
    /// The batch of Linux 5.14 (63 at most), and high from the low watermark and the number of CPUs.
    LowWatermark,
    /// The same with a fraction of the zone instead of the low watermark (`percpu_pagelist_high_fraction`, at least 8).
    Fraction(u32),
    /// These numbers of frames.
    Fixed {
        /// Blocks that move at once.
        batch: u32,
        /// Blocks that may stay.
        high: u32,
    },
}

/// How many blocks a refill takes.
///
/// ```
/// use pageblock_frame::Order;
/// use pageblock_pcp::RefillSize;
/// let order = Order::new(3).unwrap();
/// assert_eq!(RefillSize::Unscaled.blocks(31, order), 31); // 248 frames at once
/// assert_eq!(RefillSize::Scaled.blocks(63, order), 7);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefillSize {
    /// `batch` blocks, whatever the order (*High-order per-CPU lists*).
    Unscaled,
    /// About `batch` frames, and at least two blocks (Linux 5.14).
    Scaled,
}

impl RefillSize {
    /// Blocks of `order` in one refill.
    #[must_use]
    #[inline]
    pub const fn blocks(self, batch: u32, order: pageblock_frame::Order) -> u32 {
        match self {
            Self::Scaled if batch > 1 => {
                let blocks = batch >> order.as_u8();
                if blocks < 2 { 2 } else { blocks }
            }
            Self::Scaled | Self::Unscaled => batch,
        }
    }
}

/// Behaviour of a refill when its migrate type has no more.
///
/// ```
/// use pageblock_pcp::{PcpConfig, WhenShort};
/// assert_eq!(PcpConfig::new().when_short, WhenShort::Stops);
/// assert_eq!(PcpConfig::linux_6_1().when_short, WhenShort::FallsBack);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhenShort {
    /// It makes do with the blocks that there are; a request that gets none falls back for itself alone.
    Stops,
    /// It takes the rest from other types, up to a fallback a block (all Linux versions).
    FallsBack,
}

/// How the lists' lengths follow events.
///
/// ```
/// use pageblock_pcp::{PcpConfig, Tuning};
/// assert_eq!(PcpConfig::default().tuning, Tuning::Bounded);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tuning {
    /// All lists count together; at high, one batch goes back (up to Linux 5.13).
    Batch,
    /// The same, and the number that goes back doubles with every overflow, halves with every allocation (Linux 5.14).
    FreeFactor,
    /// The same, and a high-order free during a burst empties all lists (Linux 5.18).
    FreeFactorBurst,
    /// High grows and shrinks by itself, refills double when they follow one another (Linux 6.7).
    SelfTuned,
    /// Every list has its own limit, so that nothing is counted on the fast path; the work of one call is bounded; each
    /// CPU refills from pageblocks of its own, by whole words of 64 frames; limits double where a list overflows and
    /// runs dry in turn, refills where it runs dry again and again.
    Bounded,
}

/// Per-CPU lists, described.
///
/// ```
/// use pageblock_pcp::{ListSet, PcpConfig, RefillSize};
/// assert_eq!(PcpConfig::default(), PcpConfig::new());
/// assert_eq!(PcpConfig::seed_2016().set, ListSet::Shared);
/// assert_eq!(PcpConfig::order_zero().set, ListSet::OrderZero);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PcpConfig {
    /// Which orders have lists.
    pub set: ListSet,
    /// Batch and high.
    pub sizing: Sizing,
    /// Blocks in a refill.
    pub refill: RefillSize,
    /// Refills of a type that is short, with tunings other than [`Tuning::Bounded`], which always stops.
    pub when_short: WhenShort,
    /// How lengths change.
    pub tuning: Tuning,
    /// Most blocks that one call gives back, with [`Tuning::Bounded`]; neighbours that fill words of 64 frames may be
    /// more.
    pub call_limit: u32,
    /// Most single frames that a list has room for; a list of order `o` has `2^o` times less. More than 8192 count as
    /// that.
    pub room: u32,
}

const fn clamped(value: u64, least: u64, most: u64) -> u64 {
    let value = if value < least { least } else { value };
    if value > most { most } else { value }
}

/// Most single frames on one list: with that, all slots of a CPU have numbers of 16 bits.
const MOST_ROOM: u32 = 8192;

impl Default for PcpConfig {
    fn default() -> Self {
        Self::new()
    }
}

impl PcpConfig {
    /// The default: lists for every order up to 10, each with a limit of its own, bounded calls.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            set: ListSet::Every,
            sizing: Sizing::LowWatermark,
            refill: RefillSize::Scaled,
            when_short: WhenShort::Stops,
            tuning: Tuning::Bounded,
            call_limit: 32,
            room: 256,
        }
    }

    /// Order 0 only, as before *High-order per-CPU lists* (Linux 4.9).
    #[must_use]
    pub const fn order_zero() -> Self {
        Self {
            set: ListSet::OrderZero,
            sizing: Sizing::Batches(6),
            refill: RefillSize::Unscaled,
            tuning: Tuning::Batch,
            ..Self::linux_6_1()
        }
    }

    /// *High-order per-CPU lists*: orders 1 to 3 too, one list an order, not scaled.
    #[must_use]
    pub const fn seed_2016() -> Self {
        Self { set: ListSet::Shared, sizing: Sizing::Batches(11), ..Self::order_zero() }
    }

    /// Linux 5.14: orders 0 to 3 and 9 by type, sized by the low watermark, free factor.
    #[must_use]
    pub const fn linux_5_14() -> Self {
        Self { tuning: Tuning::FreeFactor, ..Self::linux_6_1() }
    }

    /// Linux 6.1: the same, and bursts of high-order frees empty the lists.
    #[must_use]
    pub const fn linux_6_1() -> Self {
        Self {
            set: ListSet::Typed,
            sizing: Sizing::LowWatermark,
            refill: RefillSize::Scaled,
            when_short: WhenShort::FallsBack,
            tuning: Tuning::FreeFactorBurst,
            call_limit: u32::MAX,
            room: 4096,
        }
    }

    /// Linux 6.7: high and batch tune themselves.
    #[must_use]
    pub const fn linux_6_7() -> Self {
        Self { tuning: Tuning::SelfTuned, ..Self::linux_6_1() }
    }

    /// Every preset with its name.
    pub const PRESETS: [(&'static str, Self); 6] = [
        ("off", Self::order_zero()),
        ("2016", Self::seed_2016()),
        ("5.14", Self::linux_5_14()),
        ("6.1", Self::linux_6_1()),
        ("6.7", Self::linux_6_7()),
        ("default", Self::new()),
    ];

    /// Batch and high for a zone with so many managed frames, this low watermark, and so many CPUs near it.
    #[must_use]
    pub const fn sizes(&self, managed: u64, low: u64, cpus: u32) -> Sizes {
        let (old, new) = (batch(managed, 128), batch(managed, 256));
        match self.sizing {
            Sizing::Batches(batches) => {
                let high = old.saturating_mul(batches);
                Sizes { batch: old, high, high_max: high }
            }
            Sizing::Fixed { batch, high } => Sizes { batch, high, high_max: high },
            Sizing::LowWatermark => self.tuned(new, high(low, cpus, new), high_max(managed, cpus, new)),
            Sizing::Fraction(fraction) => {
                let fraction = if fraction < 8 { 8 } else { fraction as u64 };
                let fixed = high(managed / fraction, cpus, new);
                Sizes { batch: new, high: fixed, high_max: fixed }
            }
        }
    }

    const fn tuned(&self, batch: u32, high: u32, most: u32) -> Sizes {
        let self_tuned = matches!(self.tuning, Tuning::SelfTuned | Tuning::Bounded);
        Sizes { batch, high, high_max: if self_tuned && most > high { most } else { high } }
    }

    /// Blocks that each list has room for, on each of `cpus` CPUs of a zone with this span. The lists of all CPUs
    /// together hold back less than a fifth of the zone:
    ///
    /// | orders | all lists of one order hold at most |
    /// |---|---|
    /// | 0 to 3 | three 512ths of the zone; at least 4 frames a list |
    /// | 4 to 8, 10 | a 64th each |
    /// | 9 | a 16th |
    #[must_use]
    pub const fn capacities(&self, span: PfnRange, cpus: u32) -> [u16; LISTS] {
        let frames = span.len() / if cpus == 0 { 1 } else { cpus as u64 };
        let mut capacities = [0; LISTS];
        let mut order = 0;
        while order <= HIGHEST_ORDER {
            let blocks = self.capacity(frames, order);
            let mut migrate_type = 0;
            while migrate_type < 3 {
                self.set_capacity(&mut capacities, (order, migrate_type), blocks);
                migrate_type += 1;
            }
            order += 1;
        }
        capacities
    }

    /// Blocks of one order that a list has room for, where a CPU's share of the zone is so many frames.
    const fn capacity(&self, share: u64, order: u8) -> u16 {
        let least = if let Sizing::Fixed { high, .. } = self.sizing { high as u64 } else { 4 };
        let most = if self.room > MOST_ROOM { MOST_ROOM } else { self.room } as u64;
        let bounded = matches!(self.tuning, Tuning::Bounded);
        let (blocks, limit) = match order {
            0..=3 => (clamped(share / 512, least, most) >> order, most),
            // Two types share their lists.
            9 => ((share / 16 / 2) >> order, if bounded { 2 } else { 8 }),
            10 => ((share / 64 / 2) >> order, 1),
            _ => ((share / 64 / 3) >> order, clamped(most >> order, 2, most)),
        };
        clamped(blocks, 0, limit) as u16
    }

    const fn set_capacity(&self, capacities: &mut [u16; LISTS], (order, migrate_type): (u8, u8), blocks: u16) {
        let Some(migrate_type) = pageblock_frame::MigrateType::from_index(migrate_type) else { return };
        if let Some(list) = List::of(self.set, pageblock_frame::Order::saturating(order), migrate_type) {
            capacities[list.index()] = blocks;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageblock_frame::{MigrateType, Order, Pfn};

    #[test]
    fn lists_of_all_cpus_hold_back_less_than_a_fifth_of_a_zone() {
        let span = |frames| PfnRange::new(Pfn::new(0), Pfn::new(frames));
        let total = |config: PcpConfig, frames, cpus: u32| -> u64 {
            let frames_held: u64 = List::all(config.set)
                .map(|list| u64::from(config.capacities(span(frames), cpus)[list.index()]) << list.order().as_u8())
                .sum();
            frames_held * u64::from(cpus)
        };
        for (_, config) in PcpConfig::PRESETS {
            for cpus in [1, 2, 3, 8, 64] {
                for frames in [16 << 8, 48 << 8, 256 << 8, 1 << 18, 1 << 20, 1 << 28] {
                    let held = total(config, frames, cpus);
                    // Four frames a list are the least, however small the zone.
                    let least = u64::from(cpus) * 3 * 4 * 4;
                    assert!(held * 5 <= frames.max(5 * least), "{config:?} on {cpus} CPUs with {frames}: {held}");
                }
            }
        }
        assert_eq!(PcpConfig::new().capacities(span(1 << 18), 2)[0], 256);
    }

    #[test]
    fn a_gibibyte_and_two_cpus_have_lists_for_orders_0_to_9() {
        let capacities = PcpConfig::new().capacities(PfnRange::new(Pfn::new(0), Pfn::new(1 << 18)), 2);
        let blocks = |order| {
            capacities[List::of(ListSet::Every, Order::saturating(order), MigrateType::Movable).unwrap().index()]
        };
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(blocks), [256, 128, 64, 32, 16, 8, 4, 2, 2, 2, 1]);
    }

    /// Review of *High-order per-CPU lists*: frames are to be counted, not blocks, and refills scaled by the order.
    #[test]
    fn unscaled_refills_are_eight_times_too_large_at_order_three() {
        let order = Order::new(3).unwrap();
        let seed = PcpConfig::seed_2016();
        assert_eq!(u64::from(seed.refill.blocks(31, order)) * order.frames(), 248);
        let blocks = |o| RefillSize::Scaled.blocks(63, Order::new(o).unwrap());
        assert_eq!([0, 1, 2, 3, 9].map(blocks), [63, 31, 15, 7, 2]);
        assert_eq!(RefillSize::Scaled.blocks(1, order), 1);
    }

    #[test]
    fn sizes_follow_linux() {
        let sizes = |config: PcpConfig| config.sizes(1 << 20, 3048, 8);
        assert_eq!(sizes(PcpConfig::order_zero()), Sizes { batch: 31, high: 186, high_max: 186 });
        assert_eq!(sizes(PcpConfig::seed_2016()).high, 341);
        assert_eq!(sizes(PcpConfig::linux_5_14()).high, 381);
        assert_eq!(sizes(PcpConfig::linux_6_7()).high_max, 16384);
    }
}
