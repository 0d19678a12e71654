//! The owner of the pages on the lists, as reclaim asks it.

use arrayvec::ArrayVec;
use pageblock_frame::reclaim::{RECLAIM_CLUSTER, Shrink, Shrunk};
use pageblock_frame::{DescFlags, NodeId, Order, PAGEBLOCK_ORDER, Pfn, ZoneKind};
use pageblock_lru::{Lru, Shadow, Swap, frames_of};

use super::slab::Slab;

/// Pages that reclaim handles at a time.
pub(crate) const CLUSTER: usize = RECLAIM_CLUSTER as usize;

/// Pages under way.
pub(crate) type Cluster<'a, 'm> = ArrayVec<Victim<'a, 'm>, CLUSTER>;

/// How a page is mapped, and whether the mappings were used.
///
/// ```
/// use pageblock_reclaim::Mapped;
/// assert_eq!(Mapped::default().references, 0); // it is not mapped
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mapped {
    /// Mappings through which it was used since the last look, which cleared their marks (`folio_referenced()`).
    pub references: u32,
    /// One of those may be executed.
    pub executable: bool,
    /// Some area locks it: it belongs on the unevictable list.
    pub locked: bool,
}

/// Outcome for a page that its owner was asked to give up.
///
/// ```
/// assert_eq!(pageblock_reclaim::PageOutcome::default(), pageblock_reclaim::PageOutcome::Keep);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PageOutcome {
    /// Not given up now; it may be asked for again soon.
    #[default]
    Keep,
    /// Not given up, and not to be asked for soon: it is in use.
    Activate,
    /// Writing to disk or swap began. It will be given up when that is done.
    Written,
    /// The owner holds no reference any more, and can no longer find it.
    Freed,
}

/// A page that was taken off its list to be given up. The scanner holds a reference.
///
/// ```
/// use pageblock_frame::{DescFlags, Descriptor, Pfn};
/// use pageblock_lru::Lru;
/// use pageblock_reclaim::{PageOutcome, Victim};
/// let table = [const { Descriptor::new() }; 4];
/// table[2].store_flags(DescFlags::FILE);
/// let lru = Lru::new(Pfn::new(0), &table);
/// let mut page = Victim::new(&lru, Pfn::new(2));
/// assert!(page.flags().contains(DescFlags::FILE) && page.frames() == 1);
/// let evicted = page.evict(); // to be remembered in the page's place
/// assert_eq!((page.outcome(), evicted.shadow.to_bits()), (PageOutcome::Freed, 1));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Victim<'a, 'm> {
    lru: &'a Lru<'m>,
    area: u8,
    pfn: Pfn,
    flags: DescFlags,
    mapped: Mapped,
    outcome: PageOutcome,
}

impl<'a, 'm> Victim<'a, 'm> {
    /// A page of these lists, which is on none of them now.
    #[must_use]
    pub fn new(lru: &'a Lru<'m>, pfn: Pfn) -> Self {
        Self::of_area(lru, 0, pfn)
    }

    pub(crate) fn of_area(lru: &'a Lru<'m>, area: u8, pfn: Pfn) -> Self {
        let flags = lru.page(pfn).map_or(DescFlags::empty(), |page| page.flags());
        Self { lru, area, pfn, flags, mapped: Mapped::default(), outcome: PageOutcome::Keep }
    }

    /// Its first frame.
    #[must_use]
    pub const fn pfn(&self) -> Pfn {
        self.pfn
    }

    /// Its flags when it was taken.
    #[must_use]
    pub const fn flags(&self) -> DescFlags {
        self.flags
    }

    /// Its size in frames.
    #[must_use]
    pub const fn frames(&self) -> u64 {
        frames_of(self.flags)
    }

    /// Its size as an order.
    #[must_use]
    pub const fn order(&self) -> Order {
        if self.flags.contains(DescFlags::HUGE) { PAGEBLOCK_ORDER } else { Order::ZERO }
    }

    /// How it is mapped, as far as the owner has said.
    #[must_use]
    pub const fn mapped(&self) -> Mapped {
        self.mapped
    }

    /// Says how it is mapped.
    pub const fn set_mapped(&mut self, mapped: Mapped) {
        self.mapped = mapped;
    }

    /// Its outcome.
    #[must_use]
    pub const fn outcome(&self) -> PageOutcome {
        self.outcome
    }

    /// Reports its outcome.
    pub const fn set_outcome(&mut self, outcome: PageOutcome) {
        self.outcome = outcome;
    }

    /// Gives it up, and returns the record for its place, so that its return can be judged
    /// (`workingset_eviction()`). To be called once the page is removed, in the same critical section as the removal
    /// where there is one.
    pub fn evict(&mut self) -> Evicted {
        self.outcome = PageOutcome::Freed;
        Evicted { area: self.area, shadow: self.lru.evict(self.frames()) }
    }
}

/// Record of a page for its place: from which lists it was evicted, and when.
///
/// ```
/// use pageblock_lru::Shadow;
/// use pageblock_reclaim::Evicted;
/// let evicted = Evicted { area: 3, shadow: Shadow::from_bits(1 << 40) };
/// assert_eq!(Evicted::from_bits(evicted.to_bits()), evicted);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Evicted {
    /// Place of the lists among the shrinker's areas.
    pub area: u8,
    /// Their clock then.
    pub shadow: Shadow,
}

impl Evicted {
    /// One number, to store where the page was. The clock keeps 56 bits: enough for 2^56 evictions.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.shadow.to_bits() << 8 | self.area as u64
    }

    /// From that number.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self { area: bits as u8, shadow: Shadow::from_bits(bits >> 8) }
    }
}

/// The kernel's side of LRU scanning: the owner of the pages on the lists.
///
/// All calls come with no lock held, and may wait as long as the round's flags allow. Pages are handed over in batches
/// of at most 32.
///
/// # An owner that breaks the contract
/// A page that it calls freed while a reference is held goes back to its list and is not counted. A page that it says
/// nothing of is kept. So it can make reclaim fail, not lose frames.
///
/// ```
/// use pageblock_frame::reclaim::Shrink;
/// use pageblock_frame::{Order, Pfn};
/// use pageblock_reclaim::{PageOwner, Victim};
/// /// A cache of clean pages that are not mapped.
/// struct Cache;
/// impl PageOwner for Cache {
///     fn look(&self, _: &mut [Victim<'_, '_>]) {}
///     fn give_up(&self, pages: &mut [Victim<'_, '_>], _: &Shrink) {
///         for page in pages {
///             // Here: remove it from the cache, and drop the cache's reference.
///             page.evict();
///         }
///     }
///     fn free(&self, _: &[(Pfn, Order)]) {} // Here: to the allocator.
/// }
/// assert!(!Cache.is_dying());
/// ```
pub trait PageOwner {
    /// Says of each page how it is [mapped](Victim::set_mapped), and clears the marks of use in those mappings.
    fn look(&self, pages: &mut [Victim<'_, '_>]);

    /// Tries to give each page up: unmaps it, starts writing it if it is dirty, removes it from where it is found,
    /// drops its own references; [`evict`](Victim::evict) or [`set_outcome`](Victim::set_outcome) says how that went.
    /// Pages that the round's flags do not allow to be written were sorted out before.
    fn give_up(&self, pages: &mut [Victim<'_, '_>], round: &Shrink);

    /// Returns blocks to the allocator after the scanner dropped their last reference.
    fn free(&self, blocks: &[(Pfn, Order)]);

    /// Whether anonymous pages can be written out.
    fn swap(&self) -> Swap {
        Swap::Absent
    }

    /// Shrinks other caches in proportion (`shrink_slab()`).
    fn shrink_slab(&self, _slab: &Slab) -> Shrunk {
        Shrunk::default()
    }

    /// Is told that reclaim met nothing but dirty pages that are not being written: writing back should begin
    /// (`wakeup_flusher_threads()`).
    fn start_writeback(&self, _node: NodeId) {}

    /// Frames of a zone with pages of files that are dirty or on their way to the disk
    /// ([`Reclaim::file_pages`](pageblock_frame::reclaim::Reclaim::file_pages)).
    fn dirty(&self, _node: NodeId, _zone: ZoneKind) -> u64 {
        0
    }

    /// True if the caller is being killed and should stop waiting for memory.
    fn is_dying(&self) -> bool {
        false
    }
}
