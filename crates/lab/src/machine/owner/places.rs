//! Where the named pages are: a table for each process, as its page table, and one for each file, as the page cache's
//! tree.

use pageblock_frame::Pfn;

use super::holder::{Name, Space};

/// No page.
const NOWHERE: u32 = u32::MAX;

/// Frames by name. Room is taken up to the largest number in use, and given back with the last page.
#[derive(Debug, Default)]
pub(super) struct Places {
    processes: Vec<Table>,
    files: Vec<Table>,
    len: usize,
}

/// The pages of one process or file.
#[derive(Debug, Default)]
struct Table {
    /// By number; [`NOWHERE`] for none.
    frames: Vec<u32>,
    pages: u32,
}

const fn split(name: Name) -> (Space, u32) {
    match name {
        Name::Anon { process, page } => (Space::Process(process), page),
        Name::File { file, index } => (Space::File(file), index),
    }
}

impl Places {
    fn table(&self, space: Space) -> Option<&Table> {
        match space {
            Space::Process(process) => self.processes.get(process as usize),
            Space::File(file) => self.files.get(file as usize),
        }
    }

    fn table_mut(&mut self, space: Space) -> &mut Table {
        let (tables, at) = match space {
            Space::Process(process) => (&mut self.processes, process as usize),
            Space::File(file) => (&mut self.files, file as usize),
        };
        if tables.len() <= at {
            tables.resize_with(at + 1, Table::default);
        }
        &mut tables[at]
    }

    /// Number of pages.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Where a page is.
    pub(super) fn get(&self, name: Name) -> Option<Pfn> {
        let (space, number) = split(name);
        let frame = *self.table(space)?.frames.get(number as usize)?;
        (frame != NOWHERE).then(|| Pfn::new(u64::from(frame)))
    }

    /// A page is here from now on.
    pub(super) fn insert(&mut self, name: Name, pfn: Pfn) {
        let (space, number) = split(name);
        let table = self.table_mut(space);
        if table.frames.len() <= number as usize {
            table.frames.resize(number as usize + 1, NOWHERE);
        }
        let before = std::mem::replace(&mut table.frames[number as usize], pfn.as_u64() as u32);
        if before == NOWHERE {
            table.pages += 1;
            self.len += 1;
        }
    }

    /// A page is nowhere from now on.
    pub(super) fn remove(&mut self, name: Name) {
        let (space, number) = split(name);
        let table = self.table_mut(space);
        let Some(frame) = table.frames.get_mut(number as usize).filter(|frame| **frame != NOWHERE) else { return };
        *frame = NOWHERE;
        table.pages -= 1;
        if table.pages == 0 {
            table.frames = Vec::new();
        }
        self.len -= 1;
    }

    /// The pages of a process or a file, by number.
    pub(super) fn of(&self, space: Space) -> Vec<(Name, Pfn)> {
        let Some(table) = self.table(space) else { return Vec::new() };
        let pages = table.frames.iter().zip(0..).filter(|(frame, _)| **frame != NOWHERE);
        let mut all = Vec::with_capacity(table.pages as usize);
        all.extend(pages.map(|(frame, number)| (space.name(number), Pfn::new(u64::from(*frame)))));
        all
    }
}
