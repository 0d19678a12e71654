//! Frames promised now and allocated later: demand paging and copy-on-write that cannot fail half-way.

use core::fmt;

use pageblock_buddy::Zone;
use pageblock_frame::sync::{AtomicU64, Ordering};
use pageblock_frame::{AllocFlags, Gfp, MAX_ZONES, Order, Pfn, Platform};

use crate::PageAllocator;
use crate::error::AllocError;
use crate::frames::Frames;
use crate::inner::Inner;
use crate::request::{Request, prepare};

/// Frames by which a refill of the per-CPU lists may take a zone below the mark that the request has met.
const REFILL: u64 = 64;

/// Promised frames, by zone. Each request but a commitment's own leaves so many in the zone.
#[derive(Debug)]
pub(crate) struct Commitments {
    /// Relaxed: a promise is made before it counts, and the margin of the watermarks covers requests under way
    /// meanwhile.
    of_zone: &'static [AtomicU64],
}

impl Commitments {
    /// Of a machine without zones.
    pub(crate) const fn new() -> Self {
        Self { of_zone: &[] }
    }

    /// Nothing promised, with a count for each zone.
    pub(crate) const fn of(of_zone: &'static [AtomicU64]) -> Self {
        Self { of_zone }
    }

    pub(crate) fn total(&self) -> u64 {
        self.of_zone.iter().map(|frames| frames.load(Ordering::Relaxed)).sum()
    }

    fn add(&self, zone: usize, more: u64) {
        self.of_zone.get(zone).into_iter().for_each(|frames| _ = frames.fetch_add(more, Ordering::Relaxed));
    }

    fn subtract(&self, zone: usize, fewer: u64) {
        self.of_zone.get(zone).into_iter().for_each(|frames| _ = frames.fetch_sub(fewer, Ordering::Relaxed));
    }
}

impl<P: Platform> Inner<P> {
    /// Frames of a zone that requests leave alone for commitments: 0 unless there are some.
    #[inline]
    pub(crate) fn committed_in(&self, zone: &'static Zone<'static>) -> u64 {
        let place = self.zones.element_offset(zone).and_then(|place| self.commitments.of_zone.get(place));
        match place.map_or(0, |frames| frames.load(Ordering::Relaxed)) {
            0 => 0,
            frames => frames + REFILL * self.cpus.len() as u64,
        }
    }

    /// The zone keeps its promises if it gives so many frames away.
    pub(crate) fn leaves_commitments(&self, zone: &'static Zone<'static>, frames: u64) -> bool {
        let committed = self.committed_in(zone);
        committed == 0 || zone.free_frames() >= committed + frames
    }
}

/// A promise of single frames. It holds no frame, but others leave as many free; [`alloc`](Self::alloc) takes one.
/// Dropping it gives up the rest.
///
/// ```
/// # use pageblock::{Config, PageAllocator, Region};
/// # use pageblock::hosted::Simulated;
/// # let frames = PageAllocator::<Simulated>::new();
/// # let storage = vec![core::mem::MaybeUninit::uninit(); 1 << 20].leak();
/// # frames.init_simulated([Region::usable(0..64 << 20)], &Config::new(), storage).unwrap();
/// use pageblock::{AllocError, Gfp};
/// let mut promise = frames.commit(1000, Gfp::USER)?; // mmap
/// let mut hoard = Vec::new();
/// while let Ok(frame) = frames.alloc(Gfp::USER) {
///     hoard.push(frame); // other requests take all that there is
/// }
/// let touched: Vec<_> = (0..1000).map(|_| promise.alloc().unwrap()).collect(); // page faults
/// assert!(promise.alloc().is_none() && touched.len() == 1000);
/// assert_eq!(frames.commit(1 << 30, Gfp::USER).unwrap_err(), AllocError::OutOfMemory);
/// # Ok::<(), AllocError>(())
/// ```
#[must_use = "dropping a commitment gives it up"]
pub struct Commitment<'a, P: Platform> {
    owner: &'a PageAllocator<P>,
    request: Request<P>,
    /// Frames that are promised still, by zone; others' promises in the same zones are not touched.
    of_zone: [u64; MAX_ZONES],
}

impl<P: Platform> PageAllocator<P> {
    /// Promises frames for later. They come from the zones of an ordinary request with `gfp`, each of which stays above
    /// its high watermark.
    ///
    /// # Errors
    /// [`AllocError::OutOfMemory`] if so many frames are not free above the watermarks and other commitments,
    /// [`AllocError::BadFlags`]; nothing is promised.
    pub fn commit(&self, frames: u64, gfp: Gfp) -> Result<Commitment<'_, P>, AllocError> {
        let inner = self.inner()?;
        let node = inner.local_node().ok_or(AllocError::OutOfMemory)?;
        let request = Request::new(inner, node, Order::ZERO, gfp)?;
        // The promises so far are given up when this is dropped.
        let mut commitment = Commitment { owner: self, request, of_zone: [0; MAX_ZONES] };
        for zone in request.zones() {
            commitment.promise(zone, frames - commitment.left());
            if commitment.left() == frames {
                return Ok(commitment);
            }
        }
        Err(AllocError::OutOfMemory)
    }

    /// Frames that are promised to commitments and not yet allocated.
    #[must_use]
    pub fn committed(&self) -> u64 {
        self.inner().map_or(0, |inner| inner.commitments.total())
    }
}

impl<'a, P: Platform> Commitment<'a, P> {
    /// Frames that are promised still.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.of_zone.iter().sum()
    }

    /// Allocates one of the promised frames; `None` when all have been.
    #[must_use = "the frame is freed when the handle is dropped"]
    #[cfg_attr(feature = "page_owner", track_caller)]
    pub fn alloc(&mut self) -> Option<Frames<'a, P>> {
        if self.left() == 0 {
            return None;
        }
        let pfn = self.take().or_else(|| {
            // Free frames may be on the lists of other CPUs.
            self.owner.drain();
            self.take()
        })?;
        let frames = Frames::new(self.owner, pfn, Order::ZERO, self.request.migrate_type);
        prepare::<P>(pfn, Order::ZERO, self.request.gfp);
        self.owner.taken(pfn, Order::ZERO, self.request.gfp);
        Some(frames)
    }

    /// A frame of the highest zone that has promised one, so that lower zones stay for requests that can use no other.
    fn take(&mut self) -> Option<Pfn> {
        const ALL_OF_IT: AllocFlags = AllocFlags::NO_WATERMARKS;
        let inner = self.request.inner;
        self.request.zones().find_map(|zone| {
            let place = inner.zones.element_offset(zone)?;
            let promised = self.of_zone.get_mut(place).filter(|frames| **frames > 0)?;
            let pfn = inner.alloc_from(zone, (Order::ZERO, self.request.migrate_type), ALL_OF_IT)?;
            *promised -= 1;
            inner.commitments.subtract(place, 1);
            Some(pfn)
        })
    }

    /// Promises as many frames of a zone as it has to spare, `wanted` at most.
    fn promise(&mut self, zone: &'static Zone<'static>, wanted: u64) {
        let inner = self.request.inner;
        let Some(place) = inner.zones.element_offset(zone) else { return };
        let reserve = zone.lowmem_reserve().get(self.request.limit.index()).copied().unwrap_or(0);
        let kept = |inner: &Inner<P>| zone.watermarks().high + reserve + inner.committed_in(zone);
        let frames = wanted.min(zone.free_frames().saturating_sub(kept(inner) + REFILL * inner.cpus.len() as u64));
        let Some(promised) = self.of_zone.get_mut(place) else { return };
        inner.commitments.add(place, frames);
        *promised += frames;
        // Two CPUs may have promised the same frames: then both give them up, and the zone has no promise too many.
        if frames > 0 && kept(inner) > zone.free_frames() {
            inner.commitments.subtract(place, frames);
            *promised -= frames;
        }
    }
}

impl<P: Platform> Drop for Commitment<'_, P> {
    fn drop(&mut self) {
        for (place, frames) in self.of_zone.iter().enumerate() {
            self.request.inner.commitments.subtract(place, *frames);
        }
    }
}

impl<P: Platform> fmt::Debug for Commitment<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Commitment").field("left", &self.left()).finish_non_exhaustive()
    }
}
