//! Rungs that take back what per-CPU lists hold: it may be of another order, or make a larger block.

use pageblock_buddy::Zone;
use pageblock_frame::Platform;
use pageblock_frame::sync::Pinned;

use super::attempts::at_min;
use super::{Climb, Step};
use crate::counters::count;
use crate::inner::Inner;

/// Rounds that a request waits for other CPUs to empty their lists.
pub(crate) const SPINS: u64 = 1 << 12;

/// What this CPU's lists hold.
pub(super) fn drain_own_lists<P: Platform>(climb: &Climb<P>) -> Step {
    let request = &climb.request;
    let pinned = Pinned::<P>::new();
    let cpu = pinned.cpu();
    let held = request.zones().any(|zone| request.inner.lists_of(zone).is_some_and(|lists| lists.frames_on(cpu) > 0));
    if held {
        for zone in request.zones() {
            // Refused for a CPU without lists.
            let _ = request.inner.lists_of(zone).map(|lists| lists.drain_cpu(cpu));
        }
    }
    drop(pinned);
    if held { at_min(climb) } else { Step::Continue(()) }
}

/// The other CPUs are asked for what they hold, and have a moment to answer (`drain_all_pages()`).
pub(super) fn drain_all_lists<P: Platform>(climb: &Climb<P>) -> Step {
    let request = &climb.request;
    if drain_zones(request.inner, request.zones(), SPINS) { at_min(climb) } else { Step::Continue(()) }
}

/// Empties the lists of some zones: this CPU's at once, the others' by request. Waits `spins` rounds for each zone; who has
/// not answered by then does not help the caller. True if the lists held anything.
pub(crate) fn drain_zones<P: Platform>(
    inner: &Inner<P>,
    zones: impl Iterator<Item = &'static Zone<'static>>,
    spins: u64,
) -> bool {
    let mut held = false;
    for zone in zones {
        if let Some(lists) = inner.lists_of(zone).filter(|lists| lists.frames() > 0) {
            if !held {
                count(&inner.counters.drains);
            }
            held = true;
            if lists.drain_all() > 0 {
                let _ = lists.wait(spins);
            }
        }
    }
    held
}
