//! Who is in reclaim must not enter it again: a migrator or reclaimer that allocates would be called by its own call.

use core::marker::PhantomData;

use pageblock_frame::Platform;
use pageblock_frame::sync::{AtomicU32, Ordering};

use crate::inner::Inner;

/// Requests that began to reclaim on one CPU and have not ended, at most. A platform without a flag for each task
/// cannot tell an owner that re-enters from another task that began on the same CPU; this many may be either.
const MOST: u32 = 8;

/// The caller reclaims or compacts (`memalloc_noreclaim_save()`), until this is dropped.
#[derive(Debug)]
pub(crate) struct ReclaimScope<P: Platform> {
    /// The CPU's on which it began, wherever it ends.
    count: &'static AtomicU32,
    platform: PhantomData<fn() -> P>,
}

impl<P: Platform> ReclaimScope<P> {
    /// `None` if the caller does already, or so many do that it may be one of them.
    pub(crate) fn enter(inner: &'static Inner<P>) -> Option<Self> {
        let cpu = P::pin();
        let entry = inner.cpus.get(cpu.index()).or(inner.cpus.first());
        P::unpin();
        let count = &entry?.reclaiming;
        // Relaxed: a count that publishes nothing.
        if count.fetch_add(1, Ordering::Relaxed) < MOST && P::enter_reclaim() {
            return Some(Self { count, platform: PhantomData });
        }
        count.fetch_sub(1, Ordering::Relaxed);
        None
    }
}

impl<P: Platform> Drop for ReclaimScope<P> {
    fn drop(&mut self) {
        P::leave_reclaim();
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}
