//! The compaction thread of a node, as a state machine: the kernel's thread calls [`Kcompactd::step`] when told to.

use pageblock_frame::migration::Migrate;
use pageblock_frame::sync::{AtomicU32, AtomicU64, Ordering};
use pageblock_frame::trace::{CompactEvent, CompactResult, Event};
use pageblock_frame::{Hooks, NodeId, Order, PAGEBLOCK_FRAMES, Platform, ZoneKind, const_unless_model};

use crate::config::Search;
use crate::defer::Proof;
use crate::direct::CompactZone;
use crate::request::Request;
use crate::score::{marks, node_score, scattered, zone_score};

/// Time between looks at the score, in nanoseconds.
const INTERVAL: u64 = 500_000_000;
/// Looks left out after proactive compaction that achieved nothing: two to the power of this.
const BACKOFF: u32 = 6;
/// Nothing is asked for.
const NOTHING: u32 = 0;

/// The thread's next action.
///
/// ```
/// use pageblock_compaction::Next;
/// assert_ne!(Next::Again, Next::Sleep { until: None });
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Call [`Kcompactd::step`] again.
    Again,
    /// Sleep until it is woken, at most until this time of the platform's clock.
    Sleep {
        /// When the score is to be looked at again; `None` if never.
        until: Option<u64>,
    },
}

/// State of the node's reclaim thread.
///
/// ```
/// assert_ne!(pageblock_compaction::KswapdState::Asleep, pageblock_compaction::KswapdState::Awake);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KswapdState {
    /// Nothing.
    Asleep,
    /// Reclaiming: memory is short, and proactive compaction waits.
    Awake,
}

/// A node's compaction thread. Any CPU may wake it, from any context; one thread steps.
///
/// | field | legal values | changed by |
/// |---|---|---|
/// | `wanted` | 0, or 1 + the largest order asked for | any CPU raises it, the thread takes it |
/// | `limit` | the lowest of the highest zones asked for | any CPU lowers it, the thread resets it |
/// | `zone` | the next zone to compact | the thread |
/// | `look_at` | time of the next look at the score | the thread |
/// | `in_vain` | scattered frames from which on a look is worth it again, after one in vain; else 0 | the thread |
///
/// ```
/// use pageblock_compaction::Kcompactd;
/// use pageblock_frame::{NodeId, Order, ZoneKind};
/// # struct Machine;
/// # // SAFETY: one CPU, no interrupts, no memory behind the frames.
/// # unsafe impl pageblock_frame::Platform for Machine {
/// #     const MAX_CPUS: usize = 1;
/// #     const HAS_MEMORY: bool = false;
/// #     fn phys_to_virt(_: u64) -> core::ptr::NonNull<u8> { core::ptr::NonNull::dangling() }
/// # }
/// let thread = Kcompactd::new(NodeId::new(0));
/// assert!(!thread.is_wanted());
/// thread.wake::<Machine>(Order::new(9).unwrap(), ZoneKind::Normal);
/// assert!(thread.is_wanted());
/// ```
#[derive(Debug)]
pub struct Kcompactd {
    node: NodeId,
    wanted: AtomicU32,
    limit: AtomicU32,
    zone: AtomicU32,
    look_at: AtomicU64,
    in_vain: AtomicU64,
}

impl Kcompactd {
    const_unless_model! {
        /// Asleep.
        #[must_use]
        pub const fn new(node: NodeId) -> Self {
            Self {
                node,
                wanted: AtomicU32::new(NOTHING),
                limit: AtomicU32::new(ZoneKind::COUNT as u32 - 1),
                zone: AtomicU32::new(0),
                look_at: AtomicU64::new(0),
                in_vain: AtomicU64::new(0),
            }
        }
    }

    /// Asks for a block of `order` in some zone up to `limit` (`wakeup_kcompactd()`), and wakes the thread. Order 0
    /// needs no compaction.
    pub fn wake<P: Platform>(&self, order: Order, limit: ZoneKind) {
        if order == Order::ZERO {
            return;
        }
        P::hooks().trace(&Event::Compaction(CompactEvent::WakeupKcompactd { node: self.node, order, limit }));
        // Relaxed: the platform's wake-up orders these for the thread; one that comes too late leads to another step.
        lower(&self.limit, limit.index() as u32);
        raise(&self.wanted, u32::from(order.as_u8()) + 1);
        P::hooks().wake_kcompactd(self.node);
    }

    /// True if a block is asked for.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) != NOTHING
    }

    /// Does one piece of work: one zone for the requests, or one look at the score. `zones` are the node's, ascending;
    /// `now` is the platform's clock.
    pub fn step<P: Platform, M: Migrate>(
        &self,
        zones: &[CompactZone<'_, '_>],
        migrator: &M,
        kswapd: KswapdState,
        now: u64,
    ) -> Next {
        let wanted = self.wanted.load(Ordering::Relaxed);
        if wanted == NOTHING {
            return self.look::<P, M>(zones, migrator, kswapd, now);
        }
        let order = Order::saturating((wanted - 1).min(255) as u8);
        let limit = self.limit.load(Ordering::Relaxed).min(ZoneKind::COUNT as u32 - 1);
        let limit = ZoneKind::ALL.get(limit as usize).copied().unwrap_or(ZoneKind::Movable);
        let place = self.zone.load(Ordering::Relaxed);
        if place == 0 {
            P::hooks().trace(&Event::Compaction(CompactEvent::KcompactdWake { node: self.node, order, limit }));
        }
        let zone = zones.get(place as usize).filter(|z| z.zone.kind() <= limit);
        if let Some(&at) = zone {
            if place == 0 {
                at.compactor.counters.daemon_wake.fetch_add(1, Ordering::Relaxed);
            }
            Self::compact::<P, M>(at, migrator, order, limit);
            self.zone.store(place + 1, Ordering::Relaxed);
            return Next::Again;
        }
        self.zone.store(0, Ordering::Relaxed);
        // Unless more was asked for meanwhile, that was it.
        let done = self.wanted.compare_exchange(wanted, NOTHING, Ordering::Relaxed, Ordering::Relaxed);
        self.limit.store(ZoneKind::COUNT as u32 - 1, Ordering::Relaxed);
        if done.is_err() {
            return Next::Again;
        }
        P::hooks().trace(&Event::Compaction(CompactEvent::KcompactdSleep { node: self.node }));
        self.sleep(zones)
    }

    fn compact<P: Platform, M: Migrate>(at: CompactZone<'_, '_>, migrator: &M, order: Order, limit: ZoneKind) {
        let CompactZone { zone, compactor } = at;
        if compactor.is_deferred::<P>(zone, order) {
            return;
        }
        let request = Request { limit, ..Request::kcompactd(order) };
        match compactor.run::<P, M>(zone, migrator, &request).result {
            CompactResult::Success => compactor.defer_reset::<P>(zone, order, Proof::Watermark),
            CompactResult::Complete | CompactResult::PartialSkipped => compactor.defer::<P>(zone, order),
            _ => {}
        }
    }

    fn proactiveness(zones: &[CompactZone<'_, '_>]) -> u8 {
        zones.iter().map(|z| z.compactor.config().proactiveness).max().unwrap_or(0)
    }

    /// Free frames outside wholly free pageblocks, where those decide when a look is worth it: 0 where time does.
    fn scattered<P: Platform>(zones: &[CompactZone<'_, '_>]) -> u64 {
        let by_occupancy = zones.iter().filter(|z| z.compactor.config().search == Search::Occupancy);
        by_occupancy.map(|z| scattered(&z.zone.scan::<P>(pageblock_buddy::Patience::Wait).free_blocks())).sum()
    }

    fn sleep(&self, zones: &[CompactZone<'_, '_>]) -> Next {
        let until = (Self::proactiveness(zones) > 0).then(|| self.look_at.load(Ordering::Relaxed));
        Next::Sleep { until }
    }

    fn score<P: Platform>(zones: &[CompactZone<'_, '_>]) -> u64 {
        node_score(zones.iter().map(|z| {
            let scan = z.zone.scan::<P>(pageblock_buddy::Patience::Wait);
            (zone_score(&scan.free_blocks()), z.zone.present())
        }))
    }

    /// Compacts the whole node if its free memory is scattered, and looks again later. If that did not help: when more
    /// has been freed, or much later in Linux.
    fn look<P: Platform, M: Migrate>(
        &self,
        zones: &[CompactZone<'_, '_>],
        migrator: &M,
        kswapd: KswapdState,
        now: u64,
    ) -> Next {
        let proactiveness = Self::proactiveness(zones);
        if proactiveness == 0 || now < self.look_at.load(Ordering::Relaxed) {
            return self.sleep(zones);
        }
        let mut pause = INTERVAL;
        let before = Self::score::<P>(zones);
        // After a look in vain another one would find the same, until about a pageblock more is free in parts.
        let in_vain = self.in_vain.load(Ordering::Relaxed);
        let more = in_vain == 0 || Self::scattered::<P>(zones) >= in_vain;
        if kswapd == KswapdState::Asleep && before > marks(proactiveness).high && more {
            for CompactZone { zone, compactor } in zones {
                let _ = compactor.run::<P, M>(zone, migrator, &Request::proactive());
            }
            let helped = Self::score::<P>(zones) < before;
            let left = if helped { 0 } else { Self::scattered::<P>(zones) };
            self.in_vain.store(if left > 0 { left + PAGEBLOCK_FRAMES } else { 0 }, Ordering::Relaxed);
            if !helped && left == 0 {
                pause <<= BACKOFF;
            }
        }
        self.look_at.store(now.saturating_add(pause), Ordering::Relaxed);
        self.sleep(zones)
    }

    /// Forgets the pause: the next step looks at the score (`compaction_proactiveness` was written).
    pub fn look_now(&self) {
        self.look_at.store(0, Ordering::Relaxed);
        self.in_vain.store(0, Ordering::Relaxed);
    }
}

fn raise(value: &AtomicU32, to: u32) {
    let mut old = value.load(Ordering::Relaxed);
    while old < to {
        match value.compare_exchange_weak(old, to, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return,
            Err(seen) => old = seen,
        }
    }
}

fn lower(value: &AtomicU32, to: u32) {
    let mut old = value.load(Ordering::Relaxed);
    while old > to {
        match value.compare_exchange_weak(old, to, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return,
            Err(seen) => old = seen,
        }
    }
}
