//! Who works on the machine: those who write files, those who read them, and those who want huge pages.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pageblock_frame::{Gfp, PAGEBLOCK_FRAMES};
use rand::RngExt;

use crate::machine::costs::ZERO_PAGE;
use crate::machine::{Actor, Fault, FileId, Machine, Next, ProcessId, Stream};

/// Pages of a file: 64 KiB.
pub(super) const FILE_PAGES: u32 = 16;
/// Reads of one file before the next one is chosen.
const READS: u32 = 16;
/// Whether the readers go on.
pub(super) type Going = Rc<Cell<bool>>;
/// All files; each writer appends its own.
pub(super) type Files = Rc<RefCell<Vec<FileId>>>;

/// Writes new files one after the other, each from its first page to its last.
pub(super) struct Writer {
    pub(super) files: Files,
    pub(super) left: u64,
    /// Writers that are not ready yet.
    pub(super) at_work: Rc<Cell<u32>>,
}

impl Actor for Writer {
    fn step(&mut self, machine: &Machine) -> Next {
        if self.left == 0 {
            self.at_work.set(self.at_work.get() - 1);
            return Next::Exit;
        }
        self.left -= 1;
        let file = machine.create_file(FILE_PAGES);
        let opened = machine.open(file);
        let until = machine.write(file, 0, FILE_PAGES).max(opened);
        self.files.borrow_mut().push(file);
        until.map_or(Next::Run, Next::Sleep)
    }
}

/// Reads pages of a file at random, and then of another one.
pub(super) struct Reader {
    pub(super) files: Files,
    pub(super) going: Going,
    pub(super) file: Option<FileId>,
    pub(super) reads: u32,
}

impl Actor for Reader {
    fn step(&mut self, machine: &Machine) -> Next {
        if !self.going.get() {
            return Next::Exit;
        }
        let file = match self.file.filter(|_| self.reads < READS) {
            Some(file) => file,
            None => {
                let files = self.files.borrow();
                let Some(file) = machine.dice(|dice| files.get(dice.random_range(0..files.len().max(1))).copied())
                else {
                    return Next::Exit;
                };
                drop(files);
                (self.file, self.reads) = (Some(file), 0);
                if let Some(until) = machine.open(file) {
                    return Next::Sleep(until);
                }
                file
            }
        };
        self.reads += 1;
        let page = machine.dice(|dice| dice.random_range(0..FILE_PAGES));
        let until = machine.read(file, page, 1, &mut Stream::default());
        until.map_or(Next::Run, Next::Sleep)
    }
}

/// What the threads found.
#[derive(Clone, Debug, Default)]
pub(super) struct Touched {
    /// Time until 2 MiB were filled, in nanoseconds, where they came as 512 pages, and where as a huge one.
    pub(super) base: Vec<u64>,
    pub(super) huge: Vec<u64>,
    /// Pages that there was no memory for.
    pub(super) failed: u64,
    /// Threads that are ready.
    pub(super) ready: u32,
}

/// Touches 2 MiB after 2 MiB of its area, and keeps them.
pub(super) struct Toucher {
    pub(super) process: ProcessId,
    /// First page of the next slot, and the end of the area.
    pub(super) at: u32,
    pub(super) end: u32,
    pub(super) gfp: Gfp,
    pub(super) touched: Rc<RefCell<Touched>>,
}

impl Toucher {
    fn base_pages(&self, machine: &Machine) -> u64 {
        let mut failed = 0;
        for page in self.at..self.at + PAGEBLOCK_FRAMES as u32 {
            failed += u64::from(machine.fault(self.process, page) == Fault::OutOfMemory);
        }
        failed
    }
}

impl Actor for Toucher {
    fn step(&mut self, machine: &Machine) -> Next {
        if self.at >= self.end {
            self.touched.borrow_mut().ready += 1;
            return Next::Exit;
        }
        let began = machine.now();
        let huge = machine.fault_huge(self.process, self.at, self.gfp);
        let failed = if huge { 0 } else { self.base_pages(machine) };
        // Written once more, by the program.
        machine.compute(PAGEBLOCK_FRAMES * ZERO_PAGE);
        let took = machine.now().since(began);
        let mut touched = self.touched.borrow_mut();
        touched.failed += failed;
        if huge {
            touched.huge.push(took);
        } else {
            touched.base.push(took);
        }
        self.at += PAGEBLOCK_FRAMES as u32;
        Next::Run
    }
}
