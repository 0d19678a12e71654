//! Taking pages off the lists, and putting them back, for reclaim and compaction's migrate scanner.

use arrayvec::ArrayVec;
use pageblock_frame::{DescFlags, Pfn};

use crate::list::LruList;
use crate::lists::Chain;
use crate::lru::Lru;

pageblock_frame::errors! {
    /// Why a page could not be isolated.
    ///
    /// ```
    /// use pageblock_frame::{Descriptor, Pfn};
    /// use pageblock_lru::{LruIsolateError, Lru};
    /// let table = [const { Descriptor::new() }; 1];
    /// let lru = Lru::new(Pfn::new(0), &table);
    /// assert_eq!(lru.isolate(Pfn::new(0)), Err(LruIsolateError::Free));
    /// assert_eq!(lru.isolate(Pfn::new(1)), Err(LruIsolateError::OutOfRange));
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum LruIsolateError {
        /// The frame is not covered by these lists.
        #[error("the frame is not covered by these lists")]
        OutOfRange,
        /// The frame has no reference: it is free, or on its way there.
        #[error("the frame has no reference")]
        Free,
        /// The page is on no list: another CPU has it, or it waits in a pagevec.
        #[error("the page is on no list")]
        NotOnLru,
        /// As `NotOnLru`, and while this call held its reference all others were given back: the frame has none now,
        /// and is the caller's, to be freed.
        #[error("the page is on no list, and its last reference is gone: free the frame")]
        Orphaned,
    }
}

/// Result of [`Lru::isolate_tail`].
///
/// ```
/// assert_eq!(pageblock_lru::Scan::default().taken, 0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Scan {
    /// Frames of the pages looked at.
    pub scanned: u64,
    /// Frames of the pages taken.
    pub taken: u64,
}

impl Lru<'_> {
    /// Takes one page off its list, with a reference for the caller; it goes back with [`put_back`](Self::put_back).
    ///
    /// Mirrors `isolate_migratepages_block()`'s way to a page (6.1): reference unless zero, claim the flag, then the
    /// lock.
    ///
    /// # Errors
    /// [`LruIsolateError`]; nothing has changed then, except as `Orphaned` says.
    pub fn isolate(&self, pfn: Pfn) -> Result<(), LruIsolateError> {
        let index = self.index_of(pfn).ok_or(LruIsolateError::OutOfRange)?;
        let page = self.table().get(index as usize).ok_or(LruIsolateError::OutOfRange)?;
        if !page.flags().contains(DescFlags::LRU) {
            return Err(if page.refs() == 0 { LruIsolateError::Free } else { LruIsolateError::NotOnLru });
        }
        if !page.get_unless_zero() {
            return Err(LruIsolateError::Free);
        }
        if !page.clear_flags(DescFlags::LRU).contains(DescFlags::LRU) {
            return Err(if self.release(pfn) { LruIsolateError::Orphaned } else { LruIsolateError::NotOnLru });
        }
        self.hold().unlink(index, page);
        Ok(())
    }

    /// Takes pages off the tail of `list` into `out`, each with a reference for the caller, until `out` is full or
    /// `limit` pages have been looked at. Pages that another CPU is taking, or that are being freed, are stepped over.
    ///
    /// A counted unevictable list has no tail: nothing is taken from it. Mirrors `isolate_lru_folios()` (6.1).
    pub fn isolate_tail<const N: usize>(&self, list: LruList, limit: u32, out: &mut ArrayVec<Pfn, N>) -> Scan {
        let mut scan = Scan::default();
        let mut held = self.hold();
        if held.lists.counted(list) {
            return scan;
        }
        let mut cursor = held.lists.get(list).tail;
        for _ in 0..limit {
            let Some(page) = self.table().get(cursor as usize) else { break };
            if out.is_full() {
                break;
            }
            let (index, frames) = (cursor, crate::frames_of(page.flags()));
            cursor = page.prev.get();
            scan.scanned += frames;
            if !page.get_unless_zero() {
                continue;
            }
            if !page.clear_flags(DescFlags::LRU).contains(DescFlags::LRU) {
                // Claimed by a CPU that waits for this lock and holds a reference meanwhile: this is not the last.
                page.put();
                continue;
            }
            held.unlink(index, page);
            let _ = out.try_push(self.pfn_of(index)); // it was not full
            scan.taken += frames;
        }
        scan
    }

    /// Puts an isolated page back on the list that its flags name, at the head, and gives the isolator's reference
    /// back. True if that was the last one: then the page is on no list, and the frame is the caller's, to be freed.
    #[must_use = "the last reference obliges the caller to free the frame"]
    pub fn put_back(&self, pfn: Pfn) -> bool {
        let Some(index) = self.index_of(pfn) else { return false };
        let Some(page) = self.table().get(index as usize) else { return false };
        self.hold().place(index, page);
        self.release(pfn)
    }

    /// Puts isolated pages back, each on the list that its flags name (set or clear `ACTIVE` before), under one lock
    /// hold and with one splice for each run of pages of the same list; gives the isolator's references back. The
    /// first of `pages` comes nearest to the tail.
    ///
    /// Left in `pages` are the frames of which that was the last reference: the caller frees them.
    /// Mirrors `move_folios_to_lru()` (6.1).
    pub fn put_back_all<const N: usize>(&self, pages: &mut ArrayVec<Pfn, N>) {
        let mut chain = (LruList::InactiveAnon, Chain::EMPTY);
        let mut held = self.hold();
        for pfn in pages.iter() {
            let Some(index) = self.index_of(*pfn) else { continue };
            let Some(page) = self.table().get(index as usize) else { continue };
            held.chain(index, page, &mut chain);
        }
        held.splice(&mut chain);
        drop(held);
        pages.retain(|pfn| self.release(*pfn));
    }
}
