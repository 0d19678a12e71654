//! The default: the emptiest pageblock that can be emptied is, into the fullest.
//!
//! Linux's scanners start to move a pageblock's frames before they know that the last of them can be moved, and find
//! it out by scanning. Here a pageblock is chosen by its count of free frames, withheld, and read through once (eight
//! or sixteen state bytes a load), and its blocks are borrowed from their owner as they are met: all of them before
//! the first is moved. A pageblock that could not be emptied is noted with its number of free frames and the frame that
//! was in the way; it is not looked at again before the former changes, and then the latter is looked at first.

mod hints;
mod isolate;
mod run;
mod targets;

use core::ops::Range;

use pageblock_frame::migration::{Interrupt, Migrate, MigrateMode};
use pageblock_frame::sync::Ordering;
use pageblock_frame::trace::{CompactEvent, CompactResult, Event};
use pageblock_frame::{Hooks, PAGEBLOCK_ORDER, PfnRange, Platform};

use crate::choice::{Blocker, Candidate, Choice, Sources, appraise, best_part};
use crate::cluster::BLOCK;
use crate::compactor::Compactor;
use crate::migration::Migration;
use crate::request::{CompactOutcome, Finished, Origin, Request};
use crate::score;
use crate::targets::WithheldRange;
use hints::{BlockerIs, Prescreen, index_of, number};
use isolate::IsolatedIn;
use run::{Emptied, Run};

/// Compacts the zone. The outcome's positions are where it last worked.
pub(crate) fn run<P: Platform, M: Migrate>(
    compactor: &Compactor,
    migration: Migration<'_, '_, '_, P, M>,
    request: &Request,
) -> Finished {
    let mut run = Run::new(compactor, migration, request);
    compactor.trace_run::<P>(CompactEvent::Begin(run.positions()));
    let too_large = run.order > migration.scan.zone().max_order();
    let result = if too_large { CompactResult::Complete } else { run.over_windows() };
    Finished { outcome: CompactOutcome { result, captured: run.captured, counts: run.counts }, at: run.positions() }
}

impl<P: Platform, M: Migrate> Run<'_, '_, '_, P, M> {
    /// Compares the pageblocks of one window after another, from the one on that the last run stopped at.
    fn over_windows(&mut self) -> CompactResult {
        let blocks = self.migration.scan.blocks();
        // A power of two, as is the window: no group lies in two windows.
        let group = (self.order.frames() as u32 / BLOCK).max(1);
        let size = self.config().window.max(group).min(blocks.max(1)).checked_next_power_of_two().unwrap_or(1 << 31);
        let windows = blocks.div_ceil(size.max(1));
        let first = self.compactor.window.load(Ordering::Relaxed) % windows.max(1);
        match self.request.origin {
            Origin::Proactive => self.recheck_notes(),
            _ if self.request.full => self.migration.scan.clear_notes(),
            _ => {}
        }
        for window in (first..windows).chain(0..first) {
            self.window = window * size..((window + 1) * size).min(blocks);
            self.target = self.window.end;
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
            let (scan, range) = (self.migration.scan, self.window.clone());
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
                    // The choice was made from counts that have changed.
                    break;
                }
            }
            if any || self.order < PAGEBLOCK_ORDER {
                continue;
            }
            // If little is known of most of the best, little is known of the others.
            let half = self.misread * 2 >= choice.candidates.len();
            let prescreen = if half { Prescreen::All } else { Prescreen::Noted };
            let screened = if prescreen == Prescreen::All { &mut read } else { &mut looked_at };
            let worst = choice.candidates.last().map_or(0, |candidate| candidate.used).min(BLOCK);
            if *screened < worst {
                *screened = if worst <= BLOCK / 2 { BLOCK / 2 } else { BLOCK };
                let any_left = self.prescreen(*screened as u16, prescreen);
                if !any_left && prescreen == Prescreen::All && read == BLOCK {
                    return CompactResult::Complete;
                }
            }
        }
    }

    fn stop(&self) -> Option<CompactResult> {
        let reschedules = self.request.mode == MigrateMode::Async;
        match self.migration.migrator.interrupt() {
            Interrupt::Fatal => return Some(CompactResult::Contended),
            Interrupt::Reschedule if reschedules => return Some(CompactResult::Contended),
            _ => {}
        }
        if self.migration.scan.is_contended() || (reschedules && self.migration.migrator.too_many_isolated()) {
            return Some(CompactResult::Contended);
        }
        if self.request.origin == Origin::Proactive {
            let low = score::marks(self.config().proactiveness).low;
            let scattered = score::zone_score(&self.migration.scan.free_blocks()) > low;
            return (!scattered).then_some(CompactResult::Success);
        }
        None
    }

    /// Empties a candidate, or a part of it, and captures it where the request wants it so.
    fn empty(&mut self, candidate: &Candidate, threshold: u16) -> Emptied {
        let frames = match self.read(candidate) {
            Ok(found) => found,
            Err(not) => return not,
        };
        let first = frames.start / BLOCK;
        self.source = first;
        // From here to the end nothing is allocated from these pageblocks; frames freed in them stay in them.
        let withheld = WithheldRange::new(self.migration.scan, first..frames.end.div_ceil(BLOCK));
        let mut emptied = if withheld.is_complete() { Emptied::Yes } else { Emptied::NotNow };
        for block in withheld.blocks() {
            if emptied == Emptied::Yes {
                let from = frames.start.max(block * BLOCK);
                emptied = self.vacate(block, from..frames.end.min((block + 1) * BLOCK), threshold);
            }
        }
        let direct = self.request.origin == Origin::Direct && self.request.order.is_some();
        let captures = self.config().capture && self.request.captures && direct;
        if emptied == Emptied::Yes && captures {
            self.captured = self.migration.scan.capture(frames.start, self.order, self.request.migrate_type);
            withheld.forget();
            return if self.captured.is_some() { Emptied::Yes } else { Emptied::NotNow };
        }
        drop(withheld);
        match (emptied, self.blocker.take()) {
            (Emptied::No, blocker) => self.give_up(blocker.map_or(first, |frame| frame / BLOCK), blocker),
            (Emptied::NotNow, Some(frame)) => {
                self.migration.scan.note_obstacle(frame / BLOCK, number(frame));
                emptied
            }
            _ => emptied,
        }
    }

    /// The frames of a candidate that can be emptied. A single pageblock is not read for that, but while its blocks
    /// are isolated.
    fn read(&mut self, candidate: &Candidate) -> Result<Range<u32>, Emptied> {
        let wanted = self.order.frames() as u32;
        for block in candidate.block..candidate.block + wanted.div_ceil(BLOCK) {
            let before = self.counts.migrate_scanned;
            let part = self.read_block(block);
            if part.is_err() || !self.reads_late() {
                self.trace_read(block, before, if part.is_ok() { candidate.used } else { 0 });
            }
            let index = part?;
            if self.order < PAGEBLOCK_ORDER {
                return Ok(index..index + wanted);
            }
        }
        Ok(candidate.block * BLOCK..candidate.block * BLOCK + wanted)
    }

    /// Where in a pageblock the block begins that can be emptied. If there is none, that is noted.
    fn read_block(&mut self, block: u32) -> Result<u32, Emptied> {
        let config = self.config();
        let scan = self.migration.scan;
        let states = scan.zone().states();
        if self.order < PAGEBLOCK_ORDER {
            let best = best_part(states, &scan.map(block), block, self.order, config);
            self.counts.migrate_scanned += u64::from(best.read);
            return best.index.ok_or_else(|| self.give_up(block, None));
        }
        let known = scan.obstacle(block);
        match self.look_at(block, known) {
            BlockerIs::Gone => {}
            BlockerIs::There => return Err(self.give_up(block, known.map(|number| index_of(block, number)))),
            BlockerIs::Busy => return Err(Emptied::NotNow),
        }
        if self.reads_late() {
            return Ok(block * BLOCK);
        }
        let whole = appraise(states, &scan.map(block), block * BLOCK..(block + 1) * BLOCK, config);
        self.counts.migrate_scanned += u64::from(whole.read);
        whole.used.map(|_| block * BLOCK).map_err(|blocker| {
            self.misread += 1;
            self.give_up(block, blocker)
        })
    }

    /// Notes that a pageblock cannot be emptied as it is, or no part of it that would do.
    fn give_up(&self, block: u32, blocker: Blocker) -> Emptied {
        if self.order < PAGEBLOCK_ORDER {
            self.migration.scan.note_part(block);
        } else {
            self.migration.scan.note_free(block, 1, |_| blocker.and_then(number));
        }
        Emptied::No
    }

    /// Emits how many frames of a pageblock were read since `before` had been.
    fn trace_read(&self, block: u32, before: u64, taken: u32) {
        let zone = self.migration.scan.zone();
        P::hooks().trace(&Event::Compaction(CompactEvent::IsolateMigrate {
            range: PfnRange::new(zone.pfn_of(block * BLOCK), zone.pfn_of((block + 1) * BLOCK)),
            scanned: self.counts.migrate_scanned - before,
            taken: u64::from(taken),
        }));
    }

    /// Moves everything in use in a part of a withheld pageblock, or nothing.
    fn vacate(&mut self, block: u32, frames: Range<u32>, threshold: u16) -> Emptied {
        let mut isolated = IsolatedIn::new(self.migration, block);
        let before = self.counts;
        let result = self.isolate_all(&frames, &mut isolated);
        if self.reads_late() {
            self.trace_read(block, before.migrate_scanned, (self.counts.isolated - before.isolated) as u32);
        }
        if result != Emptied::Yes {
            isolated.put_back();
            return result;
        }
        for order in self.config().largest_move.up_to() {
            self.targets.restart(order);
            loop {
                let mut sources = isolated.take_cluster(order);
                if sources.is_empty() {
                    break;
                }
                let wanted = sources.len();
                self.find_targets(wanted, threshold);
                if self.targets.len() < wanted {
                    sources.put_back();
                    isolated.put_back();
                    self.targets.free();
                    return Emptied::NoRoom;
                }
                if self.migration.move_sources(&mut sources, &mut self.targets, &mut self.counts) > 0 {
                    isolated.put_back();
                    self.targets.free();
                    return Emptied::NotNow;
                }
            }
        }
        self.targets.free();
        Emptied::Yes
    }
}
