//! The default: a table at a time, no reference, no page lock, one atomic operation a page.

use arrayvec::ArrayVec;
use pageblock_frame::{DescFlags, Pfn};
use pageblock_lru::{Lru, Tally, frames_of, maybe_shared};

use crate::context::Context;
use crate::gather::{WINDOW, each_batch};
use crate::shared::relock_if_shared;
use crate::span::{Span, Vpn};
use crate::table::{AddressSpace, Entry, Table, Walk};

/// Shared pages in hand at a time, each with a reference.
const SHARED: usize = 32;

/// A huge entry, locked as a table is.
struct HugeEntry<T> {
    table: T,
    head: Pfn,
}

/// Table by table.
pub(crate) fn munlock<S: AddressSpace, const N: usize>(space: &S, span: Span, context: &mut Context<'_, '_, N>) {
    context.drain(space);
    let mut at = span.start;
    while at < span.end {
        let end = span.end.min(S::LEVELS.table_end(at)).min(at.add(WINDOW));
        at = match space.walk(at) {
            Walk::Absent(next) => core::cmp::max(next, at.add(1)),
            Walk::Table(table) => {
                let window = Span::new(at, end);
                let mut left = 0;
                each_batch(&table, window, context.lrus, |lru, pages| left += unlock(lru, pages));
                drop(table);
                if left > 0 {
                    munlock_shared(space, window, context);
                }
                end
            }
            Walk::Huge(table, head) => munlock_huge(space, Span::new(at, span.end), HugeEntry { table, head }, context),
        };
    }
}

/// One batch under one hold of the LRU lock; returns how many pages seem to be shared.
#[inline]
fn unlock(lru: &Lru<'_>, pages: &[u32]) -> u64 {
    let tally: Tally = lru.hold().unlock_pages(pages);
    tally.count(lru.counters());
    tally.shared
}

/// A huge page: one entry of its list like any other page. Returns the page after it.
fn munlock_huge<S: AddressSpace, const N: usize>(
    space: &S,
    rest: Span,
    entry: HugeEntry<S::Table<'_>>,
    context: &Context<'_, '_, N>,
) -> Vpn {
    let HugeEntry { table, head } = entry;
    let frames = pageblock_lru::HUGE_FRAMES;
    let start = Vpn::new(rest.start.as_u64() & !(frames - 1));
    let end = start.add(frames);
    let Some(lru) = context.lrus.of(head) else { return end };
    let (Some(index), Some(page)) = (lru.index_of(head), lru.page(head)) else { return end };
    // A huge page of which the span has a part only was split when the part was marked, or stays locked.
    if start < rest.start || rest.end < end {
        return end;
    }
    if unlock(lru, &[index]) == 0 {
        return end;
    }
    page.get();
    drop(table);
    // Without the table's lock the page may be split: then this was its first frame, and the others have entries of
    // their own.
    let frames = frames_of(page.flags());
    unlock_shared(space, head, context);
    context.put(space, head);
    start.add(frames)
}

/// The second pass over a table in which pages seemed to be shared: takes references to those that are still locked, a
/// few at a time, and asks for each without the table's lock.
#[cold]
fn munlock_shared<S: AddressSpace, const N: usize>(space: &S, window: Span, context: &Context<'_, '_, N>) {
    let mut at = window.start;
    while at < window.end {
        let mut pages = ArrayVec::<Pfn, SHARED>::new();
        let Walk::Table(table) = space.walk(at) else { return };
        while at < window.end && !pages.is_full() {
            if let Entry::Page(pfn) = table.entry(at)
                && let Some(page) = context.lrus.page(pfn)
                && page.flags().contains(DescFlags::MLOCKED)
            {
                page.get();
                pages.push(pfn);
            }
            at = at.add(1);
        }
        drop(table);
        for pfn in pages {
            unlock_shared(space, pfn, context);
            context.put(space, pfn);
        }
    }
}

/// A page that may be locked by another area. Whether it is, is asked before and after `MLOCKED` is cleared: before,
/// so that a page that stays locked never looks unlocked; after, because an area that was marked locked in between may
/// have found the flag still set.
fn unlock_shared<S: AddressSpace, const N: usize>(space: &S, pfn: Pfn, context: &Context<'_, '_, N>) {
    let Some(lru) = context.lrus.of(pfn) else { return };
    let (Some(index), Some(page)) = (lru.index_of(pfn), lru.page(pfn)) else { return };
    if maybe_shared(page.flags(), page.refs(), 1) && space.locked_by_any(pfn) {
        return;
    }
    let before = page.clear_flags(DescFlags::MLOCKED);
    if before.contains(DescFlags::MLOCKED) {
        let frames = frames_of(before);
        let off_list = !before.contains(DescFlags::LRU) && before.contains(DescFlags::UNEVICTABLE);
        let stranded = if off_list { frames } else { 0 };
        Tally { cleared: frames, stranded, ..Tally::default() }.count(lru.counters());
    }
    if maybe_shared(page.flags(), page.refs(), 1) {
        relock_if_shared(space, lru, pfn, page);
    }
    lru.hold().refresh(index);
}
