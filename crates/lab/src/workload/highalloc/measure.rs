//! The runs, and the record of each.

use pageblock::ZoneView;
use pageblock_buddy::unusable_free_index;
use pageblock_frame::{Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, ZoneKind};
use serde::Serialize;

use super::HighallocArgs;
use super::attempt::FLAGS;
use super::scene::{Pattern, Preset, Scene};
use crate::workload::jobs;

/// The kernel's shares of the fill, in percent.
pub(crate) const SHARES: [u64; 2] = [10, 25];

/// Pageblocks after the fill, and after a half was freed.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Spread {
    pub(crate) filled: u64,
    pub(crate) halved: u64,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Run {
    /// Blocks of order 9 that were taken.
    pub(crate) got: u64,
    /// Those, and the blocks that could be had after the process ended and the kernel freed its pages.
    pub(crate) at_rest: u64,
    /// Blocks that the machine's managed memory, the free pages before the attempt, and those above what each zone
    /// keeps, would make.
    pub(crate) managed_blocks: u64,
    pub(crate) free_blocks: u64,
    pub(crate) usable_blocks: u64,
    /// Pageblocks with kernel pages after the fill and after a half was freed, and the fewest that could hold them.
    pub(crate) kernel_blocks: Spread,
    pub(crate) fewest_blocks: Spread,
    /// Unusable free space index for order 9 before the attempt, 0 to 1.
    pub(crate) unusable_index: f64,
    /// Page cache before and after, in frames.
    pub(crate) cache: [u64; 2],
    /// Compaction from the first attempt to the last, the background's too.
    pub(crate) compaction_runs: u64,
    /// Requests that turned to compaction, and those that got a block by it.
    pub(crate) stalls: u64,
    pub(crate) successes: u64,
    pub(crate) migrate_scanned: u64,
    pub(crate) free_scanned: u64,
    pub(crate) migrated: u64,
}

impl Run {
    /// Share of the blocks that the free pages before the attempt would make.
    pub(crate) fn percent_of_free(&self) -> f64 {
        100.0 * self.got as f64 / self.free_blocks.max(1) as f64
    }

    /// The same of those that the zones do not keep.
    pub(crate) fn percent_of_usable(&self) -> f64 {
        100.0 * self.got as f64 / self.usable_blocks.max(1) as f64
    }
}

/// All runs of one line of the table.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) pattern: Pattern,
    /// The kernel's, in percent.
    pub(crate) share: u64,
    pub(crate) flags: &'static str,
    pub(crate) preset: Preset,
    pub(crate) runs: Vec<Run>,
}

/// All that was measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Outcome {
    pub(crate) memory_bytes: u64,
    pub(crate) iterations: u32,
    pub(crate) seed: u64,
    pub(crate) patience: u32,
    pub(crate) rows: Vec<Row>,
}

/// How many runs there will be.
pub(crate) fn runs(args: &HighallocArgs) -> u64 {
    args.runs.times(lines().len())
}

/// The table's lines, still without runs.
fn lines() -> Vec<Row> {
    let fills = [Pattern::Alt, Pattern::Late].into_iter().flat_map(|pattern| SHARES.map(|share| (pattern, share)));
    let flagged = fills.flat_map(|fill| FLAGS.map(|(flags, _)| (fill, flags)));
    let row = |((pattern, share), flags), preset| Row { pattern, share, flags, preset, runs: Vec::new() };
    flagged.flat_map(|line| Preset::ALL.map(|preset| row(line, preset))).collect()
}

/// Runs every line; `tick` is called after each run.
pub(crate) fn measure(args: &HighallocArgs, tick: &(dyn Fn() + Sync)) -> anyhow::Result<Outcome> {
    let mut rows = lines();
    let (iterations, seed, patience) = (args.runs.iterations.get(), args.runs.seed, args.patience.get());
    let run = |row: &Row, seed| one(args, (row.pattern, row.share), (row.flags, row.preset), seed);
    let runs = jobs::each(&rows, args.runs, run, tick)?;
    rows.iter_mut().zip(runs).for_each(|(row, runs)| row.runs = runs);
    Ok(Outcome { memory_bytes: args.memory.bytes, iterations, seed, patience, rows })
}

/// One run from boot to rest.
pub(crate) fn one(
    args: &HighallocArgs,
    (pattern, share): (Pattern, u64),
    (flags, preset): (&str, Preset),
    seed: u64,
) -> anyhow::Result<Run> {
    let gfp = FLAGS.iter().find(|(name, _)| *name == flags).map(|(_, gfp)| *gfp).unwrap_or_default();
    let mut scene = Scene::boot(args.memory.bytes, preset, seed)?;
    scene.fill(pattern, share)?;
    let filled = scene.kernel_blocks();
    scene.free_half();
    let halved = scene.kernel_blocks();
    let stats = scene.memory.allocator().stats();
    let usable_blocks = usable(&scene);
    let unusable_index = unusable(&scene);
    let cache = scene.memory.counts().file;
    let vmstat = |scene: &Scene| scene.memory.allocator().compaction().stats();
    let (before, runs_before) = (vmstat(&scene), scene.threads.runs());
    let got = scene.take_huge(gfp, args.patience.get());
    let (after, runs_after) = (vmstat(&scene), scene.threads.runs());
    let cache = [cache, scene.memory.counts().file];
    scene.rest();
    let at_rest = got + scene.take_huge(gfp, args.patience.get());
    if args.check {
        scene.memory.check()?;
    }
    Ok(Run {
        got,
        at_rest,
        managed_blocks: stats.managed / PAGEBLOCK_FRAMES,
        free_blocks: stats.free / PAGEBLOCK_FRAMES,
        usable_blocks,
        kernel_blocks: Spread { filled: filled.0, halved: halved.0 },
        fewest_blocks: Spread { filled: filled.1, halved: halved.1 },
        unusable_index,
        cache,
        compaction_runs: runs_after - runs_before,
        migrate_scanned: after.migrate_scanned - before.migrate_scanned,
        free_scanned: after.free_scanned - before.free_scanned,
        migrated: after.migrate_success - before.migrate_success,
        stalls: after.stall - before.stall,
        successes: after.success - before.success,
    })
}

/// Blocks of order 9 that the zones can give before each is down to its min watermark and the frames it keeps from
/// requests that could go higher. Frames on per-CPU lists are counted to the largest zone.
fn usable(scene: &Scene) -> u64 {
    let allocator = scene.memory.allocator();
    let largest = allocator.zones().map(ZoneView::managed).max();
    let blocks = |zone: ZoneView| {
        let listed = if Some(zone.managed()) == largest { allocator.stats().listed } else { 0 };
        let kept = zone.watermarks().min + zone.lowmem_reserve()[ZoneKind::Movable.index()];
        (zone.free_frames() + listed).saturating_sub(kept) / PAGEBLOCK_FRAMES
    };
    allocator.zones().map(blocks).sum()
}

/// The index over all zones.
fn unusable(scene: &Scene) -> f64 {
    let mut free = [0; Order::COUNT];
    for zone in scene.memory.allocator().zones() {
        for (sum, blocks) in free.iter_mut().zip(zone.free_blocks()) {
            *sum += blocks;
        }
    }
    unusable_free_index(&free, PAGEBLOCK_ORDER) as f64 / 1000.0
}
