//! What the oracle test does not reach: huge pages, the counted form, refaults, pages on their way out, errors.

use arrayvec::ArrayVec;
use pageblock_frame::{DescFlags, Descriptor, Pfn};
use pageblock_lru::{Batch, HUGE_FRAMES, Lru, LruEvent, LruIsolateError, LruList, Lrus, Pagevecs, Swap, Unevictable};

fn table(frames: usize) -> Vec<Descriptor> {
    let table: Vec<Descriptor> = (0..frames).map(|_| Descriptor::new()).collect();
    table.iter().for_each(|page| page.store_refs(1));
    table
}

#[test]
fn a_huge_page_is_one_entry_of_512_frames_and_splits_in_place() {
    let table = table(HUGE_FRAMES as usize + 2);
    let lru = Lru::new(Pfn::new(0), &table);
    table[1].set_flags(DescFlags::HUGE);
    for pfn in [0, 1, HUGE_FRAMES + 1] {
        assert!(lru.add(Pfn::new(pfn)));
    }
    assert_eq!(lru.frames(LruList::InactiveAnon), HUGE_FRAMES + 2);
    assert_eq!(lru.check(), Ok(()));
    assert!(lru.hold().split(Pfn::new(1)));
    assert!(!lru.hold().split(Pfn::new(1)));
    assert_eq!(lru.frames(LruList::InactiveAnon), HUGE_FRAMES + 2);
    assert_eq!(lru.check(), Ok(()));
    assert!(!table[1].flags().contains(DescFlags::HUGE));
    let mut out = ArrayVec::<Pfn, 600>::new();
    assert_eq!(lru.isolate_tail(LruList::InactiveAnon, 1000, &mut out).taken, HUGE_FRAMES + 2);
    let expected = std::iter::once(0).chain((1..=HUGE_FRAMES).rev()).chain([HUGE_FRAMES + 1]);
    assert_eq!(out.iter().map(|pfn| pfn.as_u64()).collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

#[test]
fn an_isolated_huge_page_splits_without_being_linked() {
    let table = table(HUGE_FRAMES as usize);
    let lru = Lru::new(Pfn::new(0), &table);
    table[0].set_flags(DescFlags::HUGE);
    assert!(lru.add(Pfn::new(0)));
    assert_eq!(lru.isolate(Pfn::new(0)), Ok(()));
    assert!(lru.hold().split(Pfn::new(0)));
    assert_eq!(lru.all_frames(), [0; 5]);
    assert!(!lru.put_back(Pfn::new(0)));
    assert!((1..HUGE_FRAMES).all(|pfn| lru.add(Pfn::new(pfn))));
    assert_eq!(lru.all_frames(), [HUGE_FRAMES, 0, 0, 0, 0]);
    assert_eq!(lru.check(), Ok(()));
}

#[test]
fn a_huge_page_flushes_its_batch_at_once() {
    let table = table(HUGE_FRAMES as usize);
    let sets = [Lru::new(Pfn::new(0), &table)];
    let lrus = Lrus::new(&sets).unwrap();
    let mut vecs = Pagevecs::<15>::new();
    table[0].set_flags(DescFlags::HUGE);
    vecs.push(Batch::Add, Pfn::new(0), lrus, &mut |_| unreachable!());
    assert_eq!((vecs.waiting(Batch::Add), sets[0].frames(LruList::InactiveAnon)), (0, HUGE_FRAMES));
}

#[test]
fn the_counted_form_counts_and_never_scans() {
    let table = table(4);
    let lru = Lru::with_form(Pfn::new(0), &table, Unevictable::Counted);
    lru.counters().add_mlocked(2);
    for (pfn, page) in (0..4).zip(&table) {
        if pfn < 2 {
            page.set_flags(DescFlags::MLOCKED);
        }
        assert!(lru.add(Pfn::new(pfn)));
    }
    assert_eq!(lru.all_frames(), [2, 0, 0, 0, 2]);
    assert_eq!(lru.check(), Ok(()));
    let mut out = ArrayVec::<Pfn, 4>::new();
    assert_eq!(lru.isolate_tail(LruList::Unevictable, 9, &mut out).scanned, 0);
    assert_eq!(lru.isolate(Pfn::new(0)), Ok(()));
    assert_eq!(lru.all_frames(), [2, 0, 0, 0, 1]);
    assert!(!lru.put_back(Pfn::new(0)));
    assert_eq!(lru.check(), Ok(()));
}

#[test]
fn a_page_locked_while_isolated_goes_to_the_unevictable_list() {
    let table = table(2);
    let lru = Lru::new(Pfn::new(0), &table);
    assert!(lru.add(Pfn::new(0)));
    assert_eq!(lru.isolate(Pfn::new(0)), Ok(()));
    table[0].set_flags(DescFlags::MLOCKED | DescFlags::ACTIVE);
    lru.counters().add_mlocked(1);
    assert!(!lru.put_back(Pfn::new(0)));
    assert_eq!(lru.all_frames(), [0, 0, 0, 0, 1]);
    assert_eq!(lru.counters().event(LruEvent::Culled), 1);
    assert!(lru.release(Pfn::new(0))); // freed while locked
    assert_eq!((lru.counters().nr_mlock(), lru.counters().event(LruEvent::Cleared)), (0, 1));
    assert_eq!(lru.check(), Ok(()));
}

#[test]
fn pages_without_references_are_stepped_over() {
    let table = table(3);
    let lru = Lru::new(Pfn::new(0), &table);
    for pfn in 0..3 {
        assert!(lru.add(Pfn::new(pfn)));
    }
    table[0].store_refs(0); // as if between the last put and the unlinking
    let mut out = ArrayVec::<Pfn, 1>::new();
    let scan = lru.isolate_tail(LruList::InactiveAnon, 5, &mut out);
    assert_eq!((scan.scanned, scan.taken, out[0]), (2, 1, Pfn::new(1)));
    assert_eq!(lru.isolate(Pfn::new(0)), Err(LruIsolateError::Free));
    assert_eq!(lru.isolate(Pfn::new(1)), Err(LruIsolateError::NotOnLru));
    assert_eq!(lru.isolate(Pfn::new(3)), Err(LruIsolateError::OutOfRange));
}

#[test]
fn a_batch_whose_owner_left_hands_the_frames_over() {
    let table = table(3);
    let lru = Lru::new(Pfn::new(0), &table);
    let mut pages = ArrayVec::<Pfn, 3>::new();
    for pfn in 0..3 {
        assert!(lru.add(Pfn::new(pfn)));
    }
    lru.isolate_tail(LruList::InactiveAnon, 9, &mut pages);
    assert!(!lru.release(Pfn::new(1)));
    lru.put_back_all(&mut pages);
    assert_eq!(pages.as_slice(), [Pfn::new(1)]);
    assert_eq!(table[1].flags(), DescFlags::empty());
    assert_eq!(lru.frames(LruList::InactiveAnon), 2);
    assert_eq!(lru.check(), Ok(()));
}

#[test]
fn a_page_that_returns_within_the_working_set_becomes_active() {
    let table = table(8);
    let lru = Lru::new(Pfn::new(0), &table);
    for (pfn, page) in (0..4).zip(&table) {
        page.set_flags(DescFlags::FILE | DescFlags::ACTIVE);
        assert!(lru.add(Pfn::new(pfn)));
    }
    let shadow = lru.evict(1);
    lru.evict(4);
    let soon = lru.refault(shadow, lru.workingset_frames(Swap::Absent));
    assert_eq!((soon.distance, soon.workingset), (4, true));
    lru.evict(1);
    let late = lru.refault(shadow, lru.workingset_frames(Swap::Absent));
    assert_eq!((late.distance, late.workingset), (5, false));
    lru.readmit(Pfn::new(6), late);
    assert!(!table[6].flags().contains(DescFlags::ACTIVE));
    lru.readmit(Pfn::new(5), soon);
    assert!(table[5].flags().contains(DescFlags::ACTIVE | DescFlags::WORKINGSET));
    assert_eq!((lru.counters().event(LruEvent::Refault), lru.counters().event(LruEvent::RefaultActivate)), (2, 1));
}

#[test]
fn a_dirty_file_page_waits_for_its_writing_at_the_head() {
    let table = table(3);
    let sets = [Lru::new(Pfn::new(0), &table)];
    let lrus = Lrus::new(&sets).unwrap();
    let mut vecs = Pagevecs::<14>::new();
    for (pfn, page) in (0..3).zip(&table) {
        page.set_flags(DescFlags::FILE);
        assert!(sets[0].add(Pfn::new(pfn)));
    }
    table[1].set_flags(DescFlags::DIRTY);
    vecs.push(Batch::DeactivateFile, Pfn::new(1), lrus, &mut |_| unreachable!());
    vecs.push(Batch::DeactivateFile, Pfn::new(2), lrus, &mut |_| unreachable!());
    vecs.drain(lrus, &mut |_| unreachable!());
    assert!(table[1].flags().contains(DescFlags::RECLAIM));
    let mut out = ArrayVec::<Pfn, 3>::new();
    sets[0].isolate_tail(LruList::InactiveFile, 9, &mut out);
    assert_eq!(out.as_slice(), [Pfn::new(2), Pfn::new(0), Pfn::new(1)]);
}

#[test]
fn frames_that_no_set_covers_are_refused_or_ignored() {
    let sets: [Lru<'_>; 0] = [];
    let lrus = Lrus::new(&sets).unwrap();
    let mut vecs = Pagevecs::<15>::new();
    vecs.push(Batch::Add, Pfn::new(5), lrus, &mut |_| unreachable!());
    vecs.mark_accessed(Pfn::new(5), lrus, &mut |_| unreachable!());
    assert_eq!(vecs.waiting(Batch::Add), 0);
    assert!(!lrus.release(Pfn::new(5)));
}

#[test]
fn activations_and_evictions_age_what_was_evicted() {
    let table = table(1);
    let set = Lru::new(Pfn::new(0), &table);
    let shadow = set.evict(8);
    assert_eq!((set.age(), set.refault(shadow, 0).distance), (8, 0));
    set.advance_age(4);
    assert_eq!(set.age(), 12);
    let back = set.refault(shadow, 4);
    assert_eq!((back.distance, back.workingset, set.refault(shadow, 3).workingset), (4, true, false));
}
