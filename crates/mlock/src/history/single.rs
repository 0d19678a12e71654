//! One page at a time: Linux 3.11 and its first two patches; and the parts that the vector shares with it.

use core::hint::black_box;

use pageblock_frame::sync::spin_hint;
use pageblock_frame::{DescFlags, Descriptor, Pfn};
use pageblock_lru::{Batch, HUGE_FRAMES, Lru, LruEvent, LruList, Lrus, frames_of, maybe_shared};

use super::events::Events;
use crate::context::Context;
use crate::shared::relock_if_shared;
use crate::span::{Span, Vpn};
use crate::table::{AddressSpace, Entry, PageTable, Table, Walk};

/// Result of a walk from the root.
pub(super) enum Found<'a, 'm> {
    /// No page here; nothing worth looking at before this one.
    Nothing(Vpn),
    /// A base page, with a reference for the caller.
    Page(OnLru<'a, 'm>),
    /// The head of a huge page, with a reference for the caller.
    Huge(OnLru<'a, 'm>),
}

/// Walks from the root, takes a reference to the page under the table's lock, and looks its lists up, once for all that
/// follows. Mirrors `follow_page_mask()`.
#[inline]
pub(super) fn follow<'a, 'm, S: PageTable>(space: &S, at: Vpn, lrus: Lrus<'a, 'm>) -> Found<'a, 'm> {
    let nothing = Found::Nothing(at.add(1));
    match space.walk(at) {
        Walk::Absent(next) => Found::Nothing(core::cmp::max(next, at.add(1))),
        Walk::Table(table) => match table.entry(at) {
            Entry::Page(pfn) => referenced(pfn, lrus).map_or(nothing, Found::Page),
            _ => nothing,
        },
        Walk::Huge(table, head) => {
            let found = referenced(head, lrus).map_or(nothing, Found::Huge);
            drop(table);
            found
        }
    }
}

/// Takes a reference to a page under its table's lock; `None` if no list set covers it.
#[inline]
pub(super) fn referenced<'a, 'm>(pfn: Pfn, lrus: Lrus<'a, 'm>) -> Option<OnLru<'a, 'm>> {
    let lru = lrus.of(pfn)?;
    let page = lru.page(pfn)?;
    page.get();
    Some(OnLru { lru, pfn, page })
}

/// A page with its descriptor and its lists.
#[derive(Clone, Copy)]
pub(super) struct OnLru<'a, 'm> {
    pub(super) lru: &'a Lru<'m>,
    pub(super) pfn: Pfn,
    pub(super) page: &'a Descriptor,
}

/// Where a walk through a span has come to.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) at: Vpn,
    pub(super) span: Span,
}

/// The page's own lock, held.
pub(super) struct PageLock<'m>(&'m Descriptor);

impl<'m> PageLock<'m> {
    /// Waits until the page is unlocked, and locks it.
    pub(super) fn new(page: &'m Descriptor) -> Self {
        while page.set_flags(DescFlags::LOCKED).contains(DescFlags::LOCKED) {
            spin_hint();
        }
        Self(page)
    }
}

impl Drop for PageLock<'_> {
    fn drop(&mut self) {
        self.0.clear_flags(DescFlags::LOCKED);
    }
}

/// Page by page from the root.
pub(super) fn munlock<S: AddressSpace, const N: usize>(space: &S, span: Span, context: &mut Context<'_, '_, N>) {
    if context.steps.drain_once {
        context.drain(space);
    }
    let mut events = Events::default();
    let mut at = span.start;
    while at < span.end {
        at = match follow(space, at, context.lrus) {
            Found::Nothing(next) => next,
            Found::Page(on) => {
                page(space, on, context, &mut events);
                at.add(1)
            }
            Found::Huge(head) => huge(space, Place { at, span }, head, context, &mut events),
        };
    }
    events.flush();
}

/// A huge page found at `at`: unlocks it if it is wholly in the span; returns where to go on.
///
/// Whether it is still huge is seen under its lock, for it may have been split since the walk; then `at` is its head's
/// page, and only that one was handled. The step goes to the end of the huge page: `1 + (mask & !at)`.
#[inline]
pub(super) fn huge<'a, 'm, S: AddressSpace, const N: usize>(
    space: &S,
    place: Place,
    head: OnLru<'a, 'm>,
    context: &mut Context<'a, 'm, N>,
    events: &mut Events<'a, 'm>,
) -> Vpn {
    let Place { at, span } = place;
    let mask = HUGE_FRAMES - 1;
    let start = Vpn::new(at.as_u64() & !mask);
    if start < span.start || span.end < start.add(HUGE_FRAMES) {
        context.put(space, head.pfn);
        return at.add(1 + (mask & !at.as_u64()));
    }
    let frames = page(space, head, context, events);
    at.add(1 + ((frames - 1) & !at.as_u64()))
}

/// One page to which the caller gives its reference; returns the number of its frames. One copy for all forms, so that
/// they differ in their work and not in how it was compiled.
#[inline(never)]
pub(super) fn page<'a, 'm, S: AddressSpace, const N: usize>(
    space: &S,
    on: OnLru<'a, 'm>,
    context: &mut Context<'a, 'm, N>,
    events: &mut Events<'a, 'm>,
) -> u64 {
    let OnLru { lru, pfn, page } = on;
    let lock = PageLock::new(page);
    if !context.steps.drain_once {
        context.drain(space);
    }
    let before = page.clear_flags(DescFlags::MLOCKED);
    let frames = frames_of(before);
    if before.contains(DescFlags::MLOCKED) {
        lru.counters().add_mlocked(-(frames as i64));
        if isolate(lru, pfn, page) {
            settle(space, on, 2, events);
            put_back(space, on, context);
        } else {
            failed(space, on, events);
        }
    }
    drop(lock);
    context.put(space, pfn);
    frames
}

/// Takes the page off its list, with a reference. Mirrors `isolate_lru_page()` (3.11).
fn isolate(lru: &Lru<'_>, pfn: Pfn, page: &Descriptor) -> bool {
    if !page.flags().contains(DescFlags::LRU) {
        return false;
    }
    let mut held = lru.hold();
    let isolated = held.isolate(pfn);
    if isolated {
        page.get();
    }
    isolated
}

/// An isolated page that lost its `MLOCKED`: counts it, unless another area locks it too. `pins` are the references
/// that the caller holds. Mirrors `__munlock_isolated_page()` (3.12).
pub(super) fn settle<'a, 'm, S: AddressSpace>(space: &S, on: OnLru<'a, 'm>, pins: u32, events: &mut Events<'a, 'm>) {
    let OnLru { lru, pfn, page } = on;
    let flags = page.flags();
    if !maybe_shared(flags, page.refs(), pins) || !relock_if_shared(space, lru, pfn, page) {
        events.cleared(lru, LruEvent::Munlocked, frames_of(flags));
    }
}

/// A page that another CPU has while its `MLOCKED` was cleared; the caller holds one reference. Mirrors
/// `__munlock_isolation_failed()` (3.12), which leaves it to reclaim to find another area that locks the page; here
/// that is asked at once.
pub(super) fn failed<'a, 'm, S: AddressSpace>(space: &S, on: OnLru<'a, 'm>, events: &mut Events<'a, 'm>) {
    let OnLru { lru, pfn, page } = on;
    let flags = page.flags();
    let stranded = flags.contains(DescFlags::UNEVICTABLE);
    events.cleared(lru, if stranded { LruEvent::Stranded } else { LruEvent::Munlocked }, frames_of(flags));
    if maybe_shared(flags, page.refs(), 1)
        && relock_if_shared(space, lru, pfn, page)
        && let Some(index) = lru.index_of(pfn)
    {
        lru.hold().refresh(index); // it may have been put back meanwhile
    }
}

/// Puts an isolated page back through the CPU's pagevec, and gives the isolation's reference back. Mirrors
/// `putback_lru_page()` (3.11).
pub(super) fn put_back<S: AddressSpace, const N: usize>(
    space: &S,
    on: OnLru<'_, '_>,
    context: &mut Context<'_, '_, N>,
) {
    let OnLru { lru, pfn, page } = on;
    let flags = page.flags();
    if !context.steps.lazy_base {
        black_box(LruList::of(flags & DescFlags::FILE));
    }
    if flags.contains(DescFlags::MLOCKED) {
        lru.add(pfn);
    } else {
        context.vecs.push(Batch::Add, pfn, context.lrus, &mut |pfn| space.free(pfn));
    }
    context.put(space, pfn);
}

/// One page; returns where to go on. Mirrors `mlock_vma_page()` (3.11).
pub(super) fn lock_one<S: AddressSpace, const N: usize>(
    space: &S,
    at: Vpn,
    span: Span,
    context: &mut Context<'_, '_, N>,
) -> Vpn {
    let (OnLru { lru, pfn, page }, next, whole) = match follow(space, at, context.lrus) {
        Found::Nothing(next) => return next,
        Found::Page(on) => (on, at.add(1), true),
        Found::Huge(on) => {
            let next = Vpn::new(at.as_u64() & !(HUGE_FRAMES - 1)).add(HUGE_FRAMES);
            (on, next, at.as_u64().is_multiple_of(HUGE_FRAMES) && next <= span.end)
        }
    };
    if whole {
        let lock = PageLock::new(page);
        let before = page.set_flags(DescFlags::MLOCKED);
        if !before.contains(DescFlags::MLOCKED) {
            lru.counters().add_mlocked(frames_of(before) as i64);
            lru.counters().count(LruEvent::Mlocked, frames_of(before));
            if lru.isolate(pfn).is_ok() && lru.put_back(pfn) {
                space.free(pfn);
            }
        }
        drop(lock);
    }
    context.put(space, pfn);
    next
}
