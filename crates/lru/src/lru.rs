//! One set of lists and its frames.

use pageblock_frame::sync::{AtomicU64, Lock};
use pageblock_frame::{DescFlags, Descriptor, Pfn, PfnRange, const_unless_model};

use crate::counters::{Counters, LruEvent};
use crate::guard::LruGuard;
use crate::list::{LruList, frames_of};
use crate::lists::{Lists, Unevictable};

/// The LRU lists of one zone or node.
///
/// ```
/// use pageblock_frame::{DescFlags, Descriptor, Pfn};
/// use pageblock_lru::{Lru, LruList};
/// let table = [const { Descriptor::new() }; 8];
/// let lru = Lru::new(Pfn::new(0x1000), &table);
/// let page = Pfn::new(0x1003);
/// table[3].store_refs(1); // allocated
/// assert!(lru.add(page));
/// assert_eq!(lru.frames(LruList::InactiveAnon), 1);
/// assert_eq!(lru.isolate(page), Ok(())); // off the list, with a reference of its own
/// assert_eq!(lru.frames(LruList::InactiveAnon), 0);
/// assert!(!lru.put_back(page)); // not the last reference: nothing to free
/// assert!(lru.release(page)); // the owner's was
/// assert_eq!(lru.check(), Ok(()));
/// ```
#[derive(Debug)]
pub struct Lru<'m> {
    start: Pfn,
    table: &'m [Descriptor],
    pub(crate) lists: Lock<Lists>,
    pub(crate) counters: Counters,
    /// Frames evicted or activated so far: the clock of the refault distance.
    pub(crate) age: AtomicU64,
}

impl<'m> Lru<'m> {
    const_unless_model! {
        /// Empty lists over the frames from `start` on that `table` describes.
        ///
        /// Fewer than 2³² - 1 frames; frames beyond are not covered.
        #[must_use]
        pub const fn new(start: Pfn, table: &'m [Descriptor]) -> Self {
            Self::with_form(start, table, Unevictable::Linked)
        }
    }

    const_unless_model! {
        /// As [`new`](Self::new), with the form of the unevictable list.
        #[must_use]
        pub const fn with_form(start: Pfn, table: &'m [Descriptor], form: Unevictable) -> Self {
            let table = match table.split_at_checked(u32::MAX as usize - 1) {
                Some((covered, _)) => covered,
                None => table,
            };
            Self {
                start,
                table,
                lists: Lock::new(Lists::new(form)),
                counters: Counters::new(),
                age: AtomicU64::new(0),
            }
        }
    }

    /// First frame.
    #[must_use]
    #[inline]
    pub const fn start(&self) -> Pfn {
        self.start
    }

    /// The frames that these lists cover.
    #[must_use]
    pub const fn span(&self) -> PfnRange {
        PfnRange::new(self.start, self.start.add(self.table.len() as u64))
    }

    /// The descriptors of those frames, from the first on.
    #[must_use]
    #[inline]
    pub const fn table(&self) -> &'m [Descriptor] {
        self.table
    }

    /// The index of a frame in the table, or `None` if it is not covered.
    #[must_use]
    #[inline]
    pub fn index_of(&self, pfn: Pfn) -> Option<u32> {
        let index = pfn.as_u64().wrapping_sub(self.start.as_u64());
        if index < self.table.len() as u64 { Some(index as u32) } else { None }
    }

    /// The frame with this index.
    #[must_use]
    #[inline]
    pub const fn pfn_of(&self, index: u32) -> Pfn {
        self.start.add(index as u64)
    }

    /// The descriptor of a frame, or `None` if it is not covered.
    #[must_use]
    #[inline]
    pub fn page(&self, pfn: Pfn) -> Option<&'m Descriptor> {
        self.table.get(self.index_of(pfn)? as usize)
    }

    /// Frames of the pages on a list.
    #[must_use]
    pub fn frames(&self, list: LruList) -> u64 {
        self.lists.lock().get(list).frames
    }

    /// Frames of the pages on every list, in the order of [`LruList::ALL`], all at one moment.
    #[must_use]
    pub fn all_frames(&self) -> [u64; LruList::COUNT] {
        self.lists.lock().lists.map(|list| list.frames)
    }

    /// Events and `NR_MLOCK`.
    #[must_use]
    #[inline]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Takes the LRU lock. While it is held, no callback may run and no last reference be dropped.
    #[must_use]
    #[inline]
    pub fn hold(&self) -> LruGuard<'_, 'm> {
        LruGuard { lists: self.lists.lock(), lru: self }
    }

    /// Puts a page that is on no list on the one that its flags name. True if it was put there; false if it is on a
    /// list already or not covered.
    ///
    /// The caller holds a reference, and keeps it: being on a list is no reference.
    pub fn add(&self, pfn: Pfn) -> bool {
        self.hold().add(pfn)
    }

    /// Gives a reference back; when it was the last, takes the page off its list and wipes its flags. True if so: then
    /// the frame is the caller's, to be freed.
    ///
    /// A page that is freed while still locked is repaired: `NR_MLOCK` and the event `Cleared` are counted.
    /// Mirrors `folio_put()` and `__page_cache_release()` (6.1).
    #[must_use = "the last reference obliges the caller to free the frame"]
    pub fn release(&self, pfn: Pfn) -> bool {
        let Some(index) = self.index_of(pfn) else { return false };
        let Some(page) = self.table.get(index as usize) else { return false };
        if page.put() != 0 {
            return false;
        }
        self.wipe(index, page);
        true
    }

    /// Takes a page without references off its list.
    pub(crate) fn wipe(&self, index: u32, page: &Descriptor) {
        // No reference can be taken any more, so no other CPU claims the page; a CPU that waits for the lock with a
        // claim held a reference before, hence is done.
        if page.clear_flags(DescFlags::LRU).contains(DescFlags::LRU) {
            let mut lists = self.lists.lock();
            let flags = page.flags();
            lists.remove(self.table, LruList::of(flags), index, frames_of(flags));
        }
        let flags = page.flags();
        if flags.contains(DescFlags::MLOCKED) {
            let frames = frames_of(flags);
            self.counters.add_mlocked(-(frames as i64));
            self.counters.count(LruEvent::Cleared, frames);
        }
        page.store_flags(DescFlags::empty());
    }
}
