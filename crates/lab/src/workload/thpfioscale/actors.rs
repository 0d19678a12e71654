//! Threads of the workload: writers of files, readers, and threads that want huge pages.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
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
/// Files of a writer, and of the reader that follows it; each pair has a directory of its own.
pub(super) type Files = Rc<RefCell<Vec<FileId>>>;

/// Writes new files in turn, a page of each, until all are whole: fio goes round its open files (`file_service_type`,
/// by default `roundrobin`), and has all of them open (`openfiles`, by default `nrfiles`), since the benchmark's job
/// for writing says nothing else.
pub(super) struct Writer {
    pub(super) files: Files,
    pub(super) count: u32,
    /// The file that is next, and its page.
    pub(super) next: (u32, u32),
    /// Writers that are not ready yet.
    pub(super) at_work: Rc<Cell<u32>>,
}

impl Actor for Writer {
    fn step(&mut self, machine: &Machine) -> Next {
        let (at, page) = self.next;
        if page == FILE_PAGES || self.count == 0 {
            self.at_work.set(self.at_work.get() - 1);
            return Next::Exit;
        }
        self.next = if at + 1 == self.count { (0, page + 1) } else { (at + 1, page) };
        let mut opened = None;
        if page == 0 {
            let file = machine.create_file(FILE_PAGES);
            self.files.borrow_mut().push(file);
            opened = machine.open_to_keep(file);
        }
        let Some(file) = self.files.borrow().get(at as usize).copied() else { return Next::Exit };
        let until = machine.write(file, page, 1).max(opened);
        if page + 1 == FILE_PAGES {
            machine.close(file);
        }
        until.map_or(Next::Run, Next::Sleep)
    }
}

/// Reads pages of a file at random, and then of another one. Once opened, a file stays open, as its files are no more
/// than it may have open.
pub(super) struct Reader {
    pub(super) files: Files,
    pub(super) going: Going,
    /// Those that were opened so far.
    pub(super) open: HashSet<FileId>,
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
                let opened = if self.open.insert(file) { machine.open_to_keep(file) } else { None };
                if let Some(until) = opened {
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

/// Findings of the threads.
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

#[cfg(test)]
mod tests {
    use super::super::ThpfioscaleArgs;
    use super::super::column::{Block, Column};
    use super::*;
    use crate::machine::{Kind, Time};
    use crate::workload::options::Runs;

    /// After each round every file has one page more, and all are open until they are whole.
    #[test]
    fn a_writer_goes_round_its_files() {
        let runs = Runs { iterations: std::num::NonZeroU32::MIN, seed: 1, jobs: None };
        let args = ThpfioscaleArgs::new(64 << 20, runs);
        let machine = Machine::boot(&Block::ALL[0].setup(Column::Default, &args, 1)).unwrap();
        let (files, at_work, count) = (Files::default(), Rc::new(Cell::new(1)), 40);
        let mut writer = Writer { files: Rc::clone(&files), count, next: (0, 0), at_work: Rc::clone(&at_work) };
        for pages in 1..=FILE_PAGES {
            (0..count).for_each(|_| _ = writer.step(&machine));
            assert!(files.borrow().iter().all(|file| machine.cached(*file) == u64::from(pages)));
            let open = if pages < FILE_PAGES { u64::from(count) } else { 0 };
            assert_eq!((machine.slab_usage(Kind::OpenFile).0, machine.slab_usage(Kind::Inode).0), (open, 40));
        }
        assert_eq!((writer.step(&machine), at_work.get(), machine.now() > Time::START), (Next::Exit, 0, true));
        machine.memory().check().unwrap();
    }
}
