//! A scanner's view and holdings: plain values.

use pageblock_frame::runs::for_each_run;
use pageblock_frame::{BLOCK_WORDS, MigrateType, Order, PAGEBLOCK_FRAMES, Pageblock, StateByte};

/// Whether a scanner waits for the zone lock without a word.
///
/// ```
/// assert_ne!(pageblock_buddy::Patience::Wait, pageblock_buddy::Patience::Note);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patience {
    /// It waits.
    Wait,
    /// It waits, but remembers that it had to: asynchronous runs end then.
    Note,
}

/// A pageblock at one moment.
///
/// ```
/// use pageblock_frame::MigrateType;
/// let view = pageblock_buddy::BlockView::default();
/// assert_eq!((view.migrate_type, view.used()), (MigrateType::Movable, 0));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BlockView {
    /// Its number, from the zone's base.
    pub block: u32,
    /// Free frames.
    pub free: u16,
    /// Frames that belong to the allocator.
    pub managed: u16,
    /// Its purpose; of a withheld pageblock, the former one.
    pub migrate_type: MigrateType,
    /// Withheld from allocation, by whomever.
    pub withheld: bool,
    /// Skip bit: nothing to be found there.
    pub skip: bool,
    /// 0, or one more than the free frames that it had when a scanner could not empty it.
    pub note: u16,
    /// Largest order that it can serve, 9 if it is wholly free; `None` with nothing free.
    pub largest: Option<Order>,
}

impl BlockView {
    /// Frames that are held.
    #[must_use]
    pub const fn used(&self) -> u16 {
        self.managed.saturating_sub(self.free)
    }

    /// True if all 512 frames are free.
    #[must_use]
    pub const fn is_wholly_free(&self) -> bool {
        self.free as u64 == PAGEBLOCK_FRAMES
    }

    #[inline]
    pub(super) fn of(block: u32, b: &Pageblock, skip: bool) -> Self {
        let withheld = b.migrate_type() == MigrateType::Isolate;
        let largest = (b.top() != Pageblock::NO_TOP).then(|| Order::saturating(b.top()));
        Self {
            block,
            free: b.free(),
            managed: b.managed(),
            migrate_type: if withheld { b.saved_type() } else { b.migrate_type() },
            withheld,
            skip,
            note: b.note(),
            largest,
        }
    }
}

/// How many maximal free blocks a pageblock's free frames make.
///
/// ```
/// assert_eq!(pageblock_buddy::count_free_blocks(&[0b1011, u64::MAX, 0, 0, 0, 0, 0, 0]), 3);
/// ```
#[must_use]
pub fn count_free_blocks(map: &[u64; BLOCK_WORDS]) -> u32 {
    let mut blocks = 0;
    for_each_run(map, |_, runs| blocks += runs);
    blocks
}

/// A block that a scanner holds: its zone-relative index, and the state byte that it had.
///
/// ```
/// use pageblock_buddy::Held;
/// use pageblock_frame::{MigrateType, Order, StateByte};
/// let held = Held { index: 8, state: StateByte::allocated(Order::new(3).unwrap(), MigrateType::Movable) };
/// assert_eq!(held.order().frames(), 8);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// First frame.
    pub index: u32,
    /// State of the frame before it was taken out.
    pub state: StateByte,
}

impl Held {
    /// Size of the block.
    #[must_use]
    pub const fn order(self) -> Order {
        self.state.order()
    }
}

/// Types that could serve a request from the free lists.
///
/// ```
/// use pageblock_buddy::Servable;
/// assert!(Servable::Own > Servable::No);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Servable {
    /// None.
    No,
    /// Another type, from a wholly free pageblock.
    WholeBlock,
    /// Another type: the request may take its pageblock over.
    Claimable,
    /// The request's own type.
    Own,
}
