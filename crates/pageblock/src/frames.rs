//! Handles on allocated frames: they free when dropped.

use core::fmt;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ptr::NonNull;

use pageblock_frame::{MigrateType, Order, PAGE_SIZE, Pfn, PfnRange, Platform};
use pageblock_pcp::BlockKind;

use crate::PageAllocator;

/// A block without a handle: a number and an order, to be kept in tables. Nothing is freed when it is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RawFrames {
    /// The first frame.
    pub pfn: Pfn,
    /// The order.
    pub order: Order,
}

/// A block of frames that the holder owns: `2^order` neighbours, aligned to their size. Dropping it frees it.
///
/// Kernels write `type Frames = pageblock::Frames<'static, Kernel>;` once.
///
/// ```
/// use pageblock::{Config, Gfp, Order, PageAllocator, Region};
/// use pageblock::hosted::Simulated;
/// let frames = PageAllocator::<Simulated>::new();
/// let storage = vec![core::mem::MaybeUninit::uninit(); 1 << 20].leak();
/// frames.init_simulated([Region::from((0, 16 << 20, true))], &Config::new(), storage).unwrap();
///
/// let block = frames.alloc_order(Order::new(3).unwrap(), Gfp::KERNEL).unwrap();
/// assert_eq!((block.pfns().len(), block.bytes()), (8, 32 << 10));
/// let raw = block.into_raw(); // a number, as a page table keeps it
/// assert_eq!(frames.order_of(raw.pfn), Some(raw.order));
/// // SAFETY: the block is that of the line above, and this is its only handle.
/// let block = unsafe { pageblock::Frames::from_raw(&frames, raw) };
/// drop(block);
/// assert_eq!(frames.stats().free, frames.stats().managed);
/// ```
///
/// A handle is the only one to its frames, and is not thrown away by mistake:
///
/// ```compile_fail,E0277
/// fn copies<T: Clone>() {}
/// copies::<pageblock::Frames<'static, pageblock::hosted::Simulated>>();
/// ```
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// # use pageblock::{Frames, PageAllocator};
/// # use pageblock::hosted::Simulated;
/// fn careless(frames: Frames<'static, Simulated>) {
///     (|| frames)();
/// }
/// ```
#[must_use = "frames are freed when the handle is dropped"]
pub struct Frames<'a, P: Platform> {
    owner: &'a PageAllocator<P>,
    pfn: Pfn,
    order: Order,
    /// By the type that the block was asked for with: its list when it is freed, most likely.
    kind: BlockKind,
}

impl<'a, P: Platform> Frames<'a, P> {
    /// The block has no other owner.
    #[inline(always)]
    pub(crate) const fn new(owner: &'a PageAllocator<P>, pfn: Pfn, order: Order, migrate_type: MigrateType) -> Self {
        Self { owner, pfn, order, kind: BlockKind::of(order, migrate_type) }
    }

    /// Another handle to the block, of which one at most may be dropped.
    pub(crate) const fn alias(&self) -> Self {
        Self { owner: self.owner, pfn: self.pfn, order: self.order, kind: self.kind }
    }

    /// The block as a number.
    pub(crate) const fn raw(&self) -> RawFrames {
        RawFrames { pfn: self.pfn, order: self.order }
    }

    /// The first frame.
    #[must_use]
    #[inline(always)]
    pub const fn pfn(&self) -> Pfn {
        self.pfn
    }

    /// The order.
    #[must_use]
    #[inline(always)]
    pub const fn order(&self) -> Order {
        self.order
    }

    /// The frames.
    #[must_use]
    pub const fn pfns(&self) -> PfnRange {
        PfnRange::from_len(self.pfn, self.order.frames())
    }

    /// The physical address of the first byte.
    #[must_use]
    pub const fn phys(&self) -> u64 {
        self.pfn.phys()
    }

    /// Number of bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.order.frames() * PAGE_SIZE
    }

    /// The address of the first byte in the kernel's mapping of all memory, by [`Platform::phys_to_virt`]. Where the
    /// platform [has no memory](Platform::HAS_MEMORY) nothing may be read or written there.
    #[must_use]
    #[inline]
    pub fn as_ptr(&self) -> NonNull<u8> {
        P::phys_to_virt(self.phys())
    }

    /// The memory of the block. It holds anything, unless the request was for [zeroed](crate::Gfp::ZERO) frames. Empty
    /// where the platform [has no memory](Platform::HAS_MEMORY).
    #[must_use]
    #[inline]
    #[expect(unsafe_code, reason = "the frames behind a handle are its holder's alone")]
    pub fn bytes_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        if !P::HAS_MEMORY {
            return &mut [];
        }
        let bytes = self.bytes() as usize;
        // SAFETY: by promise 3 of `Platform` the pointer reaches the first frame for reads and writes as long as the
        // allocator exists, and its neighbours at the same distance. The frames are usable memory by the contract of
        // `init`, outside the metadata. This handle is the only one to them and is borrowed mutably. Bytes of any
        // content are `MaybeUninit`.
        unsafe { core::slice::from_raw_parts_mut(self.as_ptr().cast().as_ptr(), bytes) }
    }

    /// Gives the handle up without freeing the block: as a page table does, which keeps numbers.
    /// [`from_raw`](Self::from_raw) is the way back.
    #[must_use = "the frames are lost unless they are freed"]
    #[inline(always)]
    pub fn into_raw(self) -> RawFrames {
        let raw = ManuallyDrop::new(self);
        RawFrames { pfn: raw.pfn, order: raw.order }
    }

    /// Makes a handle of a block that was [given up](Self::into_raw), or was split or bulk-allocated by number.
    ///
    /// # Safety
    /// The caller owns the block: `owner` handed it out with this order, it was not freed since, no other handle to it
    /// exists, and nothing uses its memory but through this handle from now on.
    #[inline(always)]
    #[expect(unsafe_code, reason = "the caller's word that the block is the caller's")]
    pub const unsafe fn from_raw(owner: &'a PageAllocator<P>, raw: RawFrames) -> Self {
        // A guess; the free looks at the block where it is wrong.
        Self::new(owner, raw.pfn, raw.order, MigrateType::Movable)
    }

    /// Makes blocks of a lower order, each of which is freed on its own (`split_page()`).
    ///
    /// # Errors
    /// The block itself, if `parts` is not lower than its order.
    ///
    /// ```
    /// # use pageblock::{Config, Gfp, Order, PageAllocator, Region};
    /// # use pageblock::hosted::Simulated;
    /// # let frames = PageAllocator::<Simulated>::new();
    /// # let storage = vec![core::mem::MaybeUninit::uninit(); 1 << 20].leak();
    /// # frames.init_simulated([Region::from((0, 16 << 20, true))], &Config::new(), storage).unwrap();
    /// let block = frames.alloc_order(Order::new(2).unwrap(), Gfp::KERNEL)?;
    /// let first = block.pfn();
    /// let mut parts = block.split(Order::ZERO).unwrap();
    /// let kept = parts.next().unwrap();
    /// assert_eq!((kept.pfn(), kept.order()), (first, Order::ZERO));
    /// drop(parts); // the other three are free again
    /// assert_eq!(frames.stats().free, frames.stats().managed - 1);
    /// # Ok::<(), pageblock::AllocError>(())
    /// ```
    pub fn split(self, parts: Order) -> Result<Parts<'a, P>, Self> {
        if !self.owner.split(self.pfn, self.order, parts) {
            return Err(self);
        }
        let owner = self.owner;
        let migrate_type = self.kind.migrate_type().unwrap_or(MigrateType::Movable);
        let frames = self.pfns();
        let _ = self.into_raw();
        #[cfg(feature = "page_owner")]
        owner.diagnosis.tracking.copy(frames.start, frames);
        Ok(Parts { owner, rest: frames, order: parts, migrate_type })
    }
}

impl<P: Platform> Drop for Frames<'_, P> {
    #[inline(always)]
    fn drop(&mut self) {
        self.owner.give_back(self.raw(), self.kind);
    }
}

impl<P: Platform> fmt::Debug for Frames<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frames").field("pfn", &self.pfn).field("order", &self.order).finish_non_exhaustive()
    }
}

/// The parts of a block that was [split](Frames::split), one handle after the other. Parts that are not taken are freed
/// when this is dropped.
#[must_use = "parts that are not taken are freed"]
pub struct Parts<'a, P: Platform> {
    owner: &'a PageAllocator<P>,
    rest: PfnRange,
    order: Order,
    migrate_type: MigrateType,
}

impl<'a, P: Platform> Iterator for Parts<'a, P> {
    type Item = Frames<'a, P>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let pfn = self.rest.start;
        self.rest.start = pfn.add(self.order.frames());
        Some(Frames::new(self.owner, pfn, self.order, self.migrate_type))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.rest.len() >> self.order.as_u8()) as usize;
        (left, Some(left))
    }
}

impl<P: Platform> ExactSizeIterator for Parts<'_, P> {}

impl<P: Platform> Drop for Parts<'_, P> {
    fn drop(&mut self) {
        /// Goes on with the next part should a hook unwind.
        struct Rest<'s, 'a, P: Platform>(&'s mut Parts<'a, P>);
        impl<P: Platform> Drop for Rest<'_, '_, P> {
            fn drop(&mut self) {
                self.0.for_each(drop);
            }
        }
        Rest(self).0.for_each(drop);
    }
}

impl<P: Platform> fmt::Debug for Parts<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("rest", &self.rest).field("order", &self.order).finish_non_exhaustive()
    }
}

/// Neighbouring frames, in a number that need not be a power of two. Dropping it frees them.
///
/// ```
/// use pageblock::{Config, Gfp, PageAllocator, Region};
/// use pageblock::hosted::Simulated;
/// let frames = PageAllocator::<Simulated>::new();
/// let storage = vec![core::mem::MaybeUninit::uninit(); 1 << 20].leak();
/// frames.init_simulated([Region::from((0, 16 << 20, true))], &Config::new(), storage).unwrap();
///
/// let run = frames.alloc_exact(5, Gfp::KERNEL).unwrap();
/// assert_eq!(run.pfns().len(), 5);
/// assert_eq!(frames.stats().free, frames.stats().managed - 5); // not 8
/// ```
#[must_use = "frames are freed when the handle is dropped"]
pub struct FrameRun<'a, P: Platform> {
    owner: &'a PageAllocator<P>,
    range: PfnRange,
}

impl<'a, P: Platform> FrameRun<'a, P> {
    /// The frames have no other owner.
    pub(crate) const fn new(owner: &'a PageAllocator<P>, range: PfnRange) -> Self {
        Self { owner, range }
    }

    /// Takes the block of this order over that begins where the run ends, and that the caller holds.
    pub(crate) const fn extend(&mut self, order: Order) {
        self.range.end = self.range.end.add(order.frames());
    }

    /// The frames.
    #[must_use]
    pub const fn pfns(&self) -> PfnRange {
        self.range
    }

    /// The physical address of the first byte.
    #[must_use]
    pub const fn phys(&self) -> u64 {
        self.range.start.phys()
    }

    /// Gives the frames up without freeing them. [`PageAllocator::free_range`] takes them back, whole or in parts.
    #[must_use = "the frames are lost unless they are freed"]
    pub fn into_raw(self) -> PfnRange {
        ManuallyDrop::new(self).range
    }
}

impl<P: Platform> Drop for FrameRun<'_, P> {
    fn drop(&mut self) {
        self.owner.give_back_range(self.range);
    }
}

impl<P: Platform> fmt::Debug for FrameRun<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameRun").field("range", &self.range).finish_non_exhaustive()
    }
}
