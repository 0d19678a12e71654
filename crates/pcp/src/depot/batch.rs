//! One batch: the blocks, and the batch below it on its stack.

#[cfg(not(loom))]
use core::cell::UnsafeCell;

#[cfg(loom)]
use loom::cell::UnsafeCell;
use pageblock_frame::sync::AtomicU16;

use super::{BATCH, NONE};

#[derive(Debug)]
#[repr(C)]
pub(super) struct Batch {
    frames: UnsafeCell<[u32; BATCH]>,
    /// The batch below, while this one is on a stack. Written by the CPU that pushes it, before it does.
    pub(super) next: AtomicU16,
}

// SAFETY: `frames` are touched by the CPU alone that has popped the batch off a stack; the stack's ordering hands them
// from CPU to CPU.
unsafe impl Sync for Batch {}

impl Batch {
    pub(super) fn new() -> Self {
        Self { frames: UnsafeCell::new([0; BATCH]), next: AtomicU16::new(NONE) }
    }

    /// # Safety
    /// The batch is the caller's: popped, and not pushed again.
    #[cfg(not(loom))]
    pub(super) unsafe fn write(&self, blocks: &[u32]) {
        let count = blocks.len().min(BATCH);
        // SAFETY: 1. by the caller's promise nothing else touches the frames, and `blocks` are not they. 2. Both have
        // `count` numbers.
        unsafe { self.frames.get().cast::<u32>().copy_from_nonoverlapping(blocks.as_ptr(), count) };
    }

    /// Shows the first `count` frames.
    ///
    /// # Safety
    /// As [`write`](Self::write).
    #[cfg(not(loom))]
    #[inline]
    pub(super) unsafe fn read<R>(&self, count: usize, look: impl FnOnce(&[u32]) -> R) -> R {
        // SAFETY: by the caller's promise nothing else touches the frames.
        let frames = unsafe { &*self.frames.get() };
        look(frames.get(..count).unwrap_or_default())
    }

    /// # Safety
    /// As in the real body; the model reports any other access.
    #[cfg(loom)]
    pub(super) unsafe fn write(&self, blocks: &[u32]) {
        // SAFETY: the pointer is valid inside `with_mut`.
        self.frames
            .with_mut(|frames| blocks.iter().enumerate().for_each(|(i, block)| unsafe { (*frames)[i] = *block }));
    }

    /// # Safety
    /// As in the real body; the model reports any other access.
    #[cfg(loom)]
    pub(super) unsafe fn read<R>(&self, count: usize, look: impl FnOnce(&[u32]) -> R) -> R {
        // SAFETY: the pointer is valid inside `with`.
        let frames = self.frames.with(|frames| unsafe { *frames });
        look(&frames[..count])
    }
}
