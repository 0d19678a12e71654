//! Programs and libraries: files that are mapped for good. Their inodes stay, and dropping caches leaves their pages alone; only reclaim
//! takes what was not used lately, and a later use reads it again.

use super::owner::Name;
use super::process::Fault;
use super::{FileId, Machine, costs};

/// Pages that a fault reads around the one that it needs (64 KiB).
const AROUND: u32 = 16;

impl Machine {
    /// A new file that somebody maps for as long as the machine runs.
    pub(crate) fn map_file(&self, pages: u32) -> FileId {
        let file = self.create_file(pages);
        self.files.borrow_mut().keep(file);
        self.open(file);
        file
    }

    /// A program uses a page of a mapped file.
    pub(crate) fn use_mapped(&self, file: FileId, page: u32) -> Fault {
        let name = Name::File { file: file.0, index: page };
        if let Some(pfn) = self.memory.find(name) {
            self.memory.mark_used(pfn);
            return Fault::Present;
        }
        self.compute(costs::FAULT);
        self.tally.borrow_mut().major_faults += 1;
        let first = page / AROUND * AROUND;
        match self.read(file, first, AROUND, &mut super::Stream::default()) {
            Some(done) => Fault::Major(done),
            None => Fault::OutOfMemory,
        }
    }
}
