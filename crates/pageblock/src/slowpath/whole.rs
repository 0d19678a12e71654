//! A whole pageblock for a type that cannot move, so that it need not mix: the contents of a pageblock of movable
//! memory are moved elsewhere.
//!
//! One pageblock serves hundreds of such requests, and no page has to go for it but to make room for them. Reclaim
//! alone would free frames all over memory, few of which the request could use without mixing.

use pageblock_buddy::{Patience, Servable};
use pageblock_compaction::{DirectRequest, Priority};
use pageblock_frame::trace::CompactResult;
use pageblock_frame::{Gfp, Hooks, MigrateType, PAGEBLOCK_ORDER, Platform};

use super::attempts::may_mix;
use super::compact::attempt;
use super::reclaim::reclaim_for;
use super::{Climb, ReclaimScope, SPINS, Step, drain_zones, got};

impl<P: Platform> Climb<P> {
    /// The request would have to mix types, or else needs a whole pageblock to begin.
    pub(super) fn wants_whole(&self) -> bool {
        let request = &self.request;
        self.refrains() && request.migrate_type != MigrateType::Movable && request.order < PAGEBLOCK_ORDER
    }

    /// A migrator could make one for it.
    fn may_gather(&self) -> bool {
        let compacts =
            P::hooks().migrator().is_some() && !self.request.inner.compactors.is_empty() && self.may_compact();
        self.wants_whole() && compacts && self.has(Gfp::DIRECT_RECLAIM) && !self.has(Gfp::MEMALLOC) && self.is_starved()
    }

    /// The preferred zone has nothing of the request's type, and no pageblock to claim. Otherwise it is memory that is
    /// short, and a few frames will do.
    fn is_starved(&self) -> bool {
        let request = &self.request;
        request.zones().find(|zone| zone.managed() > 0).is_some_and(|zone| {
            let scan = zone.scan::<P>(Patience::Wait);
            let whole = scan.free_blocks().iter().skip(PAGEBLOCK_ORDER.index()).any(|&blocks| blocks > 0);
            !whole && scan.servable(request.order, request.migrate_type) != Servable::Own
        })
    }
}

/// Moves memory until a pageblock is free; reclaims the frames that it lacks, unless failing is fine. If it cannot be
/// had, mixes.
pub(super) fn whole_pageblock<P: Platform>(climb: &mut Climb<P>) -> Step {
    if !climb.may_gather() {
        return Step::Continue(());
    }
    if gather(climb)? == CompactResult::Skipped && !climb.has(Gfp::NORETRY) {
        reclaim_for(climb, PAGEBLOCK_ORDER)?;
        let _ = gather(climb)?;
    }
    may_mix(climb)
}

type Gathered = core::ops::ControlFlow<Result<pageblock_frame::Pfn, crate::AllocError>, CompactResult>;

/// Compacts for a pageblock and leaves it free; then looks again. Waits for locks, so that a failure is remembered and
/// a request now and then tries again, rather than each.
fn gather<P: Platform>(climb: &Climb<P>) -> Gathered {
    let request = climb.request;
    let Some(owner) = P::hooks().migrator() else { return Gathered::Continue(CompactResult::Deferred) };
    let Some(scope) = ReclaimScope::enter(request.inner) else {
        return Gathered::Continue(CompactResult::Deferred);
    };
    let order = PAGEBLOCK_ORDER;
    let mut zones =
        request.zones().filter(|zone| zone.managed() > 0).filter_map(|zone| request.inner.compact_zone(zone));
    if zones.any(|at| !at.compactor.deferral().is_paused(order)) {
        drain_zones(request.inner, request.zones(), SPINS);
    }
    let direct = DirectRequest { captures: false, ..DirectRequest::new(order, request.gfp, Priority::SyncLight) };
    let (pfn, outcome) = attempt(climb, (owner, scope), direct);
    match got(pfn) {
        Step::Break(end) => Gathered::Break(end),
        Step::Continue(()) => Gathered::Continue(outcome.result),
    }
}
