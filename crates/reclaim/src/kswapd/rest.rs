//! How the thread comes to rest: a nap first, for a node that was short is soon short again.

use pageblock_frame::reclaim::Reclaim;
use pageblock_frame::sync::Ordering;
use pageblock_frame::trace::{Event, ReclaimEvent};
use pageblock_frame::{Hooks, Order, Platform};

use super::run::{Phase, Run};
use super::{Kswapd, KswapdNext, NAP, VAIN_RUNS, Wanted};
use crate::counters::count;
use crate::zone::ReclaimZone;

/// A nap under way, in nanoseconds.
#[derive(Clone, Copy)]
pub(super) struct Nap {
    pub(super) until: u64,
    pub(super) now: u64,
}

impl Kswapd {
    /// Nothing is left to do, or to be gained.
    fn may_rest<Z: ReclaimZone>(&self, run: &Run, zones: &[Z], owner: &dyn Reclaim) -> bool {
        self.is_hopeless()
            || self.failures.load(Ordering::Relaxed) >= VAIN_RUNS
            || self.is_balanced(zones, owner, run.order, run.limit)
    }

    /// Another run: for requests made meanwhile, or else for single frames until the node is balanced.
    fn again<P: Platform, Z: ReclaimZone>(&self, run: &mut Run, zones: &[Z]) -> KswapdNext {
        let wanted = self.mailbox.take().unwrap_or(Wanted { order: Order::ZERO, limit: run.limit });
        self.begin::<P, Z>(run, zones, wanted)
    }

    /// After a run: tasks that wait are woken, and the thread rests if it may (`prepare_kswapd_sleep()`).
    pub(super) fn rest<P: Platform, Z: ReclaimZone>(
        &self,
        run: &mut Run,
        zones: &[Z],
        owner: &dyn Reclaim,
    ) -> KswapdNext {
        // A task that waited for this thread must not be left behind when it sleeps.
        P::hooks().wake_waiters(self.node);
        if !self.may_rest(run, zones, owner) {
            return self.again::<P, Z>(run, zones);
        }
        if self.config.compacts() {
            run.phase = Phase::Doze;
            return KswapdNext::Again;
        }
        run.phase = Phase::RestCompact;
        KswapdNext::ResetSkipBits
    }

    /// The block that was wanted is compaction's to make now.
    pub(super) fn rest_compact(&self, run: &mut Run) -> KswapdNext {
        run.phase = Phase::Doze;
        if run.asked > Order::ZERO {
            return KswapdNext::WakeKcompactd { order: run.asked, limit: run.limit };
        }
        KswapdNext::Again
    }

    /// Falls asleep for a moment. Without a clock there are no moments: then for good.
    pub(super) fn doze(&self, run: &mut Run, now: u64) -> KswapdNext {
        if now == 0 {
            run.phase = Phase::Fall;
            return if self.config.compacts() { KswapdNext::ResetSkipBits } else { KswapdNext::Again };
        }
        let until = now.saturating_add(NAP);
        run.phase = Phase::Nap(until);
        if self.mailbox.sleep() { KswapdNext::Sleep { until: Some(until) } } else { KswapdNext::Again }
    }

    /// Wakes from the nap: early if something was asked for, which then adds to the last run's aim.
    pub(super) fn nap<P: Platform, Z: ReclaimZone>(
        &self,
        run: &mut Run,
        zones: &[Z],
        owner: &dyn Reclaim,
        nap: Nap,
    ) -> KswapdNext {
        let Nap { until, now } = nap;
        if self.mailbox.is_wanted() {
            count(&self.counters.low_hit_quickly);
            self.mailbox.post(run.wanted(), &self.config);
            return self.again::<P, Z>(run, zones);
        }
        if now < until {
            return KswapdNext::Sleep { until: Some(until) };
        }
        if !self.may_rest(run, zones, owner) {
            count(&self.counters.high_hit_quickly);
            return self.again::<P, Z>(run, zones);
        }
        run.phase = Phase::Fall;
        if self.config.compacts() { KswapdNext::ResetSkipBits } else { KswapdNext::Again }
    }

    /// Falls asleep for good, unless something was asked for meanwhile.
    pub(super) fn fall_asleep<P: Platform>(&self, run: &mut Run) -> KswapdNext {
        run.phase = Phase::Idle;
        if self.mailbox.is_asleep() || self.mailbox.sleep() {
            P::hooks().trace(&Event::Reclaim(ReclaimEvent::KswapdSleep { node: self.node }));
            return KswapdNext::Sleep { until: None };
        }
        KswapdNext::Again
    }
}
