//! The runs: every case of a workload under every preset.

use anyhow::Context;
use pageblock::PcpConfig;
use serde::Serialize;

use super::frames::{Counted, Counts, Frames};
use super::fsmark::{self, FsMark};
use super::hackbench::{self, Hackbench, Through};
use super::netperf::{self, Netperf};
use super::{Kind, PcpArgs};

/// One stream of allocations and frees.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stream {
    Hackbench(Hackbench),
    Netperf(Netperf),
    FsMark(FsMark),
}

/// A stream with a name, in a set of such.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) set: &'static str,
    pub(super) name: String,
    pub(super) stream: Stream,
}

/// One preset's result of one case: means of all runs, where nothing else is said.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Column {
    pub(crate) preset: &'static str,
    /// Of the first run.
    pub(crate) counts: Counts,
    /// For 1000 messages, or files.
    pub(crate) zone_locks_per_1000: f64,
    /// The same of each run.
    pub(crate) zone_locks: Vec<f64>,
    /// Until the last CPU was done, and waited for the zone lock, of each run; only hackbench's tasks have a clock.
    pub(crate) seconds: Vec<f64>,
    pub(crate) waited: Vec<f64>,
    /// For 1000 messages, or files, of each run.
    pub(crate) frames_moved: Vec<f64>,
    /// Frames moved under the zone lock for each frame that the stream allocated: 1 and less is reuse from lists, for a
    /// stream that frees nothing 1 is all that there can be.
    pub(crate) moved_per_frame: f64,
    /// Without the stream's own.
    pub(crate) instructions_per_message: Option<f64>,
}

/// One case under all presets.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) messages: u64,
    pub(crate) columns: Vec<Column>,
}

/// Cases of one kind.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Set {
    pub(crate) name: &'static str,
    pub(crate) rows: Vec<Row>,
}

/// All that was counted.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Outcome {
    pub(crate) workload: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) cpus: u32,
    pub(crate) iterations: u32,
    pub(crate) seed: u64,
    pub(crate) length: u32,
    pub(crate) sets: Vec<Set>,
}

impl Stream {
    /// Does it, and returns how many frames it still holds.
    pub(super) fn run<F: Frames>(self, frames: &mut F) -> u64 {
        match self {
            Self::Hackbench(hackbench) => hackbench.run(frames),
            Self::Netperf(netperf) => netperf.run(frames),
            Self::FsMark(fsmark) => fsmark.run(frames),
        }
    }

    /// The same with another order of tasks; fsmark has but one.
    const fn with_seed(self, seed: u64) -> Self {
        match self {
            Self::Hackbench(hackbench) => Self::Hackbench(Hackbench { seed, ..hackbench }),
            Self::Netperf(netperf) => Self::Netperf(Netperf { seed, ..netperf }),
            Self::FsMark(_) => self,
        }
    }

    /// Messages, or files.
    pub(super) fn messages(&self) -> u64 {
        match self {
            Self::Hackbench(hackbench) => hackbench.messages(),
            Self::Netperf(netperf) => netperf.messages,
            Self::FsMark(fsmark) => fsmark.files,
        }
    }
}

/// The cases of a workload with this length.
pub(super) fn cases(kind: Kind, args: &PcpArgs, length: u32) -> Vec<Case> {
    let (cpus, seed, thousands) = (args.cpus, args.runs.seed, u64::from(length) * 1000);
    match kind {
        Kind::Hackbench => [("pipes, processes", Through::Pipes), ("sockets, processes", Through::Sockets)]
            .into_iter()
            .flat_map(|(set, through)| hackbench::GROUPS.map(|groups| (set, through, groups)))
            .map(|(set, through, groups)| {
                let stream = Stream::Hackbench(Hackbench { groups, through, loops: length, cpus, seed });
                Case { set, name: groups.to_string(), stream }
            })
            .collect(),
        Kind::Netperf => netperf::SIZES
            .map(|size| {
                let stream = Stream::Netperf(Netperf { size, messages: thousands, cpus, seed });
                Case { set: "UDP_STREAM", name: size.to_string(), stream }
            })
            .to_vec(),
        Kind::Fsmark => fsmark::THREADS
            .map(|threads| {
                let stream = Stream::FsMark(FsMark { threads, files: thousands, cpus });
                Case { set: "empty files", name: threads.to_string(), stream }
            })
            .to_vec(),
    }
}

/// Runs every case under every preset; `tick` is called after each run.
pub(crate) fn measure(kind: Kind, args: &PcpArgs, tick: &mut dyn FnMut()) -> anyhow::Result<Outcome> {
    let mut sets: Vec<Set> = Vec::new();
    for case in cases(kind, args, args.length.get()) {
        if sets.last().is_none_or(|set| set.name != case.set) {
            sets.push(Set { name: case.set, rows: Vec::new() });
        }
        let columns = PcpConfig::PRESETS.into_iter().map(|preset| {
            let column = column(preset, &case, args, tick);
            column.with_context(|| format!("{}, {}, lists {}", case.set, case.name, preset.0))
        });
        let columns = columns.collect::<Result<_, _>>()?;
        let row = Row { name: case.name.clone(), messages: case.stream.messages(), columns };
        sets.last_mut().context("there is a set")?.rows.push(row);
    }
    let (cpus, seed, length) = (args.cpus, args.runs.seed, args.length.get());
    let iterations = args.runs.iterations.get();
    Ok(Outcome { workload: kind.name(), unit: kind.unit(), cpus, iterations, seed, length, sets })
}

fn column(
    (preset, lists): (&'static str, PcpConfig),
    case: &Case,
    args: &PcpArgs,
    tick: &mut dyn FnMut(),
) -> anyhow::Result<Column> {
    let runs = args.runs.seeds().map(|seed| {
        let mut frames = Counted::new(lists, args.cpus as usize)?;
        let held = case.stream.with_seed(seed).run(&mut frames);
        frames.verify(held).with_context(|| format!("seed {seed}"))?;
        tick();
        let clocks = *frames.clocks();
        Ok((frames.counts, [clocks.seconds(), clocks.waited()]))
    });
    let runs: Vec<(Counts, [f64; 2])> = runs.collect::<anyhow::Result<_>>()?;
    let (runs, times): (Vec<Counts>, Vec<[f64; 2]>) = runs.into_iter().unzip();
    let per_1000 = |count: u64| count as f64 * 1000.0 / case.stream.messages() as f64;
    let zone_locks: Vec<f64> = runs.iter().map(|run| per_1000(run.zone_locks)).collect();
    let frames_moved = runs.iter().map(|run| per_1000(run.frames_moved)).collect();
    let moved: Vec<f64> = runs.iter().map(|run| run.frames_moved as f64 / run.frames as f64).collect();
    Ok(Column {
        preset,
        counts: *runs.first().context("there is a run")?,
        zone_locks_per_1000: mean(&zone_locks),
        zone_locks,
        seconds: times.iter().map(|time| time[0]).collect(),
        waited: times.iter().map(|time| time[1]).collect(),
        frames_moved,
        moved_per_frame: mean(&moved),
        instructions_per_message: None,
    })
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
