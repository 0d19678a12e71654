//! The LRU lock, held.

use core::fmt;

use pageblock_frame::sync::LockGuard;
use pageblock_frame::{DescFlags, Descriptor, Pfn};

use crate::counters::LruEvent;
use crate::list::{HUGE_FRAMES, LruList, frames_of};
use crate::lists::{Chain, Lists};
use crate::lru::Lru;

/// The lock of an [`Lru`], held: for a batch of operations under one lock. Dropping it releases the lock.
///
/// While it is held no callback may run, and no reference be dropped that could be the last.
///
/// ```
/// use pageblock_frame::{Descriptor, Pfn};
/// use pageblock_lru::{Lru, LruList};
/// let table = [const { Descriptor::new() }; 4];
/// let lru = Lru::new(Pfn::new(0), &table);
/// let mut held = lru.hold();
/// for pfn in 0..4 {
///     table[pfn].store_refs(1);
///     assert!(held.add(Pfn::new(pfn as u64)));
/// }
/// assert!(held.isolate(Pfn::new(2)));
/// drop(held);
/// assert_eq!(lru.frames(LruList::InactiveAnon), 3);
/// ```
pub struct LruGuard<'a, 'm> {
    pub(crate) lists: LockGuard<'a, Lists>,
    pub(crate) lru: &'a Lru<'m>,
}

impl fmt::Debug for LruGuard<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LruGuard").field("start", &self.lru.start()).finish_non_exhaustive()
    }
}

impl<'a, 'm> LruGuard<'a, 'm> {
    /// The lists that are locked.
    #[must_use]
    #[inline]
    pub const fn lru(&self) -> &'a Lru<'m> {
        self.lru
    }

    /// Puts a page that is on no list at the head of the one that its flags name; see [`Lru::add`].
    pub fn add(&mut self, pfn: Pfn) -> bool {
        let Some(index) = self.lru.index_of(pfn) else { return false };
        let Some(page) = self.lru.table().get(index as usize) else { return false };
        if page.flags().contains(DescFlags::LRU) {
            return false;
        }
        self.place(index, page);
        true
    }

    /// Links a page that the caller owns at the head of its list and sets `LRU`.
    ///
    /// `LRU` is set last, and the flags seen in that same atomic step say whether `MLOCKED` changed after the list was
    /// chosen: then the page is moved at once. A CPU that changes it later sees `LRU` and comes to this lock. This
    /// replaces the barrier and second look of `putback_lru_page()` (3.12).
    #[inline]
    pub(crate) fn place(&mut self, index: u32, page: &Descriptor) {
        let seen = page.flags();
        let flags = self.settle(page, seen);
        self.push(LruList::of(flags), index, page, frames_of(flags));
        if (page.set_flags(DescFlags::LRU) ^ seen).contains(DescFlags::MLOCKED) {
            self.resettle(index, page);
        }
    }

    /// As [`place`](Self::place), but links the page into a chain for its list, to be spliced before the lock is
    /// released; a chain for another list is spliced at once.
    #[inline]
    pub(crate) fn chain(&mut self, index: u32, page: &Descriptor, chain: &mut (LruList, Chain)) {
        let seen = page.flags();
        let flags = self.settle(page, seen);
        let list = LruList::of(flags);
        if chain.0 != list {
            self.splice(chain);
            chain.0 = list;
        }
        if self.lists.counted(list) {
            page.prev.set(0);
        }
        chain.1.push_front(self.lru.table(), index, frames_of(flags));
        if (page.set_flags(DescFlags::LRU) ^ seen).contains(DescFlags::MLOCKED) {
            self.splice(chain);
            self.resettle(index, page);
        }
    }

    /// Splices a chain into its list, and empties it.
    #[inline]
    pub(crate) fn splice(&mut self, chain: &mut (LruList, Chain)) {
        if chain.1.entries != 0 {
            self.lists.splice_head(self.lru.table(), chain.0, &chain.1);
            chain.1 = Chain::EMPTY;
        }
    }

    /// Moves a page to the list that its `MLOCKED` says, if it is on one. After `MLOCKED` was changed without the lock.
    pub fn refresh(&mut self, index: u32) {
        if let Some(page) = self.lru.table().get(index as usize)
            && page.flags().contains(DescFlags::LRU)
        {
            self.resettle(index, page);
        }
    }

    /// Moves a linked page to the list that its `MLOCKED` says, until the two agree.
    pub(crate) fn resettle(&mut self, index: u32, page: &Descriptor) {
        loop {
            let flags = page.flags();
            let locked = flags.contains(DescFlags::MLOCKED);
            if locked == flags.contains(DescFlags::UNEVICTABLE) {
                return;
            }
            let frames = frames_of(flags);
            self.lists.remove(self.lru.table(), LruList::of(flags), index, frames);
            let flags = self.settle(page, flags);
            self.push(LruList::of(flags), index, page, frames);
        }
    }

    /// Brings `UNEVICTABLE` and `ACTIVE` in line with `MLOCKED` as seen; returns the flags that name the list.
    #[inline]
    fn settle(&self, page: &Descriptor, seen: DescFlags) -> DescFlags {
        let counters = &self.lru.counters;
        if seen.contains(DescFlags::MLOCKED) {
            if !seen.contains(DescFlags::UNEVICTABLE) {
                counters.count_held(LruEvent::Culled, frames_of(seen));
                page.change_flags(DescFlags::UNEVICTABLE, DescFlags::ACTIVE);
            }
            return (seen | DescFlags::UNEVICTABLE) - DescFlags::ACTIVE;
        }
        if seen.contains(DescFlags::UNEVICTABLE) {
            counters.count_held(LruEvent::Rescued, frames_of(seen));
            page.clear_flags(DescFlags::UNEVICTABLE);
        }
        seen - DescFlags::UNEVICTABLE
    }

    /// Links at the head; for a counted list, resets the page's lock count.
    fn push(&mut self, list: LruList, index: u32, page: &Descriptor, frames: u64) {
        if self.lists.counted(list) {
            page.prev.set(0);
        }
        self.lists.push_head(self.lru.table(), list, index, frames);
    }

    /// Takes a page off its list if it is on one. True if it was: its links are the caller's now, which holds a
    /// reference.
    ///
    /// Mirrors `__munlock_isolate_lru_page()` (3.12).
    #[inline]
    pub fn isolate(&mut self, pfn: Pfn) -> bool {
        self.lru.index_of(pfn).is_some_and(|index| self.isolate_index(index))
    }

    /// As [`isolate`](Self::isolate), for a page by its index in the table.
    #[inline]
    pub fn isolate_index(&mut self, index: u32) -> bool {
        let Some(page) = self.lru.table().get(index as usize) else { return false };
        let before = page.clear_flags(DescFlags::LRU);
        if !before.contains(DescFlags::LRU) {
            return false;
        }
        self.lists.remove(self.lru.table(), LruList::of(before), index, frames_of(before));
        true
    }

    /// Unlinks a page after the caller has cleared its `LRU`.
    #[inline]
    pub(crate) fn unlink(&mut self, index: u32, page: &Descriptor) {
        let flags = page.flags();
        self.lists.remove(self.lru.table(), LruList::of(flags), index, frames_of(flags));
    }

    /// Moves a linked page to the list that `set` and `clear` make it belong to: its head, or its tail.
    pub(crate) fn relink(&mut self, index: u32, page: &Descriptor, change: Change) {
        let before = page.change_flags(change.set, change.clear);
        let after = (before | change.set) - change.clear;
        let (table, frames) = (self.lru.table(), frames_of(before));
        self.lists.remove(table, LruList::of(before), index, frames);
        match change.end {
            End::Head => self.push(LruList::of(after), index, page, frames),
            End::Tail => self.lists.push_tail(table, LruList::of(after), index, frames),
        }
    }

    /// Splits a huge page on a list into [`HUGE_FRAMES`] pages in its place on the list, the first of them nearest to
    /// the head. True if the page was huge. Works on an isolated page too: then the tails are the isolator's as the
    /// head is.
    ///
    /// The caller has frozen the page (there is no other reference, and no mapping) and gives the tails their
    /// references. They take over its flags, but its page lock stays with the head.
    pub fn split(&mut self, pfn: Pfn) -> bool {
        let Some(head) = self.lru.index_of(pfn) else { return false };
        let table = self.lru.table();
        let Some(page) = table.get(head as usize) else { return false };
        let before = page.clear_flags(DescFlags::HUGE);
        if !before.contains(DescFlags::HUGE) {
            return false;
        }
        let tails = head + 1..head.saturating_add(HUGE_FRAMES as u32);
        for tail in tails.clone().filter_map(|tail| table.get(tail as usize)) {
            tail.store_flags(before - DescFlags::HUGE - DescFlags::LOCKED);
        }
        if before.contains(DescFlags::LRU) {
            self.lists.insert_after(table, LruList::of(before), head, tails);
        }
        true
    }
}

/// Which flags a move sets and clears, and at which end of the list it puts the page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) set: DescFlags,
    pub(crate) clear: DescFlags,
    pub(crate) end: End,
}

/// An end of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Head,
    Tail,
}
