//! The allocator that a kernel keeps in a static: boot, allocation, free.

use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;

use pageblock_buddy::{FreeError, Violation};
use pageblock_frame::sync::{AtomicBool, AtomicU64, Lock, LockGuard, OnceRef, Ordering};
use pageblock_frame::trace::Event;
use pageblock_frame::{
    FrameState, Gfp, Hooks, MigrateType, NodeId, Order, Pfn, PfnRange, Platform, claim_frames, const_unless_model,
};
use pageblock_memmap::{Region, RegionReport};
use pageblock_pcp::BlockKind;

use crate::config::Config;
#[cfg(any(feature = "page_owner", feature = "poison"))]
use crate::diagnosis::Diagnosis;
use crate::dirty::is_limited;
use crate::error::{AddError, AllocError, InitError};
use crate::fast::FastPaths;
use crate::frames::{FrameRun, Frames, RawFrames};
use crate::init::Draft;
use crate::inner::Inner;
use crate::request::{Request, prepare};
use crate::stats::Stats;
use crate::zones::ZoneView;

/// The page allocator of a machine `P`. Lives in a static; all its methods take `&self` and may be called from every
/// CPU, and from interrupt handlers with [`Gfp::ATOMIC`].
///
/// | field | legal values | changed by |
/// |---|---|---|
/// | `inner` | none, then the one reference for ever | a successful init, while it holds `starting` |
/// | `fast` | see `FastPaths` in `fast.rs` | the same |
/// | `starting` | true while a CPU is in init | that CPU |
/// | `draft` | the memory map, while a CPU is in init: no stack has room for it | that CPU |
/// | `bad_frees` | a count | the CPU that frees wrongly |
///
/// ```
/// use pageblock::{Config, Gfp, PageAllocator, Region};
/// use pageblock::hosted::Simulated;
///
/// static FRAMES: PageAllocator<Simulated> = PageAllocator::new();
///
/// let map = [Region::from((0, 64 << 20, true))]; // 64 MiB from address 0
/// let storage = vec![core::mem::MaybeUninit::uninit(); 1 << 20].leak();
/// let stats = FRAMES.init_simulated(map, &Config::new(), storage)?;
/// assert_eq!(stats.managed, 16384);
///
/// let frame = FRAMES.alloc(Gfp::KERNEL | Gfp::DMA)?;
/// assert!(frame.phys() < 16 << 20);
/// drop(frame);
/// assert_eq!(FRAMES.stats().free, 16384);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct PageAllocator<P: Platform> {
    inner: OnceRef<Inner<P>>,
    fast: FastPaths<P>,
    starting: AtomicBool,
    draft: Lock<Draft>,
    bad_frees: AtomicU64,
    #[cfg(any(feature = "page_owner", feature = "poison"))]
    pub(crate) diagnosis: Diagnosis,
    platform: PhantomData<fn() -> P>,
}

impl<P: Platform> PageAllocator<P> {
    const_unless_model! {
        /// An allocator without memory. Every request fails until it is initialised.
        #[must_use]
        pub const fn new() -> Self {
            Self {
                inner: OnceRef::new(),
                fast: FastPaths::new(),
                starting: AtomicBool::new(false),
                draft: Lock::new(Draft::new()),
                bad_frees: AtomicU64::new(0),
                #[cfg(any(feature = "page_owner", feature = "poison"))]
                diagnosis: Diagnosis::new(),
                platform: PhantomData,
            }
        }
    }

    /// Takes the memory of a machine over. The metadata goes into frames of the map, through
    /// [`Platform::phys_to_virt`]. Needs 8 KiB of stack.
    ///
    /// # Errors
    /// [`InitError`]; nothing has changed.
    ///
    /// # Safety
    /// Every byte that `regions` call usable, that no other of them covers, and that `config` does not reserve, is
    /// memory which nothing uses and which is the allocator's from now on.
    #[expect(unsafe_code, reason = "the kernel's word for what is in the memory map")]
    pub unsafe fn init(&self, regions: impl IntoIterator<Item = Region>, config: &Config) -> Result<Stats, InitError> {
        let mut regions = regions.into_iter();
        let claim = |place| {
            // SAFETY: 1. the frames are out of usable regions, which the caller says nothing uses, and out of the
            // draft's map now, so that no request gets them. 2. They are neighbours.
            unsafe { claim_frames::<P>(place) }
        };
        self.start(&mut || regions.next(), config, &mut |draft| Ok(claim(draft.carve()?)))
    }

    /// The same with the metadata in storage of the caller's, for kernels that have memory outside the map.
    ///
    /// # Errors
    /// [`InitError`]; nothing has changed. [`InitError::StorageTooSmall`] says how much is needed.
    ///
    /// # Safety
    /// As for [`init`](Self::init): the allocator gives the usable frames away, and a request may write to them.
    #[expect(unsafe_code, reason = "the kernel's word for what is in the memory map")]
    pub unsafe fn init_with_storage(
        &self,
        regions: impl IntoIterator<Item = Region>,
        config: &Config,
        storage: &'static mut [MaybeUninit<u8>],
    ) -> Result<Stats, InitError> {
        let (mut regions, mut storage) = (regions.into_iter(), Some(storage));
        self.start(&mut || regions.next(), config, &mut |_| Ok(storage.take().unwrap_or_default()))
    }

    /// The same for a simulated machine with numbers for frames and no memory behind them: no promise is needed.
    /// Does not compile for a platform that [has memory](Platform::HAS_MEMORY).
    ///
    /// # Errors
    /// [`InitError`]; nothing has changed. [`InitError::StorageTooSmall`] says how much is needed.
    ///
    /// ```compile_fail,E0080
    /// use core::ptr::NonNull;
    /// use pageblock::{Config, PageAllocator, Platform, Region};
    /// struct Kernel;
    /// // SAFETY: never run.
    /// unsafe impl Platform for Kernel {
    ///     const MAX_CPUS: usize = 1;
    ///     fn phys_to_virt(_: u64) -> NonNull<u8> { NonNull::dangling() }
    /// }
    /// let frames = PageAllocator::<Kernel>::new();
    /// let map = [Region::from((0, 64 << 20, true))];
    /// let _ = frames.init_simulated(map, &Config::new(), &mut []);
    /// ```
    pub fn init_simulated(
        &self,
        regions: impl IntoIterator<Item = Region>,
        config: &Config,
        storage: &'static mut [MaybeUninit<u8>],
    ) -> Result<Stats, InitError> {
        const { assert!(!P::HAS_MEMORY, "a platform with memory is initialised by an unsafe function") };
        let (mut regions, mut storage) = (regions.into_iter(), Some(storage));
        self.start(&mut || regions.next(), config, &mut |_| Ok(storage.take().unwrap_or_default()))
    }

    /// Bytes of storage that [`init_with_storage`](Self::init_with_storage) needs for this map. The map is read on the
    /// stack, which takes 14 KiB.
    ///
    /// # Errors
    /// As initialisation would fail.
    pub fn metadata_bytes(regions: impl IntoIterator<Item = Region>, config: &Config) -> Result<usize, InitError> {
        let mut draft = Draft::new();
        let mut regions = regions.into_iter();
        draft.read::<P>(&mut || regions.next(), config)?;
        Ok(draft.required)
    }

    /// Takes a machine over: its regions, and where the metadata goes. Not generic in the caller's regions, so that its
    /// code is there once.
    fn start(
        &self,
        next: &mut dyn FnMut() -> Option<Region>,
        config: &Config,
        storage: &mut dyn FnMut(&mut Draft) -> Result<Storage, InitError>,
    ) -> Result<Stats, InitError> {
        let mut starting = self.begin()?;
        starting.draft.read::<P>(next, config)?;
        let storage = storage(&mut starting.draft)?;
        self.finish(starting.draft.build(config, storage)?)
    }

    /// Begins initialisation, unless there is an allocator already or another CPU makes one.
    fn begin(&self) -> Result<Starting<'_>, InitError> {
        // Acquire: pairs with the release in `Starting`, so that an attempt sees all that the failed one before it did.
        if self.starting.swap(true, Ordering::Acquire) {
            return Err(InitError::Busy);
        }
        let starting = Starting { flag: &self.starting, draft: self.draft.lock() };
        if self.inner.get().is_some() { Err(InitError::AlreadyInitialised) } else { Ok(starting) }
    }

    /// Makes this the allocator, while initialisation has begun.
    fn finish(&self, inner: &'static Inner<P>) -> Result<Stats, InitError> {
        self.inner.set(inner).map_err(|_| InitError::AlreadyInitialised)?;
        self.fast.set(inner);
        Ok(self.stats())
    }

    #[inline(always)]
    pub(crate) fn inner(&self) -> Result<&'static Inner<P>, AllocError> {
        self.inner.get().ok_or(AllocError::NotInitialised)
    }

    /// Allocates one frame.
    ///
    /// # Errors
    /// [`AllocError`]; nothing has changed.
    #[cfg_attr(feature = "page_owner", track_caller)]
    #[inline]
    pub fn alloc(&self, gfp: Gfp) -> Result<Frames<'_, P>, AllocError> {
        self.alloc_order(Order::ZERO, gfp)
    }

    /// Allocates a block of `order`, aligned to its size, from the node of the executing CPU or the nearest that has
    /// one.
    ///
    /// # Errors
    /// [`AllocError`]; nothing has changed.
    #[cfg_attr(feature = "page_owner", track_caller)]
    #[inline]
    pub fn alloc_order(&self, order: Order, gfp: Gfp) -> Result<Frames<'_, P>, AllocError> {
        let listed = if is_limited::<P>(gfp) { None } else { self.fast.alloc(order, gfp) };
        let pfn = match listed {
            Some(pfn) => pfn,
            None => self.alloc_by_list(order, gfp)?,
        };
        Ok(self.hand_out(pfn, order, gfp))
    }

    /// The handle of a block that was just taken, which is made before any hook is called: should that unwind, the
    /// block is freed.
    #[cfg_attr(feature = "page_owner", track_caller)]
    #[inline(always)]
    fn hand_out(&self, pfn: Pfn, order: Order, gfp: Gfp) -> Frames<'_, P> {
        let frames = Frames::new(self, pfn, order, gfp.migrate_type());
        prepare::<P>(pfn, order, gfp);
        self.taken(pfn, order, gfp);
        frames
    }

    /// Along the zonelist of the CPU's node.
    #[cold]
    fn alloc_by_list(&self, order: Order, gfp: Gfp) -> Result<Pfn, AllocError> {
        let inner = self.inner()?;
        let node = inner.local_node().ok_or(AllocError::OutOfMemory)?;
        Request::new(inner, node, order, gfp)?.run()
    }

    /// Allocates a block from `node` or the nearest to it that has one; with [`Gfp::THISNODE`] from `node` only.
    ///
    /// # Errors
    /// [`AllocError`]; nothing has changed.
    #[cfg_attr(feature = "page_owner", track_caller)]
    pub fn alloc_on(&self, node: NodeId, order: Order, gfp: Gfp) -> Result<Frames<'_, P>, AllocError> {
        let inner = self.inner()?;
        let entry = inner.node(node).ok_or(AllocError::NoSuchNode(node))?;
        let pfn = Request::new(inner, entry, order, gfp)?.run()?;
        Ok(self.hand_out(pfn, order, gfp))
    }

    /// Allocates exactly `frames` neighbouring frames, aligned to the next power of two; the frames that a block of
    /// that size has more stay free (`alloc_pages_exact()`).
    ///
    /// # Errors
    /// [`AllocError`]; nothing has changed.
    #[cfg_attr(feature = "page_owner", track_caller)]
    pub fn alloc_exact(&self, frames: u64, gfp: Gfp) -> Result<FrameRun<'_, P>, AllocError> {
        self.request().gfp(gfp).contiguous(frames)
    }

    /// Allocates the block at a given place, if all of it is free. No watermark holds it back.
    ///
    /// # Errors
    /// [`AllocError::Place`] says why not; nothing has changed.
    #[cfg_attr(feature = "page_owner", track_caller)]
    pub fn alloc_at(&self, pfn: Pfn, order: Order) -> Result<Frames<'_, P>, AllocError> {
        let inner = self.inner()?;
        let zone = inner.zone_of(pfn).ok_or(pageblock_buddy::AllocAtError::OutOfRange)?;
        if !inner.leaves_commitments(zone, order.frames()) {
            return Err(AllocError::OutOfMemory);
        }
        match zone.alloc_at::<P>(pfn, order) {
            Err(pageblock_buddy::AllocAtError::Busy) => {
                // Perhaps some of it waits on a list.
                self.drain();
                zone.alloc_at::<P>(pfn, order)?;
            }
            other => other?,
        }
        let frames = Frames::new(self, pfn, order, MigrateType::Movable);
        inner.count_past_lists(zone, order.frames());
        self.taken(pfn, order, Gfp::empty());
        Ok(frames)
    }

    /// Takes a block back.
    ///
    /// # Errors
    /// [`FreeError`] names the frame's state instead; nothing has changed, but [`Stats::bad_frees`] counts it.
    ///
    /// # Safety
    /// The caller owns the block, by [`Frames::into_raw`], and no code uses its frames any more.
    #[expect(unsafe_code, reason = "the caller's word that nobody uses the frames")]
    #[inline(always)]
    pub unsafe fn free(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        // SAFETY: the caller's promise is passed on.
        unsafe { if P::SMALL_CODE { self.free_called(pfn, order) } else { self.free_here(pfn, order) } }
    }

    /// Where code has to be small: one copy of the fast path.
    ///
    /// # Safety
    /// As [`free`](Self::free).
    #[expect(unsafe_code, reason = "the caller's word that nobody uses the frames")]
    #[inline(never)]
    unsafe fn free_called(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.free_here(pfn, order) }
    }

    /// # Safety
    /// As [`free`](Self::free).
    #[expect(unsafe_code, reason = "the caller's word that nobody uses the frames")]
    #[inline(always)]
    unsafe fn free_here(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.leaving(pfn, order);
        // SAFETY: the caller's promise is passed on.
        unsafe {
            if !self.fast.free(pfn, order) {
                self.free_by_span(pfn, order)?;
            }
        }
        P::hooks().trace(&Event::Free { pfn, order });
        Ok(())
    }

    /// To the zone that spans the frame.
    ///
    /// # Safety
    /// As [`free`](Self::free).
    #[expect(unsafe_code, reason = "the caller's word that nobody uses the frames")]
    #[cold]
    unsafe fn free_by_span(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let inner = self.inner.get().ok_or(FreeError::OutOfRange)?;
        // SAFETY: the caller's promise is passed on.
        unsafe { inner.free(pfn, order) }.map_err(|error| self.bad_free(error))
    }

    /// Takes frames back that are held in whatever blocks: several, or a part of one. All are in one zone.
    ///
    /// # Errors
    /// [`FreeError`] for the first frame that is not held; nothing has changed, but [`Stats::bad_frees`] counts it.
    ///
    /// # Safety
    /// The caller owns the frames, by `into_raw`, and no code uses them any more.
    #[expect(unsafe_code, reason = "the caller's word that nobody uses the frames")]
    pub unsafe fn free_range(&self, range: PfnRange) -> Result<(), FreeError> {
        let inner = self.inner.get().ok_or(FreeError::OutOfRange)?;
        if range.is_empty() {
            return Ok(());
        }
        let zone = inner.zone_of_range(range).ok_or(FreeError::OutOfRange);
        // SAFETY: the caller's promise is passed on.
        zone.and_then(|zone| unsafe { zone.free_range::<P>(range) }).map_err(|error| self.bad_free(error))
    }

    #[cold]
    fn bad_free(&self, error: FreeError) -> FreeError {
        self.bad_frees.fetch_add(1, Ordering::Relaxed);
        error
    }

    /// Frees the block that a handle owned. The handle was made by this allocator, so that an error means that other
    /// code freed its frames: it is counted.
    #[expect(unsafe_code, reason = "the handle's word is the allocator's own")]
    #[inline(always)]
    pub(crate) fn give_back(&self, block: RawFrames, kind: BlockKind) {
        let RawFrames { pfn, order } = block;
        if P::SMALL_CODE {
            // SAFETY: the handle that is being dropped owned the block.
            let _ = unsafe { self.free_called(pfn, order) };
            return;
        }
        self.leaving(pfn, order);
        // SAFETY: as above.
        if unsafe { self.fast.free_kind(pfn, kind) || self.free_by_span(pfn, order).is_ok() } {
            P::hooks().trace(&Event::Free { pfn, order });
        }
    }

    pub(crate) fn give_back_range(&self, range: PfnRange) {
        // SAFETY: the handle that is being dropped owned the frames.
        #[expect(unsafe_code, reason = "the handle's word is the allocator's own")]
        let _ = unsafe { self.free_range(range) };
    }

    /// Makes parts of a block that a handle owns. True if done.
    pub(crate) fn split(&self, pfn: Pfn, order: Order, parts: Order) -> bool {
        let zone = self.inner.get().and_then(|inner| inner.zone_of(pfn));
        // SAFETY: the handle owns the block.
        #[expect(unsafe_code, reason = "the handle's word is the allocator's own")]
        zone.is_some_and(|zone| unsafe { zone.split::<P>(pfn, order, parts) }.is_ok())
    }
}

/// Where metadata goes.
type Storage = &'static mut [MaybeUninit<u8>];

/// Initialisation that has begun and not ended.
struct Starting<'a> {
    flag: &'a AtomicBool,
    draft: LockGuard<'a, Draft>,
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        // Release: pairs with the acquire in `begin`.
        self.flag.store(false, Ordering::Release);
    }
}

/// The rest of the interface: looking at the allocator, and giving it more.
impl<P: Platform> PageAllocator<P> {
    /// Frames that there are now, and those of them that are free. All zeroes before initialisation. Takes each zone
    /// lock for a moment.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let bad_frees = self.bad_frees.load(Ordering::Relaxed);
        self.inner.get().map_or(Stats { bad_frees, ..Stats::default() }, |inner| Stats::of::<P>(inner, bad_frees))
    }

    /// The order of the block that begins with this frame; `None` if none does that is held.
    #[must_use]
    pub fn order_of(&self, pfn: Pfn) -> Option<Order> {
        match self.zone_of(pfn)?.state_of(pfn)? {
            FrameState::Allocated(order, _) => Some(order),
            _ => None,
        }
    }

    /// Outcome of the memory map at boot: ranges dropped, with reasons.
    #[must_use]
    pub fn boot_report(&self) -> Option<&'static RegionReport> {
        self.inner.get().map(|inner| &inner.report)
    }

    /// Gives the allocator more memory inside the spans of its zones: ranges that the boot loader held, a ramdisk that
    /// is read. Returns the number of frames; watermarks and reserves are computed anew.
    ///
    /// # Errors
    /// [`AddError`]; nothing has changed.
    ///
    /// # Safety
    /// The region is memory that nothing uses and that is the allocator's from now on.
    #[expect(unsafe_code, reason = "the kernel's word for what is in the region")]
    pub unsafe fn add_memory(&self, region: Region) -> Result<u64, AddError> {
        let inner = self.inner.get().ok_or(AddError::NotInitialised)?;
        inner.add(region)
    }

    /// Recomputes everything that is kept beside the free maps and the state bytes, in every zone. For tests: it holds
    /// each zone lock for long.
    ///
    /// # Errors
    /// The first [`Violation`].
    pub fn check(&self) -> Result<(), Violation> {
        self.zones().try_for_each(ZoneView::check)
    }
}

impl<P: Platform> Default for PageAllocator<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform> fmt::Debug for PageAllocator<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageAllocator").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
