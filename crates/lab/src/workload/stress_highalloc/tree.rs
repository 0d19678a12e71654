//! Trees of kernel source, and the actors that copy and delete them.

use std::cell::Cell;
use std::rc::Rc;

use rand::RngExt;

use super::scale::Scale;
use crate::machine::{Actor, FileId, Machine, Next, Stream};

/// Files of linux-3.0: 36.8 thousand.
const FILES: u64 = 36_800;
/// Of those, headers that builds look into, in thousandths.
const HEADERS: usize = 120;
/// Sizes in pages, and how many of a hundred files are up to that large: 3.3 pages in the mean, as 420 MB in 4 KiB
/// pages come to.
const SIZES: [(u32, u32, u32); 5] = [(50, 1, 1), (73, 2, 2), (87, 3, 4), (98, 5, 15), (100, 16, 60)];

/// Files of a directory, in the mean.
const DIRECTORY: usize = 16;
/// Pages between directories on the disk: they are spread over block groups, with the tables of inodes between.
const APART: u64 = 64;

/// A tree of files.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    pub(super) files: Vec<FileId>,
}

impl Tree {
    /// The source, not yet written.
    pub(super) fn unpacked(machine: &Machine, scale: Scale) -> Self {
        let size = |_| {
            let (kind, spread) = machine.dice(|dice| (dice.random_range(0..100), dice.random::<u32>()));
            let (_, least, most) = SIZES.into_iter().find(|(percent, ..)| kind < *percent).unwrap_or((100, 1, 1));
            least + spread % (most - least + 1)
        };
        Self::laid_out(machine, (0..scale.of(FILES)).map(size))
    }

    /// Files of these sizes: those of a directory beside one another, directories apart.
    fn laid_out(machine: &Machine, sizes: impl Iterator<Item = u32>) -> Self {
        let place = |(at, pages)| {
            if at % DIRECTORY == 0 {
                machine.skip_disk(APART);
            }
            machine.create_file(pages)
        };
        Self { files: sizes.enumerate().map(place).collect() }
    }

    /// Files of the same sizes, elsewhere.
    pub(super) fn like(&self, machine: &Machine) -> Self {
        Self::laid_out(machine, self.files.iter().map(|file| machine.file_pages(*file)))
    }

    /// Headers: they come first.
    pub(super) fn headers(&self) -> &[FileId] {
        &self.files[..(self.files.len() * HEADERS / 1000).max(1)]
    }

    /// Everything else.
    pub(super) fn sources(&self) -> &[FileId] {
        &self.files[self.headers().len().min(self.files.len() - 1)..]
    }
}

/// Set when an actor is done.
pub(super) type Done = Rc<Cell<bool>>;

/// Writes a tree, from another or out of an archive.
pub(super) struct Copier {
    pub(super) from: Option<Tree>,
    pub(super) to: Tree,
    pub(super) at: usize,
    pub(super) done: Done,
}

impl Actor for Copier {
    fn step(&mut self, machine: &Machine) -> Next {
        let Some(&file) = self.to.files.get(self.at) else {
            self.done.set(true);
            return Next::Exit;
        };
        let pages = machine.file_pages(file);
        let mut until = None;
        if let Some(from) = &self.from {
            machine.open(from.files[self.at]);
            until = machine.read(from.files[self.at], 0, pages, &mut Stream::default());
        }
        machine.open(file);
        let pause = machine.write(file, 0, pages);
        self.at += 1;
        until.max(pause).map_or(Next::Run, Next::Sleep)
    }
}

/// Deletes files, some at a time.
pub(super) struct Deleter {
    pub(super) files: Vec<FileId>,
    pub(super) done: Done,
}

impl Actor for Deleter {
    fn step(&mut self, machine: &Machine) -> Next {
        let Some(file) = self.files.pop() else {
            self.done.set(true);
            return Next::Exit;
        };
        machine.delete_file(file);
        Next::Run
    }
}
