//! Patches 3 to 7: pages of one zone in a vector on the stack.

use arrayvec::ArrayVec;
use pageblock_frame::{DescFlags, Descriptor, Pfn};
use pageblock_lru::{Event, Lru, Lrus, maybe_shared};

use super::events::Events;
use super::single::{Found, OnLru, PageLock, Place, failed, follow, huge, pin, put_back, settle};
use super::steps::{Accounting, InPlace};
use crate::context::Context;
use crate::span::{Span, Vpn};
use crate::table::{AddressSpace, Entry, PageTable, Table, Walk};

/// Pages in the vector: `PAGEVEC_SIZE` until 4.15.
const VECTOR: usize = 14;

/// Pages of one list set, each with a reference.
struct Vector<'a, 'm> {
    lru: Option<&'a Lru<'m>>,
    pages: ArrayVec<Pfn, VECTOR>,
}

impl<'a, 'm> Vector<'a, 'm> {
    /// True if a page may join: the vector is empty, or of the page's list set.
    #[inline]
    fn takes(&self, pfn: Pfn) -> bool {
        self.lru.is_none_or(|lru| lru.index_of(pfn).is_some())
    }

    /// Adds a page that [may join](Self::takes); true if the vector is full now.
    #[inline]
    fn push(&mut self, pfn: Pfn, lrus: Lrus<'a, 'm>) -> bool {
        if self.lru.is_none() {
            self.lru = lrus.of(pfn);
        }
        self.pages.push(pfn);
        self.pages.is_full()
    }
}

/// Mirrors `munlock_vma_pages_range()` (3.12).
pub(super) fn munlock<S: AddressSpace, const N: usize>(space: &S, span: Span, context: &mut Context<'_, '_, N>) {
    if context.steps.drain_once {
        context.drain(space);
    }
    let posted = context.steps.walk_in_place && context.steps.in_place == InPlace::Posted;
    let mut vector = Vector { lru: None, pages: ArrayVec::new() };
    let mut events = Events::default();
    let mut at = span.start;
    while at < span.end {
        let found = if posted {
            match collect(space, &mut vector, Span::new(at, span.end), context) {
                Ok(next) => {
                    flush(space, &mut vector, context, &mut events);
                    at = next;
                    continue;
                }
                Err(found) => found,
            }
        } else {
            follow(space, at, context.lrus)
        };
        at = match found {
            Found::Nothing(next) => next,
            Found::Huge(head) => {
                flush(space, &mut vector, context, &mut events);
                huge(space, Place { at, span }, head, context, &mut events)
            }
            Found::Page(pfn) => {
                if !vector.takes(pfn) {
                    flush(space, &mut vector, context, &mut events);
                }
                let full = vector.push(pfn, context.lrus);
                let mut next = at.add(1);
                if context.steps.walk_in_place {
                    next = fill(space, &mut vector, Span::new(next, span.end));
                    flush(space, &mut vector, context, &mut events);
                } else if full {
                    flush(space, &mut vector, context, &mut events);
                }
                next
            }
        };
    }
    flush(space, &mut vector, context, &mut events);
    events.flush();
}

/// Fills the empty vector from the table that maps the start of `rest`, under one hold of its lock, up to an absent
/// entry, another zone, the end of the table or of the span, or a full vector; returns the page after the last.
///
/// # Errors
/// The entry there, if it is no base page.
fn collect<'a, 'm, S: PageTable, const N: usize>(
    space: &S,
    vector: &mut Vector<'a, 'm>,
    rest: Span,
    context: &Context<'a, 'm, N>,
) -> Result<Vpn, Found> {
    let end = rest.end.min(S::LEVELS.table_end(rest.start));
    let table = match space.walk(rest.start) {
        Walk::Table(table) => table,
        other => return Err(pin(other, rest.start, context.lrus)),
    };
    if let Entry::Page(pfn) = table.entry(rest.start)
        && let Some(lru) = context.lrus.of(pfn)
    {
        vector.lru = Some(lru);
        return Ok(take(&table, vector, lru, Span::new(rest.start, end)));
    }
    Err(Found::Nothing(rest.start.add(1)))
}

/// Adds the pages that follow the vector's first, from the table of the first under its lock; returns the page after
/// the last. Mirrors `__munlock_pagevec_fill()` (3.12).
fn fill<S: PageTable>(space: &S, vector: &mut Vector<'_, '_>, rest: Span) -> Vpn {
    let Some(lru) = vector.lru else { return rest.start };
    // The table of the page before `rest`, which is in the vector already.
    let first = Vpn::new(rest.start.as_u64().saturating_sub(1));
    let end = rest.end.min(S::LEVELS.table_end(first));
    let Walk::Table(table) = space.walk(first) else { return rest.start };
    take(&table, vector, lru, Span::new(rest.start, end))
}

/// The loop of both.
#[inline]
fn take(table: &impl Table, vector: &mut Vector<'_, '_>, lru: &Lru<'_>, rest: Span) -> Vpn {
    let mut at = rest.start;
    while at < rest.end {
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

/// Unlocks the pages of the vector, if there are any: between huge pages there are none.
#[inline(always)]
fn flush<'a, 'm, S: AddressSpace, const N: usize>(
    space: &S,
    vector: &mut Vector<'a, 'm>,
    context: &mut Context<'a, 'm, N>,
    events: &mut Events<'a, 'm>,
) {
    if let Some(lru) = vector.lru.take() {
        unlock(space, lru, &mut vector.pages, context, events);
    }
}

/// Unlocks pages of one list set. Mirrors `__munlock_pagevec()` (3.12).
///
/// References are given back without the LRU lock: the last one would take it again (in Linux until December 2013, a
/// deadlock).
#[inline(never)]
fn unlock<'a, 'm, S: AddressSpace, const N: usize>(
    space: &S,
    lru: &'a Lru<'m>,
    pages: &mut ArrayVec<Pfn, VECTOR>,
    context: &mut Context<'a, 'm, N>,
    events: &mut Events<'a, 'm>,
) {
    let Isolated { isolated, lost } = isolate(lru, pages, context);
    let all = (1_u32 << pages.len()) - 1;
    if isolated != all {
        for (place, pfn) in pages.iter().copied().enumerate() {
            if isolated & 1 << place != 0 {
                continue;
            }
            if lost & 1 << place != 0
                && let Some(page) = lru.page(pfn)
            {
                failed(space, OnLru { lru, pfn, page }, events);
            }
            context.put(space, pfn);
        }
        let mut place = 0;
        pages.retain(|_| {
            place += 1;
            isolated & 1 << (place - 1) != 0
        });
    }
    put_back_all(space, lru, pages, context, events);
}

/// Pages of a vector, one bit each.
struct Isolated {
    /// Off their lists, with a reference.
    isolated: u32,
    /// Unlocked, but off their list on another CPU.
    lost: u32,
}

/// Phase 1: under one hold of the LRU lock, clears `MLOCKED` and takes the pages off their lists. Pages that are
/// neither isolated nor lost were not locked.
fn isolate<const N: usize>(lru: &Lru<'_>, pages: &[Pfn], context: &Context<'_, '_, N>) -> Isolated {
    let (steps, counters) = (context.steps, lru.counters());
    let (mut isolated, mut lost) = (0_u32, 0_u32);
    let mut held = lru.hold();
    for (place, pfn) in pages.iter().enumerate() {
        let Some(index) = lru.index_of(*pfn) else { continue };
        let Some(page) = lru.table().get(index as usize) else { continue };
        if !page.clear_flags(DescFlags::MLOCKED).contains(DescFlags::MLOCKED) {
            continue;
        }
        if !steps.batch_counter {
            counters.add_mlocked(-1);
        }
        if held.isolate_index(index) {
            if !steps.one_reference {
                page.get();
            }
            isolated |= 1 << place;
        } else {
            lost |= 1 << place;
        }
    }
    if steps.batch_counter {
        let stranded = if steps.accounting == Accounting::Leaky { 0 } else { lost.count_ones() };
        counters.add_mlocked(-i64::from(isolated.count_ones() + stranded));
    }
    Isolated { isolated, lost }
}

/// Phase 2: without the LRU lock, page by page: whether another area locks it, and back on a list. Empties the vector.
fn put_back_all<'a, 'm, S: AddressSpace, const N: usize>(
    space: &S,
    lru: &'a Lru<'m>,
    pages: &mut ArrayVec<Pfn, VECTOR>,
    context: &mut Context<'a, 'm, N>,
    events: &mut Events<'a, 'm>,
) {
    let steps = context.steps;
    let pins = if steps.one_reference { 1 } else { 2 };
    let mut fast = 0;
    for place in 0..pages.len() {
        let pfn = pages[place];
        let Some(page) = lru.page(pfn) else { continue };
        let lock = PageLock::new(page);
        if steps.local_put_back && is_fast(page, pins) {
            pages[fast] = pfn;
            fast += 1;
            continue;
        }
        if steps.one_reference {
            page.get(); // the put-back gives the isolation's reference away
        }
        let on = OnLru { lru, pfn, page };
        settle(space, on, 2, events);
        put_back(space, on, context);
        drop(lock);
        context.put(space, pfn);
    }
    pages.truncate(fast);
    if fast > 0 {
        put_back_fast(space, lru, pages, context, events);
    }
}

/// True for a page that is mapped once and evictable; the caller holds `pins` references.
#[inline]
fn is_fast(page: &Descriptor, pins: u32) -> bool {
    let flags = page.flags();
    !flags.contains(DescFlags::MLOCKED) && !maybe_shared(flags, page.refs(), pins)
}

/// Puts pages that are mapped once and evictable straight back. Mirrors `__putback_lru_fast()` (3.12).
fn put_back_fast<'a, 'm, S: AddressSpace, const N: usize>(
    space: &S,
    lru: &'a Lru<'m>,
    pages: &mut ArrayVec<Pfn, VECTOR>,
    context: &Context<'a, 'm, N>,
    events: &mut Events<'a, 'm>,
) {
    events.cleared(lru, Event::Munlocked, pages.len() as u64);
    if !context.steps.one_reference {
        for pfn in pages.iter() {
            // The walk's reference; the isolation's remains.
            context.put(space, *pfn);
        }
    }
    lru.put_back_all(pages);
    for pfn in pages.drain(..) {
        space.free(pfn);
    }
}
