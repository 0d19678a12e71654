//! The file system's own pages: inode tables and directories, in the block device's page cache.
//!
//! Creating, deleting or first reading a file changes its inode's page and its directory's. The journal holds a changed
//! page from then on until it is committed and written where it belongs; so long it can neither be moved nor evicted,
//! though it lies in memory that was asked for as movable (until Linux 3.18; Gioh Kim's change of that year took such
//! pages out of it).

use std::collections::{HashMap, VecDeque};

use pageblock_frame::{Gfp, Pfn};

use super::owner::Name;
use super::{FileId, Machine, Time};

/// Inodes of a page, of 256 bytes each; and files of a directory's page, as many.
const FILES_OF_PAGE: u32 = 16;
/// Where directories begin in the device's pages; inode tables are before.
const DIRECTORIES: u32 = 1 << 18;

/// Pages that the journal holds.
///
/// | field | legal values |
/// |---|---|
/// | `held` | by page of the device, its frame, with a reference, and until when it is held |
/// | `queue` | each of them once, at a time that may be early |
#[derive(Debug, Default)]
pub(super) struct Journal {
    device: Option<FileId>,
    held: HashMap<u32, (Pfn, Time)>,
    queue: VecDeque<(Time, u32)>,
}

impl Journal {
    /// The next page that is due: held no longer, or, if it was changed again meanwhile, put off.
    fn expire(&mut self, now: Time) -> Option<Pfn> {
        while let Some(&(time, page)) = self.queue.front().filter(|(time, _)| *time <= now) {
            self.queue.pop_front();
            match self.held.get(&page) {
                Some((_, until)) if *until > time => self.queue.push_back((*until, page)),
                Some(_) => return self.held.remove(&page).map(|(pfn, _)| pfn),
                None => {}
            }
        }
        None
    }
}

impl Machine {
    /// A file was created, deleted, or read for the first time.
    pub(super) fn journal(&self, file: FileId) {
        self.log_inode(file);
        if self.journal_hold == 0 {
            return;
        }
        self.end_holds();
        let group = file.0 / FILES_OF_PAGE;
        self.hold(group);
        self.hold(DIRECTORIES + group);
    }

    /// Lets go of written pages.
    pub(super) fn end_holds(&self) {
        let now = self.now();
        loop {
            let expired = self.journal.borrow_mut().expire(now);
            let Some(pfn) = expired else { return };
            self.memory.unpin(pfn);
        }
    }

    fn hold(&self, page: u32) {
        let until = self.now().after(self.journal_hold);
        let device = {
            let mut journal = self.journal.borrow_mut();
            if let Some((_, end)) = journal.held.get_mut(&page) {
                *end = until;
                return;
            }
            *journal.device.get_or_insert_with(|| self.files.borrow_mut().create(1))
        };
        let name = Name::File { file: device.0, index: page };
        let found = self.memory.find(name);
        let Some(pfn) = found.or_else(|| self.memory.take_page(name, DEVICE).ok()) else { return };
        self.memory.pin(pfn);
        let mut journal = self.journal.borrow_mut();
        journal.held.insert(page, (pfn, until));
        journal.queue.push_back((until, page));
    }

    /// Pages that the journal holds.
    pub(crate) fn journaled(&self) -> u64 {
        self.journal.borrow().held.len() as u64
    }
}

/// Flags of the device's pages (`GFP_NOFS | __GFP_MOVABLE`).
const DEVICE: Gfp = Gfp::NOFS.union(Gfp::HARDWALL).union(Gfp::MOVABLE);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Setup, costs::SECOND};

    #[test]
    fn a_changed_page_is_held_until_its_time_and_longer_if_it_changes_again() {
        let setup = Setup::small();
        let machine = Machine::boot(&Setup { journal_hold: 10 * SECOND, ..setup }).unwrap();
        let at = |seconds| {
            machine.run_until(Time::new(seconds * SECOND));
            machine.end_holds();
            machine.journaled()
        };
        machine.journal(FileId(0));
        machine.journal(FileId(FILES_OF_PAGE - 1));
        assert_eq!(machine.journaled(), 2, "an inode table's page and a directory's for all of them");
        machine.journal(FileId(FILES_OF_PAGE));
        assert_eq!(at(6), 4);
        machine.journal(FileId(1));
        assert_eq!(at(11), 2, "the second group's time is over, the first one's began anew");
        assert_eq!(at(17), 0);
        machine.memory().check().unwrap();
    }

    #[test]
    fn a_file_system_without_one_holds_nothing() {
        let setup = Setup::small();
        let machine = Machine::boot(&setup).unwrap();
        machine.journal(FileId(0));
        assert_eq!((machine.journaled(), machine.memory().counts().file), (0, 0));
    }
}
