//! The optional descriptor table: 16 bytes a frame for list membership, flags and references.
//!
//! It is there only when reclaim, compaction or mlock are used; the buddy knows nothing of it.
//!
//! | field | legal values | changed by |
//! |---|---|---|
//! | `prev`, `next` | zone-relative frame indices, [`NO_FRAME`] at the ends | the holder of the list's lock |
//! | `flags` | [`DescFlags`] | any CPU, by atomic read-modify-write; the CPU that clears `LRU` owns the links |
//! | `refs` | 0 free, n held n times | holders, by atomic add; from 0 only by the allocator's caller |

use bitflags::bitflags;

use crate::const_unless_model;
use crate::sync::{AtomicU32, Ordering, Slot};

/// No frame: the end of a list of frames.
pub const NO_FRAME: u32 = u32::MAX;

bitflags! {
    /// State of a described frame. Names are Linux's page flags.
    ///
    /// ```
    /// use pageblock_frame::DescFlags;
    /// assert!(!(DescFlags::LRU | DescFlags::ACTIVE).contains(DescFlags::MLOCKED));
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct DescFlags: u32 {
        /// On an LRU list; clearing it claims the frame.
        const LRU = 1;
        /// On (or headed for) an active list.
        const ACTIVE = 1 << 1;
        /// On the unevictable list.
        const UNEVICTABLE = 1 << 2;
        /// Locked in memory by some area.
        const MLOCKED = 1 << 3;
        /// Referenced since the last look.
        const REFERENCED = 1 << 4;
        /// Backed by a file (otherwise anonymous).
        const FILE = 1 << 5;
        /// To be written back before it can be freed.
        const DIRTY = 1 << 6;
        /// Being written back.
        const WRITEBACK = 1 << 7;
        /// Locked for exclusive work on its contents.
        const LOCKED = 1 << 8;
        /// First frame of a huge page.
        const HUGE = 1 << 9;
        /// Part of the detected working set.
        const WORKINGSET = 1 << 10;
        /// To be reclaimed as soon as writing back ends.
        const RECLAIM = 1 << 11;
        /// Taken off its list by a scanner.
        const ISOLATED = 1 << 12;
        /// Part of a stream that is too long to be kept: to be given up first once it was used.
        const BEHIND = 1 << 13;
    }
}

/// Knowledge of reclaim, compaction and mlock about one frame.
///
/// ```
/// use pageblock_frame::{Descriptor, DescFlags};
/// let page = Descriptor::new();
/// assert!(!page.set_flags(DescFlags::MLOCKED).contains(DescFlags::MLOCKED)); // it was not set before
/// assert!(page.clear_flags(DescFlags::MLOCKED).contains(DescFlags::MLOCKED)); // it was
/// assert_eq!(page.get(), 1); // one reference now
/// assert_eq!(page.put(), 0);
/// ```
#[derive(Debug)]
#[repr(C)]
pub struct Descriptor {
    /// Previous frame on the same list.
    pub prev: Slot,
    /// Next frame on the same list.
    pub next: Slot,
    flags: AtomicU32,
    refs: AtomicU32,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Descriptor>() == 16);

impl Default for Descriptor {
    fn default() -> Self {
        Self::new()
    }
}

impl Descriptor {
    const_unless_model! {
        /// A frame on no list, with no flag and no reference.
        #[must_use]
        pub const fn new() -> Self {
            Self {
                prev: Slot::new(NO_FRAME),
                next: Slot::new(NO_FRAME),
                flags: AtomicU32::new(0),
                refs: AtomicU32::new(0),
            }
        }
    }

    /// The flags now. Acquire: pairs with the release of the CPU that set them after preparing the frame.
    #[must_use]
    #[inline]
    pub fn flags(&self) -> DescFlags {
        DescFlags::from_bits_retain(self.flags.load(Ordering::Acquire))
    }

    /// Sets flags; returns the former ones. One atomic operation.
    #[inline]
    pub fn set_flags(&self, flags: DescFlags) -> DescFlags {
        DescFlags::from_bits_retain(self.flags.fetch_or(flags.bits(), Ordering::AcqRel))
    }

    /// Clears flags; returns the former ones. One atomic operation.
    #[inline]
    pub fn clear_flags(&self, flags: DescFlags) -> DescFlags {
        DescFlags::from_bits_retain(self.flags.fetch_and(!flags.bits(), Ordering::AcqRel))
    }

    /// Replaces all flags without an atomic read-modify-write: only while no other CPU can change them.
    #[inline]
    pub fn store_flags(&self, flags: DescFlags) {
        self.flags.store(flags.bits(), Ordering::Release);
    }

    /// Sets and clears flags in one atomic step; returns the former ones.
    #[inline]
    pub fn change_flags(&self, set: DescFlags, clear: DescFlags) -> DescFlags {
        let mut old = self.flags.load(Ordering::Relaxed);
        loop {
            let new = (old & !clear.bits()) | set.bits();
            match self.flags.compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return DescFlags::from_bits_retain(old),
                Err(seen) => old = seen,
            }
        }
    }

    /// Replaces all flags if they are exactly `seen`; true if they were. One atomic operation, without a loop.
    #[inline]
    pub fn replace_flags(&self, seen: DescFlags, new: DescFlags) -> bool {
        self.flags.compare_exchange(seen.bits(), new.bits(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// References now.
    #[must_use]
    #[inline]
    pub fn refs(&self) -> u32 {
        self.refs.load(Ordering::Acquire)
    }

    /// Takes a reference; returns how many there are now. The caller holds one already, or owns the frame.
    #[inline]
    pub fn get(&self) -> u32 {
        // Relaxed: the caller's own reference (or ownership) orders the frame's contents.
        self.refs.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Takes a reference unless there is none left (the frame is on its way out). True if taken.
    #[inline]
    pub fn get_unless_zero(&self) -> bool {
        let mut old = self.refs.load(Ordering::Relaxed);
        while old != 0 {
            match self.refs.compare_exchange_weak(old, old + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(seen) => old = seen,
            }
        }
        false
    }

    /// Gives a reference back; returns how many are left. At 0 the caller frees the frame.
    #[inline]
    pub fn put(&self) -> u32 {
        // AcqRel: the last CPU to leave sees all that others did to the frame.
        self.refs.fetch_sub(1, Ordering::AcqRel).wrapping_sub(1)
    }

    /// Takes references away from a count only if it is exactly `expected` (freezing): true if it was.
    #[inline]
    pub fn freeze(&self, expected: u32) -> bool {
        self.refs.compare_exchange(expected, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Sets the number of references: only while no other CPU can reach the frame.
    #[inline]
    pub fn store_refs(&self, refs: u32) {
        self.refs.store(refs, Ordering::Release);
    }
}
