//! Where a run of the thread is, between two steps.

use pageblock_frame::reclaim::DEF_PRIORITY;
use pageblock_frame::{Order, ZoneKind};

use super::mailbox::Wanted;

/// Work of the next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Looks for work, or sleeps.
    Idle,
    /// Begins a round: is the node balanced, and how far up is it not?
    Round,
    /// Reclaims one zone, the first at or above this place.
    Zone(usize),
    /// Ends a round.
    RoundEnd,
    /// Ends the run: boosts are taken back.
    Settle,
    /// Sees whether the thread may sleep.
    Rest,
    /// May sleep; the owner has been told to reset skip bits, kcompactd is next.
    RestCompact,
    /// Falls asleep for a moment.
    Doze,
    /// Sleeps until then, at most.
    Nap(u64),
    /// Falls asleep for good.
    Fall,
}

/// One round of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Round {
    /// Frames that it was after.
    pub(crate) attempted: u64,
    /// Frames freed, as far as they are accepted.
    pub(crate) freed: u64,
    /// Some zone was scanned for as much as was wanted of it: the next round need not look harder.
    pub(crate) scanned_enough: bool,
    /// The highest zone that is short.
    pub(crate) end: ZoneKind,
}

/// A run of the thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) phase: Phase,
    /// Order asked for.
    pub(crate) asked: Order,
    /// Order pursued: falls to 0 once enough is free for compaction to do the rest.
    pub(crate) order: Order,
    /// Highest zone that the requests may use.
    pub(crate) limit: ZoneKind,
    pub(crate) priority: u8,
    pub(crate) round: Round,
    /// Frames freed by the run, as far as they are accepted.
    pub(crate) freed: u64,
    /// Each zone's boost when the run began.
    pub(crate) boosts: [u64; ZoneKind::COUNT],
    /// Remainder to free of the sum of the boosts; 0 also once a real shortage took over.
    pub(crate) boost_left: u64,
    /// The priorities ran out.
    pub(crate) exhausted: bool,
}

impl Run {
    pub(crate) const IDLE: Self = Self {
        phase: Phase::Idle,
        asked: Order::ZERO,
        order: Order::ZERO,
        limit: ZoneKind::Movable,
        priority: DEF_PRIORITY,
        round: Round { attempted: 0, freed: 0, scanned_enough: false, end: ZoneKind::Movable },
        freed: 0,
        boosts: [0; ZoneKind::COUNT],
        boost_left: 0,
        exhausted: false,
    };

    pub(crate) const fn new(wanted: Wanted) -> Self {
        let Wanted { order, limit } = wanted;
        Self { phase: Phase::Round, asked: order, order, limit, ..Self::IDLE }
    }

    /// Present aim of the run.
    pub(crate) const fn wanted(&self) -> Wanted {
        Wanted { order: self.order, limit: self.limit }
    }

    /// Some zone's watermarks were boosted when it began.
    pub(crate) fn was_boosted(&self) -> bool {
        self.boosts.iter().any(|boost| *boost > 0)
    }
}
