//! A task that reclaims for itself.

use core::marker::PhantomData;

use pageblock_frame::reclaim::{Actor, DEF_PRIORITY, RECLAIM_CLUSTER, Reclaim, Shrink};
use pageblock_frame::trace::{CompactResult, Event, ReclaimEvent};
use pageblock_frame::{COSTLY_ORDER, Gfp, Hooks, Order, Platform, ZoneKind};

use crate::balance::compact_gap;
use crate::config::ReclaimConfig;
use crate::counters::count;
use crate::kswapd::{FreeFrames, Kswapd};
use crate::unconfirmed::UnconfirmedProgress;
use crate::zone::{MarkTest, ReclaimZone, WithBoost};

/// Result of a pass of direct reclaim.
///
/// ```
/// use pageblock_reclaim::Progress;
/// let refused = Progress { refused: true, ..Progress::default() };
/// assert!(!refused.is_some());
/// assert!(Progress { reclaimed: 3, ..Progress::default() }.is_some());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Frames freed, as far as the claim is accepted.
    pub reclaimed: u64,
    /// Frames looked at.
    pub scanned: u64,
    /// Rounds made: calls of the owner.
    pub rounds: u32,
    /// Compaction can make the block now: reclaim stopped for it.
    pub compaction_ready: bool,
    /// More frames are free than before, so that something was gained for certain.
    pub confirmed: bool,
    /// Nothing was freed, but not every zone is given up (before 4.12).
    pub reclaimable_left: bool,
    /// The caller reclaims already: nothing was done.
    pub refused: bool,
    /// The caller is being killed: the pass ended early.
    pub dying: bool,
}

impl Progress {
    /// True if it is worth trying to allocate again (`did_some_progress`).
    #[must_use]
    pub const fn is_some(&self) -> bool {
        self.reclaimed > 0 || self.compaction_ready || self.reclaimable_left
    }
}

/// A task's request for free frames.
///
/// ```
/// # use core::ptr::NonNull;
/// # struct Host;
/// # // SAFETY: one CPU, nothing is mapped.
/// # unsafe impl pageblock_frame::Platform for Host {
/// #     const MAX_CPUS: usize = 1;
/// #     fn phys_to_virt(_: u64) -> NonNull<u8> { NonNull::dangling() }
/// # }
/// use pageblock_frame::reclaim::{Reclaim, Shrink, Shrunk};
/// use pageblock_frame::{Gfp, Order, ZoneKind};
/// use pageblock_reclaim::{ReclaimConfig, Direct, ReclaimZone};
/// struct Miser;
/// impl Reclaim for Miser {
///     fn shrink(&self, _: &Shrink) -> Shrunk { Shrunk::default() }
/// }
/// fn reclaim<Z: ReclaimZone>(zonelist: &[Z]) -> u64 {
///     let task = Direct {
///         zones: zonelist, nodes: &[], owner: &Miser,
///         order: Order::ZERO, limit: ZoneKind::Normal, gfp: Gfp::KERNEL,
///     };
///     task.run::<Host>(&ReclaimConfig::linux_6_1()).reclaimed
/// }
/// # use pageblock_reclaim::{MarkTest, Marks};
/// # struct Empty;
/// # impl ReclaimZone for Empty {
/// #     fn node(&self) -> pageblock_frame::NodeId { pageblock_frame::NodeId::new(0) }
/// #     fn kind(&self) -> ZoneKind { ZoneKind::Normal }
/// #     fn managed(&self) -> u64 { 100 }
/// #     fn present(&self) -> u64 { 100 }
/// #     fn free(&self) -> u64 { 0 }
/// #     fn marks(&self) -> Marks { Marks { min: 8, low: 10, high: 12 } }
/// #     fn boost(&self) -> u64 { 0 }
/// #     fn subtract_boost(&self, _: u64) {}
/// #     fn watermark_ok(&self, _: &MarkTest) -> bool { false }
/// # }
/// assert_eq!(reclaim(&[Empty]), 0);
/// ```
#[derive(Clone, Copy)]
pub struct Direct<'a, Z> {
    /// The request's zonelist: its preferred zone first. Zones of a node follow each other.
    pub zones: &'a [Z],
    /// The nodes' threads, as far as there are any: they keep the knowledge of each node.
    pub nodes: &'a [Kswapd],
    /// The holder of memory that can be given up.
    pub owner: &'a dyn Reclaim,
    /// Order of the block that is wanted.
    pub order: Order,
    /// Highest zone that would do.
    pub limit: ZoneKind,
    /// The request's flags.
    pub gfp: Gfp,
}

impl<Z> core::fmt::Debug for Direct<'_, Z> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { order, limit, gfp, .. } = self;
        f.debug_struct("Direct").field("order", order).field("limit", limit).field("gfp", gfp).finish_non_exhaustive()
    }
}

/// The caller reclaims, until this is dropped.
struct ReclaimScope<P: Platform>(PhantomData<P>);

impl<P: Platform> ReclaimScope<P> {
    /// `None` if it does already.
    fn enter() -> Option<Self> {
        P::hooks().enter_reclaim().then(|| Self(PhantomData))
    }
}

impl<P: Platform> Drop for ReclaimScope<P> {
    fn drop(&mut self) {
        P::hooks().leave_reclaim();
    }
}

/// A pass under way.
struct Pass<'a> {
    config: &'a ReclaimConfig,
    priority: u8,
    progress: Progress,
    /// For nodes without a thread.
    unconfirmed: UnconfirmedProgress,
}

impl<Z: ReclaimZone> Direct<'_, Z> {
    /// Reclaims at falling priority until a cluster is freed, compaction can take over, or all was looked at
    /// (`try_to_free_pages()`). At most 13 rounds a zone, and for orders above 0 some more while each frees something.
    ///
    /// Refused within reclaim ([`Hooks::enter_reclaim`]).
    pub fn run<P: Platform>(&self, config: &ReclaimConfig) -> Progress {
        let Some(_scope) = ReclaimScope::<P>::enter() else {
            return Progress { refused: true, ..Progress::default() };
        };
        if let Some(thread) = self.eligible().next().and_then(|zone| self.thread(zone)) {
            count(&thread.counters.allocstall);
        }
        P::hooks().trace(&Event::Reclaim(ReclaimEvent::DirectBegin { order: self.order, gfp: self.gfp }));
        let free = self.free();
        let mut pass = Pass {
            config,
            priority: DEF_PRIORITY,
            progress: Progress::default(),
            unconfirmed: UnconfirmedProgress::new(),
        };
        for priority in (0..=DEF_PRIORITY).rev() {
            pass.priority = priority;
            self.pass(&mut pass);
            pass.progress.dying = self.owner.is_dying();
            let Progress { reclaimed, compaction_ready, dying, .. } = pass.progress;
            if reclaimed >= RECLAIM_CLUSTER || compaction_ready || dying {
                break;
            }
        }
        let mut progress = pass.progress;
        progress.confirmed = self.free() > free;
        progress.reclaimable_left = config.retries_until_all_unreclaimable()
            && progress.reclaimed == 0
            && self.eligible().any(|zone| self.zone_reclaimable(zone));
        P::hooks().trace(&Event::Reclaim(ReclaimEvent::DirectEnd { reclaimed: progress.reclaimed }));
        progress
    }

    fn eligible(&self) -> impl Iterator<Item = &Z> {
        self.zones.iter().filter(|zone| zone.kind() <= self.limit && zone.managed() > 0)
    }

    fn free(&self) -> u64 {
        self.eligible().fold(0, |sum, zone| sum.saturating_add(zone.free()))
    }

    fn thread(&self, zone: &Z) -> Option<&Kswapd> {
        self.nodes.iter().find(|thread| thread.node() == zone.node())
    }

    /// Whether something might be freed in a zone still; in an unknown zone nothing is.
    fn zone_reclaimable(&self, zone: &Z) -> bool {
        let reclaimable = || self.owner.reclaimable(zone.node(), zone.kind()).min(zone.managed());
        self.thread(zone).is_some_and(|thread| !thread.is_unreclaimable(zone.kind(), reclaimable()))
    }

    /// One look at every zone or node, at one priority (`shrink_zones()`).
    fn pass(&self, pass: &mut Pass<'_>) {
        let mut last = None;
        for zone in self.eligible() {
            if self.order > COSTLY_ORDER && self.compaction_ready(pass.config, zone) {
                pass.progress.compaction_ready = true;
                continue;
            }
            if pass.config.by_zone() {
                let known = self.thread(zone).is_some();
                if pass.priority == DEF_PRIORITY || !known || self.zone_reclaimable(zone) {
                    self.shrink(pass, zone, Some(zone.kind()));
                }
            } else if last != Some(zone.node()) {
                last = Some(zone.node());
                self.shrink(pass, zone, None);
            }
        }
    }

    /// Rounds over one zone or its node: one, or for larger blocks as many as compaction needs while each frees
    /// something (`should_continue_reclaim()`).
    fn shrink(&self, pass: &mut Pass<'_>, zone: &Z, kind: Option<ZoneKind>) {
        let wanted = compact_gap(self.order);
        let for_compaction =
            self.order > COSTLY_ORDER || (self.order > Order::ZERO && pass.priority < DEF_PRIORITY - 2);
        let mut total = 0u64;
        loop {
            let freed = self.round(pass, zone, kind);
            total = total.saturating_add(freed);
            if freed == 0 || !for_compaction || total >= wanted || self.is_suitable(zone) || self.owner.is_dying() {
                return;
            }
        }
    }

    fn round(&self, pass: &mut Pass<'_>, zone: &Z, kind: Option<ZoneKind>) -> u64 {
        let round = Shrink {
            zone: kind,
            limit: if kind.is_some() { zone.kind() } else { self.limit },
            priority: pass.priority,
            order: self.order,
            ..Shrink::direct(zone.node(), self.limit, self.gfp)
        };
        let before = self.free();
        let shrunk = self.owner.shrink(&round);
        let free = FreeFrames { before, after: self.free() };
        let freed = match self.thread(zone) {
            Some(thread) => thread.note(Actor::Direct, kind, shrunk, free),
            None => pass.unconfirmed.accept(shrunk.freed, free.before, free.after),
        };
        let Progress { reclaimed, scanned, rounds, .. } = &mut pass.progress;
        *reclaimed = reclaimed.saturating_add(freed);
        *scanned = scanned.saturating_add(shrunk.scanned);
        *rounds = rounds.saturating_add(1);
        freed
    }

    fn is_suitable(&self, zone: &Z) -> bool {
        let suits = zone.compaction_suitable(self.order, self.limit);
        suits.is_some_and(|suits| suits != CompactResult::Skipped)
    }

    /// Whether compaction has enough in a zone that more reclaim would be wasted: the block, or its high watermark and
    /// twice the block on top (`compaction_ready()`).
    fn compaction_ready(&self, config: &ReclaimConfig, zone: &Z) -> bool {
        match zone.compaction_suitable(self.order, self.limit) {
            None | Some(CompactResult::Skipped) => false,
            Some(CompactResult::Success) => true,
            Some(_) => {
                let marks = zone.with_boost();
                let gap = config.gap(marks, zone.managed());
                let mark = marks.high.saturating_add(gap).saturating_add(compact_gap(self.order));
                let class = config.judged_limit(self.limit);
                zone.watermark_ok(&MarkTest::new(Order::ZERO, mark, class))
            }
        }
    }
}

/// Time that a task waits for kswapd at a time while the reserve is nearly used up (`HZ`), in nanoseconds.
const THROTTLE: u64 = 1_000_000_000;
/// Such waits before a task goes on regardless: a platform that does not wait must not make it spin.
const THROTTLES: u32 = 16;

impl Kswapd {
    /// Makes a task wait for this thread if the reserve is nearly used up, before it reclaims for itself
    /// (`throttle_direct_reclaim()`, 6.1). True if it had to. `zones` are the node's.
    ///
    /// A request that may not enter file systems waits a second at most; others until the reserve is safe, within
    /// reason.
    pub fn throttle<P: Platform, Z: ReclaimZone>(
        &self,
        zones: &[Z],
        owner: &dyn Reclaim,
        limit: ZoneKind,
        gfp: Gfp,
    ) -> bool {
        if self.allows_direct(zones, owner) || owner.is_dying() {
            return false;
        }
        count(&self.counters.throttled);
        let waits = if gfp.contains(Gfp::FS) { THROTTLES } else { 1 };
        for _ in 0..waits {
            self.wake::<P>(Order::ZERO, limit.min(ZoneKind::Normal));
            P::hooks().wait_until(self.node(), P::hooks().now().saturating_add(THROTTLE));
            if self.allows_direct(zones, owner) || owner.is_dying() {
                break;
            }
        }
        true
    }
}
