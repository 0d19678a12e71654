//! A machine on which files are read, and the figures taken meanwhile.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use anyhow::{Context, ensure};
use pageblock::{Gfp, NodeId, ZoneKind, ZoneView};
use pageblock_frame::{Order, Pfn};
use serde::Serialize;

use crate::machine::owner::{Holder, Name};
use crate::machine::{Actor, FileId, Machine, Next, Setup, Stream, Time};

/// A figure of DMA32, and of Normal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct Pair {
    pub(crate) dma32: u64,
    pub(crate) normal: u64,
}

impl Pair {
    /// Of both.
    pub(crate) fn both(self) -> u64 {
        self.dma32 + self.normal
    }

    /// Amount added since.
    pub(crate) fn since(self, before: Self) -> Self {
        Self { dma32: self.dma32.saturating_sub(before.dma32), normal: self.normal.saturating_sub(before.normal) }
    }
}

/// Where the reader and the scene meet. Only the reader changes it.
#[derive(Debug, Default)]
struct Board {
    done: Cell<bool>,
    /// Fewest free frames of DMA32 after a block.
    least: Cell<u64>,
}

/// Reads a file from start to end, a page a step.
struct Reader {
    file: FileId,
    next: u32,
    end: u32,
    stream: RefCell<Stream>,
    board: Rc<Board>,
}

impl Actor for Reader {
    fn step(&mut self, machine: &Machine) -> Next {
        if self.next == self.end {
            self.board.done.set(true);
            return Next::Exit;
        }
        let done = machine.read(self.file, self.next, 1, &mut self.stream.borrow_mut());
        self.next += 1;
        let free = zone(machine, ZoneKind::Dma32).map_or(0, ZoneView::free_frames);
        self.board.least.set(self.board.least.get().min(free));
        done.map_or(Next::Run, Next::Sleep)
    }
}

fn zone(machine: &Machine, kind: ZoneKind) -> Option<ZoneView> {
    machine.memory().allocator().zones().find(|zone| zone.kind() == kind)
}

/// The machine of one run.
pub(crate) struct Scene {
    machine: Rc<Machine>,
    least: Cell<u64>,
}

impl Scene {
    /// Boots it. Readers differ by where on the disk their files lie and how much of memory the kernel has, both by
    /// the seed.
    pub(crate) fn boot(setup: &Setup) -> anyhow::Result<Self> {
        let (machine, seed) = (Machine::boot(setup)?, setup.seed);
        machine.skip_disk(seed * 1000);
        let scene = Self { machine, least: Cell::new(u64::MAX) };
        let held = scene.managed().both() / 256 * (seed % 8);
        scene.kernel_frames(held, Gfp::KERNEL)?;
        Ok(scene)
    }

    /// A file of so many pages.
    pub(crate) fn file(&self, pages: u64) -> FileId {
        self.machine.create_file(pages as u32)
    }

    /// Reads pages `first` to `end` of a file; how many came from the disk.
    pub(crate) fn read(&self, file: FileId, (first, end): (u64, u64)) -> anyhow::Result<u64> {
        let before = self.machine.transferred().0;
        let board = Rc::new(Board { done: Cell::new(false), least: Cell::new(self.least.get()) });
        let (next, end, stream) = (first as u32, end as u32, RefCell::default());
        self.machine.spawn(Reader { file, next, end, stream, board: Rc::clone(&board) });
        self.machine.run_while(Time::NEVER, &|| !board.done.get());
        ensure!(board.done.get(), "the reader hangs");
        self.least.set(board.least.get());
        Ok(self.machine.transferred().0 - before)
    }

    /// The kernel takes frames for itself, and keeps them until it [gives them back](Self::give_back).
    pub(crate) fn kernel_frames(&self, frames: u64, gfp: Gfp) -> anyhow::Result<Vec<Pfn>> {
        let take = |_| self.machine.memory().take(Holder::Kernel { order: Order::ZERO }, gfp);
        let taken: Result<_, _> = (0..frames).map(take).collect();
        let taken = taken.context("the kernel gets no frame")?;
        self.rest();
        Ok(taken)
    }

    /// The kernel frees its frames.
    pub(crate) fn give_back(&self, frames: Vec<Pfn>) {
        for pfn in frames {
            self.machine.memory().free(pfn);
        }
    }

    /// A second with the kernel's threads only.
    pub(crate) fn rest(&self) {
        self.machine.run_until(self.machine.now().after(crate::machine::costs::SECOND));
    }

    /// Fewest free frames of DMA32 so far, while files were read.
    pub(crate) fn least_free(&self) -> u64 {
        self.least.get()
    }

    /// Time since boot, in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.machine.now().nanoseconds() as f64 / crate::machine::costs::SECOND as f64
    }

    /// A figure of each zone.
    fn pair(&self, of: impl Fn(ZoneView) -> u64) -> Pair {
        let one = |kind| zone(&self.machine, kind).map_or(0, &of);
        Pair { dma32: one(ZoneKind::Dma32), normal: one(ZoneKind::Normal) }
    }

    /// Frames of each zone.
    pub(crate) fn managed(&self) -> Pair {
        self.pair(ZoneView::managed)
    }

    /// Frames of a turn.
    pub(crate) fn batches(&self) -> Pair {
        self.pair(|zone| zone.watermarks().fair_batch())
    }

    /// DMA32's high watermark, and its min and low with the reserve against requests for Normal.
    pub(crate) fn marks(&self) -> (u64, u64, u64) {
        zone(&self.machine, ZoneKind::Dma32).map_or((0, 0, 0), |zone| {
            let (marks, reserve) = (zone.watermarks(), zone.lowmem_reserve()[ZoneKind::Normal.index()]);
            (marks.high, marks.min + reserve, marks.low + reserve)
        })
    }

    /// Frames handed out so far.
    pub(crate) fn allocs(&self) -> Pair {
        let allocs = self.machine.tally().zone_allocs;
        Pair { dma32: allocs[ZoneKind::Dma32.index()], normal: allocs[ZoneKind::Normal.index()] }
    }

    /// Frames that reclaim looked at so far.
    pub(crate) fn scanned(&self) -> Pair {
        self.pair(|zone| {
            let scan = self.machine.zone_scan(NodeId::new(0), zone.kind());
            scan.scan_kswapd + scan.scan_direct
        })
    }

    /// Free frames.
    pub(crate) fn free(&self) -> Pair {
        self.pair(ZoneView::free_frames)
    }

    /// Pages of a file in memory.
    pub(crate) fn resident(&self, file: FileId) -> Pair {
        let mut pair = Pair::default();
        for (_, pfn) in self.machine.memory().pages_of(Name::of_file(file.0)) {
            match self.machine.memory().allocator().zone_of(pfn).map(ZoneView::kind) {
                Some(ZoneKind::Dma32) => pair.dma32 += 1,
                Some(ZoneKind::Normal) => pair.normal += 1,
                _ => {}
            }
        }
        pair
    }

    /// Deletes a file.
    pub(crate) fn delete(&self, file: FileId) {
        self.machine.delete_file(file);
    }

    /// Pages at the end of a file, up to the last that is missing.
    pub(crate) fn tail(&self, file: FileId) -> u64 {
        let pages = (0..self.machine.file_pages(file)).rev();
        pages.take_while(|&index| self.machine.memory().find(Name::File { file: file.0, index }).is_some()).count()
            as u64
    }

    /// Recomputes the owner's tables, lists and zones.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        self.machine.memory().check()
    }
}
