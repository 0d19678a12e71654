//! Heads, tails and counts of the five lists: the data under the LRU lock, and the operations on links.
//!
//! Links are frame indices into the table; [`NO_FRAME`] is beyond any table, so a bounds check is the end test.

use pageblock_frame::{Descriptor, NO_FRAME};

use crate::list::LruList;

/// How the unevictable list is kept.
///
/// ```
/// assert_eq!(pageblock_lru::Unevictable::default(), pageblock_lru::Unevictable::Linked);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Unevictable {
    /// A list like the others (Linux before 5.18).
    #[default]
    Linked,
    /// A count only; the page's first link word holds how many areas lock it (Linux since 5.18).
    Counted,
}

/// One list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    /// First frame, or [`NO_FRAME`].
    pub(crate) head: u32,
    /// Last frame, or [`NO_FRAME`].
    pub(crate) tail: u32,
    /// Pages on the list.
    pub(crate) entries: u32,
    /// Frames of those pages.
    pub(crate) frames: u64,
}

/// A run of pages linked to each other, head first, with loose ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    pub(crate) first: u32,
    pub(crate) last: u32,
    pub(crate) entries: u32,
    pub(crate) frames: u64,
}

impl Chain {
    pub(crate) const EMPTY: Self = Self { first: NO_FRAME, last: NO_FRAME, entries: 0, frames: 0 };

    /// Puts a page before the first.
    #[inline]
    pub(crate) fn push_front(&mut self, table: &[Descriptor], index: u32, frames: u64) {
        let Some(page) = table.get(index as usize) else { return };
        page.next.set(self.first);
        match table.get(self.first as usize) {
            Some(first) => first.prev.set(index),
            None => self.last = index,
        }
        self.first = index;
        self.entries += 1;
        self.frames += frames;
    }
}

/// The five lists.
#[derive(Debug)]
pub(crate) struct Lists {
    pub(crate) lists: [List; LruList::COUNT],
    pub(crate) form: Unevictable,
}

impl Lists {
    pub(crate) const fn new(form: Unevictable) -> Self {
        const EMPTY: List = List { head: NO_FRAME, tail: NO_FRAME, entries: 0, frames: 0 };
        Self { lists: [EMPTY; LruList::COUNT], form }
    }

    #[inline]
    pub(crate) fn get(&self, list: LruList) -> &List {
        &self.lists[list.index()]
    }

    /// True if pages of `list` are not linked but only counted.
    #[inline]
    pub(crate) fn counted(&self, list: LruList) -> bool {
        matches!(list, LruList::Unevictable) && matches!(self.form, Unevictable::Counted)
    }

    /// Links a page in at the head.
    #[inline]
    pub(crate) fn push_head(&mut self, table: &[Descriptor], list: LruList, index: u32, frames: u64) {
        let mut chain = Chain::EMPTY;
        chain.push_front(table, index, frames);
        self.splice_head(table, list, &chain);
    }

    /// Links a page in at the tail, where reclaim finds it next.
    pub(crate) fn push_tail(&mut self, table: &[Descriptor], list: LruList, index: u32, frames: u64) {
        let Some(page) = table.get(index as usize) else { return };
        let to = &mut self.lists[list.index()];
        page.next.set(NO_FRAME);
        page.prev.set(to.tail);
        match table.get(to.tail as usize) {
            Some(tail) => tail.next.set(index),
            None => to.head = index,
        }
        to.tail = index;
        to.entries += 1;
        to.frames += frames;
    }

    /// Links a whole chain in at the head: a constant number of steps.
    #[inline]
    pub(crate) fn splice_head(&mut self, table: &[Descriptor], list: LruList, chain: &Chain) {
        let counted = self.counted(list);
        let to = &mut self.lists[list.index()];
        to.entries += chain.entries;
        to.frames += chain.frames;
        if counted {
            return;
        }
        let (Some(first), Some(last)) = (table.get(chain.first as usize), table.get(chain.last as usize)) else {
            return;
        };
        first.prev.set(NO_FRAME);
        last.next.set(to.head);
        match table.get(to.head as usize) {
            Some(head) => head.prev.set(chain.last),
            None => to.tail = chain.last,
        }
        to.head = chain.first;
    }

    /// Unlinks a page.
    #[inline]
    pub(crate) fn remove(&mut self, table: &[Descriptor], list: LruList, index: u32, frames: u64) {
        self.cut(table, list, &Chain { first: index, last: index, entries: 1, frames });
    }

    /// Unlinks a run of pages that follow each other on the list: a constant number of steps.
    #[inline]
    pub(crate) fn cut(&mut self, table: &[Descriptor], list: LruList, chain: &Chain) {
        let counted = self.counted(list);
        let from = &mut self.lists[list.index()];
        from.entries = from.entries.saturating_sub(chain.entries);
        from.frames = from.frames.saturating_sub(chain.frames);
        if counted {
            return;
        }
        let (Some(first), Some(last)) = (table.get(chain.first as usize), table.get(chain.last as usize)) else {
            return;
        };
        let (before, after) = (first.prev.get(), last.next.get());
        match table.get(before as usize) {
            Some(before) => before.next.set(after),
            None => from.head = after,
        }
        match table.get(after as usize) {
            Some(after) => after.prev.set(before),
            None => from.tail = before,
        }
    }

    /// Links pages in behind one on the list; their frames are counted already: the parts of a split page.
    pub(crate) fn insert_after(
        &mut self,
        table: &[Descriptor],
        list: LruList,
        first: u32,
        others: core::ops::Range<u32>,
    ) {
        let counted = self.counted(list);
        let to = &mut self.lists[list.index()];
        to.entries += others.len() as u32;
        let mut before = first;
        for index in others {
            let (Some(page), Some(last)) = (table.get(index as usize), table.get(before as usize)) else { return };
            if counted {
                page.prev.set(0);
                continue;
            }
            let after = last.next.get();
            page.prev.set(before);
            page.next.set(after);
            last.next.set(index);
            match table.get(after as usize) {
                Some(after) => after.prev.set(index),
                None => to.tail = index,
            }
            before = index;
        }
    }
}
