//! Patches 3 to 7: pages of one zone in a vector on the stack.

use arrayvec::ArrayVec;
use pageblock_frame::{DescFlags, Descriptor, Pfn};
use pageblock_lru::{Lru, LruEvent, LruGuard, Lrus, maybe_shared};

use super::events::Events;
use super::single::{Found, OnLru, PageLock, Place, failed, follow, huge, put_back, referenced, settle};
use super::steps::{Accounting, InPlace, Steps};
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
    fn takes(&self, on: OnLru<'a, 'm>) -> bool {
        self.lru.is_none_or(|lru| core::ptr::eq(lru, on.lru))
    }

    /// Adds a page that [may join](Self::takes); true if the vector is full now.
    #[inline]
    fn push(&mut self, on: OnLru<'a, 'm>) -> bool {
        self.lru = Some(on.lru);
        self.pages.push(on.pfn);
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
        if posted {
            let next = collect(space, &mut vector, Span::new(at, span.end), context.lrus);
            if next > at {
                flush(space, &mut vector, context, &mut events);
                at = next;
                continue;
            }
        }
        at = match follow(space, at, context.lrus) {
            Found::Nothing(next) => next,
            Found::Huge(head) => {
                flush(space, &mut vector, context, &mut events);
                huge(space, Place { at, span }, head, context, &mut events)
            }
            Found::Page(on) => {
                if !vector.takes(on) {
                    flush(space, &mut vector, context, &mut events);
                }
                let full = vector.push(on);
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
/// entry, another zone, the end of the table or of the span, or a full vector; returns the page after the last. That is
/// the start of `rest` if no base page is there: the caller then follows the address from the root.
#[inline]
fn collect<'a, 'm, S: PageTable>(space: &S, vector: &mut Vector<'a, 'm>, rest: Span, lrus: Lrus<'a, 'm>) -> Vpn {
    let end = rest.end.min(S::LEVELS.table_end(rest.start));
    if let Walk::Table(table) = space.walk(rest.start)
        && let Entry::Page(pfn) = table.entry(rest.start)
        && let Some(on) = referenced(pfn, lrus)
    {
        vector.push(on);
        return take(&table, vector, on.lru, Span::new(rest.start.add(1), end));
    }
    rest.start
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
#[inline]
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
    if pages.len() == 1 {
        isolate_one(space, lru, pages, context, events);
    } else {
        isolate_all(space, lru, pages, context, events);
    }
    put_back_all(space, lru, pages, context, events);
}

/// Phase 1 for one page, as where the pages of two zones alternate: no bits, no second look. Leaves the vector empty
/// if the page was not isolated.
fn isolate_one<'a, 'm, S: AddressSpace, const N: usize>(
    space: &S,
    lru: &'a Lru<'m>,
    pages: &mut ArrayVec<Pfn, VECTOR>,
    context: &Context<'a, 'm, N>,
    events: &mut Events<'a, 'm>,
) {
    let Some(pfn) = pages.first().copied() else { return };
    let outcome = isolate(&mut lru.hold(), lru, pfn, context.steps);
    if context.steps.batch_counter && counts(outcome, context.steps) {
        lru.counters().add_mlocked(-1);
    }
    if outcome == Outcome::Isolated {
        return;
    }
    pages.clear();
    give_back(space, lru, pfn, (outcome == Outcome::Lost).then_some(events), context);
}

/// Phase 1: under one hold of the LRU lock, clears `MLOCKED` and takes the pages off their lists. In the vector remain
/// the pages that are isolated, with a reference.
fn isolate_all<'a, 'm, S: AddressSpace, const N: usize>(
    space: &S,
    lru: &'a Lru<'m>,
    pages: &mut ArrayVec<Pfn, VECTOR>,
    context: &Context<'a, 'm, N>,
    events: &mut Events<'a, 'm>,
) {
    let steps = context.steps;
    // Pages of the vector, one bit each.
    let (mut isolated, mut lost, mut counted) = (0_u32, 0_u32, 0_i64);
    let mut held = lru.hold();
    for (place, pfn) in pages.iter().enumerate() {
        let outcome = isolate(&mut held, lru, *pfn, steps);
        isolated |= u32::from(outcome == Outcome::Isolated) << place;
        lost |= u32::from(outcome == Outcome::Lost) << place;
        counted += i64::from(counts(outcome, steps));
    }
    if steps.batch_counter {
        lru.counters().add_mlocked(-counted);
    }
    drop(held);
    if isolated == (1 << pages.len()) - 1 {
        return;
    }
    let mut place = 0;
    pages.retain(|pfn| {
        let bit = 1 << place;
        place += 1;
        if isolated & bit == 0 {
            give_back(space, lru, *pfn, (lost & bit != 0).then_some(&mut *events), context);
        }
        isolated & bit != 0
    });
}

/// Outcome of phase 1 for a page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Off its list, with a reference.
    Isolated,
    /// Unlocked, but off its list on another CPU.
    Lost,
    /// Not locked.
    Unlocked,
}

/// Clears the `MLOCKED` of a page and takes it off its list.
#[inline]
fn isolate(held: &mut LruGuard<'_, '_>, lru: &Lru<'_>, pfn: Pfn, steps: Steps) -> Outcome {
    let Some(index) = lru.index_of(pfn) else { return Outcome::Unlocked };
    let Some(page) = lru.table().get(index as usize) else { return Outcome::Unlocked };
    if !page.clear_flags(DescFlags::MLOCKED).contains(DescFlags::MLOCKED) {
        return Outcome::Unlocked;
    }
    if !steps.batch_counter {
        lru.counters().add_mlocked(-1);
    }
    if !held.isolate_index(index) {
        return Outcome::Lost;
    }
    if !steps.one_reference {
        page.get();
    }
    Outcome::Isolated
}

/// True if the vector's count of `NR_MLOCK` has the page.
const fn counts(outcome: Outcome, steps: Steps) -> bool {
    match outcome {
        Outcome::Isolated => true,
        Outcome::Lost => matches!(steps.accounting, Accounting::Exact),
        Outcome::Unlocked => false,
    }
}

/// A page that was not isolated: settles it with `events` if it is off its list on another CPU, and gives the walk's
/// reference back. Called without the LRU lock.
fn give_back<'a, 'm, S: AddressSpace, const N: usize>(
    space: &S,
    lru: &'a Lru<'m>,
    pfn: Pfn,
    events: Option<&mut Events<'a, 'm>>,
    context: &Context<'a, 'm, N>,
) {
    if let Some(events) = events
        && let Some(page) = lru.page(pfn)
    {
        failed(space, OnLru { lru, pfn, page }, events);
    }
    context.put(space, pfn);
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
    events.cleared(lru, LruEvent::Munlocked, pages.len() as u64);
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
