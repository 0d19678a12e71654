//! Patches 3 to 7: pages of one zone in a vector on the stack.

use arrayvec::ArrayVec;
use pageblock_frame::{DescFlags, Pfn};
use pageblock_lru::{Event, Lru, maybe_shared};

use crate::context::{Context, Events};
use crate::munlock::single::{Found, PageLock, failed, follow, huge, put_back, settle};
use crate::span::{Span, Vpn};
use crate::steps::Accounting;
use crate::table::{AddressSpace, Entry, PageTable, Table, Walk};

/// Pages in the vector: `PAGEVEC_SIZE` until 4.15.
const VECTOR: usize = 14;

/// Pages of one list set, each with a reference.
struct Vector<'a, 'm> {
    lru: Option<&'a Lru<'m>>,
    pages: ArrayVec<Pfn, VECTOR>,
}

/// Mirrors `munlock_vma_pages_range()` (3.12).
pub(super) fn munlock<S: AddressSpace, const N: usize>(space: &S, span: Span, context: &mut Context<'_, '_, N>) {
    if context.steps.drain_once {
        context.drain(space);
    }
    let mut vector = Vector { lru: None, pages: ArrayVec::new() };
    let mut events = Events::default();
    let mut at = span.start;
    while at < span.end {
        at = match follow(space, at, context.lrus) {
            Found::Nothing(next) => next,
            Found::Huge(head) => {
                flush(space, &mut vector, context, &mut events);
                huge(space, (at, span), head, context, &mut events)
            }
            Found::Page(pfn) => {
                let lru = context.lrus.of(pfn);
                if !same(vector.lru, lru) {
                    flush(space, &mut vector, context, &mut events);
                    vector.lru = lru;
                }
                vector.pages.push(pfn);
                let mut next = at.add(1);
                if context.steps.walk_in_place {
                    next = fill(space, &mut vector, Span::new(next, span.end));
                    flush(space, &mut vector, context, &mut events);
                } else if vector.pages.is_full() {
                    flush(space, &mut vector, context, &mut events);
                }
                next
            }
        };
    }
    flush(space, &mut vector, context, &mut events);
    events.flush();
}

/// True if both are the same list set.
fn same(one: Option<&Lru<'_>>, other: Option<&Lru<'_>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => core::ptr::eq(one, other),
        (None, None) => true,
        _ => false,
    }
}

/// Adds the pages that follow, from the table of the first under its lock, up to an absent entry, another zone, the end of
/// the table or of the span, or a full vector; returns the page after the last. Mirrors `__munlock_pagevec_fill()` (3.12).
fn fill<S: PageTable>(space: &S, vector: &mut Vector<'_, '_>, rest: Span) -> Vpn {
    let Some(lru) = vector.lru else { return rest.start };
    // The table of the page before `rest`, which is in the vector already.
    let first = Vpn::new(rest.start.as_u64().saturating_sub(1));
    let end = rest.end.min(S::LEVELS.table_end(first));
    let Walk::Table(table) = space.walk(first) else { return rest.start };
    let mut at = rest.start;
    while at < end {
        let Entry::Page(pfn) = table.entry(at) else { break };
        let Some(page) = lru.page(pfn) else { break };
        page.get();
        // The address moves on before the test for a full vector, else the last page would be done twice.
        at = at.add(1);
        vector.pages.push(pfn);
        if vector.pages.is_full() {
            break;
        }
    }
    at
}

/// What became of a vector's pages under the LRU lock.
#[derive(Default)]
struct Sorted {
    /// Unlocked and off their list.
    isolated: ArrayVec<Pfn, VECTOR>,
    /// Unlocked, but somebody else has them.
    failed: ArrayVec<Pfn, VECTOR>,
    /// Not locked.
    others: ArrayVec<Pfn, VECTOR>,
}

/// Unlocks the pages of the vector. Mirrors `__munlock_pagevec()` (3.12).
///
/// References are given back without the LRU lock: the last one would take it again (in Linux until December 2013, a
/// deadlock).
fn flush<'a, 'm, S: AddressSpace, const N: usize>(
    space: &S,
    vector: &mut Vector<'a, 'm>,
    context: &mut Context<'a, 'm, N>,
    events: &mut Events<'a, 'm>,
) {
    let Some(lru) = vector.lru.take() else { return };
    if vector.pages.is_empty() {
        return;
    }
    let sorted = isolate(lru, &mut vector.pages, context);
    for pfn in sorted.others {
        context.put(space, pfn);
    }
    for pfn in sorted.failed {
        if let Some(page) = lru.page(pfn) {
            failed(space, (lru, pfn, page), events);
        }
        context.put(space, pfn);
    }
    put_back_all(space, (lru, &sorted.isolated), context, events);
}

/// Phase 1: under one hold of the LRU lock, clears `MLOCKED` and takes the pages off their lists.
fn isolate<const N: usize>(lru: &Lru<'_>, pages: &mut ArrayVec<Pfn, VECTOR>, context: &Context<'_, '_, N>) -> Sorted {
    let (steps, counters, mut sorted) = (context.steps, lru.counters(), Sorted::default());
    let mut held = lru.hold();
    for pfn in pages.drain(..) {
        let Some(page) = lru.page(pfn) else { continue };
        if !page.clear_flags(DescFlags::MLOCKED).contains(DescFlags::MLOCKED) {
            sorted.others.push(pfn);
            continue;
        }
        if !steps.batch_counter {
            counters.add_mlocked(-1);
        }
        if held.isolate(pfn) {
            if !steps.one_reference {
                page.get();
            }
            sorted.isolated.push(pfn);
        } else {
            sorted.failed.push(pfn);
        }
    }
    if steps.batch_counter {
        let failed = if steps.accounting == Accounting::Leaky { 0 } else { sorted.failed.len() };
        counters.add_mlocked(-((sorted.isolated.len() + failed) as i64));
    }
    sorted
}

/// Phase 2: without the LRU lock, page by page: who else locks it, and back on a list.
fn put_back_all<'a, 'm, S: AddressSpace, const N: usize>(
    space: &S,
    (lru, isolated): (&'a Lru<'m>, &[Pfn]),
    context: &mut Context<'a, 'm, N>,
    events: &mut Events<'a, 'm>,
) {
    let steps = context.steps;
    let pins = if steps.one_reference { 1 } else { 2 };
    let mut back = ArrayVec::<Pfn, VECTOR>::new();
    for pfn in isolated.iter().copied() {
        let Some(page) = lru.page(pfn) else { continue };
        let lock = PageLock::new(page);
        let flags = page.flags();
        let fast = !maybe_shared(flags, page.refs(), pins) && !flags.contains(DescFlags::MLOCKED);
        if steps.local_put_back && fast {
            back.push(pfn);
            continue;
        }
        if steps.one_reference {
            page.get(); // the put-back gives the isolation's reference away
        }
        settle(space, (lru, pfn, page), 2, events);
        put_back(space, (lru, pfn, page), context);
        drop(lock);
        context.put(space, pfn);
    }
    if back.is_empty() {
        return;
    }
    events.cleared(lru, Event::Munlocked, back.len() as u64);
    let second = if steps.one_reference { ArrayVec::new() } else { back.clone() };
    lru.put_back_all(&mut back);
    for pfn in back {
        space.free(pfn);
    }
    for pfn in second {
        context.put(space, pfn);
    }
}
