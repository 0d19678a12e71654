//! A CPU's memory beside its lists: only its slow operations look at it.

use crate::depot::Spare;
use crate::list::LISTS;
use crate::sizing::Sizes;

/// A CPU's memory of how its lists have been used.
///
/// | field | legal values | used by |
/// |---|---|---|
/// | `count` | frames on all lists | tunings that count all lists together |
/// | `high` | 4 batches to `high_max` | the same; moves with self-tuning only |
/// | `factor` | 0 to 5 | how often the number of frames that an overflow gives back has doubled |
/// | `freed` | 0 to 32 batches | frames freed of late, halved by each allocation (self-tuning) |
/// | `refills` | 0 to 5 | how often the refill has doubled (self-tuning) |
/// | `high_before` | – | the free before was of a high order |
/// | `spare` | a batch without blocks, or none | exchanges with the depot |
/// | `lists` | overflows and doublings of each; see [`crate::slow`] | bounded lists |
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tune {
    pub(crate) count: u32,
    pub(crate) high: u32,
    pub(crate) freed: u32,
    pub(crate) factor: u8,
    pub(crate) refills: u8,
    pub(crate) high_before: bool,
    pub(crate) spare: Spare,
    /// For each list: overflows since it ran dry, and the doublings of its refill.
    pub(crate) lists: [ListTune; LISTS],
}

/// Memory of a bounded list.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ListTune {
    /// It has overflowed since it last ran dry.
    pub(crate) overflowed: bool,
    /// How often its refill has doubled, 0 to [`MOST_DOUBLINGS`].
    pub(crate) doublings: u8,
    /// Blocks that had been taken off it when it last overflowed, counted from anywhere.
    pub(crate) popped: u16,
}

/// Doublings of free factor, self-tuned refill and bounded refill.
pub(crate) const MOST_DOUBLINGS: u8 = 5;

impl Tune {
    pub(crate) const fn new(sizes: Sizes) -> Self {
        // The first refill is a batch: it comes with one doubling more.
        let list = ListTune { overflowed: false, doublings: 2, popped: u16::MAX };
        Self {
            count: 0,
            high: sizes.high,
            factor: 0,
            refills: 0,
            high_before: false,
            spare: Spare::NONE,
            freed: 0,
            lists: [list; LISTS],
        }
    }
}
