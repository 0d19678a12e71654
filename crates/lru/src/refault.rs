//! Refault distance: how much was evicted since a page was, hence whether a little more memory would have kept it.

use pageblock_frame::sync::Ordering;
use pageblock_frame::{DescFlags, Pfn};

use crate::counters::LruEvent;
use crate::guard::{Change, End};
use crate::list::{LruList, frames_of};
use crate::lru::Lru;

/// Record that replaces an evicted page in its place: the lists' clock then, in frames.
///
/// Mirrors `workingset_eviction()` (6.1), without its packing.
///
/// ```
/// assert_eq!(pageblock_lru::Shadow::from_bits(7).to_bits(), 7);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Shadow(u64);

impl Shadow {
    /// From the number that [`to_bits`](Self::to_bits) gave.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// A number to store in the page's place.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }
}

/// Judgement of an evicted page that returns.
///
/// ```
/// use pageblock_frame::{Descriptor, Pfn};
/// use pageblock_lru::Lru;
/// let table = [const { Descriptor::new() }; 4];
/// let lru = Lru::new(Pfn::new(0), &table);
/// let shadow = lru.evict(1);
/// lru.evict(9);
/// let refault = lru.refault(shadow, 10);
/// assert_eq!((refault.distance, refault.workingset), (9, true));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refault {
    /// Frames evicted or activated in between.
    pub distance: u64,
    /// True if the page would still be here had the inactive list been longer by no more than the memory it competes
    /// with: it goes to the active list.
    pub workingset: bool,
}

impl Lru<'_> {
    /// Advances the clock by an eviction of `frames` frames; remember the result in the page's place.
    pub fn evict(&self, frames: u64) -> Shadow {
        // Relaxed: only distances matter, and those are estimates.
        Shadow(self.age.fetch_add(frames, Ordering::Relaxed).wrapping_add(frames))
    }

    /// Advances the clock by an activation, which makes room on the inactive list as an eviction does.
    pub fn advance_age(&self, frames: u64) {
        self.age.fetch_add(frames, Ordering::Relaxed);
    }

    /// Frames evicted or activated so far.
    #[must_use]
    pub fn age(&self) -> u64 {
        self.age.load(Ordering::Relaxed)
    }

    /// Judges a page that comes back; `workingset_frames` is the set it competes with, usually
    /// [`workingset_frames`](Self::workingset_frames). Mirrors `workingset_refault()` (6.1).
    #[must_use]
    pub fn refault(&self, shadow: Shadow, workingset_frames: u64) -> Refault {
        let distance = self.age().wrapping_sub(shadow.0);
        Refault { distance, workingset: distance <= workingset_frames }
    }

    /// The memory that an evicted file page competes with: the active file pages, and all anonymous ones if they can be
    /// swapped.
    #[must_use]
    pub fn workingset_frames(&self, swap: Swap) -> u64 {
        let frames = self.all_frames();
        let anon = frames[LruList::InactiveAnon.index()] + frames[LruList::ActiveAnon.index()];
        frames[LruList::ActiveFile.index()] + if matches!(swap, Swap::Available) { anon } else { 0 }
    }

    /// Moves a page marked [`BEHIND`](DescFlags::BEHIND) that was used, and is on a list, to where the next one is
    /// taken from. True if so.
    ///
    /// ```
    /// use pageblock_frame::{DescFlags, Descriptor, Pfn};
    /// use pageblock_lru::{Lru, LruList};
    /// let table = [const { Descriptor::new() }; 4];
    /// let lru = Lru::new(Pfn::new(0), &table);
    /// for pfn in 0..4 {
    ///     table[pfn].store_flags(DescFlags::FILE);
    ///     table[pfn].store_refs(1);
    ///     lru.add(Pfn::new(pfn as u64));
    /// }
    /// assert!(!lru.leave_behind(Pfn::new(3))); // not marked
    /// table[3].set_flags(DescFlags::BEHIND);
    /// assert!(lru.leave_behind(Pfn::new(3)));
    /// let mut taken = arrayvec::ArrayVec::<Pfn, 4>::new();
    /// lru.isolate_tail(LruList::InactiveFile, 1, &mut taken);
    /// assert_eq!(taken[0], Pfn::new(3)); // before those that came earlier
    /// ```
    pub fn leave_behind(&self, pfn: Pfn) -> bool {
        const MARKS: DescFlags = DescFlags::BEHIND.union(DescFlags::REFERENCED).union(DescFlags::ACTIVE);
        let Some(index) = self.index_of(pfn) else { return false };
        let Some(page) = self.table().get(index as usize) else { return false };
        if !page.flags().contains(DescFlags::BEHIND) {
            return false;
        }
        let mut held = self.hold();
        let flags = page.flags();
        if !flags.contains(DescFlags::LRU) || flags.contains(DescFlags::UNEVICTABLE) {
            return false;
        }
        self.counters.count_held(LruEvent::Rotated, frames_of(flags));
        held.relink(index, page, Change { set: DescFlags::empty(), clear: MARKS, end: End::Tail });
        true
    }

    /// Counts the return of an evicted page, and marks it active if it belongs to the working set. The page is not on a
    /// list yet.
    pub fn readmit(&self, pfn: Pfn, refault: Refault) {
        let Some(page) = self.page(pfn) else { return };
        let frames = frames_of(page.flags());
        self.counters.count(LruEvent::Refault, frames);
        if refault.workingset {
            page.set_flags(DescFlags::ACTIVE | DescFlags::WORKINGSET);
            self.advance_age(frames);
            self.counters.count(LruEvent::RefaultActivate, frames);
        }
    }
}

/// Whether anonymous pages can be written out.
///
/// ```
/// use pageblock_lru::{Lru, Swap};
/// let lru = Lru::new(pageblock_frame::Pfn::new(0), &[]);
/// assert_eq!(lru.workingset_frames(Swap::Absent), 0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Swap {
    /// They can.
    Available,
    /// They cannot.
    Absent,
}
