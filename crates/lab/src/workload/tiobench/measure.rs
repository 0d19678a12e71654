//! The runs, and the record of each.

use pageblock::{NodeId, ZoneKind};
use pageblock_frame::PAGE_SIZE;
use serde::Serialize;

use super::phase::{self, Figures, Op};
use super::{TiobenchArgs, Variant, scale};
use crate::machine::{Machine, Setup, costs};
use crate::workload::jobs;

/// Random blocks of a phase, all threads together.
const RANDOM_BLOCKS: u32 = 4000;

/// A zone over a whole run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ZoneFigures {
    pub(crate) kind: String,
    pub(crate) managed: u64,
    /// Frames handed out.
    pub(crate) allocs: u64,
    /// Frames that kswapd looked at, and tasks.
    pub(crate) scanned_kswapd: u64,
    pub(crate) scanned_direct: u64,
    /// Both, a second.
    pub(crate) velocity: f64,
}

/// Everything from boot to the last phase.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Run {
    pub(crate) seed: u64,
    pub(crate) seconds: f64,
    /// Of CPU, in programs and in the kernel.
    pub(crate) user_seconds: f64,
    pub(crate) system_seconds: f64,
    pub(crate) zones: Vec<ZoneFigures>,
    pub(crate) phases: Vec<Figures>,
}

/// Of DMA32 and Normal, DMA32's part in percent; 0 if there is nothing.
pub(crate) fn dma32_share(zones: &[ZoneFigures], of: impl Fn(&ZoneFigures) -> u64) -> f64 {
    let sum = |name: &str| zones.iter().filter(|zone| zone.kind == name).map(&of).sum::<u64>() as f64;
    let both = sum("DMA32") + sum("Normal");
    if both == 0.0 { 0.0 } else { 100.0 * sum("DMA32") / both }
}

/// All runs under one set of rules.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) variant: Variant,
    pub(crate) runs: Vec<Run>,
}

impl Row {
    /// A phase's figure in each run.
    pub(crate) fn phases(&self, op: Op, threads: u32, of: impl Fn(&Figures) -> f64) -> Vec<f64> {
        let phases = self.runs.iter().flat_map(|run| &run.phases);
        phases.filter(|phase| (phase.op, phase.threads) == (op, threads)).map(of).collect()
    }
}

/// All that was measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Outcome {
    pub(crate) memory_bytes: u64,
    pub(crate) iterations: u32,
    pub(crate) seed: u64,
    pub(crate) threads: Vec<u32>,
    pub(crate) rows: Vec<Row>,
}

/// Runs every variant; `tick` is called after each run.
pub(crate) fn measure(args: &TiobenchArgs, tick: &(dyn Fn() + Sync)) -> anyhow::Result<Outcome> {
    let (variants, iterations) = (args.variants(), args.runs.iterations.get());
    let runs = jobs::each(&variants, args.runs, |variant, seed| one(args, (*variant, seed)), tick)?;
    let rows = variants.into_iter().zip(runs).map(|(variant, runs)| Row { variant, runs }).collect();
    Ok(Outcome {
        memory_bytes: args.memory.bytes,
        iterations,
        seed: args.runs.seed,
        threads: args.threads.clone(),
        rows,
    })
}

/// One machine, on which every number of threads gets its turn.
pub(crate) fn one(args: &TiobenchArgs, (variant, seed): (Variant, u64)) -> anyhow::Result<Run> {
    let setup = scale::setup(args.memory.bytes, variant, args.hardware, seed);
    let machine = Machine::boot(&Setup { reads_ahead: args.asynchronous, ..setup })?;
    let pages = (2 * args.memory.bytes / PAGE_SIZE) as u32;
    let mut phases = Vec::new();
    for threads in &args.threads {
        let files: Vec<_> = (0..*threads).map(|_| machine.create_file(pages / threads)).collect();
        for op in Op::ALL {
            phases.push(phase::run(&machine, op, &files, RANDOM_BLOCKS / threads)?);
        }
        files.iter().for_each(|file| machine.delete_file(*file));
    }
    if args.check {
        machine.memory().check()?;
    }
    let seconds_of = |nanoseconds: u64| nanoseconds as f64 / costs::SECOND as f64;
    let (seconds, (user, system)) = (seconds_of(machine.now().nanoseconds()), machine.cpu_times());
    let [user_seconds, system_seconds] = [user, system].map(seconds_of);
    Ok(Run { seed, seconds, user_seconds, system_seconds, zones: zones(&machine, seconds), phases })
}

/// The machine's zones, after so many seconds.
pub(crate) fn zones(machine: &Machine, seconds: f64) -> Vec<ZoneFigures> {
    let allocs = machine.tally().zone_allocs;
    let figures = |zone: pageblock::ZoneView| {
        let kind: ZoneKind = zone.kind();
        let scan = machine.zone_scan(NodeId::new(0), kind);
        let scanned = scan.scan_kswapd + scan.scan_direct;
        ZoneFigures {
            kind: kind.to_string(),
            managed: zone.managed(),
            allocs: allocs[kind.index()],
            scanned_kswapd: scan.scan_kswapd,
            scanned_direct: scan.scan_direct,
            velocity: scanned as f64 / seconds.max(1e-9),
        }
    };
    machine.memory().allocator().zones().map(figures).collect()
}
