//! Direct compaction: an allocation found no block, and tries to make one in its zones.

use pageblock_buddy::Zone;
use pageblock_frame::migration::{Interrupt, Migrate};
use pageblock_frame::sync::{AtomicU64, Ordering};
use pageblock_frame::trace::{CompactEvent, CompactResult, Event};
use pageblock_frame::{AllocFlags, Gfp, Hooks, MigrateType, Order, Platform, ZoneKind};

use crate::compactor::Compactor;
use crate::defer::Proof;
use crate::request::{CompactOutcome, Priority, Request};
use crate::run::Captured;

/// A zone together with compaction's memory of it.
///
/// ```
/// use pageblock_compaction::{Compactor, CompactZone};
/// fn stalls(zones: &[CompactZone<'_, '_>]) -> u64 {
///     zones.iter().map(|zone| zone.compactor.vmstat().stall).sum()
/// }
/// assert_eq!(stalls(&[]), 0);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CompactZone<'a, 'm> {
    /// The zone.
    pub zone: &'a Zone<'m>,
    /// Its compaction.
    pub compactor: &'a Compactor,
}

/// An allocation that turns to compaction.
///
/// ```
/// use pageblock_compaction::{DirectRequest, Priority};
/// use pageblock_frame::{Gfp, MigrateType, Order, ZoneKind};
/// let huge = DirectRequest::new(Order::new(9).unwrap(), Gfp::HIGHUSER_MOVABLE, Priority::Async);
/// assert_eq!((huge.migrate_type, huge.limit), (MigrateType::Movable, ZoneKind::Movable));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirectRequest {
    /// The block wanted.
    pub order: Order,
    /// The request's flags, for events.
    pub gfp: Gfp,
    /// Its purpose.
    pub migrate_type: MigrateType,
    /// How determined it is.
    pub priority: Priority,
    /// Highest zone that would do.
    pub limit: ZoneKind,
    /// For watermarks.
    pub flags: AllocFlags,
    /// Whether the block goes to the caller at once. Without, it is left free: for a caller that wants a part of it.
    pub captures: bool,
}

impl DirectRequest {
    /// A request, and the values that follow from its flags.
    #[must_use]
    pub fn new(order: Order, gfp: Gfp, priority: Priority) -> Self {
        Self {
            order,
            gfp,
            migrate_type: gfp.migrate_type(),
            priority,
            limit: gfp.zone_limit().unwrap_or(ZoneKind::Normal),
            flags: gfp.slow_alloc_flags(order),
            captures: true,
        }
    }

    fn in_zone(&self) -> Request {
        Request {
            limit: self.limit,
            flags: self.flags,
            captures: self.captures,
            ..Request::direct(self.order, self.migrate_type, self.priority)
        }
    }
}

/// Compacts one zone after another, in the order given, until one has a block (`try_to_compact_pages()`). A block that
/// is captured is the caller's; without a capture the caller allocates as usual. Either way it says how that went with
/// [`settle`].
pub fn compact_zones<'a, 'm: 'a, P: Platform, M: Migrate>(
    zones: impl IntoIterator<Item = CompactZone<'a, 'm>>,
    request: &DirectRequest,
    migrator: &M,
) -> CompactOutcome {
    let DirectRequest { order, gfp, priority, .. } = *request;
    P::hooks().trace(&Event::Compaction(CompactEvent::TryToCompact { order, gfp, priority: priority as u8 }));
    let mut best = CompactOutcome::unstarted(CompactResult::Skipped);
    for (place, CompactZone { zone, compactor }) in
        zones.into_iter().filter(|z| z.zone.kind() <= request.limit).enumerate()
    {
        // Before 3.18 the preferred zone alone had a say.
        let asks = compactor.config().era().defer_each_zone() || place == 0;
        if asks && priority > Priority::SyncFull && compactor.is_deferred::<P>(zone, order) {
            best.result = best.result.max(CompactResult::Deferred);
            if !compactor.config().era().defer_each_zone() {
                break;
            }
            continue;
        }
        let outcome = compactor.run::<P, M>(zone, migrator, &request.in_zone());
        best.counts += outcome.counts;
        best.result = best.result.max(outcome.result);
        if outcome.result == CompactResult::Success {
            best.captured = outcome.captured;
            let captured = Captured::<P>::hold(zone, outcome.captured, order);
            if compactor.config().era().defer_each_zone() {
                compactor.defer_reset::<P>(zone, order, Proof::Watermark);
            }
            captured.arrived();
            break;
        }
        let failed = matches!(outcome.result, CompactResult::Complete | CompactResult::PartialSkipped);
        if priority != Priority::Async && failed && compactor.config().era().defer_each_zone() {
            compactor.defer::<P>(zone, order);
        }
        let interrupt = migrator.interrupt();
        if interrupt == Interrupt::Fatal || (priority == Priority::Async && interrupt == Interrupt::Reschedule) {
            break;
        }
    }
    best
}

/// Whether an allocation got its block after compaction.
///
/// ```
/// assert_ne!(pageblock_compaction::Got::Block, pageblock_compaction::Got::Nothing);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Got {
    /// It did, in this zone.
    Block,
    /// It did not.
    Nothing,
}

/// The zone whose deferral counts an attempt: that of the block, if there is one. Before 3.18 it was the preferred
/// zone in any case, the only one that was asked: a block from DMA32 ended the deferral of Normal.
///
/// ```
/// # use core::mem::MaybeUninit;
/// # use pageblock_buddy::{Zone, ZoneConfig, ZoneStorage};
/// # use pageblock_frame::{Carver, NodeId, Pfn, PfnRange, ZoneKind};
/// # struct Machine;
/// # // SAFETY: one CPU, no interrupts, no memory behind the frames.
/// # unsafe impl pageblock_frame::Platform for Machine {
/// #     const MAX_CPUS: usize = 1;
/// #     const HAS_MEMORY: bool = false;
/// #     fn phys_to_virt(_: u64) -> core::ptr::NonNull<u8> { core::ptr::NonNull::dangling() }
/// # }
/// use pageblock_compaction::{CompactZone, Compactor, CompactionConfig, Patches, accountable};
/// # let zone = |kind| {
/// #     let span = PfnRange::new(Pfn::new(0), Pfn::new(512));
/// #     let config = ZoneConfig::new(kind, NodeId::new(0), span);
/// #     let raw = vec![MaybeUninit::uninit(); ZoneStorage::bytes(span, config.max_order)].leak();
/// #     let storage = ZoneStorage::carve(span, config.max_order, &mut Carver::new(raw)).unwrap();
/// #     Zone::new::<Machine>(config, storage).unwrap()
/// # };
/// let (normal, dma32) = (zone(ZoneKind::Normal), zone(ZoneKind::Dma32));
/// let (old, newer) = (CompactionConfig::linux_3_13(Patches::NONE), CompactionConfig::linux_6_1());
/// for (config, expected) in [(old, &normal), (newer, &dma32)] {
///     let compactor = Compactor::new(config);
///     let preferred = CompactZone { zone: &normal, compactor: &compactor };
///     let found = CompactZone { zone: &dma32, compactor: &compactor };
///     assert!(core::ptr::eq(accountable(preferred, Some(found)).zone, expected));
/// }
/// ```
#[must_use]
pub fn accountable<'a, 'm>(preferred: CompactZone<'a, 'm>, found: Option<CompactZone<'a, 'm>>) -> CompactZone<'a, 'm> {
    found.filter(|_| preferred.compactor.config().era().defer_each_zone()).unwrap_or(preferred)
}

/// Accounts for a direct attempt: a stall, and a success or a failure, unless it was skipped (before 3.18 also if it
/// was deferred). `at` is the [`accountable`] zone. A success ends deferral there; before 3.18 the failure of a
/// synchronous attempt begins it there.
pub fn settle<P: Platform>(at: CompactZone<'_, '_>, request: &DirectRequest, outcome: &CompactOutcome, got: Got) {
    let CompactZone { zone, compactor } = at;
    let each = compactor.config().era().defer_each_zone();
    let uncounted = match outcome.result {
        CompactResult::Skipped => true,
        CompactResult::Deferred => !each,
        _ => false,
    };
    if uncounted {
        return;
    }
    let count = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
    count(&compactor.counters.stall);
    match got {
        Got::Block => {
            count(&compactor.counters.success);
            compactor.defer_reset::<P>(zone, request.order, Proof::Allocated);
        }
        Got::Nothing => {
            count(&compactor.counters.fail);
            if !each && request.priority != Priority::Async {
                compactor.defer::<P>(zone, request.order);
            }
        }
    }
}
