//! The reclaim thread of a node, as a state machine: the kernel's thread calls [`Kswapd::step`] when told to.

mod mailbox;
mod rest;
mod rounds;
mod run;

use pageblock_frame::reclaim::{Actor, Reclaim, Shrunk};
use pageblock_frame::sync::{AtomicU32, AtomicU64, Lock, Ordering};
use pageblock_frame::{Hooks, NodeId, Order, Platform, ZoneKind, const_unless_model};

use crate::balance::{node_balanced, reserve_ok};
use crate::config::ReclaimConfig;
use crate::counters::{Counters, ReclaimVmStat};
use crate::unconfirmed::UnconfirmedProgress;
use crate::zone::ReclaimZone;
use mailbox::Mailbox;
pub(crate) use mailbox::Wanted;
use rest::Nap;
use run::{Phase, Run};

/// Time for which the thread rests before it goes to sleep for good (`HZ/10`), in nanoseconds.
pub const NAP: u64 = 100_000_000;
/// Runs in a row that freed nothing, after which the thread goes to sleep whatever the watermarks say.
const VAIN_RUNS: u32 = 16;
/// Scans of a zone's reclaimable frames without one freed, after which it is given up (before 4.12).
const VAIN_SCANS: u64 = 6;

/// The thread's next action.
///
/// ```
/// use pageblock_reclaim::KswapdNext;
/// assert_ne!(KswapdNext::Again, KswapdNext::Sleep { until: None });
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum KswapdNext {
    /// Call [`Kswapd::step`] again.
    Again,
    /// Compact the node asynchronously for a block of this order (before 4.6); then step again.
    Compact {
        /// Order wanted.
        order: Order,
        /// Highest zone that would do.
        limit: ZoneKind,
    },
    /// Wake the node's compaction thread for a block of this order (since 4.6); then step again.
    WakeKcompactd {
        /// Order wanted.
        order: Order,
        /// Highest zone that would do.
        limit: ZoneKind,
    },
    /// The node is balanced: reset compaction's skip bits where they wait for that; then step again.
    ResetSkipBits,
    /// Sleep until it is woken, at most until this time of the platform's clock; then step again. A wake-up that came
    /// between the step and the sleep must end the sleep at once, as with any thread that waits.
    Sleep {
        /// When to step in any case; `None` if never.
        until: Option<u64>,
    },
}

/// Result of [`Kswapd::wake_if_short`].
///
/// ```
/// assert_ne!(pageblock_reclaim::Wake::Woken, pageblock_reclaim::Wake::Balanced);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wake {
    /// The thread was asleep and has been woken.
    Woken,
    /// The thread is at work, and will look at the request.
    Awake,
    /// There is enough free memory. A request for a block that may not reclaim should wake the compaction thread
    /// instead.
    Balanced,
    /// The node was given up; the same advice.
    Hopeless,
}

/// A node's reclaim thread, and the state of reclaim on the node. Any CPU may wake it, from any context; one
/// thread steps.
///
/// | field | legal values | changed by |
/// |---|---|---|
/// | `mailbox` | see there | any CPU, by atomic steps |
/// | `seat` | the run; `None` while a step is under way | a step |
/// | `active` | 0, or 1 + the highest zone of the run | a step |
/// | `failures` | runs in a row that freed nothing | a step; a round that frees something sets it to 0 |
/// | `scanned` | frames of each kind of zone scanned since one was freed there | a round |
///
/// ```
/// # use core::ptr::NonNull;
/// # struct Host;
/// # // SAFETY: one CPU, nothing is mapped.
/// # unsafe impl pageblock_frame::Platform for Host {
/// #     const MAX_CPUS: usize = 1;
/// #     fn phys_to_virt(_: u64) -> NonNull<u8> { NonNull::dangling() }
/// # }
/// use pageblock_frame::{NodeId, Order, ZoneKind};
/// use pageblock_reclaim::{ReclaimConfig, Kswapd};
/// let thread = Kswapd::new(NodeId::new(0), ReclaimConfig::linux_6_1());
/// assert!(thread.may_sleep() && !thread.is_awake());
/// assert!(thread.wake::<Host>(Order::ZERO, ZoneKind::Normal)); // it slept
/// assert!(!thread.wake::<Host>(Order::ZERO, ZoneKind::Normal)); // it is awake already
/// assert!(!thread.may_sleep());
/// ```
#[derive(Debug)]
pub struct Kswapd {
    node: NodeId,
    config: ReclaimConfig,
    mailbox: Mailbox,
    seat: Lock<Option<Run>>,
    active: AtomicU32,
    failures: AtomicU32,
    scanned: [AtomicU64; ZoneKind::COUNT],
    unconfirmed: UnconfirmedProgress,
    pub(crate) counters: Counters,
}

impl Kswapd {
    const_unless_model! {
        /// Asleep.
        #[must_use]
        pub const fn new(node: NodeId, config: ReclaimConfig) -> Self {
            Self {
                node,
                config,
                mailbox: Mailbox::new(),
                seat: Lock::new(Some(Run::IDLE)),
                active: AtomicU32::new(0),
                failures: AtomicU32::new(0),
                scanned: [AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)],
                unconfirmed: UnconfirmedProgress::new(),
                counters: Counters::new(),
            }
        }
    }

    /// The node that it works for.
    #[must_use]
    pub const fn node(&self) -> NodeId {
        self.node
    }

    /// The rules that it works by.
    #[must_use]
    pub const fn config(&self) -> &ReclaimConfig {
        &self.config
    }

    /// Asks for free memory: blocks of `order` in zones up to `limit`. Wakes the thread if it sleeps, and says whether
    /// it did.
    pub fn wake<P: Platform>(&self, order: Order, limit: ZoneKind) -> bool {
        let asleep = self.mailbox.post(Wanted { order, limit }, &self.config);
        if asleep {
            P::hooks().wake_kswapd(self.node);
        }
        asleep
    }

    /// As [`wake`](Self::wake), but a thread that sleeps is left alone if the node does not need it
    /// (`wakeup_kswapd()`). `zones` are the node's, ascending.
    pub fn wake_if_short<P: Platform, Z: ReclaimZone>(
        &self,
        zones: &[Z],
        owner: &dyn Reclaim,
        order: Order,
        limit: ZoneKind,
    ) -> Wake {
        if !self.mailbox.is_asleep() {
            // It may fall asleep at this moment, and then this wakes it.
            return if self.wake::<P>(order, limit) { Wake::Woken } else { Wake::Awake };
        }
        if self.is_hopeless() {
            return Wake::Hopeless;
        }
        let boosted = self.config.boost && zones.iter().any(|zone| zone.kind() <= limit && zone.boost() > 0);
        if !boosted && self.is_balanced(zones, owner, order, limit) {
            return Wake::Balanced;
        }
        if self.wake::<P>(order, limit) { Wake::Woken } else { Wake::Awake }
    }

    /// True if nothing has been asked for since the thread last looked: it may go to sleep.
    #[must_use]
    pub fn may_sleep(&self) -> bool {
        !self.mailbox.is_wanted()
    }

    /// True unless the thread sleeps, or was told to.
    #[must_use]
    pub fn is_awake(&self) -> bool {
        !self.mailbox.is_asleep()
    }

    /// True while the thread reclaims for requests that may use this kind of zone (`ZONE_RECLAIM_ACTIVE`): per-CPU
    /// lists should stay short.
    #[must_use]
    pub fn is_reclaiming(&self, kind: ZoneKind) -> bool {
        self.active.load(Ordering::Relaxed) as usize > kind.index()
    }

    /// True if so many runs in vain were made that the node was given up, until something is freed here
    /// (`kswapd_failures`, since 4.12).
    #[must_use]
    pub fn is_hopeless(&self) -> bool {
        let limit = self.config.max_kswapd_failures;
        limit > 0 && self.failures.load(Ordering::Relaxed) >= limit
    }

    /// True if nothing can be reclaimed from a zone, as far as is known: six times its reclaimable frames were scanned
    /// since one was freed (before 4.12). Always false where `ReclaimConfig::tracks_unreclaimable` is off.
    #[must_use]
    pub fn is_unreclaimable(&self, kind: ZoneKind, reclaimable: u64) -> bool {
        let scanned = self.scanned.get(kind.index()).map_or(0, |scanned| scanned.load(Ordering::Relaxed));
        self.config.tracks_unreclaimable() && scanned >= reclaimable.saturating_mul(VAIN_SCANS)
    }

    /// True if tasks may reclaim for themselves now, rather than wait for this thread first: more than half of the
    /// reserve is there, or nothing can be freed (`allow_direct_reclaim()`, 6.1).
    pub fn allows_direct<Z: ReclaimZone>(&self, zones: &[Z], owner: &dyn Reclaim) -> bool {
        self.is_hopeless() || reserve_ok(zones, |zone| owner.reclaimable(zone.node(), zone.kind()))
    }

    /// The counters.
    #[must_use]
    pub fn vmstat(&self) -> ReclaimVmStat {
        self.counters.read()
    }

    /// Whether the node has enough free memory for blocks of `order` in zones up to `limit`. `zones` are the node's,
    /// ascending.
    pub fn is_balanced<Z: ReclaimZone>(&self, zones: &[Z], owner: &dyn Reclaim, order: Order, limit: ZoneKind) -> bool {
        node_balanced(&self.config, zones, Wanted { order, limit }, |zone| self.zone_unreclaimable(zone, owner))
    }

    fn zone_unreclaimable<Z: ReclaimZone>(&self, zone: &Z, owner: &dyn Reclaim) -> bool {
        self.config.tracks_unreclaimable()
            && self.is_unreclaimable(zone.kind(), owner.reclaimable(zone.node(), zone.kind()))
    }

    /// Takes note of a round of reclaim on this node, before and after which so many frames were free. Returns the part
    /// of the claim that is accepted.
    pub(crate) fn note(&self, actor: Actor, kind: Option<ZoneKind>, shrunk: Shrunk, free: FreeFrames) -> u64 {
        self.counters.round(actor, shrunk);
        let freed = self.unconfirmed.accept(shrunk.freed, free.before, free.after);
        if freed > 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
        if let Some(scanned) = kind.and_then(|kind| self.scanned.get(kind.index())) {
            if freed > 0 || free.after > free.before {
                scanned.store(0, Ordering::Relaxed);
            } else {
                // At least one: an owner that does not even look is given up as well, in the end.
                scanned.fetch_add(shrunk.scanned.max(1), Ordering::Relaxed);
            }
        }
        freed
    }

    /// Does one bounded piece of work: one round over one zone, or over the node where the lists are the node's.
    /// `zones` are the node's, ascending; `now` is the platform's clock, 0 where there is none.
    ///
    /// Holds no lock while the reclaimer works. A second caller meanwhile, also from within the reclaimer, is told to
    /// sleep. If the reclaimer unwinds, the next step repeats the piece.
    pub fn step<P: Platform, Z: ReclaimZone>(&self, zones: &[Z], owner: &dyn Reclaim, now: u64) -> KswapdNext {
        let Some(run) = self.seat.lock().take() else { return KswapdNext::Sleep { until: None } };
        let mut seat = Seat { thread: self, run };
        self.advance::<P, Z>(&mut seat.run, zones, owner, now)
    }

    fn advance<P: Platform, Z: ReclaimZone>(
        &self,
        run: &mut Run,
        zones: &[Z],
        owner: &dyn Reclaim,
        now: u64,
    ) -> KswapdNext {
        match run.phase {
            Phase::Idle => self.look::<P, Z>(run, zones),
            Phase::Round => self.round(run, zones, owner),
            Phase::Zone(place) => self.zone(run, zones, owner, place),
            Phase::RoundEnd => self.round_end::<P, Z>(run, zones, owner),
            Phase::Settle => self.settle(run, zones, owner),
            Phase::Rest => self.rest::<P, Z>(run, zones, owner),
            Phase::RestCompact => self.rest_compact(run),
            Phase::Doze => self.doze(run, now),
            Phase::Nap(until) => self.nap::<P, Z>(run, zones, owner, Nap { until, now }),
            Phase::Fall => self.fall_asleep::<P>(run),
        }
    }
}

/// Free frames before and after a round.
#[derive(Clone, Copy)]
pub(crate) struct FreeFrames {
    pub(crate) before: u64,
    pub(crate) after: u64,
}

/// The run while a step is under way. Dropped, it is the thread's again.
struct Seat<'a> {
    thread: &'a Kswapd,
    run: Run,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        *self.thread.seat.lock() = Some(self.run);
    }
}
