//! Locking the pages of an area.

use pageblock_frame::Pfn;
use pageblock_lru::{HUGE_FRAMES, Lru, Lrus};

use crate::context::Context;
use crate::gather::{WINDOW, each_batch};
use crate::shared::relock;
use crate::span::{Span, Vpn};
use crate::table::{AddressSpace, Entry, FaultError, Table, Walk};

/// Locks the pages that `span` maps; its areas are marked locked already. Absent and special entries are passed over.
///
/// A table at a time; under the `Steps` of old kernels (feature `history`) page by page, as Linux 3.11 does.
pub fn mlock_pages<S: AddressSpace, const N: usize>(space: &S, span: Span, context: &mut Context<'_, '_, N>) {
    context.drain(space);
    #[cfg(feature = "history")]
    if !context.steps.runs {
        return crate::history::lock(space, span, context);
    }
    let mut at = span.start;
    while at < span.end {
        at = lock_table(space, at, span, context);
    }
}

/// Locks one page that the caller has just mapped in a locked area: a page fault's part. The caller holds a reference.
///
/// A page that waits in a pagevec finds its list when it is flushed. Mirrors `mlock_new_folio()` (6.1), at once.
pub fn mlock_page(lrus: Lrus<'_, '_>, pfn: Pfn) {
    let Some(lru) = lrus.of(pfn) else { return };
    let (Some(index), Some(page)) = (lru.index_of(pfn), lru.page(pfn)) else { return };
    relock(lru, page);
    lru.hold().refresh(index);
}

/// One table, or a part of 512 entries of it; returns where to go on.
fn lock_table<S: AddressSpace, const N: usize>(space: &S, at: Vpn, span: Span, context: &Context<'_, '_, N>) -> Vpn {
    let end = span.end.min(S::LEVELS.table_end(at)).min(at.add(WINDOW));
    let lock = |lru: &Lru<'_>, pages: &[u32]| lru.hold().lock_pages(pages).count(lru.counters());
    match space.walk(at) {
        Walk::Absent(next) => core::cmp::max(next, at.add(1)),
        Walk::Table(table) => {
            each_batch(&table, Span::new(at, end), context.lrus, lock);
            end
        }
        Walk::Huge(_table, head) => {
            let start = Vpn::new(at.as_u64() & !(HUGE_FRAMES - 1));
            let end = start.add(HUGE_FRAMES);
            if let Some(lru) = context.lrus.of(head)
                && let Some(index) = lru.index_of(head)
                && start >= span.start
                && end <= span.end
            {
                lock(lru, &[index]);
            }
            end
        }
    }
}

/// A page that could not be brought in.
pub(crate) struct Stuck {
    pub(crate) at: Vpn,
    pub(crate) error: FaultError,
}

/// Brings in and locks the pages of `span` that are absent; stops at the first that cannot be.
pub(crate) fn populate<S: AddressSpace, const N: usize>(
    space: &S,
    span: Span,
    context: &mut Context<'_, '_, N>,
) -> Result<(), Stuck> {
    let mut at = span.start;
    while at < span.end {
        let end = span.end.min(S::LEVELS.table_end(at)).min(at.add(WINDOW));
        let first = at;
        let mut stopped = Ok(());
        while let Some(absent) = next_absent(space, Span::new(at, end)) {
            at = absent.add(1);
            if let Err(error) = space.fault_in(absent) {
                stopped = Err(Stuck { at: absent, error });
                break;
            }
        }
        if at != first {
            mlock_pages(space, Span::new(first, at), context);
        }
        stopped?;
        at = end;
    }
    Ok(())
}

/// The first page of `window`, part of one table, that is absent.
fn next_absent<S: AddressSpace>(space: &S, window: Span) -> Option<Vpn> {
    if window.is_empty() {
        return None;
    }
    match space.walk(window.start) {
        Walk::Absent(_) => Some(window.start),
        Walk::Huge(..) => None,
        Walk::Table(table) => {
            (window.start.as_u64()..window.end.as_u64()).map(Vpn::new).find(|at| table.entry(*at) == Entry::Absent)
        }
    }
}
