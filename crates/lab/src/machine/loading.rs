//! Pages of files on their way from the disk: read ahead of their reader, who waits for a page only when it comes to
//! it.
//!
//! ```text
//! window     ▏ pages 4 to 11   ▏ pages 12 to 27
//! marker      ▲ page 4: the reader comes here, and the next window is asked for
//! ```
//! A page is not given up while it is loading (`PG_locked`). From then until it is used it is like any other page that
//! was never used, and may be gone when its reader comes. The marker goes with its page, and the next window with the
//! marker: then the reader misses a page, and begins with a small window again (`ondemand_readahead()`).

use std::collections::BTreeMap;

use super::disk::{Request, Transfer};
use super::schedule::ActorId;
use super::{FileId, Machine, Time};

/// A page of a file.
type Page = (u32, u32);

/// Pages of one file, from the first to the one after the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub(crate) file: FileId,
    pub(crate) first: u32,
    pub(crate) end: u32,
}

impl Run {
    fn pages(self) -> impl Iterator<Item = Page> {
        (self.first..self.end).map(move |index| (self.file.0, index))
    }
}

/// What is being read, and which actors wait for it.
#[derive(Debug, Default)]
pub(super) struct Loading {
    /// By page the number of its request.
    pages: BTreeMap<Page, u64>,
    /// By request those that wait for one of its pages.
    waiters: BTreeMap<u64, Vec<ActorId>>,
    last: u64,
}

impl Loading {
    /// True if the page is not there yet.
    pub(super) fn has(&self, page: Page) -> bool {
        self.pages.contains_key(&page)
    }

    fn begin(&mut self, run: Run) {
        self.last += 1;
        let number = self.last;
        self.pages.extend(run.pages().map(|page| (page, number)));
    }

    /// Those that waited for a request whose pages are there now.
    fn end(&mut self, run: Run) -> Vec<ActorId> {
        let mut number = None;
        run.pages().for_each(|page| number = self.pages.remove(&page).or(number));
        number.and_then(|number| self.waiters.remove(&number)).unwrap_or_default()
    }
}

impl Machine {
    /// Asks the disk for pages that are in the cache already, without waiting for them.
    pub(super) fn load(&self, run: Run) {
        if run.first == run.end {
            return;
        }
        self.loading.borrow_mut().begin(run);
        let at = self.files.borrow().sector(run.file, run.first);
        let (owner, pages) = (self.schedule.current(), u64::from(run.end - run.first));
        let request = Request { what: Transfer::Read, at, pages, owner, frames: Vec::new(), loads: Some(run) };
        self.disk.borrow_mut().submit(request);
        self.drive_disk();
    }

    /// If a page is not there yet, the running actor waits for it.
    pub(super) fn wait_for(&self, file: FileId, index: u32) -> Option<Time> {
        let mut loading = self.loading.borrow_mut();
        let number = *loading.pages.get(&(file.0, index))?;
        if let Some(id) = self.schedule.current() {
            loading.waiters.entry(number).or_default().push(id);
            self.one_more(id);
        }
        Some(Time::DISK)
    }

    /// The disk has read a run.
    pub(super) fn has_loaded(&self, run: Run) {
        let waiters = self.loading.borrow_mut().end(run);
        waiters.into_iter().for_each(|id| self.one_less(id));
    }
}
