//! Isolating against putting back against freeing, in every interleaving with up to two preemptions.
#![cfg(loom)]

use std::sync::atomic::{AtomicUsize, Ordering};

use arrayvec::ArrayVec;
use loom::sync::Arc;
use loom::thread;
use pageblock_frame::{DescFlags, Descriptor, Pfn};
use pageblock_lru::{IsolateError, Lru, LruList};

/// Two pages on the inactive list, with one reference each: their owner's.
fn lists() -> Arc<Lru<'static>> {
    let table: &'static [Descriptor] = Box::leak((0..2).map(|_| Descriptor::new()).collect());
    let lru = Lru::new(Pfn::new(0), table);
    for (pfn, page) in table.iter().enumerate() {
        page.store_refs(1);
        assert!(lru.add(Pfn::new(pfn as u64)));
    }
    Arc::new(lru)
}

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

/// Isolates page 0 and puts it back; says how it went and whether this was the one to free it.
fn borrow(lru: &Lru<'_>) -> (Result<(), IsolateError>, bool) {
    match lru.isolate(Pfn::new(0)) {
        Ok(()) => (Ok(()), lru.put_back(Pfn::new(0))),
        Err(IsolateError::Orphaned) => (Err(IsolateError::Orphaned), true),
        Err(error) => (Err(error), false),
    }
}

#[test]
fn isolate_put_back_and_free() {
    static TAKEN: AtomicUsize = AtomicUsize::new(0);
    static MISSED: AtomicUsize = AtomicUsize::new(0);
    static FREED_BY_ISOLATOR: AtomicUsize = AtomicUsize::new(0);
    explore(|| {
        let lru = lists();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let lru = lru.clone();
                thread::spawn(move || borrow(&lru))
            })
            .collect();
        let mut frees = usize::from(lru.release(Pfn::new(0)));
        for thread in threads {
            let (result, freed) = thread.join().unwrap();
            if result.is_ok() { &TAKEN } else { &MISSED }.fetch_add(1, Ordering::Relaxed);
            FREED_BY_ISOLATOR.fetch_add(usize::from(freed), Ordering::Relaxed);
            frees += usize::from(freed);
        }
        assert_eq!(frees, 1, "the frame is freed exactly once");
        assert_eq!(lru.table()[0].flags(), DescFlags::empty());
        assert_eq!(lru.all_frames(), [1, 0, 0, 0, 0]);
        assert_eq!(lru.check(), Ok(()));
    });
    for (what, count) in [("taken", &TAKEN), ("missed", &MISSED), ("freed by the isolator", &FREED_BY_ISOLATOR)] {
        assert!(count.load(Ordering::Relaxed) > 0, "no execution in which the page was {what}");
    }
}

#[test]
fn scan_and_isolate_take_a_page_once() {
    static BY_SCAN: AtomicUsize = AtomicUsize::new(0);
    static BY_NAME: AtomicUsize = AtomicUsize::new(0);
    explore(|| {
        let lru = lists();
        let other = lru.clone();
        let thread = thread::spawn(move || borrow(&other).0.is_ok());
        let mut pages = ArrayVec::<Pfn, 2>::new();
        lru.isolate_tail(LruList::InactiveAnon, 4, &mut pages);
        let scanned = pages.contains(&Pfn::new(0));
        if scanned { &BY_SCAN } else { &BY_NAME }.fetch_add(1, Ordering::Relaxed);
        lru.put_back_all(&mut pages);
        assert!(pages.is_empty(), "the owner still holds its references");
        let named = thread.join().unwrap();
        assert!(scanned || named);
        assert_eq!(lru.check(), Ok(()));
        assert_eq!(lru.all_frames(), [2, 0, 0, 0, 0]);
        assert!(lru.table().iter().all(|page| page.refs() == 1));
    });
    assert!(BY_SCAN.load(Ordering::Relaxed) > 0 && BY_NAME.load(Ordering::Relaxed) > 0);
}

#[test]
fn locking_while_putting_back_ends_on_the_right_list() {
    static FOUND_LINKED: AtomicUsize = AtomicUsize::new(0);
    static FOUND_OFF: AtomicUsize = AtomicUsize::new(0);
    explore(|| {
        let lru = lists();
        assert_eq!(lru.isolate(Pfn::new(0)), Ok(()));
        let other = lru.clone();
        // Locks the page in the old way: the flag first, then off the list if it is on one, and back.
        let thread = thread::spawn(move || {
            let before = other.table()[0].set_flags(DescFlags::MLOCKED);
            other.counters().add_mlocked(1);
            let linked = before.contains(DescFlags::LRU);
            if linked && other.isolate(Pfn::new(0)).is_ok() {
                assert!(!other.put_back(Pfn::new(0)));
            }
            linked
        });
        assert!(!lru.put_back(Pfn::new(0)));
        if thread.join().unwrap() { &FOUND_LINKED } else { &FOUND_OFF }.fetch_add(1, Ordering::Relaxed);
        assert_eq!(lru.all_frames(), [1, 0, 0, 0, 1]);
        assert_eq!(lru.check(), Ok(()));
    });
    assert!(FOUND_LINKED.load(Ordering::Relaxed) > 0 && FOUND_OFF.load(Ordering::Relaxed) > 0);
}
