//! Frames with several owners, the last of which frees them: copy-on-write, a page cache.

use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use pageblock_frame::sync::{AtomicU32, Ordering};
use pageblock_frame::{MigrateType, Order, Pfn, Platform, const_unless_model};

use crate::frames::{Frames, RawFrames};
use crate::table::FrameTable;

/// Above this a count stays where it is, and the block is never freed, as with Linux's `refcount_t`.
const SATURATED: u32 = 0xc000_0000;

/// The number of owners of a block, in the slot of its first frame: 0 while it is not shared. Its only writers are the
/// [`SharedFrames`] of the block.
#[derive(Debug)]
pub struct RefCount(AtomicU32);

impl RefCount {
    const_unless_model! {
        /// The count of a block that is not shared.
        #[must_use]
        pub const fn new() -> Self {
            Self(AtomicU32::new(0))
        }
    }

    /// Owners at this moment.
    #[must_use]
    pub fn owners(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// From no owner to the first. False if there are owners.
    fn begin(&self) -> bool {
        // Relaxed: writes of the block's earlier owners come before, by the free and the allocation in between.
        self.0.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// One more; the caller is an owner.
    fn join(&self) {
        // Relaxed: the new owner is given the block by one that has it.
        if self.0.fetch_add(1, Ordering::Relaxed) >= SATURATED / 2 {
            self.0.store(SATURATED, Ordering::Relaxed);
        }
    }

    /// One less. True for the last, which then sees all that the others did to the block.
    fn leave(&self) -> bool {
        // Release: this owner's writes to the block come before the last owner's free. Acquire: the last one sees it.
        let before = self.0.fetch_sub(1, Ordering::AcqRel);
        if before >= SATURATED / 2 {
            self.0.store(SATURATED, Ordering::Relaxed);
        }
        before == 1
    }

    /// From one owner, the caller, to none. False if there are others.
    fn end(&self) -> bool {
        // Acquire pairs with the release of the others' `leave`.
        self.0.compare_exchange(1, 0, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

/// The steps of a count, for models.
#[cfg(loom)]
impl RefCount {
    /// The first owner comes.
    pub fn model_begin(&self) -> bool {
        self.begin()
    }

    /// Another comes.
    pub fn model_join(&self) {
        self.join();
    }

    /// One goes; true for the last.
    pub fn model_leave(&self) -> bool {
        self.leave()
    }

    /// The only owner takes the block for itself.
    pub fn model_end(&self) -> bool {
        self.end()
    }
}

impl Default for RefCount {
    fn default() -> Self {
        Self::new()
    }
}

/// A block with several owners. Each clone is one; the last that is dropped frees the block. The counts are in a
/// [`FrameTable`] of four bytes a frame, which a kernel makes only if it shares frames.
///
/// ```
/// use pageblock::{Config, FrameTable, Gfp, PageAllocator, RefCount, Region, SharedFrames};
/// # use pageblock::hosted::Simulated;
/// # let frames = PageAllocator::<Simulated>::new();
/// # let storage = vec![core::mem::MaybeUninit::uninit(); 1 << 20].leak();
/// # frames.init_simulated([Region::usable(0..16 << 20)], &Config::new(), storage).unwrap();
/// # let storage = vec![core::mem::MaybeUninit::uninit(); FrameTable::<RefCount>::bytes(frames.span())].leak();
/// let counts = FrameTable::in_storage(frames.span(), storage, |_| RefCount::new()).unwrap();
///
/// let parent = SharedFrames::new(frames.alloc(Gfp::USER).unwrap(), &counts).unwrap();
/// let child = parent.clone(); // fork: both map the page
/// let copied = match parent.into_unique() {
///     Ok(own) => own, // a write fault of the only owner: the page is used on
///     Err(_shared) => frames.alloc(Gfp::USER).unwrap(), // of one of several: it gets a copy, and owns the old page no more
/// };
/// assert_eq!(child.owners(), 1);
/// assert_ne!(copied.pfn(), child.pfn());
/// drop((copied, child));
/// assert_eq!(frames.stats().free, frames.stats().managed);
/// ```
#[must_use = "dropping the last owner frees the block"]
pub struct SharedFrames<'a, P: Platform> {
    block: ManuallyDrop<Frames<'a, P>>,
    count: &'static RefCount,
}

impl<'a, P: Platform> SharedFrames<'a, P> {
    /// Shares a block, with one owner so far.
    ///
    /// # Errors
    /// The block itself, if its first frame is not in the table, or a block of another allocator is counted there.
    pub fn new(block: Frames<'a, P>, counts: &FrameTable<RefCount>) -> Result<Self, Frames<'a, P>> {
        match counts.get(block.pfn()) {
            Some(count) if count.begin() => Ok(Self { block: ManuallyDrop::new(block), count }),
            _ => Err(block),
        }
    }

    /// The first frame.
    #[must_use]
    pub fn pfn(&self) -> Pfn {
        self.block.pfn()
    }

    /// The order.
    #[must_use]
    pub fn order(&self) -> Order {
        self.block.order()
    }

    /// The physical address of the first byte.
    #[must_use]
    pub fn phys(&self) -> u64 {
        self.block.phys()
    }

    /// The address of the first byte, by [`Platform::phys_to_virt`]. Other owners may read and write there as well.
    #[must_use]
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.block.as_ptr()
    }

    /// Owners at this moment; others come and go meanwhile.
    #[must_use]
    pub fn owners(&self) -> u32 {
        self.count.owners()
    }

    /// The block as its only owner's, as a write fault of copy-on-write asks for it.
    ///
    /// # Errors
    /// The handle itself, if there are other owners.
    pub fn into_unique(self) -> Result<Frames<'a, P>, Self> {
        if !self.count.end() {
            return Err(self);
        }
        Ok(ManuallyDrop::new(self).block.alias())
    }

    /// Gives the handle up and stays an owner, as a page table does. [`from_raw`](Self::from_raw) is the way back.
    #[must_use = "the block is lost unless its handle is made again"]
    pub fn into_raw(self) -> RawFrames {
        ManuallyDrop::new(self).block.raw()
    }

    /// Makes a handle of an owner that was [given up](Self::into_raw). `None` if the first frame is not in the table.
    ///
    /// # Safety
    /// 1. `into_raw` gave this block up, once for each call of this, and the count of that handle is in `counts`.
    /// 2. The block's allocator is `owner`.
    #[expect(unsafe_code, reason = "the caller's word that a count stands for this handle")]
    pub unsafe fn from_raw(
        owner: &'a crate::PageAllocator<P>,
        raw: RawFrames,
        counts: &FrameTable<RefCount>,
    ) -> Option<Self> {
        let count = counts.get(raw.pfn)?;
        let block = Frames::new(owner, raw.pfn, raw.order, MigrateType::Movable);
        Some(Self { block: ManuallyDrop::new(block), count })
    }
}

impl<P: Platform> Clone for SharedFrames<'_, P> {
    /// One more owner.
    fn clone(&self) -> Self {
        self.count.join();
        Self { block: ManuallyDrop::new(self.block.alias()), count: self.count }
    }
}

impl<P: Platform> Drop for SharedFrames<'_, P> {
    fn drop(&mut self) {
        if self.count.leave() {
            drop(self.block.alias());
        }
    }
}

impl<P: Platform> fmt::Debug for SharedFrames<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedFrames").field("block", &*self.block).field("owners", &self.owners()).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_count_near_its_end_stays_there_for_ever() {
        let count = RefCount(AtomicU32::new(SATURATED / 2 - 1));
        count.join();
        assert_eq!(count.owners(), SATURATED / 2, "it can be counted still");
        assert!(!count.leave());
        for start in [SATURATED / 2, SATURATED, SATURATED + 7] {
            let count = RefCount(AtomicU32::new(start));
            count.join();
            assert_eq!(count.owners(), SATURATED);
            let count = RefCount(AtomicU32::new(start));
            assert!(!count.leave() && !count.end() && !count.begin());
            assert_eq!(count.owners(), SATURATED);
        }
    }
}
