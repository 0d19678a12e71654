//! munlock against isolating, against reclaim, against another munlock and against a new lock of a shared page, in
//! every interleaving with up to two preemptions, for the default and for the last of the posted forms.
#![cfg(loom)]

use std::sync::atomic::{AtomicUsize, Ordering};

use loom::sync::Arc;
use loom::thread;
use pageblock_frame::sync::Lock;
use pageblock_frame::{DescFlags, Descriptor, Pfn};
use pageblock_lru::{Lru, LruEvent, Lrus, Pagevecs};
use pageblock_mlock::{
    AddressSpace, AreaState, Context, Entry, FaultError, LockedArea, MarkError, PageTable, Span, Steps, Table, Vpn,
    Walk, mlock_pages, munlock_pages,
};

/// The page that everything is about.
const PAGE: Pfn = Pfn::new(0);

/// A space with two areas of one page each, in tables of their own: pages 0 and 512.
struct Space {
    lru: &'static [Lru<'static>],
    /// What each area's entry maps.
    entries: [Lock<Option<Pfn>>; 2],
    /// Which areas are locked: one lock orders changes and questions.
    locked: Lock<[bool; 2]>,
    freed: Lock<usize>,
}

struct Guard<'a>(pageblock_frame::sync::LockGuard<'a, Option<Pfn>>);

impl Table for Guard<'_> {
    fn entry(&self, _at: Vpn) -> Entry {
        self.0.map_or(Entry::Absent, Entry::Page)
    }
}

impl PageTable for Space {
    type Table<'a> = Guard<'a>;

    fn walk(&self, at: Vpn) -> Walk<Guard<'_>> {
        Walk::Table(Guard(self.entries[at.as_u64() as usize / 512].lock()))
    }
}

impl AddressSpace for Space {
    fn area(&self, _at: Vpn) -> Option<LockedArea> {
        None // the models mark by hand
    }

    fn mark(&self, part: Span, state: AreaState) -> Result<(), MarkError> {
        self.locked.lock()[part.start.as_u64() as usize / 512] = state == AreaState::Locked;
        Ok(())
    }

    fn fault_in(&self, _at: Vpn) -> Result<(), FaultError> {
        Err(FaultError::Nothing)
    }

    fn locked_by_any(&self, pfn: Pfn) -> bool {
        let locked = *self.locked.lock();
        (0..2).any(|area| locked[area] && *self.entries[area].lock() == Some(pfn))
    }

    fn free(&self, pfn: Pfn) {
        assert_eq!(pfn, PAGE);
        *self.freed.lock() += 1;
    }
}

fn span(area: u64) -> Span {
    Span::new(Vpn::new(area * 512), Vpn::new(area * 512 + 1))
}

impl Space {
    /// The page, mapped and locked in the first `areas` areas, on the unevictable list. `cached`: it is a file's.
    fn new(areas: usize, cached: bool) -> Arc<Self> {
        let table: &'static [Descriptor] = Box::leak(vec![Descriptor::new()].into());
        let lru: &'static [Lru<'static>] = Box::leak(vec![Lru::new(PAGE, table)].into());
        let file = if cached { DescFlags::FILE } else { DescFlags::empty() };
        table[0].store_flags(DescFlags::MLOCKED | file);
        table[0].store_refs(areas as u32 + u32::from(cached));
        lru[0].counters().add_mlocked(1);
        lru[0].counters().count(LruEvent::Mlocked, 1);
        assert!(lru[0].add(PAGE));
        Arc::new(Self {
            lru,
            entries: std::array::from_fn(|area| Lock::new((area < areas).then_some(PAGE))),
            locked: Lock::new([areas > 0, areas > 1]),
            freed: Lock::new(0),
        })
    }

    fn page(&self) -> &'static Descriptor {
        &self.lru[0].table()[0]
    }

    fn unlock(&self, area: u64, steps: Steps) {
        self.mark(span(area), AreaState::Unlocked).unwrap();
        let lrus = Lrus::new(self.lru).unwrap();
        let mut vecs = Pagevecs::<2>::new();
        munlock_pages(self, span(area), &mut Context::new(lrus, &mut vecs).with_steps(steps));
        vecs.drain(lrus, &mut |pfn| self.free(pfn));
    }

    /// Maps the page, found in the page cache, in area 1, which is locked, and locks it.
    fn lock_second(&self, steps: Steps) {
        self.mark(span(1), AreaState::Locked).unwrap();
        self.page().get(); // of the page cache's reference, which is held throughout
        *self.entries[1].lock() = Some(PAGE);
        let mut vecs = Pagevecs::<2>::new();
        let lrus = Lrus::new(self.lru).unwrap();
        mlock_pages(self, span(1), &mut Context::new(lrus, &mut vecs).with_steps(steps));
    }

    /// Asserts what holds when all is quiet.
    fn check(&self, locked: bool) {
        let page = self.page();
        let freed = *self.freed.lock() == 1;
        assert_eq!(page.flags().contains(DescFlags::MLOCKED), locked);
        assert_eq!(page.flags().contains(DescFlags::UNEVICTABLE), locked);
        assert_eq!(self.lru[0].counters().nr_mlock(), i64::from(locked));
        assert_eq!(page.flags().contains(DescFlags::LRU), !freed);
        let mapped = self.entries.iter().filter(|entry| entry.lock().is_some()).count() as u32;
        assert_eq!(page.refs(), mapped + u32::from(page.flags().contains(DescFlags::FILE)));
        assert_eq!(self.lru[0].check(), Ok(()));
    }
}

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

fn both_forms(model: fn(Steps)) {
    for steps in [Steps::default(), Steps::first(7)] {
        explore(move || model(steps));
    }
}

#[test]
fn munlock_against_isolate() {
    static STRANDED: AtomicUsize = AtomicUsize::new(0);
    static MOVED: AtomicUsize = AtomicUsize::new(0);
    both_forms(|steps| {
        let space = Space::new(1, false);
        let other = space.clone();
        let thread = thread::spawn(move || {
            if other.lru[0].isolate(PAGE).is_ok() {
                assert!(!other.lru[0].put_back(PAGE));
            }
        });
        space.unlock(0, steps);
        thread.join().unwrap();
        space.check(false);
        let event = |event| space.lru[0].counters().event(event);
        assert_eq!(event(LruEvent::Munlocked) + event(LruEvent::Stranded), event(LruEvent::Mlocked));
        assert_eq!(event(LruEvent::Rescued), event(LruEvent::Culled));
        if event(LruEvent::Stranded) > 0 { &STRANDED } else { &MOVED }.fetch_add(1, Ordering::Relaxed);
    });
    assert!(STRANDED.load(Ordering::Relaxed) > 0, "never met the page off its list");
    assert!(MOVED.load(Ordering::Relaxed) > 0);
}

#[test]
fn munlock_against_reclaim() {
    static RECLAIMED_FIRST: AtomicUsize = AtomicUsize::new(0);
    static KEPT: AtomicUsize = AtomicUsize::new(0);
    static CLEARED: AtomicUsize = AtomicUsize::new(0);
    both_forms(|steps| {
        let space = Space::new(1, false);
        let other = space.clone();
        // Takes the page, and unmaps it unless its area is locked.
        let thread = thread::spawn(move || {
            if other.lru[0].isolate(PAGE).is_err() {
                return;
            }
            let mut entry = other.entries[0].lock();
            if !other.locked.lock()[0] && entry.take().is_some() {
                drop(entry);
                assert_ne!(other.page().put(), 0);
            } else {
                drop(entry);
            }
            if other.lru[0].put_back(PAGE) {
                other.free(PAGE);
            }
        });
        space.unlock(0, steps);
        thread.join().unwrap();
        space.check(false);
        let unmapped = space.entries[0].lock().is_none();
        assert_eq!(*space.freed.lock(), usize::from(unmapped));
        if unmapped { &RECLAIMED_FIRST } else { &KEPT }.fetch_add(1, Ordering::Relaxed);
        CLEARED.fetch_add(space.lru[0].counters().event(LruEvent::Cleared) as usize, Ordering::Relaxed);
    });
    for (what, count) in [("unmapped", &RECLAIMED_FIRST), ("kept", &KEPT), ("freed while locked", &CLEARED)] {
        assert!(count.load(Ordering::Relaxed) > 0, "the page was never {what}");
    }
}

#[test]
fn two_munlocks_of_a_shared_page() {
    static BY_MAIN: AtomicUsize = AtomicUsize::new(0);
    static RELOCKED: AtomicUsize = AtomicUsize::new(0);
    both_forms(|steps| {
        let space = Space::new(2, false);
        let other = space.clone();
        let thread = thread::spawn(move || other.unlock(1, steps));
        space.unlock(0, steps);
        let left = space.page().flags().contains(DescFlags::MLOCKED);
        BY_MAIN.fetch_add(usize::from(!left), Ordering::Relaxed);
        RELOCKED.fetch_add(usize::from(left), Ordering::Relaxed);
        thread.join().unwrap();
        space.check(false);
    });
    assert!(BY_MAIN.load(Ordering::Relaxed) > 0 && RELOCKED.load(Ordering::Relaxed) > 0);
}

#[test]
fn munlock_against_a_new_lock_of_the_page() {
    static SET_ANEW: AtomicUsize = AtomicUsize::new(0);
    static NEVER_CLEARED: AtomicUsize = AtomicUsize::new(0);
    static TAKEN_BACK: AtomicUsize = AtomicUsize::new(0);
    // The older form of mlock sets the flag without the LRU lock.
    for (unlock, lock) in [(8, 8), (7, 8), (8, 7), (7, 7)] {
        let form = |number: u8| if number == 8 { Steps::default() } else { Steps::first(number) };
        let (unlock, lock) = (form(unlock), form(lock));
        explore(move || {
            let space = Space::new(1, true);
            let other = space.clone();
            let thread = thread::spawn(move || other.lock_second(lock));
            space.unlock(0, unlock);
            thread.join().unwrap();
            space.check(true);
            let event = |event| space.lru[0].counters().event(event);
            if event(LruEvent::Mlocked) > 1 { &SET_ANEW } else { &NEVER_CLEARED }.fetch_add(1, Ordering::Relaxed);
            let moved = event(LruEvent::Munlocked) > 0 && event(LruEvent::Rescued) == 0;
            TAKEN_BACK.fetch_add(usize::from(unlock.runs && moved), Ordering::Relaxed);
        });
    }
    assert!(SET_ANEW.load(Ordering::Relaxed) > 0 && NEVER_CLEARED.load(Ordering::Relaxed) > 0);
    assert!(
        TAKEN_BACK.load(Ordering::Relaxed) > 0,
        "the flag was never set anew between clearing it and looking again"
    );
}
