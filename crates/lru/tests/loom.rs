//! Isolating against putting back against freeing, in every interleaving with up to two preemptions.
#![cfg(loom)]

use std::sync::atomic::{AtomicUsize, Ordering};

use arrayvec::ArrayVec;
use loom::sync::Arc;
use loom::thread;
use pageblock_frame::{DescFlags, Descriptor, Pfn};
use pageblock_lru::{Lru, LruIsolateError, LruList, Unevictable};

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

/// For two short threads: every interleaving.
fn unbounded(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = None;
    builder.check(model);
}

/// Isolates page 0 and puts it back; says how it went and whether this was the one to free it.
fn borrow(lru: &Lru<'_>) -> (Result<(), LruIsolateError>, bool) {
    match lru.isolate(Pfn::new(0)) {
        Ok(()) => (Ok(()), lru.put_back(Pfn::new(0))),
        Err(LruIsolateError::Orphaned) => (Err(LruIsolateError::Orphaned), true),
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

/// Page 0, isolated, comes back in one of the two ways.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Back {
    Alone,
    InABatch,
}

fn put_back(lru: &Lru<'_>, back: Back) {
    let mut pages = ArrayVec::<Pfn, 1>::from([Pfn::new(0)]);
    match back {
        Back::Alone => assert!(!lru.put_back(Pfn::new(0))),
        Back::InABatch => {
            lru.put_back_all(&mut pages);
            assert!(pages.is_empty(), "the owner still holds its reference");
        }
    }
}

#[test]
fn locking_while_putting_back_ends_on_the_right_list() {
    static FOUND: [[AtomicUsize; 2]; 2] = [const { [const { AtomicUsize::new(0) }; 2] }; 2];
    for back in [Back::Alone, Back::InABatch] {
        lock_while_putting_back(back, &FOUND[back as usize]);
    }
}

fn lock_while_putting_back(back: Back, [found_linked, found_off]: &'static [AtomicUsize; 2]) {
    explore(move || {
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
        put_back(&lru, back);
        if thread.join().unwrap() { found_linked } else { found_off }.fetch_add(1, Ordering::Relaxed);
        assert_eq!(lru.all_frames(), [1, 0, 0, 0, 1]);
        assert_eq!(lru.check(), Ok(()));
    });
    assert!(found_linked.load(Ordering::Relaxed) > 0 && found_off.load(Ordering::Relaxed) > 0);
}

#[test]
fn a_reference_that_appears_while_a_page_is_unlocked() {
    static LEFT: AtomicUsize = AtomicUsize::new(0);
    static TAKEN_BACK: AtomicUsize = AtomicUsize::new(0);
    static UNLOCKED: AtomicUsize = AtomicUsize::new(0);
    for form in [Unevictable::Linked, Unevictable::Counted] {
        // On its list, and off it.
        for linked in [true, false] {
            explore(move || {
                let table: &'static [Descriptor] = Box::leak(Box::new([Descriptor::new()]));
                table[0].store_refs(1);
                let lru = Arc::new(Lru::with_form(Pfn::new(0), table, form));
                assert!(lru.add(Pfn::new(0)));
                lru.hold().lock_pages(&[0]).count(lru.counters());
                if !linked {
                    assert!(lru.hold().isolate(Pfn::new(0)));
                }
                let other = lru.clone();
                // Another mapping of the page, in an area that is not locked.
                let thread = thread::spawn(move || other.table()[0].get());
                let tally = lru.hold().unlock_pages(&[0]);
                tally.count(lru.counters());
                thread.join().unwrap();
                let counter = match (tally.cleared, tally.shared) {
                    (0, _) => &LEFT,
                    (_, 0) => &UNLOCKED,
                    _ => &TAKEN_BACK,
                };
                counter.fetch_add(1, Ordering::Relaxed);
                // The page is locked exactly where it is reported as shared, and counted exactly where it is locked.
                let locked = table[0].flags().contains(DescFlags::MLOCKED);
                assert_eq!((locked, lru.counters().nr_mlock()), (tally.shared == 1, i64::from(locked)));
                if linked {
                    let frames = if locked { [0, 0, 0, 0, 1] } else { [1, 0, 0, 0, 0] };
                    assert_eq!((lru.all_frames(), lru.check()), (frames, Ok(())));
                }
            });
        }
    }
    for (what, count) in [("left alone", &LEFT), ("taken back", &TAKEN_BACK), ("unlocked", &UNLOCKED)] {
        assert!(count.load(Ordering::Relaxed) > 0, "no execution in which the page was {what}");
    }
}

/// Contents of a frame, and the descriptor that orders accesses to them. The contents are relaxed: a reader that is
/// not ordered after a writer may see what was there before.
struct Frame {
    page: Descriptor,
    contents: [loom::sync::atomic::AtomicU32; 2],
}

impl Frame {
    fn new(refs: u32) -> Arc<Self> {
        let page = Descriptor::new();
        page.store_refs(refs);
        Arc::new(Self { page, contents: [0, 0].map(loom::sync::atomic::AtomicU32::new) })
    }

    fn write(&self, half: usize) {
        self.contents[half].store(1, Ordering::Relaxed);
    }

    fn read(&self) -> [u32; 2] {
        [0, 1].map(|half| self.contents[half].load(Ordering::Relaxed))
    }
}

/// Both threads run `one`, with their own half; the results.
fn both<R: Send + 'static>(frame: &Arc<Frame>, one: fn(&Frame, usize) -> R) -> [R; 2] {
    let other = frame.clone();
    let thread = thread::spawn(move || one(&other, 1));
    [one(frame, 0), thread.join().unwrap()]
}

#[test]
fn the_last_reference_sees_all_that_was_done_to_the_frame() {
    explore(|| {
        let last = both(&Frame::new(2), |frame, half| {
            frame.write(half);
            let last = frame.page.put() == 0;
            if last {
                assert_eq!(frame.read(), [1, 1], "the frame is freed, and an access to it comes later");
            }
            last
        });
        assert_eq!(last.into_iter().filter(|last| *last).count(), 1);
    });
}

#[test]
fn a_frozen_page_has_been_left_by_all_others() {
    static FROZEN: AtomicUsize = AtomicUsize::new(0);
    explore(|| {
        both(&Frame::new(2), |frame, half| {
            if half == 1 {
                frame.write(0);
                frame.write(1);
                frame.page.put();
            } else if frame.page.freeze(1) {
                FROZEN.fetch_add(1, Ordering::Relaxed);
                assert_eq!(frame.read(), [1, 1]);
            }
        });
    });
    assert!(FROZEN.load(Ordering::Relaxed) > 0);
}

#[test]
fn a_reference_that_is_had_shows_the_frame_as_it_was_published() {
    static HAD: AtomicUsize = AtomicUsize::new(0);
    explore(|| {
        both(&Frame::new(0), |frame, half| {
            if half == 1 {
                frame.write(0);
                frame.write(1);
                frame.page.store_refs(1);
            } else if frame.page.get_unless_zero() {
                HAD.fetch_add(1, Ordering::Relaxed);
                assert_eq!(frame.read(), [1, 1]);
            }
        });
    });
    assert!(HAD.load(Ordering::Relaxed) > 0);
}

#[test]
fn references_that_are_counted_show_what_was_done_before_they_were_given_back() {
    static GONE: AtomicUsize = AtomicUsize::new(0);
    explore(|| {
        both(&Frame::new(2), |frame, half| {
            if half == 1 {
                frame.write(0);
                frame.write(1);
                frame.page.put();
            } else if frame.page.refs() == 1 {
                GONE.fetch_add(1, Ordering::Relaxed);
                assert_eq!(frame.read(), [1, 1]);
            }
        });
    });
    assert!(GONE.load(Ordering::Relaxed) > 0);
}

/// The ways to publish a frame by a flag.
const PUBLISHERS: [fn(&Descriptor); 5] = [
    |page| page.store_flags(DescFlags::REFERENCED),
    |page| _ = page.set_flags(DescFlags::REFERENCED),
    |page| _ = page.clear_flags(DescFlags::LOCKED),
    |page| _ = page.change_flags(DescFlags::REFERENCED, DescFlags::LOCKED),
    |page| {
        // The observer may have set its own flag already.
        let seen = [DescFlags::LOCKED, DescFlags::LOCKED | DescFlags::ACTIVE];
        assert!(seen.into_iter().any(|seen| page.replace_flags(seen, DescFlags::REFERENCED)));
    },
];
/// The ways to see that.
const OBSERVERS: [fn(&Descriptor) -> DescFlags; 5] = [
    Descriptor::flags,
    |page| page.set_flags(DescFlags::ACTIVE),
    |page| page.clear_flags(DescFlags::ACTIVE),
    |page| page.change_flags(DescFlags::ACTIVE, DescFlags::FILE),
    |page| {
        let published = [DescFlags::REFERENCED, DescFlags::empty(), DescFlags::REFERENCED | DescFlags::LOCKED];
        let seen = published.into_iter().find(|flags| page.replace_flags(*flags, *flags | DescFlags::ACTIVE));
        seen.unwrap_or(DescFlags::LOCKED)
    },
];

#[test]
fn flags_publish_what_was_written_before_them() {
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    for (p, publish) in PUBLISHERS.into_iter().enumerate() {
        for (o, observe) in OBSERVERS.into_iter().enumerate() {
            let before = SEEN.load(Ordering::Relaxed);
            unbounded(move || {
                let frame = Frame::new(1);
                frame.page.store_flags(DescFlags::LOCKED);
                let other = frame.clone();
                let thread = thread::spawn(move || {
                    let flags = observe(&other.page);
                    if flags.contains(DescFlags::REFERENCED) || !flags.contains(DescFlags::LOCKED) {
                        SEEN.fetch_add(1, Ordering::Relaxed);
                        assert_eq!(other.read(), [1, 1]);
                    }
                });
                frame.write(0);
                frame.write(1);
                publish(&frame.page);
                thread.join().unwrap();
            });
            assert!(SEEN.load(Ordering::Relaxed) > before, "observer {o} never saw publisher {p}");
        }
    }
}
