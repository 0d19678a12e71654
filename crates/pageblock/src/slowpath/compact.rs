//! Direct compaction: the request moves blocks out of its way.

use pageblock_compaction::{CompactOutcome, DirectRequest, Got, Migrate, Priority, accountable, compact_zones, settle};
use pageblock_frame::trace::CompactResult;
use pageblock_frame::{Gfp, Hooks, MigrateType, Order, Pfn, Platform};

use super::{Climb, ReclaimScope, SPINS, Step, drain_zones, give_up, got};
use crate::error::AllocError;
use crate::request::Underway;

/// Compacts the zones of the list until one has a block (`__alloc_pages_direct_compact()`). Free frames on per-CPU
/// lists are in the way as much as others: they are asked back first, and a synchronous attempt waits for them.
pub(super) fn compact<P: Platform>(climb: &mut Climb<P>, priority: Priority) -> Step {
    let Some(owner) = P::hooks().migrator() else { return Step::Continue(()) };
    let request = climb.request;
    if request.order == Order::ZERO || !climb.may_compact() || request.inner.compactors.is_empty() {
        return Step::Continue(());
    }
    let Some(scope) = ReclaimScope::enter(request.inner) else { return Step::Continue(()) };
    let spins = if priority == Priority::Async { 0 } else { SPINS };
    drain_zones(request.inner, request.zones(), spins);
    let (pfn, outcome) = attempt(climb, (owner, scope), DirectRequest::new(request.order, request.gfp, priority));
    climb.compacted = outcome.result;
    got(pfn)
}

/// Compacts the zones of the list for a block as `direct` says, looks again, and accounts for both where the rules of
/// the time say.
pub(super) fn attempt<P: Platform>(
    climb: &Climb<P>,
    (owner, scope): (&'static (dyn Migrate + Sync), ReclaimScope<P>),
    direct: DirectRequest,
) -> (Option<Pfn>, CompactOutcome) {
    let request = climb.request;
    let direct =
        DirectRequest { migrate_type: request.migrate_type, limit: request.limit, flags: climb.flags(), ..direct };
    let zones = || request.zones().filter(|zone| zone.managed() > 0);
    let compact_zone = |zone| request.inner.compact_zone(zone);
    let outcome = compact_zones::<P, _>(zones().filter_map(compact_zone), &direct, &owner);
    let under_way = |pfn, order| Underway { inner: request.inner, pfn, order };
    let captured = outcome.captured.map(|pfn| under_way(pfn, direct.order));
    drop(scope);
    if let Some(zone) = outcome.captured.and_then(|pfn| request.inner.zone_of(pfn)) {
        request.inner.count_past_lists(zone, direct.order.frames());
    }
    let block = captured.or_else(|| request.walk(climb.flags()).map(|pfn| under_way(pfn, request.order)));
    let pfn = block.as_ref().map(|block| block.pfn);
    let found = pfn.and_then(|pfn| request.inner.zone_of(pfn)).and_then(compact_zone);
    // A caller that leaves the block free may have been given another one, which is no proof that one of the order can
    // be had.
    let proved = pfn.is_some() && (direct.captures || outcome.result == CompactResult::Success);
    if let Some(preferred) = zones().next().and_then(compact_zone) {
        let at = accountable(preferred, found);
        settle::<P>(at, &direct, &outcome, if proved { Got::Block } else { Got::Nothing });
    }
    (block.map(Underway::arrived), outcome)
}

/// Before reclaim, where that would be of little use: large blocks, and blocks that cannot be gathered by
/// moving the contents of movable pageblocks only. Asynchronously, since reclaim may still do.
pub(super) fn compact_first<P: Platform>(climb: &mut Climb<P>) -> Step {
    if climb.wants_whole() {
        // A part of a movable pageblock would be mixing.
        return Step::Continue(());
    }
    let hard = climb.is_costly() || climb.request.migrate_type != MigrateType::Movable;
    if !climb.has(Gfp::DIRECT_RECLAIM) || climb.has(Gfp::MEMALLOC) || !hard {
        return Step::Continue(());
    }
    compact(climb, Priority::Async)?;
    if climb.is_costly() && climb.has(Gfp::NORETRY) && P::hooks().migrator().is_some() {
        // A large page that would be nice to have. If compaction is of no use, neither is reclaim.
        if climb.has(Gfp::THISNODE) || matches!(climb.compacted, CompactResult::Skipped | CompactResult::Deferred) {
            return give_up(AllocError::OutOfMemory);
        }
        climb.priority = Priority::Async;
    }
    Step::Continue(())
}
