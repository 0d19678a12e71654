//! What the lists are like: one value a mechanism, and presets for the kernels in which they changed.

use pageblock_frame::PfnRange;
use pageblock_frame::sync::STACKS;

use crate::list::List;
use crate::sizing::{Sizes, batch, high, high_max};

/// Which orders have lists, and which types share one.
///
/// ```
/// use pageblock_pcp::{List, ListSet};
/// assert_eq!(List::all(ListSet::Shared).count(), 6);
/// assert_eq!(List::all(ListSet::Typed).count(), 14);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListSet {
    /// Order 0 by type: three lists (up to Linux 5.13).
    OrderZero,
    /// Order 0 by type and one list for each of orders 1 to 3, shared by the types: six lists (seed 004).
    Shared,
    /// Orders 0 to 3 by type, and the pageblock order for movable blocks and for others: fourteen lists (mainline).
    Typed,
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
    /// The batch of Linux 4.9 (31 at most), and so many batches as high: 6 in mainline, 11 in seed 004.
    Batches(u32),
    /// The batch of Linux 5.14 (63 at most), and high from the low watermark and the number of CPUs.
    LowWatermark,
    /// The same with a fraction of the zone instead of the low watermark (`percpu_pagelist_high_fraction`, at least 8).
    Fraction(u32),
    /// These numbers of frames.
    Fixed {
        /// What moves at once.
        batch: u32,
        /// What may stay.
        high: u32,
    },
}

/// How many blocks a refill takes.
///
/// ```
/// use pageblock_frame::Order;
/// use pageblock_pcp::Refill;
/// let order = Order::new(3).unwrap();
/// assert_eq!(Refill::Unscaled.blocks(31, order), 31); // 248 frames at once
/// assert_eq!(Refill::Scaled.blocks(63, order), 7);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refill {
    /// `batch` blocks, whatever the order (seed 004).
    Unscaled,
    /// About `batch` frames, and at least two blocks (Linux 5.14).
    Scaled,
}

impl Refill {
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

/// How the lists' lengths follow what happens.
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
    /// Every list has its own limit, so that nothing is counted on the fast path; what one call does is bounded; each CPU refills
    /// from pageblocks of its own, by whole words of 64 frames; limits double where a list overflows and runs dry in turn, refills where it runs dry again and again.
    Bounded,
}

/// Per-CPU lists, described.
///
/// ```
/// use pageblock_pcp::{ListSet, PcpConfig, Refill};
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
    pub refill: Refill,
    /// How lengths change.
    pub tuning: Tuning,
    /// Most blocks that one call gives back, with [`Tuning::Bounded`]; neighbours that fill words of 64 frames may be more.
    pub call_limit: u32,
    /// Most single frames that a list has room for; a list of order `o` has `2^o` times less. More than 8192 count as that.
    pub room: u32,
}

/// Most single frames on one list: with that, all slots of a CPU have numbers of 16 bits.
const MOST_ROOM: u32 = 8192;

impl Default for PcpConfig {
    fn default() -> Self {
        Self::new()
    }
}

impl PcpConfig {
    /// The default: fourteen lists with limits of their own, bounded calls.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            set: ListSet::Typed,
            sizing: Sizing::LowWatermark,
            refill: Refill::Scaled,
            tuning: Tuning::Bounded,
            call_limit: 128,
            room: 256,
        }
    }

    /// Order 0 only, as before seed 004 (Linux 4.9).
    #[must_use]
    pub const fn order_zero() -> Self {
        Self {
            set: ListSet::OrderZero,
            sizing: Sizing::Batches(6),
            refill: Refill::Unscaled,
            tuning: Tuning::Batch,
            ..Self::linux_6_1()
        }
    }

    /// Seed 004: orders 1 to 3 too, one list an order, not scaled.
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
            refill: Refill::Scaled,
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
            Sizing::Batches(batches) => Sizes { batch: old, high: old * batches, high_max: old * batches },
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

    /// Blocks that each list has room for, on each of `cpus` CPUs of a zone with this span: at most a 512th of the zone in one
    /// CPU's list of single frames, and no more pageblocks in all lists together than a 16th of the zone.
    #[must_use]
    pub const fn capacities(&self, span: PfnRange, cpus: u32) -> [u32; STACKS] {
        let cpus = if cpus == 0 { 1 } else { cpus as u64 };
        let share = span.len() / 512 / cpus;
        let least = match self.sizing {
            Sizing::Fixed { high, .. } => high as u64,
            _ => 4,
        };
        let share = if share < least { least } else { share };
        let most = if self.room > MOST_ROOM { MOST_ROOM } else { self.room };
        let room = if share > most as u64 { most } else { share as u32 };
        let blocks = span.len() / 512 / 16 / 2 / cpus;
        let most = if matches!(self.tuning, Tuning::Bounded) { 2 } else { 8 };
        let blocks = if blocks > most { most as u32 } else { blocks as u32 };
        let mut capacities = [0; STACKS];
        let mut order = 0;
        while order <= 9 {
            let mut migrate_type = 0;
            while migrate_type < 3 {
                self.set_capacity(
                    &mut capacities,
                    (order, migrate_type),
                    if order == 9 { blocks } else { room >> order },
                );
                migrate_type += 1;
            }
            order += 1;
        }
        capacities
    }

    const fn set_capacity(&self, capacities: &mut [u32; STACKS], (order, migrate_type): (u8, u8), blocks: u32) {
        let Some(migrate_type) = pageblock_frame::MigrateType::from_index(migrate_type) else { return };
        if let Some(list) = List::of(self.set, pageblock_frame::Order::saturating(order), migrate_type) {
            capacities[list.index()] = blocks;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageblock_frame::{Order, Pfn};

    #[test]
    fn small_zones_get_short_lists() {
        let span = |frames| PfnRange::new(Pfn::new(0), Pfn::new(frames));
        let total = |config: PcpConfig, frames, cpus: u32| -> u64 {
            let frames_held: u64 = List::all(config.set)
                .map(|list| u64::from(config.capacities(span(frames), cpus)[list.index()]) << list.order().as_u8())
                .sum();
            frames_held * u64::from(cpus)
        };
        for (_, config) in PcpConfig::PRESETS {
            for cpus in [1, 2, 8, 64] {
                let frames = 1 << 20;
                assert!(total(config, frames, cpus) * 4 <= frames, "{config:?} on {cpus} CPUs");
            }
        }
        assert_eq!(PcpConfig::new().capacities(span(1 << 18), 2)[0], 256);
    }

    /// Review of seed 004: frames are to be counted, not blocks, and refills scaled by the order.
    #[test]
    fn unscaled_refills_are_eight_times_too_large_at_order_three() {
        let order = Order::new(3).unwrap();
        let seed = PcpConfig::seed_2016();
        assert_eq!(u64::from(seed.refill.blocks(31, order)) * order.frames(), 248);
        let blocks = |o| Refill::Scaled.blocks(63, Order::new(o).unwrap());
        assert_eq!([0, 1, 2, 3, 9].map(blocks), [63, 31, 15, 7, 2]);
        assert_eq!(Refill::Scaled.blocks(1, order), 1);
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
