//! The head of a stack of batches.

use pageblock_frame::sync::{AtomicU64, Ordering};

use super::batch::Batch;

/// No batch.
pub(crate) const NONE: u16 = u16::MAX;

/// | bits | meaning |
/// |---|---|
/// | 0 to 15 | the batch on top, or [`NONE`] |
/// | 16 to 31 | batches on the stack |
/// | 32 to 63 | changes, modulo 2^32 |
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Head(AtomicU64);

#[inline]
const fn top(word: u64) -> u16 {
    word as u16
}

#[inline]
const fn depth(word: u64) -> u16 {
    (word >> 16) as u16
}

/// The word after `before`.
#[inline]
const fn next(before: u64, top: u16, depth: u16) -> u64 {
    ((before >> 32) + 1) << 32 | (depth as u64) << 16 | top as u64
}

impl Head {
    pageblock_frame::const_unless_model! {
        /// Of an empty stack.
        pub(crate) const fn new() -> Self {
            Self(AtomicU64::new(NONE as u64))
        }
    }

    #[cfg(not(loom))]
    #[inline]
    fn look(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// The model checker remembers one access an object. A load right before the exchange would hide the loads of other
    /// CPUs from it, and it would not try the case in which the exchange comes first.
    #[cfg(loom)]
    fn look(&self) -> u64 {
        self.0.fetch_or(0, Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn depth(&self) -> u16 {
        depth(self.look())
    }

    /// Puts a batch, which is the caller's, on top. False, with nothing changed, if there are `limit` already.
    pub(super) fn push(&self, batches: &[Batch], index: u16, limit: u16) -> bool {
        let Some(batch) = batches.get(usize::from(index)) else { return false };
        let mut seen = self.look();
        loop {
            if depth(seen) >= limit {
                return false;
            }
            batch.next.store(top(seen), Ordering::Relaxed);
            let new = next(seen, index, depth(seen) + 1);
            // Release: the CPU that pops the batch sees its frames and `next`. Pops between are read-modify-writes and
            // go on with the release sequence.
            match self.0.compare_exchange(seen, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
    }

    /// Takes the batch on top, which is the caller's then.
    pub(super) fn pop(&self, batches: &[Batch]) -> Option<u16> {
        // Acquire, here and where the exchange fails: changes to the top by the CPU that pushed it are seen, `next`
        // above all. If the exchange succeeds, `next` is still the batch below: the tag says that nothing was pushed or
        // popped since.
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            let index = top(seen);
            let below = batches.get(usize::from(index))?.next.load(Ordering::Relaxed);
            let new = next(seen, below, depth(seen).wrapping_sub(1));
            match self.0.compare_exchange(seen, new, Ordering::Relaxed, Ordering::Acquire) {
                Ok(_) => return Some(index),
                Err(now) => seen = now,
            }
        }
    }
}
