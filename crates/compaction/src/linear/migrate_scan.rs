//! The migrate scanner: upwards through the zone, a pageblock at a time, up to a cluster of movable blocks at once.

use pageblock_buddy::{BlockView, Held, count_free_blocks};
use pageblock_frame::migration::{Interrupt, Migrate, MigrateMode};
use pageblock_frame::trace::{CompactEvent, Event};
use pageblock_frame::{
    BLOCK_WORDS, FrameState, Hooks, MigrateType, Order, PAGEBLOCK_ORDER, PfnRange, Platform, StateView,
};

use super::fast;
use super::scanners::Scanners;
use crate::cluster::{BLOCK, CLUSTER, Cluster, keep};
use crate::config::Search;

/// Findings of a step of the migrate scanner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// The run must end.
    Stop,
    /// Nothing yet.
    Nothing,
    /// A cluster to be moved.
    Sources,
}

/// Goes on to the next pageblock that may hold sources, and isolates a cluster from it.
pub(crate) fn step<P: Platform, M: Migrate>(run: &mut Scanners<'_, '_, '_, P, M>) -> Found {
    let fast_found = run.config().search == Search::FreeLists && fast::find_source(run);
    loop {
        let block = run.at.migrate / BLOCK;
        let end = (block + 1) * BLOCK;
        let clipped = end.min(run.span.end);
        let Some(view) = run.migration.scan.view(block).filter(|_| clipped <= run.at.free) else {
            run.at.migrate = clipped.max(run.at.migrate);
            return Found::Nothing;
        };
        if is_usable(run, &view, fast_found) {
            return scan_range(run, &view, clipped);
        }
        run.at.migrate = clipped;
        if !run.config().era().finish_block() {
            return Found::Nothing;
        }
    }
}

/// Whether the pageblock may be scanned at all (`isolation_suitable()`, `suitable_migration_source()`).
fn is_usable<P: Platform, M: Migrate>(
    run: &mut Scanners<'_, '_, '_, P, M>,
    view: &BlockView,
    fast_found: bool,
) -> bool {
    let config = run.config();
    if view.managed == 0 || view.withheld {
        return false;
    }
    let asks_skip =
        !run.request.full && !fast_found && (config.era().tail_sets_skip() || run.at.migrate.is_multiple_of(BLOCK));
    if asks_skip && view.skip {
        return false;
    }
    let movable = matches!(view.migrate_type, MigrateType::Movable | MigrateType::Cma);
    if config.era().skip_on_failure() {
        let head = run.migration.scan.zone().states().get(view.block * BLOCK);
        let huge = head.is_allocated() && head.order() >= PAGEBLOCK_ORDER;
        let alike = view.migrate_type == run.request.migrate_type
            || (run.request.migrate_type == MigrateType::Movable && movable);
        let usable = !huge && (alike || !run.request.is_direct_async());
        if !usable {
            run.compactor.remember_migrate((view.block + 1) * BLOCK, run.request.mode);
        }
        return usable;
    }
    let zero = config.era().first_block_quirk() && run.migration.scan.zone().pfn_of(view.block * BLOCK).as_u64() == 0;
    if run.request.mode != MigrateMode::Async || movable || zero {
        return true;
    }
    // Before the series' fifth patch this counted as a pageblock in which nothing was found.
    run.counts.migrate_scanned += 1;
    run.migrate_settled = true;
    if !config.patches().async_no_skip() && (!run.request.full || config.era().ignoring_sets_skip()) {
        run.migration.scan.set_skip(view.block);
    }
    false
}

/// The scanner's view of one pageblock: its free bits then, and the state bytes.
struct Sight<'m> {
    base: u32,
    map: [u64; BLOCK_WORDS],
    states: StateView<'m>,
}

impl Sight<'_> {
    /// Order of the free block that begins at `at`; `None` if it is not free.
    fn free_order(&self, at: u32) -> Option<u32> {
        let is_free = |frame: u32| {
            let offset = frame - self.base;
            self.map.get(offset as usize / 64).is_some_and(|word| word >> (offset % 64) & 1 == 1)
        };
        if !is_free(at) {
            return None;
        }
        let mut order = 0;
        while order < 9 && at & ((2 << order) - 1) == 0 && (at + (1 << order)..at + (2 << order)).all(is_free) {
            order += 1;
        }
        Some(order)
    }

    /// Frames that a scanner looks at in the whole pageblock when it steps over blocks.
    fn looked_at(&self, jump_free: bool) -> u32 {
        let (mut heads, mut inside) = (0, 0);
        for word in 0..BLOCK_WORDS as u32 {
            heads += self.states.heads(self.base + 64 * word).count_ones();
        }
        let free: u32 = self.map.iter().map(|word| word.count_ones()).sum();
        let free = if jump_free { count_free_blocks(&self.map) } else { free };
        if heads == 0 {
            // Nothing but holes, reserved frames, and the rest of a block from below.
            inside = BLOCK - self.map.iter().map(|word| word.count_ones()).sum::<u32>();
        }
        heads + free + inside
    }
}

/// The scan of one range.
struct Progress {
    at: u32,
    end: u32,
    scanned: u64,
    fatal: bool,
}

fn scan_range<P: Platform, M: Migrate>(run: &mut Scanners<'_, '_, '_, P, M>, view: &BlockView, end: u32) -> Found {
    if run.migration.migrator.too_many_isolated() && run.request.mode == MigrateMode::Async {
        return Found::Stop;
    }
    let start = run.at.migrate;
    let scan = run.migration.scan;
    let sight = Sight { base: view.block * BLOCK, map: scan.map(view.block), states: scan.zone().states() };
    let mut progress = Progress { at: start, end, scanned: 0, fatal: false };
    if end - start == BLOCK && sight.states.immovable(view.block).is_some() {
        progress.scanned = u64::from(sight.looked_at(run.config().era().jump_free_blocks()));
        progress.at = end;
    }
    while progress.at < end && !run.sources.is_full() && !progress.fatal {
        let mut wanted = Cluster::new();
        gather(run, &sight, &mut progress, &mut wanted);
        if wanted.is_empty() {
            break;
        }
        let from = wanted.first().map_or(start, |held| held.index);
        let answers = run.migration.isolate(&wanted, &mut run.sources);
        if answers.refused > 0 && skips_on_failure(run) {
            leave_group(run, &mut progress, from);
        }
        if skips_on_failure(run) && !run.sources.is_empty() && progress.at.is_multiple_of(run.wanted_frames()) {
            break;
        }
    }
    settle(run, view, start, &progress)
}

/// Direct asynchronous runs want a whole aligned block, or nothing of it.
fn skips_on_failure<P: Platform, M: Migrate>(run: &Scanners<'_, '_, '_, P, M>) -> bool {
    run.config().era().skip_on_failure() && run.request.is_direct_async()
}

/// Puts back the sources of the aligned block that holds `at`, and goes to its end.
fn leave_group<P: Platform, M: Migrate>(run: &mut Scanners<'_, '_, '_, P, M>, progress: &mut Progress, at: u32) {
    let first = at & !(run.wanted_frames() - 1);
    run.sources.retain(|index| index < first);
    progress.at = progress.at.max(first + run.wanted_frames()).min(progress.end);
}

/// Collects movable blocks until the cluster would be full or the range ends.
fn gather<P: Platform, M: Migrate>(
    run: &mut Scanners<'_, '_, '_, P, M>,
    sight: &Sight<'_>,
    progress: &mut Progress,
    wanted: &mut Cluster,
) {
    let room = run.sources.room().min(CLUSTER);
    let by_group = skips_on_failure(run);
    while progress.at < progress.end && wanted.len() < room {
        let at = progress.at;
        if at.is_multiple_of(CLUSTER as u32) && is_interrupted(run, progress) {
            return;
        }
        progress.scanned += 1;
        if let Some(order) = sight.free_order(at) {
            progress.at += if run.config().era().jump_free_blocks() { 1 << order } else { 1 };
            continue;
        }
        let state = sight.states.get(at);
        let order = state.order();
        progress.at = if state.is_head() { (at + order.frames() as u32).min(progress.end) } else { at + 1 };
        match state.decode() {
            FrameState::Allocated(order, Some(MigrateType::Movable)) if order == Order::ZERO => {
                keep(wanted, Held { index: at, state });
            }
            _ if by_group => {
                let first = at & !(run.wanted_frames() - 1);
                wanted.retain(|held| held.index < first);
                leave_group(run, progress, at);
            }
            _ => {}
        }
        if by_group && progress.at.is_multiple_of(run.wanted_frames()) && !wanted.is_empty() {
            return;
        }
    }
}

fn is_interrupted<P: Platform, M: Migrate>(run: &mut Scanners<'_, '_, '_, P, M>, progress: &mut Progress) -> bool {
    let interrupt = run.migration.migrator.interrupt();
    // Before 5.x an asynchronous run gave up its CPU for good.
    let yields = interrupt == Interrupt::Reschedule
        && run.migration.mode == MigrateMode::Async
        && !run.config().era().finish_block();
    progress.fatal |= interrupt == Interrupt::Fatal || yields;
    progress.fatal
}

/// Accounts for the range: skip bit, position, events.
fn settle<P: Platform, M: Migrate>(
    run: &mut Scanners<'_, '_, '_, P, M>,
    view: &BlockView,
    start: u32,
    progress: &Progress,
) -> Found {
    let config = run.config();
    let taken = run.sources.len() as u64;
    run.counts.migrate_scanned += progress.scanned;
    run.counts.isolated += taken;
    let zone = run.migration.scan.zone();
    P::hooks().trace(&Event::Compaction(CompactEvent::IsolateMigrate {
        range: PfnRange::new(zone.pfn_of(start), zone.pfn_of(progress.at)),
        scanned: progress.scanned,
        taken,
    }));
    let may_mark = !run.request.full || config.era().ignoring_sets_skip();
    let whole = progress.at == progress.end;
    let again = config.era().finish_block() && run.last_block == view.block;
    if whole && (taken == 0 || again) && !progress.fatal {
        if may_mark && (config.era().tail_sets_skip() || start.is_multiple_of(BLOCK) || again) {
            run.migration.scan.set_skip(view.block);
        }
        if !run.migrate_settled {
            let at = if config.era().remember_until_isolated() { start } else { progress.end };
            run.compactor.remember_migrate(at, run.request.mode);
        }
    }
    if taken > 0 {
        run.migrate_settled |= config.era().remember_until_isolated();
        run.last_block = view.block;
        if config.era().finish_block() && may_mark && start.is_multiple_of(BLOCK) {
            run.migration.scan.set_skip(view.block);
        }
    }
    run.at.migrate = progress.at;
    if run.migration.scan.is_contended() {
        run.contended = true;
        if !config.era().finish_block() {
            return Found::Stop;
        }
    }
    if progress.fatal {
        return Found::Stop;
    }
    if run.sources.is_empty() { Found::Nothing } else { Found::Sources }
}
