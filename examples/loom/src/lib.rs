//! Frames that several tasks hold: a reference count beside the allocator's frame.
//!
//! | field | legal values | changed by |
//! |---|---|---|
//! | `refs` | number of holders; 0: freed, for ever | a holder up or down; from 0 none |
//! | `pfn` | the frame | none |

use pageblock::sync::{AtomicU32, Ordering, fence};
use pageblock::{Frames, Order, PageAllocator, Pfn, Platform};

/// A frame that is freed when its last holder lets go.
#[derive(Debug)]
pub struct SharedFrame<P: Platform> {
    allocator: &'static PageAllocator<P>,
    pfn: Pfn,
    refs: AtomicU32,
}

impl<P: Platform> SharedFrame<P> {
    /// Takes a single frame over; the caller is its one holder.
    #[must_use]
    pub fn new(allocator: &'static PageAllocator<P>, frame: Frames<'static, P>) -> Self {
        let pfn = frame.into_raw().pfn;
        Self { allocator, pfn, refs: AtomicU32::new(1) }
    }

    /// The frame, for a holder.
    #[must_use]
    pub fn pfn(&self) -> Pfn {
        self.pfn
    }

    /// Becomes a holder, unless the last one has let go: for a lookup, which holds nothing yet.
    pub fn try_get(&self) -> bool {
        let mut refs = self.refs.load(Ordering::Relaxed);
        while refs > 0 {
            // Relaxed: a lookup has found the frame through a table with orderings of its own.
            match self.refs.compare_exchange(refs, refs + 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => refs = now,
            }
        }
        false
    }

    /// The same without looking: wrong for a lookup, as the models show.
    pub fn get_blindly(&self) {
        self.refs.fetch_add(1, Ordering::Relaxed);
    }

    /// Lets go; the last holder frees the frame. True if this was it.
    pub fn put(&self) -> bool {
        // Release: this holder's writes to the frame happen before its free; acquire below is the other half.
        if self.refs.fetch_sub(1, Ordering::Release) != 1 {
            return false;
        }
        fence(Ordering::Acquire);
        // SAFETY: the frame was taken over in `new`, and its last holder has let go.
        let freed = unsafe { self.allocator.free(self.pfn, Order::ZERO) };
        assert!(freed.is_ok(), "the frame was freed twice: {freed:?}");
        true
    }
}
