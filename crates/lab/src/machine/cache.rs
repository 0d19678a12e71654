//! Reading, writing and deleting files through the page cache.

use pageblock_frame::{DescFlags, Gfp};

use super::disk::Transfer;
use super::loading::Run;
use super::owner::Name;
use super::{FileId, Kind, Machine, Time, costs};

/// A reader's place in a file, from which its read-ahead follows (`struct file_ra_state`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Stream {
    /// The page after the last one that was asked for.
    next: u32,
    /// Pages read ahead the last time; 0: nothing was.
    window: u32,
    /// The page after that window.
    ahead: u32,
    /// The page that asks for the next window when the reader comes to it, if it is still there then.
    marker: Option<u32>,
}

/// The first window of a sequential reader.
const FIRST_WINDOW: u32 = 4;

impl Machine {
    /// A new file of so many pages; nothing of it is in memory.
    pub(crate) fn create_file(&self, pages: u32) -> FileId {
        self.files.borrow_mut().create(pages)
    }

    /// Leaves so many pages of the disk unused between the files before and after.
    pub(crate) fn skip_disk(&self, pages: u64) {
        self.files.borrow_mut().skip(pages);
    }

    /// Number of pages of a file.
    pub(crate) fn file_pages(&self, file: FileId) -> u32 {
        self.files.borrow().pages(file)
    }

    /// Opens a file: its dentry and inode are in memory then. One that was forgotten is read from the disk; the answer
    /// says until when that takes.
    pub(crate) fn open(&self, file: FileId) -> Option<Time> {
        self.compute(costs::OPEN);
        let kinds = self.files.borrow_mut().open(file);
        if kinds.is_empty() {
            return None;
        }
        let buffer = kinds.contains(&Kind::Inode).then(|| self.use_buffer(file)).flatten();
        let objects = kinds.into_iter().filter_map(|kind| self.object(kind)).collect();
        let unwanted = self.files.borrow_mut().know(file, objects);
        self.release(unwanted);
        if self.is_xfs {
            self.attach(file, Kind::InodePart);
        }
        buffer
    }

    /// Opens a file and keeps it open: it is not forgotten until it is [closed](Self::close). The answer is that of
    /// [`open`](Self::open).
    pub(crate) fn open_to_keep(&self, file: FileId) -> Option<Time> {
        if let Some(descriptor) = self.object(Kind::OpenFile) {
            let unwanted = self.files.borrow_mut().hold(file, descriptor);
            self.release(unwanted);
        }
        self.open(file)
    }

    /// Closes a file.
    pub(crate) fn close(&self, file: FileId) {
        let descriptor = self.files.borrow_mut().let_go(file);
        self.release(descriptor);
    }

    /// Reads `count` pages from page `first` on. If some had to come from the disk, the time when they are there.
    pub(crate) fn read(&self, file: FileId, first: u32, count: u32, stream: &mut Stream) -> Option<Time> {
        let changes = self.files.borrow_mut().note_read(file);
        if changes {
            self.journal(file);
        }
        let mut done = None;
        let end = first.saturating_add(count).min(self.file_pages(file));
        for page in first..end {
            let name = Name::File { file: file.0, index: page };
            let found = self.memory.find(name);
            self.compute(costs::CACHE_HIT);
            match found {
                Some(pfn) => {
                    self.memory.touch(pfn);
                    if stream.marker == Some(page) {
                        self.read_on(file, stream);
                    }
                    done = self.wait_for(file, page).max(done);
                }
                None if self.reads_ahead => {
                    self.read_missing(file, page, stream);
                    done = self.wait_for(file, page).max(done);
                    if let Some(pfn) = self.memory.find(name) {
                        self.memory.leave_behind(pfn);
                    }
                }
                None => {
                    done = self.read_ahead(file, page, stream).max(done);
                    if let Some(pfn) = self.memory.find(name) {
                        self.memory.leave_behind(pfn);
                    }
                }
            }
            stream.next = page + 1;
        }
        done
    }

    /// Brings a page into memory, and the pages that the reader will probably want next.
    fn read_ahead(&self, file: FileId, page: u32, stream: &mut Stream) -> Option<Time> {
        let sequential = page == stream.next;
        stream.window = match stream.window {
            _ if !sequential => 1,
            0 | 1 => FIRST_WINDOW,
            window => (window * 2).min(costs::READAHEAD),
        };
        let end = page.saturating_add(stream.window).min(self.file_pages(file));
        let (mut run, mut done) = ((page, page), None);
        for index in page..end {
            let name = Name::File { file: file.0, index };
            if self.memory.find(name).is_some() {
                done = self.transfer(file, run).max(done);
                run = (index + 1, index + 1);
                continue;
            }
            let gfp = if index == page { CACHE } else { CACHE | Gfp::NORETRY | Gfp::NOWARN };
            if self.memory.take_page(name, gfp).is_err() {
                self.tally.borrow_mut().out_of_memory += u64::from(index == page);
                break;
            }
            run.1 = index + 1;
        }
        self.transfer(file, run).max(done)
    }

    /// The reader has come to the marker: the next window.
    fn read_on(&self, file: FileId, stream: &mut Stream) {
        stream.window = next_window(stream.window);
        self.fetch(file, stream.ahead, stream);
    }

    /// A page is not there. One that the next window would have begun with goes on with it; else a reader that goes on
    /// begins with a small window, and one that jumps gets its page alone.
    fn read_missing(&self, file: FileId, page: u32, stream: &mut Stream) {
        let sequential = page == stream.next;
        stream.window = match stream.window {
            window if sequential && window > 0 && page == stream.ahead => next_window(window),
            _ if sequential => FIRST_WINDOW,
            _ => 1,
        };
        self.fetch(file, page, stream);
        if stream.marker != Some(page) {
            return;
        }
        if stream.window > FIRST_WINDOW {
            // The reader stands on the marker.
            self.read_on(file, stream);
        } else {
            stream.marker = self.loading.borrow().has((file.0, page + 1)).then_some(page + 1);
        }
    }

    /// Asks for a window from `first` on, without waiting. Its first page is the marker, unless it was there before.
    fn fetch(&self, file: FileId, first: u32, stream: &mut Stream) {
        let end = first.saturating_add(stream.window).min(self.file_pages(file));
        (stream.ahead, stream.marker) = (end, None);
        let mut run = Run { file, first, end: first };
        for index in first..end {
            let name = Name::File { file: file.0, index };
            if self.memory.find(name).is_some() {
                self.load(run);
                run = Run { file, first: index + 1, end: index + 1 };
                continue;
            }
            let gfp = if index == stream.next { CACHE } else { CACHE | Gfp::NORETRY | Gfp::NOWARN };
            if self.memory.take_page(name, gfp).is_err() {
                self.tally.borrow_mut().out_of_memory += u64::from(index == stream.next);
                stream.ahead = index;
                break;
            }
            if index == first && stream.window > 1 {
                stream.marker = Some(first);
            }
            run.end = index + 1;
        }
        self.load(run);
    }

    /// Reads neighbouring pages from the disk.
    fn transfer(&self, file: FileId, (first, end): (u32, u32)) -> Option<Time> {
        if first == end {
            return None;
        }
        let sector = self.files.borrow().sector(file, first);
        Some(self.ask_disk(Transfer::Read, (sector, u64::from(end - first)), Vec::new()))
    }

    /// Writes `count` whole pages from page `first` on, into memory: the disk gets them later. If too much of memory is
    /// dirty, the time until which the writer has to wait.
    pub(crate) fn write(&self, file: FileId, first: u32, count: u32) -> Option<Time> {
        let changes = self.files.borrow_mut().note_write(file);
        if changes {
            self.journal(file);
        } else {
            // Its time of change is another one.
            self.log_inode(file);
        }
        let end = first.saturating_add(count).min(self.file_pages(file));
        for index in first..end {
            let name = Name::File { file: file.0, index };
            let found = self.memory.find(name);
            let pfn = match found {
                Some(pfn) => pfn,
                None => match self.memory.take_page(name, CACHE | Gfp::WRITE) {
                    Ok(pfn) => pfn,
                    Err(_) => {
                        self.tally.borrow_mut().out_of_memory += 1;
                        continue;
                    }
                },
            };
            self.compute(costs::CACHE_HIT);
            if found.is_some() {
                self.memory.touch(pfn);
            }
            if !self.memory.flags(pfn).contains(DescFlags::DIRTY) {
                self.memory.make_dirty(pfn);
                self.dirty.borrow_mut().add(self.now(), (file, index), self.zone_of(pfn));
            }
        }
        self.balance_dirty()
    }

    /// Deletes a file: its pages, its objects, its place on the disk.
    pub(crate) fn delete_file(&self, file: FileId) {
        self.compute(costs::OPEN);
        self.journal(file);
        let pages = self.memory.pages_of(Name::of_file(file.0));
        for (_, pfn) in pages.iter().filter(|(_, pfn)| self.memory.flags(*pfn).contains(DescFlags::DIRTY)) {
            self.dirty.borrow_mut().forget(self.zone_of(*pfn));
        }
        self.memory.end(Name::of_file(file.0));
        self.shadows.borrow_mut().forget(file);
        let objects = self.files.borrow_mut().delete(file);
        self.forget_changes(file);
        self.release(objects);
    }

    /// Pages of a file in memory.
    pub(crate) fn cached(&self, file: FileId) -> u64 {
        self.memory.pages_of(Name::of_file(file.0)).len() as u64
    }
}

/// The window after one of so many pages (`get_next_ra_size()`).
fn next_window(pages: u32) -> u32 {
    let grown = if pages < costs::READAHEAD / 16 { pages * 4 } else { pages * 2 };
    grown.min(costs::READAHEAD)
}

/// Flags of pages of the cache.
const CACHE: Gfp = Gfp::HIGHUSER_MOVABLE;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Setup;
    use std::rc::Rc;

    fn machine() -> Rc<Machine> {
        Machine::boot(&Setup::small()).unwrap()
    }

    #[test]
    fn windows_double_for_who_reads_on_and_not_for_who_jumps() {
        let machine = machine();
        let file = machine.create_file(1000);
        let mut stream = Stream::default();
        let mut known = Vec::new();
        for page in 0..100 {
            machine.read(file, page, 1, &mut stream);
            known.push(machine.cached(file));
        }
        known.dedup();
        assert_eq!(known, [4, 12, 28, 60, 92, 124]);
        machine.read(file, 500, 1, &mut stream);
        assert_eq!(machine.cached(file), 125);
        machine.read(file, 501, 1, &mut stream);
        assert_eq!(machine.cached(file), 129, "and begins anew where it goes on");
    }

    /// The reader of a window that is on its way waits for its own page only, and the next window is asked for
    /// meanwhile.
    #[test]
    fn windows_are_asked_for_before_they_are_needed() {
        let machine = Machine::boot(&Setup { reads_ahead: true, ..Setup::small() }).unwrap();
        let file = machine.create_file(1000);
        let mut stream = Stream::default();
        let mut known = Vec::new();
        for page in 0..100 {
            let waits = machine.read(file, page, 1, &mut stream).is_some();
            assert!(waits || page > 0, "nothing is there yet");
            known.push(machine.cached(file));
        }
        known.dedup();
        assert_eq!(known, [4, 12, 28, 60, 92, 124, 156]);
        machine.run_until(Time::new(costs::SECOND));
        assert_eq!(machine.read(file, 155, 1, &mut stream), None, "it has come");
        machine.read(file, 500, 1, &mut stream);
        assert_eq!(machine.cached(file), 157, "a page alone where the reader jumps");
    }

    #[test]
    fn what_is_there_is_not_read_again_and_files_end() {
        let machine = machine();
        let file = machine.create_file(10);
        machine.write(file, 3, 2);
        assert!(machine.read(file, 0, 99, &mut Stream::default()).is_some());
        machine.run_until(Time::new(costs::SECOND));
        assert_eq!((machine.cached(file), machine.transferred()), (10, (8, 0)));
        assert_eq!(machine.read(file, 0, 10, &mut Stream::default()), None);
        machine.write(file, 9, 99);
        assert_eq!(machine.cached(file), 10);
        let free = machine.memory().allocator().stats().free;
        machine.delete_file(file);
        assert_eq!(machine.memory().allocator().stats().free, free + 10);
        assert_eq!((machine.dirty_pages(), machine.cached(file)), ((0, 0), 0));
        machine.memory().check().unwrap();
    }
}
