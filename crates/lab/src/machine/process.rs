//! Processes: anonymous memory, and the kernel's objects for each.

use pageblock_frame::{Gfp, Order, PAGEBLOCK_FRAMES, Pfn};

use super::disk::{Sector, Transfer};
use super::owner::Name;
use super::slab::Object;
use super::{Kind, Machine, Time, costs};

/// Names a process. A number is used again when its process has ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ProcessId(pub(crate) u32);

/// Areas, open files, credentials and the like of a process: about 10 KiB.
const OBJECTS: usize = 40;
/// Kernel stack: 8 KiB until Linux 3.15.
const STACK: Order = Order::saturating(1);
/// Where swap begins on the disk, in pages: far from all files.
const SWAP: u64 = 1 << 32;
/// Where a page is swapped to.
pub(super) const fn swap_sector(process: u32, page: u32) -> Sector {
    Sector(SWAP + process as u64 * 4096 + page as u64)
}

/// Upper levels of a page table.
const UPPER_TABLES: usize = 3;

/// The kernel's objects for a process.
#[derive(Debug, Default)]
struct Process {
    stack: Option<Pfn>,
    objects: Vec<Object>,
    /// Page tables: the upper ones, then by pageblock of address space.
    upper: Vec<Pfn>,
    tables: Vec<Option<Pfn>>,
    alive: bool,
}

/// All processes.
#[derive(Debug, Default)]
pub(super) struct Processes {
    all: Vec<Process>,
    vacant: Vec<u32>,
}

/// How a page fault went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// The page was there.
    Present,
    /// It is there now.
    Minor,
    /// It will be there then: it comes from swap.
    Major(Time),
    /// There is no memory: Linux would kill a process.
    OutOfMemory,
}

impl Machine {
    /// `fork()` and `exec()`: a process without anonymous memory.
    pub(crate) fn start_process(&self) -> ProcessId {
        self.compute(costs::EXEC);
        let stack = self.kernel_block(STACK, Gfp::KERNEL);
        let upper = (0..UPPER_TABLES).filter_map(|_| self.kernel_block(Order::ZERO, Gfp::KERNEL | Gfp::ZERO)).collect();
        let objects = (0..OBJECTS).filter_map(|_| self.object(Kind::Process)).collect();
        let process = Process { stack, objects, upper, tables: Vec::new(), alive: true };
        let mut processes = self.processes.borrow_mut();
        match processes.vacant.pop() {
            Some(place) => {
                processes.all[place as usize] = process;
                ProcessId(place)
            }
            None => {
                processes.all.push(process);
                ProcessId(processes.all.len() as u32 - 1)
            }
        }
    }

    /// Makes sure that the page table for a page is there.
    fn page_table(&self, process: ProcessId, page: u32) {
        let place = page as usize / PAGEBLOCK_FRAMES as usize;
        let present = {
            let processes = self.processes.borrow();
            processes.all[process.0 as usize].tables.get(place).copied().flatten().is_some()
        };
        if present {
            return;
        }
        let table = self.kernel_block(Order::ZERO, Gfp::KERNEL | Gfp::ZERO);
        let mut processes = self.processes.borrow_mut();
        let tables = &mut processes.all[process.0 as usize].tables;
        if tables.len() <= place {
            tables.resize(place + 1, None);
        }
        tables[place] = table;
    }

    /// A process uses a page of its anonymous memory; the first time there is a page fault.
    pub(crate) fn fault(&self, process: ProcessId, page: u32) -> Fault {
        let name = Name::Anon { process: process.0, page };
        if let Some(pfn) = self.memory.find(name) {
            self.memory.touch(pfn);
            return Fault::Present;
        }
        self.page_table(process, page);
        let swapped = self.memory.is_swapped(name);
        self.compute(costs::FAULT);
        if self.memory.take_page(name, Gfp::HIGHUSER_MOVABLE | Gfp::ZERO).is_err() {
            self.tally.borrow_mut().out_of_memory += 1;
            return Fault::OutOfMemory;
        }
        if swapped {
            let mut tally = self.tally.borrow_mut();
            tally.major_faults += 1;
            tally.swapped_in += 1;
            drop(tally);
            let sector = swap_sector(process.0, page);
            return Fault::Major(self.ask_disk(Transfer::Read, (sector, 1), Vec::new()));
        }
        self.tally.borrow_mut().minor_faults += 1;
        Fault::Minor
    }

    /// A process uses a huge page of its anonymous memory for the first time, `first` a multiple of 512; false if there
    /// is none to be had with these flags: then base pages have to do.
    pub(crate) fn fault_huge(&self, process: ProcessId, first: u32, gfp: Gfp) -> bool {
        self.compute(costs::FAULT);
        // A table is put aside, for the day when the page is split.
        self.page_table(process, first);
        let taken = self.memory.take_huge(process.0, first, gfp | Gfp::ZERO).is_ok();
        self.tally.borrow_mut().minor_faults += u64::from(taken);
        taken
    }

    /// The process ends; everything of it is freed.
    pub(crate) fn end_process(&self, process: ProcessId) {
        let frames = self.memory.end(Name::of_process(process.0));
        self.compute(frames * costs::FAULT / 4);
        let ended = {
            let mut processes = self.processes.borrow_mut();
            let ended = std::mem::take(&mut processes.all[process.0 as usize]);
            if ended.alive {
                processes.vacant.push(process.0);
            }
            ended
        };
        let tables = ended.tables.into_iter().flatten();
        for pfn in ended.stack.into_iter().chain(ended.upper).chain(tables) {
            self.memory.free(pfn);
        }
        self.release(ended.objects);
    }
}
