//! Many single frames with one call.

use pageblock_buddy::Zone;
use pageblock_frame::{Gfp, MigrateType, Order, Pfn, Platform, StateByte};

use crate::PageAllocator;
use crate::error::AllocError;
use crate::inner::{Inner, NodeEntry};
use crate::request::{Request, prepare};

/// Frames that are taken under one hold of the zone lock.
const BATCH: usize = 64;

impl<P: Platform> PageAllocator<P> {
    /// Allocates single frames until `out` is full or memory short, and says how many there are: `out[..n]` are the
    /// caller's, each to be given to [`free`](Self::free). Frames come from one zone in batches
    /// (`alloc_pages_bulk_array()`, Linux 5.13) as long as that leaves it above its low watermark, then one by one.
    ///
    /// # Errors
    /// [`AllocError`] if there is not even one; nothing has changed.
    ///
    /// ```
    /// # use pageblock::{Config, Gfp, Order, PageAllocator, Pfn, Region};
    /// # use pageblock::hosted::Simulated;
    /// # let frames = PageAllocator::<Simulated>::new();
    /// # let storage = vec![core::mem::MaybeUninit::uninit(); 1 << 20].leak();
    /// # frames.init_simulated([Region::from((0, 16 << 20, true))], &Config::new(), storage).unwrap();
    /// let mut batch = [Pfn::new(0); 100];
    /// assert_eq!(frames.alloc_bulk(Gfp::KERNEL, &mut batch), Ok(100));
    /// assert_eq!(frames.stats().free, frames.stats().managed - 100);
    /// for pfn in batch {
    ///     // SAFETY: the frames are not in use.
    ///     unsafe { frames.free(pfn, Order::ZERO) }.unwrap();
    /// }
    /// ```
    #[cfg_attr(feature = "page_owner", track_caller)]
    pub fn alloc_bulk(&self, gfp: Gfp, out: &mut [Pfn]) -> Result<usize, AllocError> {
        let inner = self.inner()?;
        let node = inner.local_node().ok_or(AllocError::OutOfMemory)?;
        let mut taken = Underway { inner, out, filled: 0 };
        while let Some(rest) = taken.out.get_mut(taken.filled..).filter(|rest| !rest.is_empty()) {
            match fill::<P>(inner, node, gfp, rest) {
                Ok(got) => taken.filled += got,
                Err(error) if taken.filled == 0 => return Err(error),
                Err(_) => break,
            }
        }
        for pfn in taken.out.iter().take(taken.filled) {
            prepare::<P>(*pfn, Order::ZERO, gfp);
            self.taken(*pfn, Order::ZERO, gfp);
        }
        Ok(core::mem::ManuallyDrop::new(taken).filled)
    }
}

/// Frames that have been taken and are not the caller's yet. Freed if a hook unwinds meanwhile.
struct Underway<'o, P: Platform> {
    inner: &'static Inner<P>,
    out: &'o mut [Pfn],
    filled: usize,
}

impl<P: Platform> Drop for Underway<'_, P> {
    fn drop(&mut self) {
        for pfn in self.out.iter().take(self.filled) {
            // SAFETY: they were taken here, and nothing else knows of them.
            #[expect(unsafe_code, reason = "the allocator's own frames")]
            let _ = unsafe { self.inner.free(*pfn, Order::ZERO) };
        }
    }
}

/// Takes at least one frame, and not more than a batch.
fn fill<P: Platform>(
    inner: &'static Inner<P>,
    node: &'static NodeEntry,
    gfp: Gfp,
    out: &mut [Pfn],
) -> Result<usize, AllocError> {
    let request = Request::new(inner, node, Order::ZERO, gfp)?;
    let got = request.bulk_zone(out.len()).map_or(0, |zone| {
        let got = take::<P>(zone, request.migrate_type, out);
        request.charge_fair(zone, got as u64);
        inner.count_past_lists(zone, got as u64);
        got
    });
    if got == 0 {
        let pfn = request.run()?;
        out.iter_mut().take(1).for_each(|slot| *slot = pfn);
        return Ok(1);
    }
    Ok(got)
}

/// Takes up to a batch from a zone, from pageblocks of exactly this type.
fn take<P: Platform>(zone: &Zone<'_>, migrate_type: MigrateType, out: &mut [Pfn]) -> usize {
    let mut indices = [0; BATCH];
    let wanted = out.len().min(BATCH);
    let got = zone.alloc_bulk::<P>(Order::ZERO, migrate_type, indices.get_mut(..wanted).unwrap_or_default());
    for (slot, &index) in out.iter_mut().zip(indices.iter().take(got)) {
        // The zone has marked it as listed, for us; no other CPU may touch it.
        #[expect(unsafe_code, reason = "the zone has handed the frame out")]
        // SAFETY: as said.
        unsafe { zone.state_table() }.set(index, StateByte::allocated(Order::ZERO, migrate_type));
        *slot = zone.pfn_of(index);
    }
    got
}
