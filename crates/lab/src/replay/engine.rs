//! The loop: read a batch, plan it, execute it on each of our machines, look at all of them.

use std::path::Path;

use pageblock_frame::{MigrateType, Order};

use super::counters::EventCounts;
use super::early;
use super::figures;
use super::film;
use super::layout::{ZoneLayout, zones};
use super::machine::Machine;
use super::ours::Ours;
use super::outcome::{Live, OrderRow, Outcome, Sample, Side};
use super::plan::{Op, Origin, Planner};
use super::rules::Rules;
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

/// Phase of a replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pass {
    /// The machine's state is read.
    State,
    /// The trace is read for the frames free before its first event.
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
struct Run {
    layout: Vec<ZoneLayout>,
    planner: Planner,
    machines: Vec<Ours>,
    held: Held,
    most_frames: u64,
    samples: Vec<Sample>,
    /// Batches between two samples.
    stride: usize,
}

/// Replays a trace on a machine for each rule set, in zones like those of the recorded machine.
///
/// # Errors
/// Rules that cannot serve such zones; the first fault of the trace, if the reader is strict; a state that contradicts
/// itself.
pub(crate) fn replay(
    (trace, strictness): (&Path, Strictness),
    recording: &Recording,
    rules: &[Rules],
    progress: Progress<'_>,
) -> Result<Outcome, InputError> {
    let reader = &mut TraceReader::open(trace, strictness)?;
    let layout = zones(&recording.before)?;
    let mut start = Start::new(&recording.before, &layout);
    let machines = rules.iter().map(|&rules| Machine::new(rules, &start, &layout)).collect::<Result<Vec<_>, _>>()?;
    let early = early::look((trace, strictness), &start.linux, progress)?;
    start.assign_types(&recording.before, &layout, &early);
    let readable_twice = std::fs::metadata(trace).is_ok_and(|metadata| metadata.is_file());
    let taken = if start.origin == Origin::Recorded && readable_twice {
        let after = recording.after.as_ref().and_then(|state| state.frames.as_ref());
        surplus::hold(&mut start.linux, &layout, &early, after)
    } else {
        0
    };
    for machine in &machines {
        start.build(&layout, machine)?;
    }
    let (origin, unmatched) = (start.origin, start.unmatched);
    let planner = Planner::new(start.linux, &layout, origin);
    let initial: Vec<_> = machines.iter().map(|machine| Initial::new(&planner, machine)).collect();
    let mut first = machines.first().map(|machine| figures::ours(machine, &layout)).unwrap_or_default();
    first.source = "all at the start";
    let held = Held::new(&planner);
    let machines = machines.into_iter().map(Ours::new).collect();
    let mut run = Run { layout, planner, machines, held, most_frames: 0, samples: Vec::new(), stride: 1 };
    run.planner.disagreements.taken_before_trace = taken;
    run.sample();
    run.planner.free_early(&early.freed);
    run.events(reader, progress)?;

    let mut outcome = run.outcome(recording, reader);
    outcome.start_recorded = figures::linux_recorded(&recording.before, &run.layout);
    outcome.unmatched = unmatched;
    compare_start(&first, &outcome.start_recorded.clone(), &mut outcome.unmatched);
    outcome.start = first;
    outcome.start_from = origin;
    outcome.zones = film::places(&run.layout);
    run.prove(&initial, &mut outcome);
    Ok(outcome)
}

impl Run {
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

    /// Executes the plan.
    fn execute(&mut self) {
        for op in &self.planner.ops {
            if let &Op::FreeStart { pfn, frames } = op {
                for frame in pfn..pfn + frames {
                    self.held.release(u64::from(frame));
                }
            }
        }
        for ours in &mut self.machines {
            ours.execute(&self.planner.ops);
        }
        self.planner.executed();
    }

    fn sample(&mut self) {
        let (first, last) = self.planner.period.unwrap_or_default();
        let held: u64 = self.planner.live().map(|(_, block)| u64::from(block.left)).sum();
        self.most_frames = self.most_frames.max(held);
        let linux = &self.planner.linux;
        // Where compaction moved pages to is not known, but they take a frame each.
        let free = linux.free_frames().saturating_sub(self.planner.moved_frames());
        let machines = || self.machines.iter().map(|ours| &ours.machine);
        let beside = |linux: u64, of: fn(&Machine) -> u64| std::iter::once(linux).chain(machines().map(of)).collect();
        let pictures = machines().map(|machine| film::of_ours(machine, &self.layout));
        self.samples.push(Sample {
            micros: last - first,
            free_pageblocks: beside(linux.free_pageblocks(), Machine::free_pageblocks),
            free_frames: beside(free, Machine::free_frames),
            fallbacks: beside(self.planner.fallbacks.0, |machine| machine.seat.noted.get().fallbacks),
            cells: std::iter::once(film::of_linux(linux, &self.layout)).chain(pictures).collect(),
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

    fn outcome(&self, recording: &Recording, reader: &TraceReader) -> Outcome {
        let (planner, layout) = (&self.planner, &self.layout);
        let mut by_events = figures::linux_by_events(&planner.linux, layout);
        (by_events.fallbacks, by_events.fallbacks_below_pageblock) = planner.fallbacks;
        // Where compaction moved pages to is not known, but they take a frame each.
        by_events.free_frames -= planner.moved_frames();
        let mut notes = Vec::new();
        let linux = linux_side(recording, reader, &by_events, (&planner.events, &mut notes), layout);
        let (begin, end) = planner.period.unwrap_or_default();
        notes.extend(self.notes());
        let present: u64 = layout.iter().map(ZoneLayout::present).sum();
        let mut frames = vec![film::frames_of_linux(&planner.linux, layout)];
        let mut rules = Vec::new();
        for ours in &self.machines {
            rules.push(ours.outcome(layout, present));
            frames.push(film::frames_of_ours(&ours.machine, layout));
        }
        Outcome {
            trace: String::new(),
            events: planner.events.total,
            conserved: false,
            conservation_faults: Vec::new(),
            recorded_seconds: (end - begin) as f64 / 1e6,
            linux,
            rules,
            linux_by_events: by_events,
            start: Side::default(),
            start_recorded: Side::default(),
            event_counts: planner.events.clone(),
            by_order: self.by_order(),
            live: Live::default(),
            disagreements: planner.disagreements.clone(),
            moves: planner.moves.clone(),
            start_from: Origin::Recorded,
            unmatched: Vec::new(),
            notes,
            skipped: reader.skipped().clone(),
            samples: self.samples.clone(),
            zones: Vec::new(),
            frames,
        }
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
        for ours in &self.machines {
            let first = ours.tally.first_rejection.iter();
            notes.extend(first.map(|why| format!("{}: first free that was refused: {why}", ours.machine.rules.name())));
        }
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
            }
        };
        let used = |order: &Order| {
            counts.free[order.index()] + counts.failed[order.index()] > 0
                || counts.alloc[order.index()].iter().any(|&n| n > 0)
        };
        Order::LIMIT.up_to().filter(used).map(row).collect()
    }

    /// Accounts for every frame and undoes everything.
    fn prove(&mut self, initial: &[Initial], outcome: &mut Outcome) {
        outcome.live = live(&self.planner, &self.held, self.most_frames);
        let faults = &mut outcome.conservation_faults;
        let mut rejected = 0;
        for (ours, initial) in self.machines.iter_mut().zip(initial) {
            let name = ours.machine.rules.name();
            let found = accounted(&self.planner, &ours.machine, &self.held);
            let undone = initial.restore(&self.planner, ours, &self.held);
            faults.extend(found.err().into_iter().chain(undone.err()).map(|fault| format!("{name}: {fault}")));
            rejected += ours.tally.rejected;
        }
        outcome.conserved = faults.is_empty() && rejected == 0;
    }
}

/// Linux's figures at the end: its own files where they are of the same moment, otherwise by the events.
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

/// Lists the parts of the recorded start that ours does not have.
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
