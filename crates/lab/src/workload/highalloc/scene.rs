//! The machine of the experiment, and how it is filled.

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use anyhow::Context;
use pageblock::{Config, Region};
use pageblock_frame::{Gfp, Order, PAGE_SIZE, Pfn};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;

use super::threads::{Freed, Threads};
use crate::machine::owner::{Entered, Holder, Memory, MemoryConfig, Name};

/// Which pages come when.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Pattern {
    /// All kinds in turn.
    Alt,
    /// The kernel's only after the memory is full of the others.
    Late,
}

impl Pattern {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Alt => "alt",
            Self::Late => "late",
        }
    }
}

/// Rules of the machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub(crate) enum Preset {
    /// Linux 6.1's everywhere.
    #[serde(rename = "linux 6.1")]
    Linux61,
    /// The best known of everything, with Linux's watermarks.
    #[serde(rename = "default")]
    Default,
    /// The same with watermarks by the formula, not raised for khugepaged.
    #[serde(rename = "default, own marks")]
    OwnMarks,
}

impl Preset {
    pub(crate) const ALL: [Self; 3] = [Self::Linux61, Self::Default, Self::OwnMarks];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Linux61 => "6.1 preset",
            Self::Default => "default",
            Self::OwnMarks => "own marks",
        }
    }

    fn config(self) -> Config {
        match self {
            Self::Linux61 => Config::linux_6_1(),
            Self::Default | Self::OwnMarks => Config::new(),
        }
    }
}

/// Percent of the free memory that is filled.
const FILL: u64 = 92;
/// Frames that the measured Linux kernel, its init process and the ramdisk hold when the experiment begins: unmovable
/// and slab pages, and pages that can move but not be reclaimed.
const BOOT_KERNEL: [(u64, Gfp); 2] = [(5064, Gfp::KERNEL), (2169, Gfp::KERNEL.union(Gfp::RECLAIMABLE))];
const BOOT_MOVABLE: u32 = 767;
/// Of the memory, bytes that a kernel of that configuration keeps from the allocator beside the frame descriptors.
const KERNEL_IMAGE: u64 = 33 << 20;
const MIB: u64 = 1 << 20;
/// Simulated nanoseconds that a page takes to be filled on the measured machine, which ran in an emulator, without a
/// fault for the kernel's, and a huge page.
const PAGE_TIME: u64 = 20_000;
const KERNEL_TIME: u64 = 5_000;
pub(super) const HUGE_TIME: u64 = 1_000_000;
/// Between fill and free the program counts its pages; before the attempts, and at rest, the counters under `/proc`
/// are read.
const COUNT: u64 = 20_000_000;
const SNAPSHOT: Range<u64> = 300_000_000..1_000_000_000;
/// Pages with entries in one page table, and pages that a slab page of page cache nodes describes.
const ENTRIES: u64 = 512;
const NODE_PAGES: u64 = 7 * 64;

/// The init process and its ramdisk; the process and the file of the experiment.
const INIT: u32 = 1;
const PROCESS: u32 = 2;
const FILE: u32 = 2;

/// `min_free_kbytes` as khugepaged sets it where transparent huge pages are on (`set_recommended_min_free_kbytes()`):
/// two pageblocks and nine more for each pair of types, in each zone, but no more than a twentieth of memory.
fn recommended_min_free(managed: u64, zones: u64) -> u64 {
    (512 * zones * (2 + 9)).min(managed / 20) * PAGE_SIZE / 1024
}

/// A machine in the middle of the experiment.
pub(crate) struct Scene {
    pub(crate) memory: Rc<Memory>,
    pub(crate) threads: Rc<Threads>,
    _entered: Entered,
    random: Xoshiro256PlusPlus,
    next: (u32, u32),
    kernel: Vec<Pfn>,
}

/// Parts of the fill.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Anon,
    Cache,
    Kernel,
}

impl Scene {
    /// Boots the machine.
    pub(crate) fn boot(bytes: u64, preset: Preset, seed: u64) -> anyhow::Result<Self> {
        let map = bytes / 64; // descriptors of 64 bytes
        let config =
            || preset.config().reserve_low(MIB).reserve(16 * MIB..16 * MIB + KERNEL_IMAGE).reserve(bytes - map..bytes);
        let managed = (bytes - map - KERNEL_IMAGE - MIB) / PAGE_SIZE;
        let raised = (preset != Preset::OwnMarks).then(|| recommended_min_free(managed, 2));
        let config = config().min_free_kbytes(raised);
        let memory = Memory::new(&MemoryConfig::new(vec![Region::from((0, bytes, true))], config))?;
        let threads = Rc::new(Threads::new(&memory));
        memory.set_hooks(Some(threads.clone()));
        let _entered = memory.enter();
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let scene = Self { memory, threads, _entered, random, next: (0, 0), kernel: Vec::new() };
        for (frames, gfp) in BOOT_KERNEL {
            for _ in 0..frames {
                scene.memory.take(Holder::Slab { order: Order::ZERO }, gfp).context("the kernel does not fit")?;
            }
        }
        for page in 0..BOOT_MOVABLE {
            let name = Name::Anon { process: INIT, page };
            scene.memory.take_page(name, Gfp::HIGHUSER_MOVABLE).context("the ramdisk does not fit")?;
        }
        Ok(scene)
    }

    /// Fills the memory; `share` is the kernel's, in percent.
    pub(crate) fn fill(&mut self, pattern: Pattern, share: u64) -> anyhow::Result<()> {
        let frames = self.memory.allocator().stats().free * FILL / 100;
        match pattern {
            Pattern::Alt => self.interleave(frames, share)?,
            Pattern::Late => {
                self.interleave(frames, 0)?;
                (0..frames * share / (100 - share)).try_for_each(|_| self.take(Kind::Kernel))?;
            }
        }
        self.threads.pass(&self.memory, COUNT);
        Ok(())
    }

    /// Pages of all kinds in turn, each kind as evenly as its share allows.
    fn interleave(&mut self, frames: u64, share: u64) -> anyhow::Result<()> {
        let (mut kernel, mut cache) = (0, 0);
        for _ in 0..frames {
            kernel += share;
            if kernel >= 100 {
                kernel -= 100;
                self.take(Kind::Kernel)?;
                continue;
            }
            cache += 1;
            self.take(if cache % 2 == 0 { Kind::Cache } else { Kind::Anon })?;
        }
        Ok(())
    }

    /// One page, and the kernel's objects that keep track of it; the background threads run after it if they were
    /// woken.
    fn take(&mut self, kind: Kind) -> anyhow::Result<()> {
        let kernel = Gfp::KERNEL;
        let taken = match kind {
            Kind::Kernel => {
                let taken = self.memory.take(Holder::Kernel { order: Order::ZERO }, kernel);
                self.kernel.extend(taken.as_ref().ok());
                taken
            }
            Kind::Anon => {
                self.next.0 += 1;
                self.overhead(u64::from(self.next.0), ENTRIES, kernel)?;
                self.memory.take_page(Name::Anon { process: PROCESS, page: self.next.0 }, Gfp::HIGHUSER_MOVABLE)
            }
            Kind::Cache => {
                self.next.1 += 1;
                self.overhead(u64::from(self.next.1), NODE_PAGES, kernel | Gfp::RECLAIMABLE)?;
                self.memory.take_page(Name::File { file: FILE, index: self.next.1 }, Gfp::HIGHUSER_MOVABLE)
            }
        };
        self.threads.pass(&self.memory, if kind == Kind::Kernel { KERNEL_TIME } else { PAGE_TIME });
        taken.map(drop).context("memory ran out while it was filled")
    }

    fn overhead(&self, number: u64, every: u64, gfp: Gfp) -> anyhow::Result<()> {
        if number % every == 1 {
            self.memory.take(Holder::Slab { order: Order::ZERO }, gfp).context("memory ran out while it was filled")?;
        }
        Ok(())
    }

    /// The machine's counters are read: time for the background threads, and each run begins its next step at another
    /// moment of theirs.
    fn snapshot(&mut self) {
        let time = self.random.random_range(SNAPSHOT);
        self.threads.pass(&self.memory, time);
    }

    /// Frees a random half of each kind, page by page; by name, because kcompactd moves them meanwhile.
    pub(crate) fn free_half(&mut self) {
        let mut frees = VecDeque::new();
        for names in [Name::of_process(PROCESS), Name::of_file(FILE)] {
            let mut pages = self.memory.pages_of(names);
            pages.shuffle(&mut self.random);
            let half = pages.len() / 2;
            frees.extend(pages.into_iter().take(half).map(|(name, _)| Freed::Page(name)));
        }
        self.kernel.shuffle(&mut self.random);
        frees.extend(self.kernel.drain(..self.kernel.len() / 2).map(Freed::Kernel));
        self.threads.free_all(&self.memory, frees);
        self.snapshot();
    }

    /// Ends the process and the kernel pages; the page cache stays.
    pub(crate) fn rest(&mut self) {
        self.memory.end(Name::of_process(PROCESS));
        for pfn in std::mem::take(&mut self.kernel) {
            self.memory.free(pfn);
        }
        self.snapshot();
    }

    /// Pageblocks with pages of the experiment's kernel share, and in how many those would have room.
    pub(crate) fn kernel_blocks(&self) -> (u64, u64) {
        let mut blocks: Vec<u64> = self.kernel.iter().map(|pfn| pfn.as_u64() / 512).collect();
        blocks.sort_unstable();
        blocks.dedup();
        (blocks.len() as u64, (self.kernel.len() as u64).div_ceil(512))
    }
}
