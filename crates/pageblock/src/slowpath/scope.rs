//! A task in reclaim must not enter it again: a migrator or reclaimer that allocates would be called by its own call.

use core::marker::PhantomData;

use pageblock_frame::sync::{AtomicU32, Ordering, Pinned};
use pageblock_frame::{Hooks, Platform};

use crate::inner::Inner;

/// Requests that began to reclaim on one CPU and have not ended, at most. A platform without a flag for each task
/// cannot tell an owner that re-enters from another task that began on the same CPU; this many may be either.
const MOST: u32 = 8;

/// One of the requests that reclaim or compact, counted with the CPU on which it began, wherever it ends.
#[derive(Debug)]
pub(crate) struct Depth(&'static AtomicU32);

impl Depth {
    /// `None` if so many reclaim already that it may be a request of their own making.
    pub(crate) fn enter<P: Platform>(inner: &'static Inner<P>) -> Option<Self> {
        let (depth, before) = Self::deeper(inner)?;
        (before < MOST).then_some(depth)
    }

    /// One deeper, and how deep it was before.
    fn deeper<P: Platform>(inner: &'static Inner<P>) -> Option<(Self, u32)> {
        let cpu = Pinned::<P>::new().cpu();
        let entry = inner.cpus.get(cpu.index()).or(inner.cpus.first());
        let count = &entry?.reclaiming;
        // Relaxed: a count that publishes nothing.
        let before = count.fetch_add(1, Ordering::Relaxed);
        Some((Self(count), before))
    }
}

impl Drop for Depth {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The caller reclaims or compacts (`memalloc_noreclaim_save()`), until this is dropped.
#[derive(Debug)]
pub(crate) struct ReclaimScope<P: Platform> {
    _depth: Depth,
    platform: PhantomData<fn() -> P>,
}

impl<P: Platform> ReclaimScope<P> {
    /// `None` if the caller does already, or so many do that it may be one of them.
    pub(crate) fn enter(inner: &'static Inner<P>) -> Option<Self> {
        Self::with(Depth::enter(inner)?)
    }

    /// For a background thread: however many reclaim, and perhaps wait for this one. `None` if the caller reclaims
    /// already.
    pub(crate) fn enter_thread(inner: &'static Inner<P>) -> Option<Self> {
        let (depth, _) = Depth::deeper(inner)?;
        Self::with(depth)
    }

    fn with(depth: Depth) -> Option<Self> {
        // Not built before it is known: a built scope leaves again when dropped.
        P::hooks().enter_reclaim().then(|| Self { _depth: depth, platform: PhantomData })
    }
}

impl<P: Platform> Drop for ReclaimScope<P> {
    fn drop(&mut self) {
        P::hooks().leave_reclaim();
    }
}
