//! Linux's runs: two scanners that walk the zone towards one another, in the forms of 3.13 and 6.1.

mod fast;
mod free_scan;
mod migrate_scan;
mod scanners;

use core::ops::Range;

use pageblock_frame::migration::{Interrupt, Migrate};
use pageblock_frame::sync::Ordering;
use pageblock_frame::trace::{CompactEvent, CompactResult, Event, ScanPositions};
use pageblock_frame::{Hooks, Order, Platform};

use crate::cluster::BLOCK;
use crate::compactor::Compactor;
use crate::config::CompactionConfig;
use crate::migration::Migration;
use crate::request::{CompactOutcome, Finished, Origin, Request};
use crate::{score, suitable};
use migrate_scan::Found;
use scanners::{Positions, Scanners};

/// Compacts the zone. The outcome's positions are where the scanners are.
pub(crate) fn run<P: Platform, M: Migrate>(
    compactor: &Compactor,
    migration: Migration<'_, '_, '_, P, M>,
    request: &Request,
) -> Finished {
    let zone = migration.scan.zone();
    let start = (zone.span().start.as_u64() - zone.base().as_u64()) as u32;
    let span = start..start + zone.span().len() as u32;
    let at = start_positions(compactor, migration, request, &span);
    let begin = CompactEvent::Begin(positions(migration, request, at));
    compactor.trace_run::<P>(begin);
    let mut run = Scanners::new(compactor, migration, request, span, at);
    let result = until_finished(&mut run);
    release(&mut run);
    let at = positions(migration, request, run.at);
    Finished { outcome: CompactOutcome { result, captured: run.captured, counts: run.counts }, at }
}

fn positions<P: Platform, M>(
    migration: Migration<'_, '_, '_, P, M>,
    request: &Request,
    at: Positions,
) -> ScanPositions {
    let zone = migration.scan.zone();
    ScanPositions {
        zone: zone.span(),
        migrate: zone.pfn_of(at.migrate),
        free: zone.pfn_of(at.free),
        mode: request.mode,
    }
}

/// Where the zone's end is for a free scanner that starts afresh.
fn free_end(config: &CompactionConfig, span: &Range<u32>) -> u32 {
    if config.era().aligned_free_start() { ((span.end - 1) & !(BLOCK - 1)).max(span.start) } else { span.end }
}

/// Where the scanners begin. The third patch of 2013 swaps reading and resetting.
fn start_positions<P: Platform, M>(
    compactor: &Compactor,
    migration: Migration<'_, '_, '_, P, M>,
    request: &Request,
    span: &Range<u32>,
) -> Positions {
    let config = compactor.config();
    let restarts = request.order.is_some_and(|order| compactor.deferral().is_restarting(order))
        && request.origin != Origin::KswapdState
        && (!config.era().restart_needs_flush() || compactor.flush.load(Ordering::Relaxed));
    let reset = || {
        if restarts {
            compactor.reset::<P>(migration.scan.zone());
        }
    };
    if config.patches().reset_before_read() {
        reset();
    }
    let migrate = compactor.migrate_slot(request.mode).load(Ordering::Relaxed);
    let free = compactor.free.load(Ordering::Relaxed);
    if !config.patches().reset_before_read() {
        reset();
    }
    let end = free_end(config, span);
    if request.full {
        return Positions { migrate: span.start, free: end };
    }
    Positions {
        migrate: if span.contains(&migrate) { migrate } else { span.start },
        free: if span.contains(&free) { free.min(end) } else { end },
    }
}

fn until_finished<P: Platform, M: Migrate>(run: &mut Scanners<'_, '_, '_, P, M>) -> CompactResult {
    loop {
        let result = finished(run);
        if result != CompactResult::Continue {
            return result;
        }
        match migrate_scan::step(run) {
            Found::Stop => {
                run.sources.put_back();
                return CompactResult::Contended;
            }
            Found::Nothing => continue,
            Found::Sources => {}
        }
        if let Some(result) = move_sources(run) {
            return result;
        }
    }
}

/// Whether the run is done (`compact_finished()`).
fn finished<P: Platform, M: Migrate>(run: &mut Scanners<'_, '_, '_, P, M>) -> CompactResult {
    let result = finished_quietly(run);
    let zone = run.migration.scan.zone();
    P::hooks().trace(&Event::Compaction(CompactEvent::Finished {
        node: zone.node(),
        zone: zone.kind(),
        order: run.request.order,
        result,
    }));
    result
}

fn finished_quietly<P: Platform, M: Migrate>(run: &mut Scanners<'_, '_, '_, P, M>) -> CompactResult {
    if run.migration.migrator.interrupt() == Interrupt::Fatal {
        return CompactResult::Contended;
    }
    if run.have_met() {
        return meet(run);
    }
    if run.request.origin == Origin::Proactive {
        let scattered = score::zone_score(&run.migration.scan.free_blocks());
        if scattered <= score::marks(run.config().proactiveness).low {
            return CompactResult::Success;
        }
    }
    let amid = run.config().era().finish_block() && !run.at.migrate.is_multiple_of(BLOCK);
    if !amid && suitable::is_served(run.migration.scan, run.config(), run.request) {
        return CompactResult::Success;
    }
    if run.contended { CompactResult::Contended } else { CompactResult::Continue }
}

/// The scanners met: the sixth patch of 2013 puts the remembered positions back at once.
fn meet<P: Platform, M: Migrate>(run: &mut Scanners<'_, '_, '_, P, M>) -> CompactResult {
    if run.config().patches().reset_on_meeting() {
        run.compactor.reset_positions();
    }
    let flushes = if run.config().era().restart_needs_flush() {
        run.request.origin == Origin::Direct
    } else {
        run.request.origin != Origin::KswapdState
    };
    if flushes {
        run.compactor.flush.store(true, Ordering::Relaxed);
    }
    let whole = run.whole || !run.config().era().meet_by_block();
    if whole { CompactResult::Complete } else { CompactResult::PartialSkipped }
}

/// Moves the cluster. `Some` ends the run.
fn move_sources<P: Platform, M: Migrate>(run: &mut Scanners<'_, '_, '_, P, M>) -> Option<CompactResult> {
    let order = run.request.order.unwrap_or(Order::ZERO);
    let group = run.sources.first().unwrap_or(0) & !(run.wanted_frames() - 1);
    free_scan::refill(run, run.sources.len());
    let out_of_targets = run.targets.len() < run.sources.len();
    let failed = run.migration.move_sources(&mut run.sources, &mut run.targets, &mut run.counts);
    if out_of_targets {
        let give_up = !run.config().patches().detect_meeting() || !run.have_met();
        return give_up.then_some(CompactResult::Contended);
    }
    if failed > 0 && run.config().era().skip_on_failure() && run.request.is_direct_async() {
        let end = (group + run.wanted_frames()).max(run.at.migrate);
        run.at.migrate = end.min(run.span.end);
    }
    let captures = run.config().capture && run.request.captures;
    if captures && run.request.origin == Origin::Direct && order > Order::ZERO {
        run.captured = run.migration.scan.take_whole(group, order, run.request.migrate_type);
    }
    run.captured.is_some().then_some(CompactResult::Success)
}

/// Gives back all that the run still holds. Targets that were not used are looked for again by the next run.
fn release<P: Platform, M: Migrate>(run: &mut Scanners<'_, '_, '_, P, M>) {
    let highest = run.targets.highest().map(|index| index & !(BLOCK - 1));
    run.targets.free();
    run.withheld.restore();
    if run.config().era().meet_by_block()
        && let Some(highest) = highest
        && run.compactor.free.load(Ordering::Relaxed) < highest
    {
        run.compactor.free.store(highest, Ordering::Relaxed);
    }
}
