//! A process with memory that can be locked: the [`Space`](crate::space::Space) as mlock sees it, with LRU lists over
//! the frames.

use alloc::vec;
use alloc::vec::Vec;

use pageblock::{Pfn, PfnRange};
use pageblock_frame::Descriptor;
use pageblock_frame::sync::Lock;
use pageblock_lru::{Lru, Lrus, Pagevecs};
use pageblock_mlock::{
    AddressSpace, AreaState, Entry, FaultError, LockedArea, MarkError, PageTable, Span, Table, Vpn, Walk,
};

use crate::space::{self, SPACE, Tables};
use crate::{hammer, mm};

/// Descriptors of all frames, and the lists over them.
pub struct Frames {
    table: Vec<Descriptor>,
}

impl Frames {
    /// Descriptors for the frames below `end`.
    pub fn new(end: Pfn) -> Self {
        Self { table: (0..end.as_u64()).map(|_| Descriptor::new()).collect() }
    }

    /// The lists over all of them.
    pub fn lru(&self) -> Lru<'_> {
        Lru::new(Pfn::new(0), &self.table)
    }
}

/// The process: one area of `pages` pages from the start of the space, parts of which may be locked.
pub struct Process<'a, 'm> {
    lrus: Lrus<'a, 'm>,
    /// By page.
    locked: Lock<Vec<bool>>,
}

impl<'a, 'm> Process<'a, 'm> {
    /// A process with `pages` pages, none of them locked.
    pub fn new(pages: u64, lrus: Lrus<'a, 'm>) -> Self {
        Self { lrus, locked: Lock::new(vec![false; pages as usize]) }
    }

    /// Brings a page in: a frame with one reference, the mapping's, on its LRU list. False if there is no memory.
    pub fn populate(&self, page: u64) -> bool {
        let populated = hammer::populate(page);
        if let Some(pfn) = SPACE.frame(page).filter(|_| populated)
            && let Some(lru) = self.lrus.of(pfn)
            && let Some(descriptor) = lru.page(pfn)
        {
            descriptor.store_refs(1);
            lru.add(pfn);
        }
        populated
    }

    /// Ends the process: unmaps and frees everything.
    ///
    /// # Panics
    /// A frame has more references than its mapping's.
    pub fn exit(self) {
        let pages = self.locked.lock().len() as u64;
        let mut vecs: Pagevecs<15> = Pagevecs::new();
        vecs.drain(self.lrus, &mut |pfn| self.free(pfn));
        SPACE.unmap(0..pages, |pfn| {
            assert!(self.lrus.release(pfn), "frame {pfn:?} has a reference that nobody gave back");
            self.free(pfn);
        });
    }
}

/// The page that a virtual page number means.
fn page_of(at: Vpn) -> Option<u64> {
    at.as_u64().checked_sub(first().as_u64())
}

/// The virtual page number of page 0.
fn first() -> Vpn {
    Vpn::of(space::address(0).as_u64())
}

impl Table for Tables<'_> {
    fn entry(&self, at: Vpn) -> Entry {
        page_of(at).and_then(|page| self.frame(page)).map_or(Entry::Absent, Entry::Page)
    }
}

impl PageTable for Process<'_, '_> {
    type Table<'t>
        = Tables<'t>
    where
        Self: 't;

    fn walk(&self, at: Vpn) -> Walk<Tables<'_>> {
        match page_of(at).filter(|page| space::has_table(*page)) {
            Some(_) => Walk::Table(SPACE.lock_tables()),
            None => Walk::Absent(Self::LEVELS.table_end(at)),
        }
    }
}

impl AddressSpace for Process<'_, '_> {
    fn area(&self, at: Vpn) -> Option<LockedArea> {
        let locked = self.locked.lock();
        let page = page_of(at)? as usize;
        let state = *locked.get(page)?;
        let same = |page: &&bool| **page == state;
        let before = locked.iter().take(page).rev().take_while(same).count();
        let after = locked.iter().skip(page).take_while(same).count();
        let span = Span::new(first().add((page - before) as u64), first().add((page + after) as u64));
        Some(LockedArea { span, state: if state { AreaState::Locked } else { AreaState::Unlocked } })
    }

    fn mark(&self, part: Span, state: AreaState) -> Result<(), MarkError> {
        let mut locked = self.locked.lock();
        let (Some(start), Some(end)) = (page_of(part.start), page_of(part.end)) else { return Err(MarkError::Limit) };
        let part = locked.get_mut(start as usize..end as usize).ok_or(MarkError::Limit)?;
        part.fill(state == AreaState::Locked);
        Ok(())
    }

    fn fault_in(&self, at: Vpn) -> Result<(), FaultError> {
        let page = page_of(at).ok_or(FaultError::Nothing)?;
        if self.populate(page) { Ok(()) } else { Err(FaultError::NoMemory) }
    }

    fn locked_by_any(&self, pfn: Pfn) -> bool {
        let locked = self.locked.lock();
        SPACE.page_behind(pfn).and_then(|page| locked.get(page as usize).copied()).unwrap_or(false)
    }

    fn free(&self, pfn: Pfn) {
        space::free(pfn);
    }
}

/// All frames below this one are described: the end of memory.
pub fn frame_end() -> Pfn {
    mm::FRAMES.zones().map(|zone| zone.span()).map(|span: PfnRange| span.end).max().unwrap_or(Pfn::new(0))
}
