//! Running the benchmark: every block, every column, several times.

use serde::Serialize;

use super::ThpfioscaleArgs;
use super::column::{Block, Column};
use super::mixing::Mixing;
use super::script;
use crate::workload::jobs;

/// Results of one run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Run {
    /// Requests that were served from less than a pageblock of another type.
    pub(crate) events: u64,
    /// The same while files were written, read, and while threads touched.
    pub(crate) events_by_phase: [u64; 3],
    /// Of the events, those in bursts of 15 or more: one refill each.
    pub(crate) events_in_bursts: u64,
    /// Requests while files were written: unmovable, movable, reclaimable; and the pages that were written.
    pub(crate) requests_while_writing: [u64; 3],
    pub(crate) pages_written: u64,
    /// Dentries and inodes that the shrinker looked at.
    pub(crate) objects_scanned: u64,
    /// All requests that were served from another type.
    pub(crate) fallbacks: u64,
    /// The same by type, `[wanted][from]`: unmovable, movable, reclaimable; and by the order of the victim.
    pub(crate) fallbacks_by_type: [[u64; 3]; 3],
    pub(crate) fallbacks_by_order: Vec<u64>,
    /// Fallbacks in which the pageblock changed its type.
    pub(crate) claims: u64,
    /// How types were mixed at the end of each phase.
    pub(crate) mixing: [Mixing; 3],
    /// Blocks handed out.
    pub(crate) allocs: u64,
    /// Mean time to fill 2 MiB, in microseconds, by how they came; `None` if none came so.
    pub(crate) base_latency_us: Option<f64>,
    pub(crate) huge_latency_us: Option<f64>,
    pub(crate) slots: u64,
    pub(crate) huge_slots: u64,
    /// Pages that there was no memory for.
    pub(crate) failed: u64,
    pub(crate) stalls: u64,
    pub(crate) stalled_ns: u64,
    pub(crate) longest_stall_ns: u64,
    /// Stalls of up to 4, 8, 12, 16, 20 ms, and longer.
    pub(crate) stall_durations: [u64; pageblock::STALL_BUCKETS],
    pub(crate) kswapd_wakes: u64,
    pub(crate) simulated_ns: u64,
}

impl Run {
    /// Of the 2 MiB slots, those that came as a huge page, in percent.
    pub(crate) fn huge_percent(&self) -> f64 {
        100.0 * self.huge_slots as f64 / (self.slots as f64).max(1.0)
    }
}

/// All runs of a column in a block.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Cell {
    pub(crate) column: Column,
    pub(crate) runs: Vec<Run>,
}

/// A block of the table.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Part {
    pub(crate) block: Block,
    pub(crate) cells: Vec<Cell>,
}

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Outcome {
    pub(crate) memory_bytes: u64,
    pub(crate) iterations: u32,
    pub(crate) seed: u64,
    pub(crate) parts: Vec<Part>,
}

fn blocks(args: &ThpfioscaleArgs) -> Vec<Block> {
    Block::ALL.into_iter().filter(|block| !args.one_node || block.nodes == 1).collect()
}

/// Number of runs.
pub(super) fn runs(args: &ThpfioscaleArgs) -> u64 {
    args.runs.times(blocks(args).len() * args.chosen().len())
}

/// Runs everything; `tick` is called after each run.
pub(super) fn measure(args: &ThpfioscaleArgs, tick: &(dyn Fn() + Sync)) -> anyhow::Result<Outcome> {
    let blocks = blocks(args);
    let columns = args.chosen();
    let pairs: Vec<_> = blocks.iter().flat_map(|block| columns.iter().map(|column| (*block, *column))).collect();
    let run = |(block, column): &(Block, Column), seed| script::run(args, *block, *column, seed);
    let mut runs = jobs::each(&pairs, args.runs, run, tick)?.into_iter();
    let part = |block| {
        let cells = columns.iter().zip(&mut runs).map(|(column, runs)| Cell { column: *column, runs }).collect();
        Part { block, cells }
    };
    let parts = blocks.into_iter().map(part).collect();
    Ok(Outcome { memory_bytes: args.memory.bytes, iterations: args.runs.iterations.get(), seed: args.runs.seed, parts })
}
