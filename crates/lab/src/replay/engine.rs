//! The loop: read a batch, plan it, execute it between two readings of the clock, look at both machines.

use std::path::Path;

use pageblock_frame::trace::{CompactEvent, CompactResult, Event as OurEvent, Fallback};
use pageblock_frame::{MigrateType, Order};
use pageblock_testkit::host::record;

use super::counters::{EventCounts, Moves};
use super::early;
use super::figures;
use super::film;
use super::layout::{ZoneLayout, zones};
use super::machine::{Machine, Storage};
use super::ours::Ours;
use super::outcome::{Live, OrderRow, Outcome, Sample, Side};
use super::plan::{Op, Planner};
use super::start::Start;
use super::surplus;
use super::undo::{Held, Initial, accounted, live};
use crate::InputError;
use crate::state::Recording;
use crate::trace::{Strictness, TraceReader};

/// Records in a batch.
pub(crate) const BATCH: usize = 8192;
/// Most samples that are kept.
const SAMPLES: usize = 128;

/// Is told the pass, the bytes read and the bytes of the file after each batch.
pub(crate) type Progress<'a> = &'a mut dyn FnMut(Pass, u64, u64);

/// What a replay is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pass {
    /// The machine's state is read.
    State,
    /// The trace is read for what was free before its first event.
    Look,
    /// The trace is replayed.
    Replay,
}

impl Pass {
    /// The name in a progress bar.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::State => "1/3 reading the state",
            Self::Look => "2/3 looking through the trace",
            Self::Replay => "3/3 replaying",
        }
    }
}

/// Everything during one replay.
struct Run<'m> {
    layout: Vec<ZoneLayout>,
    planner: Planner,
    ours: Ours<'m>,
    held: Held,
    fallbacks: (u64, u64),
    /// Runs of compaction, and those that made a block.
    compactions: (u64, u64),
    most_frames: u64,
    samples: Vec<Sample>,
    /// Batches between two samples.
    stride: usize,
}

/// Replays a trace on zones like those of the recorded machine.
///
/// # Errors
/// The first fault of the trace, if the reader is strict; a state that contradicts itself.
pub(crate) fn replay(
    (trace, strictness): (&Path, Strictness),
    recording: &Recording,
    progress: Progress<'_>,
) -> Result<Outcome, InputError> {
    let reader = &mut TraceReader::open(trace, strictness)?;
    let layout = zones(&recording.before)?;
    let mut storage = Storage::new(&layout);
    let metadata = storage.bytes();
    let mut start = Start::new(&recording.before, &layout);
    let early = early::look((trace, strictness), &start.linux, progress)?;
    let readable_twice = std::fs::metadata(trace).is_ok_and(|metadata| metadata.is_file());
    let taken = if start.origin == super::plan::Origin::Recorded && readable_twice {
        let after = recording.after.as_ref().and_then(|state| state.frames.as_ref());
        surplus::hold(&mut start.linux, &layout, &early, after)
    } else {
        0
    };
    let mut machine = Machine::new(&layout, &mut storage)?;
    start.build(&layout, &mut machine)?;
    let (origin, unmatched) = (start.origin, start.unmatched);
    let planner = Planner::new(start.linux, &layout, origin);
    let initial = Initial::new(&planner, &machine);
    let mut first = figures::ours(&machine, &layout);
    first.source = "both at the start";
    machine.calls = 0;
    let held = Held::new(&planner);
    let ours = Ours::new(machine, planner.linux.frames());
    let (fallbacks, compactions, most_frames) = ((0, 0), (0, 0), 0);
    let mut run =
        Run { layout, planner, ours, held, fallbacks, compactions, most_frames, samples: Vec::new(), stride: 1 };
    run.planner.disagreements.taken_before_trace = taken;
    run.sample();
    run.planner.free_early(&early.freed);
    run.events(reader, progress)?;

    let mut outcome = run.outcome(recording, reader, metadata);
    outcome.start_recorded = figures::linux_recorded(&recording.before, &run.layout);
    outcome.unmatched = unmatched;
    compare_start(&first, &outcome.start_recorded.clone(), &mut outcome.unmatched);
    outcome.start = first;
    outcome.start_from = origin;
    outcome.zones = film::places(&run.layout);
    outcome.frames =
        [film::frames_of_linux(&run.planner.linux, &run.layout), film::frames_of_ours(&run.ours.machine, &run.layout)];
    run.prove(&initial, &mut outcome);
    Ok(outcome)
}

impl Run<'_> {
    fn events(&mut self, reader: &mut TraceReader, progress: Progress<'_>) -> Result<(), InputError> {
        let mut batch = 0usize;
        loop {
            let before = self.planner.events.total;
            for _ in 0..BATCH {
                let Some(record) = reader.next_record()? else { break };
                self.planner.record(&record);
            }
            self.execute();
            let (bytes, size) = reader.progress();
            progress(Pass::Replay, bytes, size);
            let ended = self.planner.events.total < before + BATCH as u64;
            if batch.is_multiple_of(self.stride) || ended {
                self.sample();
            }
            batch += 1;
            if ended {
                return self.usable(reader);
            }
        }
    }

    /// A trace without requests and frees is no trace for this.
    fn usable(&self, reader: &TraceReader) -> Result<(), InputError> {
        let events = &self.planner.events;
        if events.alloc + events.free > 0 {
            return Ok(());
        }
        let found = match (events.total, reader.skipped().malformed) {
            (0, 0) => "nothing".to_owned(),
            (0, lines) => format!("{lines} lines that are none"),
            (others, _) => format!("{others} events, none of them of these"),
        };
        let expected = format!("ftrace text with the events mm_page_alloc and mm_page_free, found {found}");
        Err(InputError::content(reader.path(), expected))
    }

    /// Executes what was planned.
    fn execute(&mut self) {
        for op in &self.planner.ops {
            if let &Op::FreeStart { pfn, frames } = op {
                for frame in pfn..pfn + frames {
                    self.held.release(u64::from(frame));
                }
            }
        }
        let ((), events) = record(|| self.ours.execute(&self.planner.ops, &mut self.planner.blocks));
        for event in events {
            match event {
                OurEvent::Fallback(fallback) => {
                    self.fallbacks.0 += 1;
                    self.fallbacks.1 += u64::from(Fallback::is_fragmenting(&fallback));
                }
                OurEvent::Compaction(CompactEvent::End { status, .. }) => {
                    self.compactions.0 += 1;
                    self.compactions.1 += u64::from(status == CompactResult::Success);
                }
                _ => {}
            }
        }
        self.planner.executed();
    }

    fn sample(&mut self) {
        let (first, last) = self.planner.period.unwrap_or_default();
        let held: u64 = self.planner.live().map(|block| u64::from(block.left)).sum();
        self.most_frames = self.most_frames.max(held);
        self.samples.push(Sample {
            micros: last - first,
            free_pageblocks: [self.planner.linux.free_pageblocks(), self.ours.machine.free_pageblocks()],
            // Where compaction moved pages to is not known, but they take a frame each.
            free_frames: [
                self.planner.linux.free_frames().saturating_sub(self.planner.moved_frames()),
                self.ours.machine.free_frames(),
            ],
            fallbacks: [self.planner.fallbacks.0, self.fallbacks.0],
            cells: [film::of_linux(&self.planner.linux, &self.layout), film::of_ours(&self.ours.machine, &self.layout)],
        });
        if self.samples.len() > SAMPLES {
            let mut keep = false;
            self.samples.retain(|_| {
                keep = !keep;
                keep
            });
            self.stride *= 2;
        }
    }

    fn outcome(&self, recording: &Recording, reader: &TraceReader, metadata: u64) -> Outcome {
        let (planner, tally, layout) = (&self.planner, &self.ours.tally, &self.layout);
        let mut ours = figures::ours(&self.ours.machine, layout);
        (ours.fallbacks, ours.fallbacks_below_pageblock) = self.fallbacks;
        let mut by_events = figures::linux_by_events(&planner.linux, layout);
        (by_events.fallbacks, by_events.fallbacks_below_pageblock) = planner.fallbacks;
        // Where compaction moved pages to is not known, but they take a frame each.
        by_events.free_frames -= planner.moved_frames();
        let mut notes = Vec::new();
        let linux = linux_side(recording, reader, &by_events, (&planner.events, &mut notes), layout);
        let present: u64 = layout.iter().map(ZoneLayout::present).sum();
        let seconds = tally.time.as_secs_f64();
        let operations = tally.operations.max(1) as f64;
        let (begin, end) = planner.period.unwrap_or_default();
        notes.extend(self.notes());
        Outcome {
            trace: String::new(),
            events: planner.events.total,
            refused: tally.refused.iter().sum(),
            refused_for_memory: tally.refused_for_memory,
            conserved: false,
            conservation_faults: Vec::new(),
            metadata_bytes_per_frame: metadata as f64 / present as f64,
            ns_per_operation: tally.time.as_nanos() as f64 / operations,
            calls_per_operation: self.ours.machine.calls as f64 / operations,
            operations: tally.operations,
            operations_per_second: tally.operations as f64 / seconds.max(1e-9),
            events_per_second: planner.events.total as f64 / seconds.max(1e-9),
            recorded_seconds: (end - begin) as f64 / 1e6,
            linux,
            ours,
            linux_by_events: by_events,
            start: Side::default(),
            start_recorded: Side::default(),
            event_counts: planner.events.clone(),
            by_order: self.by_order(),
            live: Live::default(),
            disagreements: planner.disagreements.clone(),
            moves: self.moves(),
            rejected_frees: tally.rejected,
            start_from: super::plan::Origin::Recorded,
            unmatched: Vec::new(),
            notes,
            skipped: reader.skipped().clone(),
            samples: self.samples.clone(),
            zones: Vec::new(),
            frames: Default::default(),
            buddyinfo: self.ours.machine.zones().iter().map(|zone| zone.buddyinfo().to_string()).collect(),
            pagetypeinfo: figures::pagetypeinfo(&self.ours.machine),
        }
    }

    fn moves(&self) -> Moves {
        let ((runs_by_us, emptied_by_us), stat) = (self.compactions, self.ours.compaction.vmstat());
        Moves { runs_by_us, emptied_by_us, moved_by_us: stat.migrate_success, ..self.planner.moves.clone() }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.planner.moves.moved > 0 {
            notes.push(
                "where Linux's compaction moved pages to is not in the trace: its free pageblocks by the events, and over \
                 time, are an upper bound"
                    .to_owned(),
            );
        }
        let rejection = self.ours.tally.first_rejection.iter();
        notes.extend(rejection.map(|why| format!("first free that our zones refused: {why}")));
        notes
    }

    fn by_order(&self) -> Vec<OrderRow> {
        let counts = &self.planner.orders;
        let row = |order: Order| {
            let at = order.index();
            OrderRow {
                order: order.as_u8(),
                unmovable: counts.alloc[at][MigrateType::Unmovable.index()],
                movable: counts.alloc[at][MigrateType::Movable.index()],
                reclaimable: counts.alloc[at][MigrateType::Reclaimable.index()],
                failed: counts.failed[at],
                freed: counts.free[at],
                refused: self.ours.tally.refused[at],
            }
        };
        let used = |order: &Order| {
            counts.free[order.index()] + counts.failed[order.index()] > 0
                || counts.alloc[order.index()].iter().any(|&n| n > 0)
        };
        Order::LIMIT.up_to().filter(used).map(row).collect()
    }

    /// Accounts for every frame and undoes everything.
    fn prove(&mut self, initial: &Initial, outcome: &mut Outcome) {
        outcome.live = live(&self.planner, &self.held, self.most_frames);
        let faults = &mut outcome.conservation_faults;
        faults.extend(accounted(&self.planner, &self.ours.machine, &self.held).err());
        faults.extend(initial.restore(&self.planner, &mut self.ours, &self.held).err());
        outcome.conserved = faults.is_empty() && self.ours.tally.rejected == 0;
    }
}

/// Linux's figures at the end: its own files where they are of the same moment, otherwise what the events say.
fn linux_side(
    recording: &Recording,
    reader: &TraceReader,
    by_events: &Side,
    (counts, notes): (&EventCounts, &mut Vec<String>),
    layout: &[ZoneLayout],
) -> Side {
    let events = counts.total;
    // Repeats may have been left out of the file.
    let cut = reader
        .announced()
        .filter(|&announced| announced != events && (counts.free_batched > 0 || recording.after.is_none()));
    if let Some(announced) = cut {
        notes.push(format!("the recording has {announced} events, this file {events} of them: Linux's end state is derived from the events"));
    }
    let side = match &recording.after {
        Some(after) if cut.is_none() && !reader.skipped().truncated => Side {
            fallbacks: by_events.fallbacks,
            fallbacks_below_pageblock: by_events.fallbacks_below_pageblock,
            mixed_pageblocks: by_events.mixed_pageblocks,
            ..figures::linux_recorded(after, layout)
        },
        _ => by_events.clone(),
    };
    if side.source != by_events.source {
        let (ours, recorded) = (by_events.free_frames, side.free_frames + side.listed_frames);
        let off = 100.0 * (ours as f64 - recorded as f64) / recorded.max(1) as f64;
        notes.push(format!(
            "free memory at the end: {ours} frames by the events, {} recorded and {} on per-CPU lists: {off:+.1} %",
            side.free_frames, side.listed_frames
        ));
    }
    side
}

/// Says what of the recorded start ours does not have.
fn compare_start(ours: &Side, recorded: &Side, unmatched: &mut Vec<String>) {
    for (zone, linux) in ours.zones.iter().zip(&recorded.zones) {
        let off: u64 = zone.free_blocks.iter().zip(&linux.free_blocks).map(|(a, b)| a.abs_diff(*b)).sum();
        if off > 0 {
            unmatched.push(format!("zone {}: {off} free blocks by order differ from buddyinfo", zone.zone));
        }
        for row in &linux.free_blocks_by_type {
            let frames = |blocks: &[u64]| blocks.iter().enumerate().map(|(order, n)| n << order).sum::<u64>();
            let found = zone.free_blocks_by_type.iter().find(|found| found.kind == row.kind);
            let (have, blocks) = found.map_or((0, 0), |found| (frames(&found.free_blocks), found.pageblocks));
            let want = frames(&row.free_blocks);
            // Linux counts reserved pageblocks as movable; they are not the allocator's.
            let same_blocks = blocks == row.pageblocks || row.kind == MigrateType::Movable.name();
            if have != want || !same_blocks {
                unmatched.push(format!(
                    "zone {}, {}: {blocks} pageblocks with {have} free frames, recorded {} with {want}",
                    zone.zone, row.kind, row.pageblocks
                ));
            }
        }
    }
}
