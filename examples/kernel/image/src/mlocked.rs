//! A locked area: `mlock` brings its pages in and takes them off the lists that reclaim looks at, `munlock` puts them
//! back; and the cost of that a page, patch by patch of the 2013 series and in the default form.

use pageblock_lru::{Lru, LruList, Lrus, Pagevecs};
use pageblock_mlock::{Context, Steps, mlock, munlock};

use crate::arch::clock;
use crate::process::{Frames, Process, frame_end};
use crate::space::{SPACE, address};
use crate::{mm, println};

/// Pages of the process: 16 MiB.
const PAGES: u64 = 4096;

/// Locks, unlocks, counts.
///
/// # Panics
/// A count is wrong, or frames are missing in the end.
pub fn run() {
    let before = mm::free_frames();
    SPACE.open(PAGES, frame_end());
    {
        let frames = Frames::new(frame_end());
        let sets = [frames.lru()];
        let lrus = Lrus::new(&sets).expect("one list set");
        let process = Process::new(PAGES, lrus);
        lock_and_unlock(&process, &sets[0], lrus);
        measure(&process, lrus);
        assert!(sets[0].check().is_ok(), "{:?}", sets[0].check());
        process.exit();
    }
    SPACE.close();
    let after = mm::free_frames();
    assert!(before == after, "{before} frames were free before the locking, {after} are now");
    println!("mlock: all {after} frames are back");
}

fn start() -> u64 {
    address(0).as_u64()
}

/// Half of the pages are there; all are locked, the first half is unlocked, then the rest.
fn lock_and_unlock(process: &Process<'_, '_>, lru: &Lru<'_>, lrus: Lrus<'_, '_>) {
    let mut vecs: Pagevecs<15> = Pagevecs::new();
    let mut context = Context::new(lrus, &mut vecs);
    assert!((0..PAGES / 2).all(|page| process.populate(page)), "memory for the process");
    let bytes = PAGES * 4096;
    let counts = |lru: &Lru<'_>| (lru.counters().nr_mlock(), lru.frames(LruList::Unevictable));
    assert!(mlock(process, start(), bytes, &mut context) == Ok(PAGES), "mlock");
    println!("mlock: {} frames locked, {} unevictable", counts(lru).0, counts(lru).1);
    assert!(counts(lru) == (PAGES as i64, PAGES), "{:?}", counts(lru));
    assert!(munlock(process, start(), bytes / 2, &mut context) == Ok(PAGES / 2), "munlock");
    println!("mlock: after munlock of the first half: {} frames locked, {} unevictable", counts(lru).0, counts(lru).1);
    assert!(counts(lru) == (PAGES as i64 / 2, PAGES / 2), "{:?}", counts(lru));
    assert!(munlock(process, start(), bytes, &mut context) == Ok(PAGES), "munlock");
    assert!(counts(lru) == (0, 0), "{:?}", counts(lru));
}

/// `munlock` of the whole area in each form.
fn measure(process: &Process<'_, '_>, lrus: Lrus<'_, '_>) {
    for patches in 0..=7 {
        println!("munlock: {patches} patches: {} ticks a page", measure_one(process, lrus, Steps::first(patches)));
    }
    println!("munlock: default:   {} ticks a page", measure_one(process, lrus, Steps::default()));
}

fn measure_one(process: &Process<'_, '_>, lrus: Lrus<'_, '_>, steps: Steps) -> u64 {
    let mut vecs: Pagevecs<15> = Pagevecs::new();
    let locked = mlock(process, start(), PAGES * 4096, &mut Context::new(lrus, &mut vecs));
    assert!(locked == Ok(PAGES), "{locked:?}");
    let began = clock::ticks();
    let unlocked = munlock(process, start(), PAGES * 4096, &mut Context::new(lrus, &mut vecs).with_steps(steps));
    let ticks = clock::ticks() - began;
    assert!(unlocked == Ok(PAGES) && lrus.nr_mlock() == 0, "{unlocked:?}");
    vecs.drain(lrus, &mut |pfn| crate::space::free(pfn));
    ticks / PAGES
}
