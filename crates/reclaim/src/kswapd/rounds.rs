//! The pieces of a run: rounds of falling priority until the node is balanced.

use pageblock_frame::reclaim::{Actor, DEF_PRIORITY, RECLAIM_CLUSTER, Reclaim, Shrink, Shrunk};
use pageblock_frame::sync::Ordering;
use pageblock_frame::trace::{CompactResult, Event, ReclaimEvent};
use pageblock_frame::{Gfp, Hooks, Order, PAGEBLOCK_ORDER, Platform, ZoneKind};

use super::FreeFrames;
use super::mailbox::Wanted;
use super::run::{Phase, Round, Run};
use super::{Kswapd, KswapdNext};
use crate::balance::{compact_gap, zone_balanced};
use crate::counters::count;
use crate::zone::{MarkTest, ReclaimZone, WithBoost};

/// Below this priority no run goes while boosts are all there is to reclaim for.
const BOOST_PRIORITY: u8 = DEF_PRIORITY - 2;

/// Free frames of the zones that requests limited to `limit` may use.
fn free_up_to<Z: ReclaimZone>(zones: &[Z], limit: ZoneKind) -> u64 {
    let eligible = zones.iter().filter(|zone| zone.kind() <= limit);
    eligible.fold(0, |sum, zone| sum.saturating_add(zone.free()))
}

/// Frames that a round is after in a zone.
fn target<Z: ReclaimZone>(zone: &Z) -> u64 {
    zone.with_boost().high.max(RECLAIM_CLUSTER)
}

impl Kswapd {
    /// Begins a run.
    pub(super) fn begin<P: Platform, Z: ReclaimZone>(&self, run: &mut Run, zones: &[Z], wanted: Wanted) -> KswapdNext {
        *run = Run::new(wanted);
        if self.config.boost {
            for zone in zones.iter().filter(|zone| zone.kind() <= run.limit && zone.managed() > 0) {
                let boost = zone.boost();
                run.boosts[zone.kind().index()] = boost;
                run.boost_left = run.boost_left.saturating_add(boost);
            }
        }
        self.active.store(run.limit.index() as u32 + 1, Ordering::Relaxed);
        count(&self.counters.pageoutrun);
        P::hooks().trace(&Event::Reclaim(ReclaimEvent::KswapdWake { node: self.node, order: run.asked }));
        KswapdNext::Again
    }

    /// Takes up the requests.
    pub(super) fn look<P: Platform, Z: ReclaimZone>(&self, run: &mut Run, zones: &[Z]) -> KswapdNext {
        if let Some(wanted) = self.mailbox.take() {
            return self.begin::<P, Z>(run, zones, wanted);
        }
        if self.mailbox.sleep() { KswapdNext::Sleep { until: None } } else { KswapdNext::Again }
    }

    /// Begins a round, unless the node is balanced.
    pub(super) fn round<Z: ReclaimZone>(&self, run: &mut Run, zones: &[Z], owner: &dyn Reclaim) -> KswapdNext {
        let end = if self.config.by_zone() {
            self.highest_short(run, zones, owner)
        } else {
            self.node_is_short(run, zones, owner).then_some(run.limit)
        };
        match end {
            Some(end) => {
                run.round = Round { end, ..Round::default() };
                run.phase = Phase::Zone(0);
            }
            None => run.phase = Phase::Settle,
        }
        KswapdNext::Again
    }

    /// Whether a round over the node is needed. A real shortage takes precedence over boosts, and begins anew.
    fn node_is_short<Z: ReclaimZone>(&self, run: &mut Run, zones: &[Z], owner: &dyn Reclaim) -> bool {
        let balanced = self.is_balanced(zones, owner, run.order, run.limit);
        if !balanced && run.boost_left > 0 {
            run.boost_left = 0;
            run.priority = DEF_PRIORITY;
        }
        !balanced || run.boost_left > 0
    }

    /// The highest zone that is short, by the rule with neither gap nor, before 4.8, reserve.
    fn highest_short<Z: ReclaimZone>(&self, run: &Run, zones: &[Z], owner: &dyn Reclaim) -> Option<ZoneKind> {
        if self.config.any_zone_is_enough() && self.is_balanced(zones, owner, run.order, run.limit) {
            return None;
        }
        let class = self.config.judged_limit(run.limit);
        let mut from_the_top = zones.iter().rev().filter(|zone| self.is_worth(run, *zone, owner));
        let short = from_the_top.find(|zone| !zone_balanced(&self.config, *zone, run.order, 0, class));
        short.map(ReclaimZone::kind)
    }

    /// False for zones without frames, and, after the first round, for those that were given up.
    fn is_worth<Z: ReclaimZone>(&self, run: &Run, zone: &Z, owner: &dyn Reclaim) -> bool {
        zone.managed() > 0 && (run.priority == DEF_PRIORITY || !self.zone_unreclaimable(zone, owner))
    }

    /// Reclaims the node, or the next zone from `place` on that is short.
    pub(super) fn zone<Z: ReclaimZone>(
        &self,
        run: &mut Run,
        zones: &[Z],
        owner: &dyn Reclaim,
        place: usize,
    ) -> KswapdNext {
        if !self.config.by_zone() {
            self.shrink_node(run, zones, owner);
            run.phase = Phase::RoundEnd;
            return KswapdNext::Again;
        }
        let mut rest = zones.iter().enumerate().skip(place).take_while(|(_, zone)| zone.kind() <= run.round.end);
        let short = rest.find(|(_, zone)| self.is_worth(run, *zone, owner) && self.is_short(run, *zone));
        let Some((at, zone)) = short else {
            run.phase = Phase::RoundEnd;
            return KswapdNext::Again;
        };
        self.shrink_zone(run, zone, owner);
        run.phase = Phase::Zone(at.saturating_add(1));
        KswapdNext::Again
    }

    /// The rule by which a zone is reclaimed: with gap and reserve, for a single frame if compaction can do the rest.
    fn is_short<Z: ReclaimZone>(&self, run: &Run, zone: &Z) -> bool {
        let class = self.config.limit_in_round(run.round.end, run.limit);
        let gap = self.config.gap(zone.with_boost(), zone.managed());
        let compactable = run.order > Order::ZERO
            && zone.compaction_suitable(run.order, class).is_some_and(|suits| suits != CompactResult::Skipped);
        let order = if compactable { Order::ZERO } else { run.order };
        !zone_balanced(&self.config, zone, order, gap, class)
    }

    fn shrink_node<Z: ReclaimZone>(&self, run: &mut Run, zones: &[Z], owner: &dyn Reclaim) {
        let eligible = zones.iter().filter(|zone| zone.kind() <= run.limit && zone.managed() > 0);
        let frames = eligible.fold(0, |sum: u64, zone| sum.saturating_add(target(zone)));
        let before = free_up_to(zones, run.limit);
        let request = self.request(run, None, run.limit, frames);
        let shrunk = owner.shrink(&request);
        let free = FreeFrames { before, after: free_up_to(zones, run.limit) };
        self.book(run, &request, shrunk, free);
    }

    fn shrink_zone<Z: ReclaimZone>(&self, run: &mut Run, zone: &Z, owner: &dyn Reclaim) {
        let (kind, frames, before) = (zone.kind(), target(zone), zone.free());
        let request = self.request(run, Some(kind), kind, frames);
        let shrunk = owner.shrink(&request);
        self.book(run, &request, shrunk, FreeFrames { before, after: zone.free() });
    }

    fn request(&self, run: &Run, zone: Option<ZoneKind>, limit: ZoneKind, frames: u64) -> Shrink {
        Shrink {
            node: self.node,
            zone,
            limit,
            frames,
            priority: run.priority,
            order: run.order,
            actor: Actor::Kswapd,
            gfp: Gfp::KERNEL,
            may_write: run.boost_left == 0,
        }
    }

    /// Books the owner's answer.
    fn book(&self, run: &mut Run, request: &Shrink, shrunk: Shrunk, free: FreeFrames) {
        let freed = self.note(Actor::Kswapd, request.zone, shrunk, free);
        run.round.attempted = run.round.attempted.saturating_add(request.frames);
        run.round.freed = run.round.freed.saturating_add(freed);
        run.round.scanned_enough |= shrunk.scanned >= request.frames;
        run.freed = run.freed.saturating_add(freed);
    }

    /// Ends a round: tasks that wait are woken, and the next round is prepared.
    pub(super) fn round_end<P: Platform, Z: ReclaimZone>(
        &self,
        run: &mut Run,
        zones: &[Z],
        owner: &dyn Reclaim,
    ) -> KswapdNext {
        if self.allows_direct(zones, owner) {
            P::hooks().wake_waiters(self.node);
        }
        let wanted = run.order;
        if wanted > Order::ZERO && run.freed >= compact_gap(wanted) {
            // Enough for compaction to make the block: more would be reclaimed in vain.
            run.order = Order::ZERO;
        }
        let next = if self.should_compact(run, zones) {
            KswapdNext::Compact { order: run.order, limit: run.limit }
        } else {
            KswapdNext::Again
        };
        run.phase = if self.goes_on(run, zones, owner) { Phase::Round } else { Phase::Settle };
        next
    }

    /// Whether kswapd compacts the node now: the round freed more than it was after, and no zone has a block within
    /// reach (3.16).
    fn should_compact<Z: ReclaimZone>(&self, run: &Run, zones: &[Z]) -> bool {
        if !self.config.compacts() || run.order == Order::ZERO || run.round.freed <= run.round.attempted {
            return false;
        }
        let has_block = |zone: &Z| zone.watermark_ok(&MarkTest::new(run.order, zone.with_boost().low, run.limit));
        !zones.iter().filter(|zone| zone.kind() <= run.round.end && zone.managed() > 0).any(has_block)
    }

    /// Whether there is another round, and how hard it looks.
    fn goes_on<Z: ReclaimZone>(&self, run: &mut Run, zones: &[Z], owner: &dyn Reclaim) -> bool {
        let freed = run.round.freed;
        let keeps = run.round.scanned_enough || (run.boost_left > 0 && run.priority == BOOST_PRIORITY);
        if run.boost_left > 0 {
            run.boost_left = run.boost_left.saturating_sub(freed);
            if run.boost_left > 0 && freed == 0 {
                return false;
            }
        }
        if !keeps || freed == 0 {
            run.priority = run.priority.saturating_sub(1);
            if run.priority == 0 {
                run.exhausted = true;
                return false;
            }
        }
        !self.config.by_zone() || !self.is_balanced(zones, owner, run.order, run.limit)
    }

    /// Ends the run: the boosts that it saw are taken back, whether or not so much was freed.
    pub(super) fn settle<Z: ReclaimZone>(&self, run: &mut Run, zones: &[Z], owner: &dyn Reclaim) -> KswapdNext {
        for zone in zones {
            match run.boosts.get(zone.kind().index()) {
                Some(boost) if *boost > 0 => zone.subtract_boost(*boost),
                _ => {}
            }
        }
        // Also in vain: a run that found only zones that were given up, and left the node short.
        if run.freed == 0 && (run.exhausted || !self.is_balanced(zones, owner, run.order, run.limit)) {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        self.active.store(0, Ordering::Relaxed);
        run.phase = Phase::Rest;
        if run.was_boosted() {
            return KswapdNext::WakeKcompactd { order: PAGEBLOCK_ORDER, limit: run.limit };
        }
        KswapdNext::Again
    }
}
