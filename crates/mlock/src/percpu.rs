//! The form of Linux since 5.18: per-CPU batches for mlock and munlock, and a count of locks in the page.

use arrayvec::ArrayVec;
use pageblock_frame::{DescFlags, Pfn};
use pageblock_lru::{HUGE_FRAMES, Lru, LruGuard, Lrus};

use crate::context::Context;
use crate::gather::WINDOW;
use crate::shared::relock;
use crate::span::{Span, Vpn};
use crate::table::{AddressSpace, Entry, Table, Walk};

/// Operation for which a page in the batch waits.
#[derive(Clone, Copy, Debug)]
enum Wish {
    Lock,
    Unlock,
}

/// One CPU's batch of up to `N` pages to lock or unlock, each with a reference; mirrors `mlock_pvec` (6.1).
///
/// A page's `MLOCKED` is set when it joins the batch, but cleared only when the batch is flushed; how many areas lock
/// it is counted in its first link word, so the lists must keep the unevictable pages
/// [counted](pageblock_lru::Unevictable). No area is asked whether it locks a page, too. The count may be too low: a
/// page that was off its list when it was locked, or was isolated since, has lost it, and is unlocked too early;
/// reclaim, which looks at the areas, locks it again. A range that is locked and unlocked through this form is not to
/// be handled by the other.
///
/// ```
/// use pageblock_frame::{Descriptor, Pfn};
/// use pageblock_lru::{Lru, LruList, Lrus, Unevictable};
/// use pageblock_mlock::MlockBatch;
/// let table = [const { Descriptor::new() }; 1];
/// table[0].store_refs(1);
/// let sets = [Lru::with_form(Pfn::new(0), &table, Unevictable::Counted)];
/// let lrus = Lrus::new(&sets).unwrap();
/// assert!(sets[0].add(Pfn::new(0)));
/// let mut batch: MlockBatch = MlockBatch::new();
/// for _ in 0..2 {
///     batch.lock(Pfn::new(0), lrus, &mut |_| ()); // two areas
/// }
/// batch.unlock(Pfn::new(0), lrus, &mut |_| ());
/// batch.drain(lrus, &mut |_| ());
/// assert_eq!(lrus.nr_mlock(), 1);
/// batch.unlock(Pfn::new(0), lrus, &mut |_| ());
/// batch.drain(lrus, &mut |_| ());
/// assert_eq!((lrus.nr_mlock(), sets[0].frames(LruList::InactiveAnon)), (0, 1));
/// ```
#[derive(Debug, Default)]
pub struct MlockBatch<const N: usize = 15> {
    pages: ArrayVec<(u32, Wish), N>,
}

impl<const N: usize> MlockBatch<N> {
    /// An empty batch.
    #[must_use]
    pub const fn new() -> Self {
        Self { pages: ArrayVec::new_const() }
    }

    /// Pages that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.pages.len()
    }

    /// Locks a page for one area more. Mirrors `mlock_folio()`.
    pub fn lock(&mut self, pfn: Pfn, lrus: Lrus<'_, '_>, free: &mut impl FnMut(Pfn)) {
        if let Some(lru) = lrus.of(pfn)
            && let Some(page) = lru.page(pfn)
        {
            relock(lru, page);
            self.push(pfn, Wish::Lock, lrus, free);
        }
    }

    /// Unlocks a page for one area, when the batch is flushed. Mirrors `munlock_folio()`.
    pub fn unlock(&mut self, pfn: Pfn, lrus: Lrus<'_, '_>, free: &mut impl FnMut(Pfn)) {
        if lrus.of(pfn).is_some() {
            self.push(pfn, Wish::Unlock, lrus, free);
        }
    }

    fn push(&mut self, pfn: Pfn, wish: Wish, lrus: Lrus<'_, '_>, free: &mut impl FnMut(Pfn)) {
        let Some(page) = lrus.page(pfn) else { return };
        page.get();
        if self.pages.try_push((pfn.as_u64() as u32, wish)).is_err() {
            // Not reached: a full batch has been flushed. The reference goes back.
            if lrus.release(pfn) {
                free(pfn);
            }
            return;
        }
        if self.pages.is_full() || page.flags().contains(DescFlags::HUGE) {
            self.drain(lrus, free);
        }
    }

    /// Flushes the batch: one hold of the LRU lock for each run of pages of the same lists. Mirrors
    /// `mlock_folio_batch()`.
    pub fn drain(&mut self, lrus: Lrus<'_, '_>, free: &mut impl FnMut(Pfn)) {
        let pages = core::mem::take(&mut self.pages);
        let mut held: Option<LruGuard<'_, '_>> = None;
        for (pfn, wish) in pages.iter().map(|(pfn, wish)| (Pfn::new(u64::from(*pfn)), *wish)) {
            let index = held.as_ref().and_then(|held| held.lru().index_of(pfn));
            let index = index.or_else(|| {
                drop(held.take());
                held = lrus.of(pfn).map(Lru::hold);
                held.as_ref()?.lru().index_of(pfn)
            });
            let (Some(held), Some(index)) = (held.as_mut(), index) else { continue };
            match wish {
                Wish::Lock => held.lock_counted(index),
                Wish::Unlock => held.unlock_counted(index).count(held.lru().counters()),
            }
        }
        drop(held);
        for pfn in pages.into_iter().map(|(pfn, _)| Pfn::new(u64::from(pfn))) {
            if lrus.release(pfn) {
                free(pfn);
            }
        }
    }
}

/// Locks the pages that `span` maps, through the batch; its areas are marked locked already. Mirrors
/// `mlock_vma_pages_range()` (6.1).
pub fn mlock_pages_counted<S: AddressSpace, const N: usize, const M: usize>(
    space: &S,
    span: Span,
    context: &mut Context<'_, '_, N>,
    batch: &mut MlockBatch<M>,
) {
    let lrus = context.lrus;
    walk(space, span, Both { context, batch }, |batch, pfn| batch.lock(pfn, lrus, &mut |pfn| space.free(pfn)));
}

/// Unlocks the pages that `span` maps, through the batch; its areas are marked unlocked already.
pub fn munlock_pages_counted<S: AddressSpace, const N: usize, const M: usize>(
    space: &S,
    span: Span,
    context: &mut Context<'_, '_, N>,
    batch: &mut MlockBatch<M>,
) {
    let lrus = context.lrus;
    walk(space, span, Both { context, batch }, |batch, pfn| batch.unlock(pfn, lrus, &mut |pfn| space.free(pfn)));
}

/// The CPU's pagevecs and its batch.
struct Both<'b, 'a, 'm, const N: usize, const M: usize> {
    context: &'b mut Context<'a, 'm, N>,
    batch: &'b mut MlockBatch<M>,
}

/// Page by page under one hold of each table's lock. The batch is flushed before that lock is released, so its pages
/// are mapped all the while and none of its references is a last one.
fn walk<S: AddressSpace, const N: usize, const M: usize>(
    space: &S,
    span: Span,
    both: Both<'_, '_, '_, N, M>,
    mut work: impl FnMut(&mut MlockBatch<M>, Pfn),
) {
    let Both { context, batch } = both;
    let lrus = context.lrus;
    context.drain(space);
    batch.drain(lrus, &mut |pfn| space.free(pfn));
    let mut at = span.start;
    while at < span.end {
        let end = span.end.min(S::LEVELS.table_end(at)).min(at.add(WINDOW));
        at = match space.walk(at) {
            Walk::Absent(next) => core::cmp::max(next, at.add(1)),
            Walk::Table(table) => {
                for page in (at.as_u64()..end.as_u64()).map(Vpn::new) {
                    if let Entry::Page(pfn) = table.entry(page) {
                        work(batch, pfn);
                    }
                }
                batch.drain(lrus, &mut |pfn| space.free(pfn));
                end
            }
            Walk::Huge(_table, head) => {
                let start = Vpn::new(at.as_u64() & !(HUGE_FRAMES - 1));
                if start >= span.start && start.add(HUGE_FRAMES) <= span.end {
                    work(batch, head);
                }
                start.add(HUGE_FRAMES)
            }
        };
    }
}
