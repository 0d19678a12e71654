//! A page cache: pages of one file, kept in frames for as long as there are enough of them. It is this kernel's
//! [`Reclaim`]; its pages can be moved as well.
//!
//! A page's contents follow from its number and a version, which every write raises. The disk behind the file
//! compresses as well as that allows: it keeps the version. So a frame that another owner writes to, or a page that is
//! dropped before it was written back, is found out.
//!
//! | field of a page | legal values | changed by |
//! |---|---|---|
//! | `frame` | the frame that holds it, or none | readers that bring it in, reclaim |
//! | `dirty` | the disk has an older version; only with a frame | writers; write-back |
//! | `used` | touched since reclaim last came by | readers and writers; reclaim clears it |
//! | `lent` | compaction is about to move it; only with a frame | compaction; while set, the frame stays |
//! | `version` | the file's version | writers |
//! | `on_disk` | the disk's version; at most `version` | write-back |
//!
//! # Lock order
//! The cache's lock; nothing is allocated under it: an allocation may reclaim, and reclaim comes here.

mod moving;

use alloc::vec;
use alloc::vec::Vec;

use arrayvec::ArrayVec;
use pageblock::{Gfp, NodeId, Order, PAGE_SIZE, Pfn, ZoneKind};
use pageblock_frame::reclaim::{Actor, RECLAIM_CLUSTER, Reclaim, Shrink, Shrunk};
use pageblock_frame::sync::Lock;

use crate::arch::paging::phys_ptr;
use crate::mm::{self, FRAMES};

/// Words in a page.
const WORDS: u64 = PAGE_SIZE / 8;
/// An odd constant with well mixed bits.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
/// Frames that are freed at once.
const BATCH: usize = RECLAIM_CLUSTER as usize;

/// One page of the file.
#[derive(Clone, Copy, Default)]
struct Page {
    frame: Option<Pfn>,
    dirty: bool,
    used: bool,
    lent: bool,
    version: u32,
    on_disk: u32,
}

/// Events so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Pages read from the disk.
    pub read: u64,
    /// Pages written to it.
    pub written: u64,
    /// Pages moved to another frame.
    pub moved: u64,
    /// Frames given up to the reclaim thread.
    pub to_kswapd: u64,
    /// Frames given up to tasks that reclaimed for themselves.
    pub to_direct: u64,
}

/// The file and where reclaim is in it.
struct File {
    pages: Vec<Page>,
    /// By frame number: the page in it plus 1, or 0.
    reverse: Vec<u32>,
    hand: usize,
    /// Pages with a frame, by kind of zone.
    resident: [u64; ZoneKind::COUNT],
    counts: Counts,
}

/// The cache. There is one.
pub struct Cache(Lock<File>);

/// The one there is.
pub static CACHE: Cache = Cache(Lock::new(File {
    pages: Vec::new(),
    reverse: Vec::new(),
    hand: 0,
    resident: [0; ZoneKind::COUNT],
    counts: Counts { read: 0, written: 0, moved: 0, to_kswapd: 0, to_direct: 0 },
}));

/// Word `index` of a page with this version.
const fn word(page: u64, version: u32, index: u64) -> u64 {
    (page << 32 | version as u64).wrapping_mul(STEP) ^ index
}

fn zone_kind(pfn: Pfn) -> ZoneKind {
    FRAMES.zone_of(pfn).map_or(ZoneKind::Normal, pageblock::ZoneView::kind)
}

/// Writes a version's contents into a frame.
///
/// # Safety
/// The frame is the cache's, and no other code reads or writes it.
unsafe fn fill(pfn: Pfn, page: u64, version: u32) {
    let words = phys_ptr::<u64>(pfn.phys());
    for index in 0..WORDS {
        // SAFETY: the caller's promise; a page has so many words.
        unsafe { words.add(index as usize).write_volatile(word(page, version, index)) };
    }
}

/// Finds every `step`th word of a version again.
///
/// # Safety
/// As for [`fill`].
///
/// # Panics
/// A word is not the one that was written.
unsafe fn verify(pfn: Pfn, page: u64, version: u32, step: usize) {
    let words = phys_ptr::<u64>(pfn.phys());
    for index in (0..WORDS).step_by(step) {
        // SAFETY: the caller's promise; a page has so many words.
        let found = unsafe { words.add(index as usize).read_volatile() };
        let want = word(page, version, index);
        assert!(found == want, "page {page} version {version}, word {index}: {found:#x} instead of {want:#x}");
    }
}

impl File {
    /// Writes a page back if its contents are newer than the disk's.
    fn clean(&mut self, page: usize) {
        let Some(entry) = self.pages.get_mut(page) else { return };
        if let (Some(pfn), true) = (entry.frame, entry.dirty) {
            // SAFETY: a resident page's frame, under the lock. All of it: the disk gets this.
            unsafe { verify(pfn, page as u64, entry.version, 1) };
            entry.on_disk = entry.version;
            entry.dirty = false;
            self.counts.written += 1;
        }
    }

    /// The page that is in a frame.
    fn page_behind(&self, pfn: Pfn) -> Option<usize> {
        let reverse = self.reverse.get(pfn.as_u64() as usize)?;
        Some(reverse.checked_sub(1)? as usize)
    }

    fn link(&mut self, page: usize, pfn: Pfn) {
        self.pages[page].frame = Some(pfn);
        self.reverse[pfn.as_u64() as usize] = page as u32 + 1;
        self.resident[zone_kind(pfn).index()] += 1;
    }

    fn unlink(&mut self, page: usize) -> Option<Pfn> {
        let pfn = self.pages.get_mut(page)?.frame.take()?;
        self.reverse[pfn.as_u64() as usize] = 0;
        self.resident[zone_kind(pfn).index()] -= 1;
        Some(pfn)
    }

    /// Takes a clean page's frame away.
    fn evict(&mut self, page: usize) -> Option<Pfn> {
        let entry = self.pages.get(page)?;
        assert!(!entry.dirty && !entry.lent, "page {page} is dropped before it was written back, or on the move");
        self.unlink(page)
    }

    /// The next page that the hand comes to and that this round may have; a page in use is passed over once.
    fn next_victim(&mut self, round: &Shrink, shrunk: &mut Shrunk) -> Option<usize> {
        let page = self.hand;
        self.hand = (page + 1) % self.pages.len();
        let entry = &mut self.pages[page];
        let pfn = entry.frame?;
        shrunk.scanned += 1;
        let kind = zone_kind(pfn);
        let may_write = round.may_write && round.gfp.contains(Gfp::IO);
        let wanted = kind <= round.limit && round.zone.is_none_or(|zone| zone == kind);
        let stays = core::mem::take(&mut entry.used) || entry.lent || (entry.dirty && !may_write);
        (wanted && !stays).then_some(page)
    }

    /// Up to a batch of frames, after at most one turn of the hand. Their pages are clean by then.
    fn take_victims(&mut self, round: &Shrink, shrunk: &mut Shrunk) -> ArrayVec<Pfn, BATCH> {
        let resident: u64 = self.resident.iter().sum();
        let most = (resident >> round.priority).max(RECLAIM_CLUSTER);
        let mut victims = ArrayVec::new();
        for _ in 0..self.pages.len() {
            if victims.is_full() || shrunk.scanned >= most {
                break;
            }
            if let Some(page) = self.next_victim(round, shrunk) {
                self.clean(page);
                victims.extend(self.evict(page));
            }
        }
        victims
    }
}

impl Cache {
    /// A file of so many pages, none of them in memory, for frames below `frame_end`.
    pub fn open(&self, pages: u64, frame_end: Pfn) {
        let (pages, reverse) = (vec![Page::default(); pages as usize], vec![0; frame_end.as_u64() as usize]);
        let (resident, counts) = ([0; ZoneKind::COUNT], Counts::default());
        *self.0.lock() = File { pages, reverse, hand: 0, resident, counts };
    }

    /// Writes everything back and frees it. Returns the events since [`open`](Self::open).
    pub fn close(&self) -> Counts {
        let pages = self.0.lock().pages.len();
        for page in 0..pages {
            let mut file = self.0.lock();
            file.clean(page);
            let frame = file.evict(page);
            drop(file);
            frame.into_iter().for_each(free);
        }
        let file = &mut *self.0.lock();
        assert!(file.pages.iter().all(|page| page.on_disk == page.version), "a write never came to the disk");
        (file.pages, file.reverse) = (Vec::new(), Vec::new());
        file.counts
    }

    /// Reads a page, through the disk if it is not in memory. False if there is no memory for it.
    pub fn read(&self, page: u64) -> bool {
        self.with(page, |entry, pfn| {
            // SAFETY: a resident page's frame, under the lock.
            unsafe { verify(pfn, page, entry.version, 8) };
        })
    }

    /// Writes a new version of a page, which is brought in first. False if there is no memory for it.
    pub fn write(&self, page: u64) -> bool {
        self.with(page, |entry, pfn| {
            // SAFETY: a resident page's frame, under the lock.
            unsafe { verify(pfn, page, entry.version, 64) };
            entry.version += 1;
            entry.dirty = true;
            // SAFETY: as above.
            unsafe { fill(pfn, page, entry.version) };
        })
    }

    /// Calls `action` with a page that is in memory, under the lock.
    fn with(&self, page: u64, action: impl FnOnce(&mut Page, Pfn)) -> bool {
        let index = page as usize;
        let mut spare = None;
        loop {
            let mut file = self.0.lock();
            if let Some(pfn) = file.pages[index].frame {
                let entry = &mut file.pages[index];
                entry.used = true;
                action(entry, pfn);
                drop(file);
                // Another CPU was faster.
                spare.into_iter().for_each(free);
                return true;
            }
            if let Some(pfn) = spare.take() {
                // SAFETY: just allocated, and not known to other CPUs.
                unsafe { fill(pfn, page, file.pages[index].on_disk) };
                file.link(index, pfn);
                file.counts.read += 1;
                continue;
            }
            drop(file);
            spare = mm::alloc(Order::ZERO, Gfp::HIGHUSER_MOVABLE);
            if spare.is_none() {
                return false;
            }
        }
    }

    /// True if a page is in this frame.
    pub fn owns(&self, pfn: Pfn) -> bool {
        self.0.lock().page_behind(pfn).is_some()
    }

    /// Pages that are in memory.
    pub fn resident(&self) -> u64 {
        self.0.lock().resident.iter().sum()
    }
}

impl Reclaim for Cache {
    fn shrink(&self, round: &Shrink) -> Shrunk {
        let mut shrunk = Shrunk::default();
        let mut file = self.0.lock();
        let victims = file.take_victims(round, &mut shrunk);
        shrunk.freed = victims.len() as u64;
        match round.actor {
            Actor::Kswapd => file.counts.to_kswapd += shrunk.freed,
            Actor::Direct => file.counts.to_direct += shrunk.freed,
        }
        drop(file);
        victims.into_iter().for_each(free);
        shrunk
    }

    fn reclaimable(&self, _node: NodeId, zone: ZoneKind) -> u64 {
        self.0.lock().resident[zone.index()]
    }
}

/// # Panics
/// The allocator refuses the frame.
fn free(pfn: Pfn) {
    if let Err(error) = mm::free(pfn, Order::ZERO) {
        panic!("free of cache frame {pfn:?} refused: {error}");
    }
}
