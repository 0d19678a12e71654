//! The default: the emptiest pageblock that can be emptied is, into the fullest.
//!
//! Linux's scanners start to move a pageblock's frames before they know that the last of them can be moved, and find it
//! out by scanning. Here a pageblock is chosen by its count of free frames, withheld, and read through once (eight or sixteen state
//! bytes a load), and its blocks are borrowed from their owner as they are met: all of them before the first is moved.
//! What could not be emptied is noted with its number of free frames and the frame that was in the way; it is not looked at again before
//! the former changes, and then the latter is looked at first.

mod known;
mod lending;

use arrayvec::ArrayVec;
use pageblock_buddy::ZoneScan;
use pageblock_frame::migration::{Interrupt, Migrate, MigrateMode};
use pageblock_frame::sync::Ordering;
use pageblock_frame::trace::{CompactEvent, CompactResult, Event, RunCounts, ScanPositions};
use pageblock_frame::{BLOCK_WORDS, Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, Pfn, PfnRange, Platform};

use crate::choice::{Candidate, Choice, Sources, appraise, best_part, is_foreign_target, is_target, step_of};
use crate::compactor::positions;
use crate::moving::{CLUSTER, Mover, Stock, keep};
use crate::{Compactor, Config, Origin, Outcome, Request, score};
use known::{Obstacle, Weeds, index_of, number};
use lending::unset;

const BLOCK: u32 = PAGEBLOCK_FRAMES as u32;

/// One run.
struct Run<'a, 'z, 'm, P, M> {
    compactor: &'a Compactor,
    mover: Mover<'a, 'z, 'm, P, M>,
    request: &'a Request,
    /// The order to be made.
    order: Order,
    counts: RunCounts,
    stock: Stock,
    /// Pageblocks that somebody was using just now.
    busy: ArrayVec<u32, 64>,
    /// The pageblocks compared now, and where among them the search for targets is.
    window: (u32, u32),
    target: u32,
    source: u32,
    captured: Option<Pfn>,
    /// The frame that was in the way last.
    obstacle: Option<u32>,
    /// Of the candidates of this choice, those that were read through in vain.
    misread: usize,
}

/// How emptying a block went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Emptied {
    Yes,
    No,
    /// It may go better later, or in another mode.
    NotNow,
    /// There was nothing to move to.
    NoRoom,
}

/// Compacts the zone; says how it went, and where it last worked.
pub(crate) fn run<P: Platform, M: Migrate>(
    compactor: &Compactor,
    scan: &ZoneScan<'_, '_, P>,
    migrator: &M,
    request: &Request,
) -> (Outcome, ScanPositions) {
    let passes = compactor.config().passes;
    let mut run = Run {
        compactor,
        mover: Mover { scan, migrator, mode: request.mode, passes },
        request,
        order: request.order.unwrap_or(PAGEBLOCK_ORDER),
        counts: RunCounts::default(),
        stock: Stock::new(),
        busy: ArrayVec::new(),
        window: (0, 0),
        target: 0,
        source: 0,
        captured: None,
        obstacle: None,
        misread: 0,
    };
    compactor.trace_run::<P>(CompactEvent::Begin(run.positions()));
    let result = if run.order > scan.zone().max_order() { CompactResult::Complete } else { run.over_windows() };
    let at = run.positions();
    (Outcome { result, captured: run.captured, counts: run.counts }, at)
}

impl<P: Platform, M: Migrate> Run<'_, '_, '_, P, M> {
    fn config(&self) -> &Config {
        self.compactor.config()
    }

    fn positions(&self) -> ScanPositions {
        let zone = self.mover.scan.zone();
        let start = (zone.span().start.as_u64() - zone.base().as_u64()) as u32;
        let clip = |block: u32| (block * BLOCK).max(start).min(start + zone.span().len() as u32);
        positions(zone, (clip(self.source), clip(self.target)), self.request.mode)
    }

    /// Compares the pageblocks of one window after another, from the one on that the last run stopped at.
    fn over_windows(&mut self) -> CompactResult {
        let blocks = self.mover.scan.blocks();
        // A power of two, as is the window: no group lies in two windows.
        let group = (self.order.frames() as u32 / BLOCK).max(1);
        let size = self.config().window.max(group).min(blocks.max(1)).checked_next_power_of_two().unwrap_or(1 << 31);
        let windows = blocks.div_ceil(size.max(1));
        let first = self.compactor.window.load(Ordering::Relaxed) % windows.max(1);
        match self.request.origin {
            Origin::Proactive => self.recheck_notes(),
            _ if self.request.full => self.mover.scan.clear_notes(),
            _ => {}
        }
        for window in (first..windows).chain(0..first) {
            self.window = (window * size, ((window + 1) * size).min(blocks));
            self.target = self.window.1;
            let result = self.in_window();
            if result != CompactResult::Complete {
                self.compactor.window.store(window, Ordering::Relaxed);
                return result;
            }
        }
        CompactResult::Complete
    }

    fn in_window(&mut self) -> CompactResult {
        // Pageblocks with more frames in use than this have not been looked at all at once: those with notes, and all.
        let (mut looked_at, mut read) = (0, 0);
        loop {
            self.misread = 0;
            let busy = &self.busy;
            let (scan, range) = (self.mover.scan, self.window.0..self.window.1);
            let sources = Sources::new(self.request, self.order, self.config());
            let choice = Choice::make(scan, range, sources, |block| busy.contains(&block));
            if choice.candidates.is_empty() {
                return CompactResult::Complete;
            }
            let mut any = false;
            for candidate in &choice.candidates {
                if let Some(result) = self.stop() {
                    return result;
                }
                let Some(threshold) = choice.threshold(candidate) else { return CompactResult::Complete };
                match self.empty(candidate, threshold) {
                    Emptied::Yes if self.request.order.is_some() => return CompactResult::Success,
                    Emptied::Yes => any = true,
                    Emptied::NoRoom => return CompactResult::Complete,
                    Emptied::NotNow if self.busy.try_push(candidate.block).is_err() => {
                        return CompactResult::PartialSkipped;
                    }
                    Emptied::No | Emptied::NotNow => {}
                }
                if any {
                    // What was full enough and what was empty enough has changed.
                    break;
                }
            }
            if any || self.order < PAGEBLOCK_ORDER {
                continue;
            }
            // If little is known of most of the best, little is known of the others.
            let weeds = if self.misread * 2 >= choice.candidates.len() { Weeds::All } else { Weeds::Noted };
            let weeded = if weeds == Weeds::All { &mut read } else { &mut looked_at };
            let worst = choice.candidates.last().map_or(0, |candidate| candidate.used).min(BLOCK);
            if *weeded < worst {
                *weeded = if worst <= BLOCK / 2 { BLOCK / 2 } else { BLOCK };
                if !self.weed(*weeded as u16, weeds) && weeds == Weeds::All && read == BLOCK {
                    return CompactResult::Complete;
                }
            }
        }
    }

    fn stop(&self) -> Option<CompactResult> {
        let reschedules = self.request.mode == MigrateMode::Async;
        match self.mover.migrator.interrupt() {
            Interrupt::Fatal => return Some(CompactResult::Contended),
            Interrupt::Reschedule if reschedules => return Some(CompactResult::Contended),
            _ => {}
        }
        if self.mover.scan.is_contended() || (reschedules && self.mover.migrator.too_many_isolated()) {
            return Some(CompactResult::Contended);
        }
        if self.request.origin == Origin::Proactive {
            let low = score::marks(self.config().proactiveness).low;
            let scattered = score::zone_score(&self.mover.scan.free_blocks()) > low;
            return (!scattered).then_some(CompactResult::Success);
        }
        None
    }

    /// Empties a candidate, or a part of it, and captures it where the request wants it so.
    fn empty(&mut self, candidate: &Candidate, threshold: u16) -> Emptied {
        let (index, frames) = match self.read(candidate) {
            Ok(found) => found,
            Err(not) => return not,
        };
        self.source = index / BLOCK;
        let first = index / BLOCK;
        let end = (index + frames).div_ceil(BLOCK);
        let mut withheld = first;
        while withheld < end && self.mover.scan.withhold(withheld).is_some() {
            withheld += 1;
        }
        let mut emptied = if withheld == end { Emptied::Yes } else { Emptied::NotNow };
        for block in first..withheld {
            if emptied == Emptied::Yes {
                let from = index.max(block * BLOCK);
                emptied = self.vacate(block, (from, frames.min(BLOCK)), threshold);
            }
        }
        let direct = self.request.origin == Origin::Direct && self.request.order.is_some();
        let captures = self.config().capture && self.request.captures && direct;
        if emptied == Emptied::Yes && captures {
            self.captured = self.mover.scan.capture(index, self.order, self.request.migrate_type);
            return if self.captured.is_some() { Emptied::Yes } else { Emptied::NotNow };
        }
        (first..withheld).for_each(|block| self.mover.scan.restore(block));
        match (emptied, self.obstacle.take()) {
            (Emptied::No, obstacle) => self.give_up(obstacle.map_or(first, |frame| frame / BLOCK), obstacle),
            (Emptied::NotNow, Some(frame)) => {
                self.mover.scan.note_obstacle(frame / BLOCK, number(frame));
                emptied
            }
            _ => emptied,
        }
    }

    /// Where in a candidate the block begins that can be emptied, and how large it is. A single pageblock is not read for that, but
    /// while its blocks are borrowed.
    fn read(&mut self, candidate: &Candidate) -> Result<(u32, u32), Emptied> {
        let group = (self.order.frames() as u32).div_ceil(BLOCK);
        for block in candidate.block..candidate.block + group {
            let before = self.counts.migrate_scanned;
            let part = self.read_block(block);
            if part.is_err() || !self.reads_late() {
                self.trace_read(block, before, if part.is_ok() { candidate.used } else { 0 });
            }
            let index = part?;
            if self.order < PAGEBLOCK_ORDER {
                return Ok((index, self.order.frames() as u32));
            }
        }
        Ok((candidate.block * BLOCK, self.order.frames() as u32))
    }

    /// A single pageblock is read while its blocks are borrowed; of several, all are read before the first is emptied, and of a part
    /// of one it must be found out first which.
    fn reads_late(&self) -> bool {
        self.order == PAGEBLOCK_ORDER
    }

    /// Where in a pageblock the block begins that can be emptied. If there is none, that is noted.
    fn read_block(&mut self, block: u32) -> Result<u32, Emptied> {
        let config = *self.config();
        let scan = self.mover.scan;
        let states = scan.zone().states();
        if self.order < PAGEBLOCK_ORDER {
            let (best, looked) = best_part(states, &scan.map(block), (block, self.order), &config);
            self.counts.migrate_scanned += u64::from(looked);
            return best.ok_or_else(|| self.give_up(block, None));
        }
        let known = scan.obstacle(block);
        match self.look_at(block, known) {
            Obstacle::Gone => {}
            Obstacle::There => return Err(self.give_up(block, known.map(|number| index_of(block, number)))),
            Obstacle::Busy => return Err(Emptied::NotNow),
        }
        if self.reads_late() {
            return Ok(block * BLOCK);
        }
        let (used, looked) = appraise(states, &scan.map(block), (block * BLOCK, BLOCK), &config);
        self.counts.migrate_scanned += u64::from(looked);
        used.map(|_| block * BLOCK).map_err(|obstacle| {
            self.misread += 1;
            self.give_up(block, obstacle)
        })
    }

    /// Notes that a pageblock cannot be emptied as it is, or no part of it that would do.
    fn give_up(&self, block: u32, obstacle: Option<u32>) -> Emptied {
        if self.order < PAGEBLOCK_ORDER {
            self.mover.scan.note_part(block);
        } else {
            self.mover.scan.note_free(block, 1, |_| obstacle.and_then(number));
        }
        Emptied::No
    }

    /// Says what was read of a pageblock since `before` frames were.
    fn trace_read(&self, block: u32, before: u64, taken: u32) {
        let zone = self.mover.scan.zone();
        P::trace(&Event::Compaction(CompactEvent::IsolateMigrate {
            range: PfnRange::new(zone.pfn_of(block * BLOCK), zone.pfn_of((block + 1) * BLOCK)),
            scanned: self.counts.migrate_scanned - before,
            taken: u64::from(taken),
        }));
    }

    /// Moves all that is in use in a part of a withheld pageblock, or nothing.
    fn vacate(&mut self, block: u32, (index, frames): (u32, u32), threshold: u16) -> Emptied {
        let mut ours = [0u64; BLOCK_WORDS];
        let before = self.counts;
        let result = self.borrow_all((index, frames), &mut ours);
        if self.reads_late() {
            self.trace_read(block, before.migrate_scanned, (self.counts.isolated - before.isolated) as u32);
        }
        if result != Emptied::Yes {
            self.put_back(block, &ours);
            return result;
        }
        for order in self.config().largest_move.up_to() {
            loop {
                let mut lent = self.lent(block, order, &ours);
                if lent.is_empty() {
                    break;
                }
                lent.iter().for_each(|held| unset(&mut ours, held.index));
                let wanted = lent.len();
                self.find_targets(order, wanted, threshold);
                let room = self.stock.len() >= wanted;
                let failed = if room {
                    self.mover.move_cluster(&mut lent, &mut self.stock, &mut self.counts)
                } else {
                    self.mover.put_back(core::mem::take(&mut lent));
                    wanted as u32
                };
                if failed > 0 {
                    self.put_back(block, &ours);
                    self.mover.return_stock(&mut self.stock, order);
                    return if room { Emptied::NotNow } else { Emptied::NoRoom };
                }
            }
            self.mover.return_stock(&mut self.stock, order);
        }
        Emptied::Yes
    }

    /// Takes targets from pageblocks at least as full as the threshold says, downwards through the window; from any, if those do
    /// not suffice; and then from those of other types.
    fn find_targets(&mut self, order: Order, need: usize, threshold: u16) {
        let foreign = self.config().foreign_targets;
        let rounds = [(threshold, false), (u16::MAX, false), (u16::MAX, true)];
        for wanted in rounds.into_iter().filter(|(_, other)| foreign || !other) {
            let mut left = self.window.1 - self.window.0;
            while self.stock.len() < need && left > 0 {
                if self.target <= self.window.0 {
                    self.target = self.window.1;
                }
                let from = self.target.saturating_sub(64).max(self.window.0);
                left = left.saturating_sub(self.target - from);
                if !self.take_targets((from, self.target), (order, wanted), need) {
                    self.target = from;
                }
            }
        }
    }

    /// Takes targets from a few pageblocks. True if there may be more in them.
    fn take_targets(&mut self, (from, end): (u32, u32), (order, wanted): (Order, (u16, bool)), need: usize) -> bool {
        let (most, foreign) = wanted;
        let scan = self.mover.scan;
        let mut some: ArrayVec<u32, 64> = ArrayVec::new();
        let source = self.source;
        scan.survey(from..end, |block, b| {
            // With nothing free there is no largest order, and no target.
            let suits = if foreign { is_foreign_target(b) } else { is_target(b) && step_of(b) <= most };
            if suits && b.top >= order.as_u8() && block != source {
                // No more than 64 pageblocks were asked for.
                let _ = some.try_push(block);
            }
        });
        for block in some.into_iter().rev() {
            let missing = need.saturating_sub(self.stock.len()).min(CLUSTER);
            if missing == 0 {
                return true;
            }
            let mut out = [0; CLUSTER];
            let got = scan.take(block, order, out.get_mut(..missing).unwrap_or_default());
            out.into_iter().take(got).for_each(|index| keep(&mut self.stock, index));
            self.counts.free_scanned += (got as u64) << order.as_u8();
            self.counts.isolated += (got as u64) << order.as_u8();
        }
        self.stock.len() >= need
    }
}
