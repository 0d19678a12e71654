//! A CPU's batches: pages that wait to be added to a list or moved on one.

use arrayvec::ArrayVec;
use pageblock_frame::{DescFlags, Descriptor, Pfn};

use crate::counters::LruEvent;
use crate::guard::{Change, End, LruGuard};
use crate::list::frames_of;
use crate::lru::Lru;
use crate::set::Lrus;

/// Operation for which the pages of a batch wait.
///
/// ```
/// assert_eq!(pageblock_lru::Batch::ALL.len(), 5);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum Batch {
    /// To be put on the list that their flags name.
    Add = 0,
    /// To go to the tail of their inactive list: written back, to be reclaimed next.
    Rotate = 1,
    /// To leave the page cache soon: inactive, at the tail if clean.
    DeactivateFile = 2,
    /// To become inactive.
    Deactivate = 3,
    /// To become active.
    Activate = 4,
}

impl Batch {
    /// Number of batches.
    pub const COUNT: usize = 5;
    /// All batches, in the order in which a drain empties them.
    pub const ALL: [Self; Self::COUNT] =
        [Self::Add, Self::Rotate, Self::DeactivateFile, Self::Deactivate, Self::Activate];
}

/// One CPU's batches of up to `N` pages, each page with a reference; mirrors `cpu_fbatches` (6.1). `N` is 15 as in
/// Linux 4.16 to 6.9; before it was 14.
///
/// A batch is flushed when it fills up, when a huge page joins it, and by [`drain`](Self::drain). Pages losing their
/// last reference goes with the batch are handed to `free`, with no lock held.
///
/// ```
/// use pageblock_frame::{Descriptor, Pfn};
/// use pageblock_lru::{Batch, Lru, LruList, Lrus, Pagevecs};
/// let table = [const { Descriptor::new() }; 16];
/// let sets = [Lru::new(Pfn::new(0), &table)];
/// let lrus = Lrus::new(&sets).unwrap();
/// let mut vecs: Pagevecs = Pagevecs::new();
/// for pfn in 0..15 {
///     table[pfn].store_refs(1);
///     assert_eq!(sets[0].frames(LruList::InactiveAnon), 0);
///     vecs.push(Batch::Add, Pfn::new(pfn as u64), lrus, &mut |_| unreachable!());
/// }
/// assert_eq!(sets[0].frames(LruList::InactiveAnon), 15); // the fifteenth flushed them all
/// assert!(table.iter().take(15).all(|page| page.refs() == 1));
/// ```
#[derive(Debug, Default)]
pub struct Pagevecs<const N: usize = 15> {
    batches: [ArrayVec<u32, N>; Batch::COUNT],
}

impl<const N: usize> Pagevecs<N> {
    /// Empty batches.
    #[must_use]
    pub const fn new() -> Self {
        Self { batches: [const { ArrayVec::new_const() }; Batch::COUNT] }
    }

    /// Pages that wait in a batch.
    #[must_use]
    pub fn waiting(&self, batch: Batch) -> usize {
        self.batches[batch as usize].len()
    }

    /// Adds a page to a batch, with a reference for it (the caller holds one), and flushes the batch if it is full or
    /// the page is huge. A frame that no list set covers is ignored.
    #[inline]
    pub fn push(&mut self, batch: Batch, pfn: Pfn, lrus: Lrus<'_, '_>, free: &mut impl FnMut(Pfn)) {
        let Some(page) = lrus.page(pfn) else { return };
        page.get();
        let huge = page.flags().contains(DescFlags::HUGE);
        let pages = &mut self.batches[batch as usize];
        // Frame numbers are below 2^32. A full vector cannot be met: it is emptied when it fills up.
        if pages.try_push(pfn.as_u64() as u32).is_err() {
            free_if_last(lrus, pfn, free);
            return;
        }
        if pages.is_full() || huge {
            self.flush(batch, lrus, free);
        }
    }

    /// Empties all batches. Mirrors `lru_add_drain()`.
    pub fn drain(&mut self, lrus: Lrus<'_, '_>, free: &mut impl FnMut(Pfn)) {
        for batch in Batch::ALL {
            if !self.batches[batch as usize].is_empty() {
                self.flush(batch, lrus, free);
            }
        }
    }

    /// Notes that a page was used: first use sets `REFERENCED`, the second makes it active.
    /// Mirrors `folio_mark_accessed()` (6.1).
    pub fn mark_accessed(&mut self, pfn: Pfn, lrus: Lrus<'_, '_>, free: &mut impl FnMut(Pfn)) {
        let Some(lru) = lrus.of(pfn) else { return };
        let Some(page) = lru.page(pfn) else { return };
        let flags = page.flags();
        if !flags.contains(DescFlags::REFERENCED) {
            page.set_flags(DescFlags::REFERENCED);
            return;
        }
        if flags.intersects(DescFlags::UNEVICTABLE | DescFlags::ACTIVE) {
            return;
        }
        if flags.contains(DescFlags::LRU) {
            self.push(Batch::Activate, pfn, lrus, free);
        } else if self.batches[Batch::Add as usize].contains(&(pfn.as_u64() as u32)) {
            page.set_flags(DescFlags::ACTIVE); // still waiting here to be added
        }
        page.clear_flags(DescFlags::REFERENCED);
        lru.advance_age(frames_of(flags));
    }

    /// Empties one batch: one lock hold for each run of pages of the same lists, then the references.
    fn flush(&mut self, batch: Batch, lrus: Lrus<'_, '_>, free: &mut impl FnMut(Pfn)) {
        let pages = core::mem::take(&mut self.batches[batch as usize]);
        let mut held: Option<LruGuard<'_, '_>> = None;
        for pfn in pages.iter().map(|pfn| Pfn::new(u64::from(*pfn))) {
            let index = held.as_ref().and_then(|held| held.lru().index_of(pfn));
            let index = index.or_else(|| {
                drop(held.take()); // release before the next lock is taken
                held = lrus.of(pfn).map(Lru::hold);
                held.as_ref()?.lru().index_of(pfn)
            });
            let (Some(held), Some(index)) = (held.as_mut(), index) else { continue };
            if let Some(page) = held.lru().table().get(index as usize) {
                apply(batch, held, index, page);
            }
        }
        drop(held);
        for pfn in pages {
            free_if_last(lrus, Pfn::new(u64::from(pfn)), free);
        }
    }
}

/// Gives a reference back, and the frame to `free` if it was the last.
fn free_if_last(lrus: Lrus<'_, '_>, pfn: Pfn, free: &mut impl FnMut(Pfn)) {
    if lrus.release(pfn) {
        free(pfn);
    }
}

/// Applies the batch's operation to one page. A page on a list stays linked while the lock is held, even if another
/// CPU claims it meanwhile; one that is on no list is another CPU's, and is left alone.
fn apply(batch: Batch, held: &mut LruGuard<'_, '_>, index: u32, page: &Descriptor) {
    const STAY: DescFlags = DescFlags::UNEVICTABLE;
    let flags = page.flags();
    let linked = flags.contains(DescFlags::LRU);
    let active = flags.contains(DescFlags::ACTIVE);
    let deactivate = DescFlags::ACTIVE.union(DescFlags::REFERENCED);
    let (event, change) = match batch {
        Batch::Add if !linked => return held.place(index, page),
        Batch::Activate if linked && !active && !flags.contains(STAY) => {
            (LruEvent::Activate, Change { set: DescFlags::ACTIVE, clear: DescFlags::empty(), end: End::Head })
        }
        Batch::Deactivate if linked && active && !flags.contains(STAY) => {
            (LruEvent::Deactivate, Change { set: DescFlags::empty(), clear: deactivate, end: End::Head })
        }
        Batch::DeactivateFile if linked && !flags.contains(STAY) => {
            if flags.intersects(DescFlags::WRITEBACK | DescFlags::DIRTY) {
                (LruEvent::Deactivate, Change { set: DescFlags::RECLAIM, clear: deactivate, end: End::Head })
            } else {
                (LruEvent::Rotated, Change { set: DescFlags::empty(), clear: deactivate, end: End::Tail })
            }
        }
        Batch::Rotate if linked && !flags.contains(STAY) => {
            (LruEvent::Rotated, Change { set: DescFlags::empty(), clear: DescFlags::ACTIVE, end: End::Tail })
        }
        _ => return,
    };
    held.lru().counters().count_held(event, frames_of(flags));
    held.relink(index, page, change);
}
