//! The runs, and the record of each.

use pageblock::Gfp;
use serde::Serialize;

use super::TwoFilesArgs;
use super::scene::{Pair, Scene};
use crate::workload::jobs;
use crate::workload::tiobench::{Variant, scale};

/// One time through the second file.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Pass {
    /// Pages that came from the disk.
    pub(crate) misses: u64,
    /// Pages of either file in memory afterwards.
    pub(crate) first: Pair,
    pub(crate) second: Pair,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Run {
    pub(crate) seed: u64,
    pub(crate) managed: Pair,
    pub(crate) file_pages: u64,
    /// Frames of a turn, and frames handed out while memory was filled to a half.
    pub(crate) batches: Pair,
    pub(crate) filled: Pair,
    /// Frames looked at until then: none.
    pub(crate) scanned_filling: Pair,
    pub(crate) passes: Vec<Pass>,
    /// Frames looked at while the second file was read.
    pub(crate) scanned_passes: Pair,
    /// Pages at the end of a third file, twice as large as memory, none of which was gone when it had been read: the
    /// accesses within which a page is seen again.
    pub(crate) cycle: u64,
    pub(crate) scanned_cycle: Pair,
    /// Fewest free frames of DMA32 until then; its min and low with reserve.
    pub(crate) least_free: u64,
    pub(crate) min_reserve: u64,
    pub(crate) low_reserve: u64,
    /// Frames looked at in a last quarter of memory, after kernel frames had taken DMA32 below its high watermark.
    pub(crate) released: Pair,
    /// Frames handed out in it.
    pub(crate) released_allocs: Pair,
    /// Frames handed out in another quarter, after the kernel had given its frames back; and how many those were.
    pub(crate) returned_allocs: Pair,
    pub(crate) returned: u64,
    pub(crate) seconds: f64,
}

/// All runs under one set of rules.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) variant: Variant,
    pub(crate) runs: Vec<Run>,
}

/// All that was measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Outcome {
    pub(crate) memory_bytes: u64,
    pub(crate) iterations: u32,
    pub(crate) seed: u64,
    pub(crate) passes: u32,
    pub(crate) rows: Vec<Row>,
}

/// Runs every variant; `tick` is called after each run.
pub(crate) fn measure(args: &TwoFilesArgs, tick: &(dyn Fn() + Sync)) -> anyhow::Result<Outcome> {
    let variants = args.variants();
    let runs = jobs::each(&variants, args.runs, |variant, seed| one(args, *variant, seed), tick)?;
    let rows = variants.into_iter().zip(runs).map(|(variant, runs)| Row { variant, runs }).collect();
    let (iterations, passes) = (args.runs.iterations.get(), args.passes.get());
    Ok(Outcome { memory_bytes: args.memory.bytes, iterations, seed: args.runs.seed, passes, rows })
}

fn one(args: &TwoFilesArgs, variant: Variant, seed: u64) -> anyhow::Result<Run> {
    let scene = Scene::boot(&scale::setup(args.memory.bytes, variant, args.hardware, seed))?;
    let managed = scene.managed();
    // More than Normal, less than both.
    let file_pages = managed.normal * 6 / 5;
    let first = scene.file(file_pages);
    let before = scene.allocs();
    let half = managed.both() / 2;
    scene.read(first, (0, half))?;
    let (filled, scanned_filling) = (scene.allocs().since(before), scene.scanned());
    scene.read(first, (half, file_pages))?;
    let second = scene.file(file_pages);
    let mut passes = Vec::new();
    let before = scene.scanned();
    for _ in 0..args.passes.get() {
        let misses = scene.read(second, (0, file_pages))?;
        passes.push(Pass { misses, first: scene.resident(first), second: scene.resident(second) });
    }
    let scanned_passes = scene.scanned().since(before);
    scene.delete(first);
    scene.delete(second);
    let (cycle, scanned_cycle) = cycle(&scene)?;
    let (high, min_reserve, low_reserve) = scene.marks();
    let least_free = scene.least_free();
    let Release { released, released_allocs, returned_allocs, returned } = release(&scene, high)?;
    if args.check {
        scene.check()?;
    }
    Ok(Run {
        seed,
        managed,
        file_pages,
        batches: scene.batches(),
        filled,
        scanned_filling,
        passes,
        scanned_passes,
        cycle,
        scanned_cycle,
        least_free,
        min_reserve,
        low_reserve,
        released,
        released_allocs,
        returned_allocs,
        returned,
        seconds: scene.seconds(),
    })
}

/// Reads a file of twice the memory; how much of its end remains, and the frames looked at.
fn cycle(scene: &Scene) -> anyhow::Result<(u64, Pair)> {
    let pages = 2 * scene.managed().both();
    let third = scene.file(pages);
    let before = scene.scanned();
    scene.read(third, (0, pages))?;
    Ok((scene.tail(third), scene.scanned().since(before)))
}

/// Findings of [`release`]; see [`Run`].
struct Release {
    released: Pair,
    released_allocs: Pair,
    returned_allocs: Pair,
    returned: u64,
}

/// The kernel takes DMA32 below its high watermark, and a quarter of memory is read; then it gives those frames back,
/// and as much is read again.
fn release(scene: &Scene, high: u64) -> anyhow::Result<Release> {
    let wanted = scene.free().dma32.saturating_sub(high * 3 / 4);
    let scanned = scene.scanned();
    let taken = scene.kernel_frames(wanted, Gfp::KERNEL | Gfp::DMA32)?;
    let pages = scene.managed().both() / 4;
    let quarter = || {
        let allocs = scene.allocs();
        scene.read(scene.file(pages), (0, pages))?;
        anyhow::Ok(scene.allocs().since(allocs))
    };
    let released_allocs = quarter()?;
    let released = scene.scanned().since(scanned);
    let returned = taken.len() as u64;
    scene.give_back(taken);
    Ok(Release { released, released_allocs, returned_allocs: quarter()?, returned })
}
