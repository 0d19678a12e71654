//! Compaction's memory of one zone between runs.

use pageblock_buddy::{Patience, Zone};
use pageblock_frame::migration::MigrateMode;
use pageblock_frame::sync::{AtomicBool, AtomicU32, Ordering};
use pageblock_frame::trace::{CompactEvent, DeferState, Event};
use pageblock_frame::{Hooks, Order, Platform, const_unless_model};

use crate::config::CompactionConfig;
use crate::counters::{CompactionVmStat, Counters};
use crate::defer::{Deferral, Proof};

/// A position that has not been remembered yet: outside every zone.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// One zone's compaction: positions, flags, deferral, counters. Shared between CPUs without a lock: they are hints,
/// which may be lost or stale, and every value is safe.
///
/// | field | legal values | changed by |
/// |---|---|---|
/// | positions | any; outside the zone means its end | any run |
/// | `flush` | scanners have met since skip bits were cleared | any run, [`reset_if_due`](Self::reset_if_due) |
/// | `deferral` | any | any run |
///
/// ```
/// use pageblock_compaction::{Compactor, CompactionConfig};
/// static NORMAL: Compactor = Compactor::new(CompactionConfig::new());
/// assert_eq!(NORMAL.vmstat().stall, 0);
/// ```
#[derive(Debug)]
pub struct Compactor {
    config: CompactionConfig,
    /// Migrate scanner: for asynchronous runs, for others.
    pub(crate) migrate: [AtomicU32; 2],
    pub(crate) free: AtomicU32,
    pub(crate) flush: AtomicBool,
    /// Failures of the fast searches in a row.
    pub(crate) fast_failures: AtomicU32,
    /// First pageblock of the window that the next search by occupancy compares.
    pub(crate) window: AtomicU32,
    deferral: Deferral,
    pub(crate) counters: Counters,
}

impl Compactor {
    const_unless_model! {
        /// Nothing remembered yet.
        #[must_use]
        pub const fn new(config: CompactionConfig) -> Self {
            Self {
                config,
                migrate: [AtomicU32::new(NOWHERE), AtomicU32::new(NOWHERE)],
                free: AtomicU32::new(NOWHERE),
                flush: AtomicBool::new(false),
                fast_failures: AtomicU32::new(0),
                window: AtomicU32::new(0),
                deferral: Deferral::new(),
                counters: Counters::new(),
            }
        }
    }

    /// How it behaves.
    #[must_use]
    pub const fn config(&self) -> &CompactionConfig {
        &self.config
    }

    /// The zone's deferral.
    #[must_use]
    pub const fn deferral(&self) -> &Deferral {
        &self.deferral
    }

    /// The counters now.
    #[must_use]
    pub fn vmstat(&self) -> CompactionVmStat {
        self.counters.read()
    }

    /// Emits the begin or the end of a run, from the first patch of 2013 on.
    pub(crate) fn trace_run<P: Platform>(&self, event: CompactEvent) {
        if self.config.patches().trace_runs() {
            P::hooks().trace(&Event::Compaction(event));
        }
    }

    /// Forgets skip bits and positions if scanners met since the last time: for the reclaim thread, before it
    /// sleeps (`reset_isolation_suitable()`). True if it did.
    pub fn reset_if_due<P: Platform>(&self, zone: &Zone<'_>) -> bool {
        let due = self.flush.load(Ordering::Relaxed);
        if due {
            self.reset::<P>(zone);
        }
        due
    }

    /// Forgets skip bits and positions (`__reset_isolation_suitable()`).
    pub fn reset<P: Platform>(&self, zone: &Zone<'_>) {
        zone.scan::<P>(Patience::Wait).clear_skips();
        self.reset_positions();
        self.flush.store(false, Ordering::Relaxed);
    }

    /// Puts both scanners back to the ends of the zone.
    pub(crate) fn reset_positions(&self) {
        self.migrate[0].store(NOWHERE, Ordering::Relaxed);
        self.migrate[1].store(NOWHERE, Ordering::Relaxed);
        self.free.store(NOWHERE, Ordering::Relaxed);
    }

    /// Which of the two remembered positions of the migrate scanner a mode reads.
    pub(crate) fn migrate_slot(&self, mode: MigrateMode) -> &AtomicU32 {
        &self.migrate[usize::from(self.config.era().split_positions() && mode != MigrateMode::Async)]
    }

    /// Remembers how far the migrate scanner came; it only ever moves up. A synchronous run moves the asynchronous
    /// position too.
    pub(crate) fn remember_migrate(&self, at: u32, mode: MigrateMode) {
        for slot in [&self.migrate[0], self.migrate_slot(mode)] {
            let old = slot.load(Ordering::Relaxed);
            if old == NOWHERE || at > old {
                slot.store(at, Ordering::Relaxed);
            }
        }
    }

    /// Remembers how far the free scanner came; it only ever moves down.
    pub(crate) fn remember_free(&self, at: u32) {
        if at < self.free.load(Ordering::Relaxed) {
            self.free.store(at, Ordering::Relaxed);
        }
    }

    /// True if this attempt should be left out, as too many failed before. Counts it.
    pub fn is_deferred<P: Platform>(&self, zone: &Zone<'_>, order: Order) -> bool {
        let deferred = self.deferral.is_deferred(order);
        if deferred {
            P::hooks().trace(&Event::Compaction(CompactEvent::Deferred(self.defer_state(zone, order))));
        }
        deferred
    }

    /// Records a failure.
    pub fn defer<P: Platform>(&self, zone: &Zone<'_>, order: Order) {
        self.deferral.defer(order);
        P::hooks().trace(&Event::Compaction(CompactEvent::Defer(self.defer_state(zone, order))));
    }

    /// Records a success: a block was allocated after a run, or could be.
    pub fn defer_reset<P: Platform>(&self, zone: &Zone<'_>, order: Order, proof: Proof) {
        if proof == Proof::Allocated {
            self.flush.store(false, Ordering::Relaxed);
            if !self.config.patches().defer_helper() {
                self.deferral.reset_inline(order);
                return;
            }
        }
        self.deferral.reset(order, proof);
        P::hooks().trace(&Event::Compaction(CompactEvent::DeferReset(self.defer_state(zone, order))));
    }

    fn defer_state(&self, zone: &Zone<'_>, order: Order) -> DeferState {
        let (considered, shift, failed) = self.deferral.state();
        DeferState { node: zone.node(), zone: zone.kind(), order, failed, considered, shift }
    }
}
