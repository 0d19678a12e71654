//! Linux's runs: two scanners that walk the zone towards one another, in the forms of 3.13 and 6.1.

use arrayvec::ArrayVec;
use pageblock_buddy::ZoneScan;
use pageblock_frame::migration::{Interrupt, Migrate, MigrateMode};
use pageblock_frame::sync::Ordering;
use pageblock_frame::trace::{CompactEvent, CompactResult, Event, RunCounts, ScanPositions};
use pageblock_frame::{Order, PAGEBLOCK_FRAMES, Pfn, Platform};

use crate::compactor::{NOWHERE, positions};
use crate::moving::{Cluster, Mover, Stock};
use crate::{Compactor, Config, Origin, Outcome, Request, free_scan, migrate_scan, suitable};

/// Frames of a pageblock, as an index distance.
pub(crate) const BLOCK: u32 = PAGEBLOCK_FRAMES as u32;

/// One run.
pub(crate) struct Run<'a, 'z, 'm, P, M> {
    pub(crate) compactor: &'a Compactor,
    pub(crate) mover: Mover<'a, 'z, 'm, P, M>,
    pub(crate) request: &'a Request,
    /// First and end index of the zone.
    pub(crate) span: (u32, u32),
    /// The migrate scanner: next frame to look at.
    pub(crate) migrate: u32,
    /// The free scanner: where its last pageblock begins, or the zone's end.
    pub(crate) free: u32,
    /// Where the free scanner began.
    pub(crate) first_free: u32,
    pub(crate) whole: bool,
    pub(crate) lent: Cluster,
    pub(crate) stock: Stock,
    /// Pageblocks withheld as targets.
    pub(crate) withheld: ArrayVec<u32, 64>,
    pub(crate) counts: RunCounts,
    /// The scanners no longer move what the zone remembers.
    pub(crate) settled: [bool; 2],
    pub(crate) contended: bool,
    /// Pageblock of the last cluster.
    pub(crate) last_block: u32,
    pub(crate) stride: u32,
    pub(crate) captured: Option<Pfn>,
}

/// What a step of the migrate scanner found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// The run must end.
    Stop,
    /// Nothing yet.
    Nothing,
    /// A cluster to be moved.
    Sources,
}

/// Compacts the zone; says how it went, and where the scanners are.
pub(crate) fn run<P: Platform, M: Migrate>(
    compactor: &Compactor,
    scan: &ZoneScan<'_, '_, P>,
    migrator: &M,
    request: &Request,
) -> (Outcome, ScanPositions) {
    let zone = scan.zone();
    let start = (zone.span().start.as_u64() - zone.base().as_u64()) as u32;
    let span = (start, start + zone.span().len() as u32);
    let config = compactor.config();
    let mover = Mover { scan, migrator, mode: request.mode, passes: config.passes };
    let (migrate, free) = start_positions(compactor, scan, request, span);
    let mut run = Run {
        compactor,
        mover,
        request,
        span,
        migrate,
        free,
        first_free: free,
        whole: request.full || migrate <= start,
        lent: Cluster::new(),
        stock: Stock::new(),
        withheld: ArrayVec::new(),
        counts: RunCounts::default(),
        settled: [false; 2],
        contended: false,
        last_block: NOWHERE,
        stride: if request.mode == MigrateMode::Async { 32 } else { 1 },
        captured: None,
    };
    compactor.trace_run::<P>(CompactEvent::Begin(positions(zone, (migrate, free), request.mode)));
    let result = run.until_finished();
    run.release();
    let at = positions(zone, (run.migrate, run.free), request.mode);
    (Outcome { result, captured: run.captured, counts: run.counts }, at)
}

/// Where the zone's end is for a free scanner that starts afresh.
pub(crate) fn free_end(config: &Config, span: (u32, u32)) -> u32 {
    if config.aligned_free_start { ((span.1 - 1) & !(BLOCK - 1)).max(span.0) } else { span.1 }
}

/// Where the scanners begin. The seed's third patch swaps reading and resetting.
fn start_positions<P: Platform>(
    compactor: &Compactor,
    scan: &ZoneScan<'_, '_, P>,
    request: &Request,
    span: (u32, u32),
) -> (u32, u32) {
    let config = compactor.config();
    let restarts = request.order.is_some_and(|order| compactor.deferral().is_restarting(order))
        && request.origin != Origin::Kswapd
        && (!config.restart_needs_flush || compactor.flush.load(Ordering::Relaxed));
    let read = || {
        let migrate = compactor.migrate_slot(request.mode).load(Ordering::Relaxed);
        (migrate, compactor.free.load(Ordering::Relaxed))
    };
    let (migrate, free) = if config.patches.reset_before_read {
        if restarts {
            compactor.reset::<P>(scan.zone());
        }
        read()
    } else {
        let stale = read();
        if restarts {
            compactor.reset::<P>(scan.zone());
        }
        stale
    };
    let end = free_end(config, span);
    if request.full {
        return (span.0, end);
    }
    let inside = |at: u32| at >= span.0 && at < span.1;
    (if inside(migrate) { migrate } else { span.0 }, if inside(free) { free.min(end) } else { end })
}

impl<P: Platform, M: Migrate> Run<'_, '_, '_, P, M> {
    pub(crate) fn config(&self) -> &Config {
        self.compactor.config()
    }

    fn until_finished(&mut self) -> CompactResult {
        loop {
            let result = self.finished();
            if result != CompactResult::Continue {
                return result;
            }
            match migrate_scan::step(self) {
                Found::Stop => {
                    self.mover.put_back(core::mem::take(&mut self.lent));
                    return CompactResult::Contended;
                }
                Found::Nothing => continue,
                Found::Sources => {}
            }
            if let Some(result) = self.move_sources() {
                return result;
            }
        }
    }

    /// Whether the run is done (`compact_finished()`).
    fn finished(&mut self) -> CompactResult {
        let result = self.finished_quietly();
        let zone = self.mover.scan.zone();
        P::trace(&Event::Compaction(CompactEvent::Finished {
            node: zone.node(),
            zone: zone.kind(),
            order: self.request.order,
            result,
        }));
        result
    }

    fn finished_quietly(&mut self) -> CompactResult {
        if self.mover.migrator.interrupt() == Interrupt::Fatal {
            return CompactResult::Contended;
        }
        if self.have_met() {
            return self.meet();
        }
        if self.request.origin == Origin::Proactive {
            let scattered = crate::score::zone_score(&self.mover.scan.free_blocks());
            if scattered <= crate::score::marks(self.config().proactiveness).low {
                return CompactResult::Success;
            }
        }
        let amid = self.config().finish_block && !self.migrate.is_multiple_of(BLOCK);
        if !amid && suitable::is_served(self.mover.scan, self.config(), self.request) {
            return CompactResult::Success;
        }
        if self.contended { CompactResult::Contended } else { CompactResult::Continue }
    }

    pub(crate) fn have_met(&self) -> bool {
        if self.config().meet_by_block { self.free / BLOCK <= self.migrate / BLOCK } else { self.free <= self.migrate }
    }

    /// The scanners met: the seed's sixth patch puts the remembered positions back at once.
    fn meet(&mut self) -> CompactResult {
        if self.config().patches.reset_on_meeting {
            self.compactor.reset_positions();
        }
        let flushes = if self.config().restart_needs_flush {
            self.request.origin == Origin::Direct
        } else {
            self.request.origin != Origin::Kswapd
        };
        if flushes {
            self.compactor.flush.store(true, Ordering::Relaxed);
        }
        let whole = self.whole || !self.config().meet_by_block;
        if whole { CompactResult::Complete } else { CompactResult::PartialSkipped }
    }

    /// Moves the cluster. `Some` ends the run.
    fn move_sources(&mut self) -> Option<CompactResult> {
        let order = self.request.order.unwrap_or(Order::ZERO);
        let first = self.lent.first().map_or(0, |held| held.index);
        let group = first & !(order.frames() as u32 - 1);
        free_scan::refill(self, self.lent.len());
        let out_of_targets = self.stock.len() < self.lent.len();
        let failed = self.mover.move_cluster(&mut self.lent, &mut self.stock, &mut self.counts);
        if out_of_targets {
            let give_up = !self.config().patches.detect_meeting || !self.have_met();
            return give_up.then_some(CompactResult::Contended);
        }
        if failed > 0 && self.config().skip_on_failure && self.request.is_direct_async() {
            let end = (group + order.frames() as u32).max(self.migrate);
            self.migrate = end.min(self.span.1);
        }
        let captures = self.config().capture && self.request.captures;
        if captures && self.request.origin == Origin::Direct && order > Order::ZERO {
            self.captured = self.mover.scan.take_whole(group, order, self.request.migrate_type);
        }
        self.captured.is_some().then_some(CompactResult::Success)
    }

    /// Gives back all that the run still holds.
    fn release(&mut self) {
        let held = self.stock.iter().copied().max();
        self.mover.return_stock(&mut self.stock, Order::ZERO);
        for block in core::mem::take(&mut self.withheld) {
            self.mover.scan.restore(block);
        }
        if self.config().meet_by_block
            && let Some(highest) = held.map(|index| index & !(BLOCK - 1))
            && self.compactor.free.load(Ordering::Relaxed) < highest
        {
            self.compactor.free.store(highest, Ordering::Relaxed);
        }
    }
}
