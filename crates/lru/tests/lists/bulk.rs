//! What bulk operations do to pages that are not as they expect: not locked, off their list, shared; and in both forms
//! of the unevictable list.

use pageblock_frame::{DescFlags, Descriptor, Pfn};
use pageblock_lru::{HUGE_FRAMES, Lru, LruEvent, LruList, Tally, Unevictable};

const FORMS: [Unevictable; 2] = [Unevictable::Linked, Unevictable::Counted];
const SIX: [u32; 6] = [0, 1, 2, 3, 4, 5];

fn table(frames: usize) -> Vec<Descriptor> {
    let table: Vec<Descriptor> = (0..frames).map(|_| Descriptor::new()).collect();
    table.iter().for_each(|page| page.store_refs(1));
    table
}

/// Pages on the inactive list.
fn listed(table: &[Descriptor], form: Unevictable) -> Lru<'_> {
    let lru = Lru::with_form(Pfn::new(0), table, form);
    (0..table.len() as u64).for_each(|pfn| assert!(lru.add(Pfn::new(pfn))));
    lru
}

/// Pages on the unevictable list, locked once.
fn locked(table: &[Descriptor], form: Unevictable) -> Lru<'_> {
    let lru = listed(table, form);
    let pages: Vec<u32> = (0..table.len() as u32).collect();
    lru.hold().lock_pages(&pages).count(lru.counters());
    lru
}

fn sound(lru: &Lru<'_>, frames: [u64; LruList::COUNT], locked: i64) {
    assert_eq!(lru.check(), Ok(()));
    assert_eq!((lru.all_frames(), lru.counters().nr_mlock()), (frames, locked));
}

#[test]
fn pages_that_are_not_locked_stay_where_they_are() {
    for form in FORMS {
        let table = table(6);
        let lru = listed(&table, form);
        assert_eq!(lru.hold().unlock_pages(&[0, 1, 2]), Tally::default());
        sound(&lru, [6, 0, 0, 0, 0], 0);
    }
}

#[test]
fn locking_moves_every_page_and_counts_it_once() {
    for form in FORMS {
        let table = table(6);
        table[3].set_flags(DescFlags::ACTIVE | DescFlags::FILE);
        let lru = locked(&table, form);
        sound(&lru, [0, 0, 0, 0, 6], 6);
        assert!(!table[3].flags().contains(DescFlags::ACTIVE));
        assert_eq!([LruEvent::Mlocked, LruEvent::Culled].map(|event| lru.counters().event(event)), [6, 6]);
        assert_eq!(lru.hold().lock_pages(&SIX), Tally::default(), "they are locked");
        table[3].store_refs(2); // a file page's mapping, and the page cache
        let tally = lru.hold().unlock_pages(&SIX);
        assert_eq!(tally, Tally { cleared: 6, rescued: 6, ..Tally::default() }, "{form:?}");
        tally.count(lru.counters());
        sound(&lru, [5, 0, 1, 0, 0], 0);
        assert_eq!([LruEvent::Munlocked, LruEvent::Rescued].map(|event| lru.counters().event(event)), [6, 6]);
    }
}

#[test]
fn a_page_off_its_list_is_unlocked_and_counts_as_stranded() {
    for form in FORMS {
        // One frame, and a huge page: counts are in frames.
        for (flags, frames) in [(DescFlags::empty(), 1), (DescFlags::HUGE, HUGE_FRAMES)] {
            let table = table(HUGE_FRAMES as usize);
            table[0].set_flags(flags);
            let lru = Lru::with_form(Pfn::new(0), &table, form);
            assert!(lru.add(Pfn::new(0)));
            lru.hold().lock_pages(&[0]).count(lru.counters());
            assert!(lru.hold().isolate(Pfn::new(0)));
            let tally = lru.hold().unlock_pages(&[0]);
            assert_eq!(tally, Tally { cleared: frames, stranded: frames, ..Tally::default() }, "{form:?}");
            tally.count(lru.counters());
            assert_eq!([LruEvent::Munlocked, LruEvent::Stranded].map(|event| lru.counters().event(event)), [0, frames]);
            assert!(!table[0].flags().contains(DescFlags::MLOCKED));
            // Put back, it finds the evictable list.
            assert!(lru.add(Pfn::new(0)));
            sound(&lru, [frames, 0, 0, 0, 0], 0);
            // Locked while it is off an evictable list, it is not stranded.
            assert!(lru.hold().isolate(Pfn::new(0)));
            lru.hold().lock_pages(&[0]).count(lru.counters());
            assert_eq!(lru.counters().nr_mlock(), frames as i64);
            assert_eq!(lru.hold().unlock_pages(&[0]), Tally { cleared: frames, ..Tally::default() });
        }
    }
}

#[test]
fn a_page_that_is_mapped_twice_is_left_alone() {
    for form in FORMS {
        let table = table(6);
        let lru = locked(&table, form);
        table[2].get();
        let tally = lru.hold().unlock_pages(&SIX);
        assert_eq!(tally, Tally { cleared: 5, rescued: 5, shared: 1, ..Tally::default() }, "{form:?}");
        tally.count(lru.counters());
        sound(&lru, [5, 0, 0, 0, 1], 1);
        assert!(table[2].flags().contains(DescFlags::MLOCKED));
    }
}

#[test]
fn the_counted_way_works_on_a_linked_list_and_does_not_count_there() {
    let table = table(6);
    let lru = locked(&table, Unevictable::Linked);
    for index in SIX {
        lru.hold().lock_counted(index);
        sound(&lru, [0, 0, 0, 0, 6], 6);
    }
    for (unlocked, index) in (1..).zip(SIX) {
        let tally = lru.hold().unlock_counted(index);
        assert_eq!(tally, Tally { cleared: 1, ..Tally::default() });
        tally.count(lru.counters());
        sound(&lru, [unlocked, 0, 0, 0, 6 - unlocked], 6 - unlocked as i64);
    }
}

#[test]
fn the_counted_way_writes_no_count_where_pages_are_linked() {
    for (form, locked) in [(Unevictable::Linked, 6), (Unevictable::Counted, 0)] {
        let table = table(6);
        let lru = listed(&table, form);
        for index in SIX {
            // Locked and still on the inactive list: it moves to a linked list. Not locked: it stays on one.
            if locked > 0 {
                table[index as usize].set_flags(DescFlags::MLOCKED);
                lru.counters().add_mlocked(1);
            }
            lru.hold().lock_counted(index);
            assert_eq!(lru.check(), Ok(()), "{form:?}, page {index}");
        }
        sound(&lru, [6 - locked, 0, 0, 0, locked], locked as i64);
    }
}

#[test]
fn the_counted_way_unlocks_with_the_last_area() {
    let table = table(6);
    let lru = locked(&table, Unevictable::Counted);
    for _ in 0..2 {
        SIX.into_iter().for_each(|index| lru.hold().lock_counted(index)); // two more areas
    }
    for left in (0..3).rev() {
        for index in SIX {
            lru.hold().unlock_counted(index).count(lru.counters());
        }
        let unlocked = if left == 0 { 6 } else { 0 };
        sound(&lru, [unlocked, 0, 0, 0, 6 - unlocked], 6 - unlocked as i64);
    }
    // A page that is locked and still on another list comes with a count of 1.
    table[4].set_flags(DescFlags::MLOCKED);
    lru.counters().add_mlocked(1);
    lru.hold().lock_counted(4);
    sound(&lru, [5, 0, 0, 0, 1], 1);
    lru.hold().unlock_counted(4).count(lru.counters());
    sound(&lru, [6, 0, 0, 0, 0], 0);
}
