//! The facade's own counters: none is on the fast path.

use pageblock_frame::sync::{AtomicU64, Ordering};
use pageblock_frame::{Platform, ZoneKind};

use pageblock_buddy::Zone;

use crate::inner::Inner;

/// Events since boot. Relaxed: each is exact, together they are not one moment. Any CPU adds to them.
#[derive(Debug)]
pub(crate) struct Counters {
    /// Frames of each kind of zone that were handed out past the per-CPU lists, by calls that know nothing of lists.
    past_lists: [AtomicU64; ZoneKind::COUNT],
    /// Requests that began to reclaim, by the highest zone that they could use.
    pub(crate) allocstall: [AtomicU64; ZoneKind::COUNT],
    /// Times that lists of several CPUs were emptied on request.
    pub(crate) drains: AtomicU64,
    /// Times that an owner gave up something large.
    pub(crate) oom_kill: AtomicU64,
    /// Requests that were refused because they came from within reclaim.
    pub(crate) recursions: AtomicU64,
}

impl Counters {
    pub(crate) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            past_lists: [zero(), zero(), zero(), zero()],
            allocstall: [zero(), zero(), zero(), zero()],
            drains: zero(),
            oom_kill: zero(),
            recursions: zero(),
        }
    }
}

/// Adds one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Adds one to that of a kind of zone.
pub(crate) fn count_for(counters: &[AtomicU64; ZoneKind::COUNT], kind: ZoneKind) {
    counters.get(kind.index()).into_iter().for_each(count);
}

impl<P: Platform> Inner<P> {
    /// Counts frames that were handed out straight from a zone.
    pub(crate) fn count_past_lists(&self, zone: &Zone<'_>, frames: u64) {
        if let Some(counter) = self.counters.past_lists.get(zone.kind().index()) {
            counter.fetch_add(frames, Ordering::Relaxed);
        }
    }

    /// Frames of a kind of zone that were handed out since boot.
    pub(crate) fn given(&self, kind: ZoneKind) -> u64 {
        let past = self.counters.past_lists.get(kind.index()).map_or(0, |count| count.load(Ordering::Relaxed));
        let of_kind = self.zones.iter().zip(self.lists()).filter(|(zone, _)| zone.kind() == kind);
        of_kind.fold(past, |sum, (_, lists)| sum.wrapping_add(lists.given()))
    }
}
