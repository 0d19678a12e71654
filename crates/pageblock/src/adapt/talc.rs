//! A byte heap on frames: a source for the `talc` allocator.

use core::alloc::Layout;
use core::fmt;

use pageblock_frame::{Gfp, Order, PAGE_SIZE, Pfn, Platform};
use talc::base::Talc;
use talc::base::binning::Binning;
use talc::source::Source;

use crate::PageAllocator;

/// Bytes that talc may lose to a request's alignment and to its own tags, beyond the request.
const OVERHEAD: usize = 128;

/// Written at the end of each block, behind the heap that is made of it.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Footer {
    pfn: Pfn,
    order: Order,
}

const FOOTER: usize = size_of::<Footer>();

/// Feeds a talc heap with blocks of frames, and takes each block back when nothing in it is used any more.
///
/// talc keeps its own tables in the first memory that it gets, for ever. Give it a static arena first, as below, or
/// it keeps one block.
///
/// **Nothing but that arena may be claimed by hand**: this source expects its own mark at the end of every other heap.
///
/// ```
/// use core::ptr::NonNull;
/// use pageblock::adapt::FrameSource;
/// use pageblock::{Config, PageAllocator, Platform, Region};
/// # const BYTES: usize = 16 << 20;
/// # fn memory() -> NonNull<u8> {
/// #     static MEMORY: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
/// #     let layout = std::alloc::Layout::from_size_align(BYTES, 4 << 20).unwrap();
/// #     // SAFETY: the size is not 0; the memory is never freed.
/// #     let start = *MEMORY.get_or_init(|| unsafe { std::alloc::alloc_zeroed(layout) } as usize);
/// #     NonNull::new(start as *mut u8).unwrap()
/// # }
/// struct Kernel;
/// // SAFETY: one CPU, no interrupts; memory is mapped for ever.
/// unsafe impl Platform for Kernel {
///     const MAX_CPUS: usize = 1;
///     fn phys_to_virt(pa: u64) -> NonNull<u8> {
/// #       // SAFETY: below the size of the memory.
/// #       let pointer = unsafe { memory().add(pa as usize) };
///         // direct map + pa
/// #       pointer
///     }
/// }
/// static FRAMES: PageAllocator<Kernel> = PageAllocator::new();
/// # // SAFETY: the memory has no other user.
/// # unsafe { FRAMES.init([Region::from((0, BYTES as u64, true))], &Config::new()) }.unwrap();
/// # type Lock = spin::Mutex<()>;
/// // #[global_allocator]
/// static HEAP: talc::sync::TalcLock<Lock, FrameSource<Kernel>, talc::DefaultBinning> =
///     talc::sync::TalcLock::new(FrameSource::new(&FRAMES));
/// static mut ARENA: [u8; 8192] = [0; 8192];
/// // SAFETY: the arena is used for nothing else.
/// unsafe { HEAP.lock().claim((&raw mut ARENA).cast(), 8192) }.unwrap();
///
/// let before = FRAMES.stats().free;
/// let layout = std::alloc::Layout::from_size_align(100_000, 16).unwrap();
/// // SAFETY: not of size 0, and freed with the same layout.
/// unsafe {
///     use std::alloc::GlobalAlloc;
///     let bytes = HEAP.alloc(layout);
///     assert!(!bytes.is_null());
///     assert_eq!(FRAMES.stats().free, before - 32);
///     HEAP.dealloc(bytes, layout);
/// }
/// assert_eq!(FRAMES.stats().free, before);
/// ```
pub struct FrameSource<P: Platform> {
    frames: &'static PageAllocator<P>,
    gfp: Gfp,
    least: Order,
}

/// Blocks that small requests share: 64 KiB.
const LEAST: Order = match Order::new(4) {
    Some(order) => order,
    None => Order::ZERO,
};

impl<P: Platform> FrameSource<P> {
    /// Takes [`Gfp::KERNEL`] blocks of at least 64 KiB from `frames`.
    #[must_use]
    pub const fn new(frames: &'static PageAllocator<P>) -> Self {
        Self { frames, gfp: Gfp::KERNEL, least: LEAST }
    }

    /// Asks for blocks with these flags. A heap that interrupt handlers use takes [`Gfp::ATOMIC`].
    #[must_use]
    pub const fn gfp(self, gfp: Gfp) -> Self {
        Self { gfp, ..self }
    }

    /// Takes blocks of at least this order.
    #[must_use]
    pub const fn least_order(self, least: Order) -> Self {
        Self { least, ..self }
    }
}

impl<P: Platform> fmt::Debug for FrameSource<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameSource").field("gfp", &self.gfp).field("least", &self.least).finish_non_exhaustive()
    }
}

// SAFETY: the page allocator has its metadata outside every heap and never calls one.
#[expect(unsafe_code, reason = "memory between the frame allocator and the heap changes its owner here")]
#[cfg_attr(docsrs, doc(cfg(feature = "talc")))]
unsafe impl<P: Platform> Source for FrameSource<P> {
    const TRACK_HEAP_END: bool = true;

    fn acquire<B: Binning>(talc: &mut Talc<Self, B>, layout: Layout) -> Result<(), ()> {
        let mut bytes = layout.size().checked_add(layout.align()).ok_or(())?;
        bytes = bytes.checked_add(OVERHEAD + FOOTER).ok_or(())?;
        if !talc.is_metadata_established() {
            bytes += talc::min_first_heap_layout::<B>().size();
        }
        let order = Order::fitting((bytes as u64).div_ceil(PAGE_SIZE)).ok_or(())?.max(talc.source.least);
        let block = talc.source.frames.alloc_order(order, talc.source.gfp).map_err(drop)?;
        let start = P::phys_to_virt(block.phys()).as_ptr();
        let heap = block.bytes() as usize - FOOTER;
        // SAFETY: the block was just allocated and is mapped at `start`; the footer is its last, aligned, part.
        let claimed = unsafe {
            start.add(heap).cast::<Footer>().write(Footer { pfn: block.pfn(), order });
            talc.claim(start, heap)
        };
        claimed.ok_or(())?;
        let _ = block.into_raw();
        Ok(())
    }

    unsafe fn resize(&mut self, base: *mut u8, end: *mut u8, is_heap_base: bool) -> *mut u8 {
        if !is_heap_base {
            return end;
        }
        // SAFETY: the heap was claimed by `acquire`, which wrote a footer behind it. Nothing in it is used, talc says.
        let refused = unsafe {
            let Footer { pfn, order } = end.cast::<Footer>().read();
            self.frames.free(pfn, order)
        };
        // A block that is not ours any more (counted as a bad free) is out of talc's hands as well.
        let _ = refused;
        base
    }
}
