//! A kernel's own word a frame: Linux's `page->private`, typed, and only if asked for.

use core::fmt;
use core::mem::MaybeUninit;

use pageblock_frame::{Carver, PAGE_SIZE, Pfn, PfnRange, Platform, claim_frames};

use crate::PageAllocator;
use crate::error::AllocError;

/// A value of type `T` for each frame of a range, looked up by frame number. The table lives as long as the program.
///
/// ```
/// use pageblock::{FrameTable, Pfn, PfnRange};
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// let frames = PfnRange::new(Pfn::new(16), Pfn::new(1024));
/// let storage = vec![std::mem::MaybeUninit::uninit(); FrameTable::<AtomicU32>::bytes(frames)].leak();
/// let owners = FrameTable::in_storage(frames, storage, |_| AtomicU32::new(0)).unwrap();
/// owners.get(Pfn::new(20)).unwrap().store(7, Ordering::Relaxed);
/// assert_eq!(owners.get(Pfn::new(20)).unwrap().load(Ordering::Relaxed), 7);
/// assert!(owners.get(Pfn::new(1024)).is_none()); // not in the range
/// ```
pub struct FrameTable<T: 'static> {
    start: Pfn,
    values: &'static [T],
}

impl<T> FrameTable<T> {
    /// Bytes of storage for these frames, at any alignment; `usize::MAX` where no storage is large enough.
    #[must_use]
    pub const fn bytes(frames: PfnRange) -> usize {
        let bytes = (frames.len() as u128).saturating_mul(size_of::<T>() as u128) + (align_of::<T>() as u128 - 1);
        if bytes > usize::MAX as u128 { usize::MAX } else { bytes as usize }
    }

    /// A table in storage of the caller's; `value` makes each frame's. `None` if the storage has fewer than
    /// [`bytes`](Self::bytes).
    pub fn in_storage(
        frames: PfnRange,
        storage: &'static mut [MaybeUninit<u8>],
        mut value: impl FnMut(Pfn) -> T,
    ) -> Option<Self> {
        let make = |index| Some(value(frames.start.add(index as u64)));
        let values = Carver::new(storage).take_with(usize::try_from(frames.len()).ok()?, make)?;
        Some(Self { start: frames.start, values })
    }

    /// The value of a frame; `None` for a frame outside the range.
    #[must_use]
    #[inline]
    pub fn get(&self, pfn: Pfn) -> Option<&'static T> {
        self.values.get(usize::try_from(pfn.as_u64().wrapping_sub(self.start.as_u64())).ok()?)
    }

    /// The frames that have a value.
    #[must_use]
    pub const fn pfns(&self) -> PfnRange {
        PfnRange::from_len(self.start, self.values.len() as u64)
    }
}

impl<T> fmt::Debug for FrameTable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameTable").field("pfns", &self.pfns()).finish_non_exhaustive()
    }
}

impl<P: Platform> PageAllocator<P> {
    /// All frames from the lowest zone's first to the highest zone's last, holes included.
    #[must_use]
    pub fn span(&self) -> PfnRange {
        let spans = || self.zones().map(|zone| zone.span());
        let start = spans().map(|span| span.start).min().unwrap_or(Pfn::new(0));
        let end = spans().map(|span| span.end).max().unwrap_or(start);
        PfnRange::new(start, end)
    }

    /// A table with a value for each frame of the machine, in frames that this takes for ever: for a kernel's metadata.
    /// `value` makes each frame's.
    ///
    /// # Errors
    /// [`AllocError`] if there is no run of frames for it, or no memory behind the frames.
    pub fn frame_table<T>(&self, value: impl FnMut(Pfn) -> T) -> Result<FrameTable<T>, AllocError> {
        if !P::HAS_MEMORY {
            return Err(AllocError::OutOfMemory);
        }
        let frames = self.span();
        let bytes = FrameTable::<T>::bytes(frames) as u64;
        let run = self.request().contiguous(bytes.div_ceil(PAGE_SIZE))?.into_raw();
        // SAFETY: 1. the run was the handle's alone, which has been given up for good. 2. It is one run.
        #[expect(unsafe_code, reason = "the allocator's own frames")]
        let storage = unsafe { claim_frames::<P>(run) };
        FrameTable::in_storage(frames, storage, value).ok_or(AllocError::OutOfMemory)
    }
}
