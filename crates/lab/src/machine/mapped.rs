//! Programs and libraries: files that are mapped for good. Their inodes stay, and dropping caches leaves their pages
//! alone; only reclaim takes pages that were not used lately, and a later use reads it again.

use super::owner::Name;
use super::process::Fault;
use super::{FileId, Machine, costs};

/// Pages that a fault reads around the one that it needs (64 KiB); the file's readahead, which sees a reader begin
/// there, brings up to 13 more.
const AROUND: u32 = 16;

impl Machine {
    /// A new file that is mapped for as long as the machine runs.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Setup, Stream, Time};

    #[test]
    fn a_program_is_read_around_its_faults_and_stays_when_caches_are_dropped() {
        let setup = Setup::small();
        let machine = Machine::boot(&setup).unwrap();
        let (program, file) = (machine.map_file(100), machine.create_file(40));
        assert!(matches!(machine.use_mapped(program, 20), Fault::Major(_)));
        machine.run_until(Time::new(costs::SECOND));
        // 64 KiB around it, of which the last 12 KiB bring 64 KiB with them.
        assert_eq!((machine.cached(program), machine.transferred().0), (29, 29));
        assert_eq!([16, 31].map(|page| machine.use_mapped(program, page)), [Fault::Present; 2]);
        assert!(matches!(machine.use_mapped(program, 45), Fault::Major(_)), "what is beyond is read when it is used");
        assert_eq!(machine.tally().major_faults, 2);
        machine.read(file, 0, 40, &mut Stream::default());
        machine.run_until(Time::new(2 * costs::SECOND));
        assert_eq!((machine.cached(program), machine.cached(file)), (33, 40));
        machine.drop_caches();
        assert_eq!((machine.cached(program), machine.cached(file)), (33, 0));
        machine.memory().check().unwrap();
    }
}
