//! Events of the lists, under Linux's names.

use pageblock_frame::const_unless_model;
use pageblock_frame::sync::{AtomicI64, AtomicU64, Ordering};

/// An event that [`Counters`] counts, in frames.
///
/// ```
/// assert_eq!(pageblock_lru::LruEvent::Rescued.name(), "unevictable_pgs_rescued");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum LruEvent {
    /// A page came to the unevictable list.
    Culled = 0,
    /// A page left the unevictable list because nothing keeps it there any more.
    Rescued = 1,
    /// A page's `MLOCKED` was set.
    Mlocked = 2,
    /// A page's `MLOCKED` was cleared by munlock.
    Munlocked = 3,
    /// A page's `MLOCKED` was cleared because it was unmapped or freed.
    Cleared = 4,
    /// A page's `MLOCKED` was cleared while another CPU had the unevictable page off its list.
    Stranded = 5,
    /// A page moved to an active list.
    Activate = 6,
    /// A page moved to an inactive list.
    Deactivate = 7,
    /// A page moved to the tail of an inactive list.
    Rotated = 8,
    /// An evicted page came back.
    Refault = 9,
    /// An evicted page came back so soon that it went to the active list.
    RefaultActivate = 10,
}

impl LruEvent {
    /// Number of events.
    pub const COUNT: usize = 11;
    /// All events.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Culled,
        Self::Rescued,
        Self::Mlocked,
        Self::Munlocked,
        Self::Cleared,
        Self::Stranded,
        Self::Activate,
        Self::Deactivate,
        Self::Rotated,
        Self::Refault,
        Self::RefaultActivate,
    ];

    /// Linux's name in `/proc/vmstat`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Culled => "unevictable_pgs_culled",
            Self::Rescued => "unevictable_pgs_rescued",
            Self::Mlocked => "unevictable_pgs_mlocked",
            Self::Munlocked => "unevictable_pgs_munlocked",
            Self::Cleared => "unevictable_pgs_cleared",
            Self::Stranded => "unevictable_pgs_stranded",
            Self::Activate => "pgactivate",
            Self::Deactivate => "pgdeactivate",
            Self::Rotated => "pgrotated",
            Self::Refault => "workingset_refault",
            Self::RefaultActivate => "workingset_activate",
        }
    }
}

/// The counters of one [`Lru`](crate::Lru).
///
/// `Culled`, `Rescued`, `Activate`, `Deactivate` and `Rotated` are written only under the LRU lock, the others by
/// atomic addition.
///
/// ```
/// use pageblock_lru::{Counters, LruEvent};
/// let counters = Counters::new();
/// counters.add_mlocked(512);
/// counters.count(LruEvent::Mlocked, 512);
/// assert_eq!((counters.nr_mlock(), counters.event(LruEvent::Mlocked)), (512, 512));
/// ```
#[derive(Debug)]
#[repr(align(64))]
pub struct Counters {
    /// `NR_MLOCK`: frames of pages with `MLOCKED` set.
    nr_mlock: AtomicI64,
    events: [AtomicU64; LruEvent::COUNT],
}

impl Default for Counters {
    fn default() -> Self {
        Self::new()
    }
}

impl Counters {
    const_unless_model! {
        /// All zero.
        #[must_use]
        pub const fn new() -> Self {
            Self { nr_mlock: AtomicI64::new(0), events: zeroes() }
        }
    }

    /// `NR_MLOCK`: frames locked now. Exact when no lock or unlock is under way; never negative then.
    #[must_use]
    pub fn nr_mlock(&self) -> i64 {
        self.nr_mlock.load(Ordering::Relaxed)
    }

    /// Changes `NR_MLOCK` by so many frames.
    #[inline]
    pub fn add_mlocked(&self, frames: i64) {
        // Relaxed: a statistic; the flags themselves are ordered by their own atomics.
        self.nr_mlock.fetch_add(frames, Ordering::Relaxed);
    }

    /// Counts an event on so many frames.
    #[inline]
    pub fn count(&self, event: LruEvent, frames: u64) {
        self.events[event as usize].fetch_add(frames, Ordering::Relaxed);
    }

    /// Counts an event that happens only under the LRU lock, which the caller holds: no atomic read-modify-write.
    #[inline]
    pub(crate) fn count_held(&self, event: LruEvent, frames: u64) {
        let counter = &self.events[event as usize];
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(frames), Ordering::Relaxed);
    }

    /// As [`count`](Self::count), but does nothing for 0 frames.
    #[inline]
    pub fn count_some(&self, event: LruEvent, frames: u64) {
        if frames != 0 {
            self.count(event, frames);
        }
    }

    /// How often (in frames) an event happened.
    #[must_use]
    pub fn event(&self, event: LruEvent) -> u64 {
        self.events[event as usize].load(Ordering::Relaxed)
    }
}

#[cfg(not(loom))]
const fn zeroes() -> [AtomicU64; LruEvent::COUNT] {
    [const { AtomicU64::new(0) }; LruEvent::COUNT]
}

#[cfg(loom)]
fn zeroes() -> [AtomicU64; LruEvent::COUNT] {
    core::array::from_fn(|_| AtomicU64::new(0))
}
