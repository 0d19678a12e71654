//! Compaction with real pages: memory is filled with movable pages, two of three are freed, and a huge page is asked
//! for.

use core::fmt::{self, Display};

use core::sync::atomic::{AtomicU32, Ordering};
use pageblock::{Gfp, Migrate, MigrateMode, MoveError, Order, PAGE_SIZE, Pfn, PutBack, Refusal};

use crate::memory::FRAMES;
use crate::must;

/// Pages that are held at most: all memory of a board with 256 MiB.
const PAGES_AT_MOST: usize = 1 << 16;
/// Marks a page as isolated; no frame number of these boards reaches it.
const ISOLATED: u32 = 1 << 31;

/// The frame of each page, 0 for none. The first CPU alone works with it, and no interrupt does.
pub struct Pages([AtomicU32; PAGES_AT_MOST]);

/// The pages. Each has its index in its first word: that is how a frame finds its page.
pub static PAGES: Pages = Pages([const { AtomicU32::new(0) }; PAGES_AT_MOST]);

fn word_of(pfn: Pfn) -> *mut u32 {
    core::ptr::with_exposed_provenance_mut(pfn.phys() as usize)
}

impl Pages {
    /// The entry of the page in this frame, if the frame is one of ours.
    fn entry(&self, pfn: Pfn) -> Option<&AtomicU32> {
        // SAFETY: all memory is mapped, and nothing writes to a page of ours; of any other frame this reads some
        // number.
        let index = unsafe { word_of(pfn).read_volatile() };
        let entry = self.0.get(index as usize)?;
        (u64::from(entry.load(Ordering::Relaxed) & !ISOLATED) == pfn.as_u64()).then_some(entry)
    }
}

// SAFETY: a block is isolated only if it is a page of ours that is not isolated yet, and stays so until its isolation
// ends; its one reference, the entry, names the new frame before `migrate` answers `Ok`. Nothing is given up.
unsafe impl Migrate for Pages {
    fn isolate(&self, pfn: Pfn, order: Order, _: MigrateMode) -> Result<(), Refusal> {
        let entry = self.entry(pfn).filter(|_| order == Order::ZERO).ok_or(Refusal::Unknown)?;
        match entry.fetch_or(ISOLATED, Ordering::Relaxed) & ISOLATED {
            0 => Ok(()),
            _ => Err(Refusal::Busy),
        }
    }

    fn migrate(&self, from: Pfn, to: Pfn, _: Order, _: MigrateMode) -> Result<(), MoveError> {
        let entry = self.entry(from).ok_or(MoveError::Failed)?;
        // SAFETY: the page is isolated, and the new frame is this call's.
        unsafe {
            core::ptr::copy_nonoverlapping(word_of(from).cast::<u8>(), word_of(to).cast(), PAGE_SIZE as usize);
        }
        entry.store(to.as_u64() as u32, Ordering::Relaxed);
        Ok(())
    }

    fn put_back(&self, pfn: Pfn, _: Order) -> PutBack {
        if let Some(entry) = self.entry(pfn) {
            entry.fetch_and(!ISOLATED, Ordering::Relaxed);
        }
        PutBack::Kept
    }
}

/// Outcome.
pub struct Outcome {
    held: usize,
    moved: u64,
}

impl Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a huge page among {} scattered pages, {} of them moved, contents intact", self.held, self.moved)
    }
}

/// Fills, scatters, asks, looks at every page, frees all.
pub fn run() -> Outcome {
    must("the CPU is back", FRAMES.cpus().come_online());
    let entries = || PAGES.0.iter().enumerate();
    for (index, entry) in entries() {
        let Ok(page) = FRAMES.alloc(Gfp::HIGHUSER_MOVABLE) else { break };
        let pfn = page.into_raw().pfn;
        // SAFETY: the frame is ours; the last word is another mark of the page.
        unsafe {
            word_of(pfn).write_volatile(index as u32);
            word_of(pfn).add(PAGE_SIZE as usize / 4 - 1).write_volatile(!(index as u32));
        }
        entry.store(pfn.as_u64() as u32, Ordering::Relaxed);
    }
    entries().filter(|(index, _)| index % 3 != 0).for_each(|(_, entry)| release(entry));
    let before = FRAMES.compaction().stats();
    let huge = FRAMES.alloc_order(Order::HUGE, Gfp::TRANSHUGE);
    let moved = FRAMES.compaction().stats().migrate_success - before.migrate_success;
    assert!(huge.is_ok() && moved > 0, "{:?} after {moved} moves", huge.err());
    drop(huge);
    let mut held = 0;
    for (index, entry) in entries().filter(|(_, entry)| entry.load(Ordering::Relaxed) != 0) {
        let word = word_of(Pfn::new(u64::from(entry.load(Ordering::Relaxed))));
        // SAFETY: the frame is ours.
        let marks = unsafe { (word.read_volatile(), word.add(PAGE_SIZE as usize / 4 - 1).read_volatile()) };
        assert!(marks == (index as u32, !(index as u32)), "page {index} has {marks:x?}");
        held += 1;
        release(entry);
    }
    must("the CPU is away", FRAMES.cpus().go_offline());
    Outcome { held, moved }
}

/// Frees an entry's page, if it has one.
fn release(entry: &AtomicU32) {
    let pfn = entry.swap(0, Ordering::Relaxed);
    if pfn != 0 {
        // SAFETY: the entry owned it, and no longer names it.
        must("free", unsafe { FRAMES.free(Pfn::new(u64::from(pfn)), Order::ZERO) });
    }
}
