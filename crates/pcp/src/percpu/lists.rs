//! One CPU's lists, for the code that may work in its area.

use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use pageblock_frame::sync::{AtomicU8, Ordering};

use super::{Area, Frames, Signals, stacks};

/// The lists of an area. A [`LocalGuard`](super::LocalGuard) or [`OfflineGuard`](super::guard::OfflineGuard) keeps
/// others out.
pub(crate) struct CpuLists<'a> {
    // A raw pointer, because the slots lie behind its target; it also keeps the value on its thread.
    area: NonNull<Area>,
    frames: NonNull<Frames>,
    // The first of the state bytes: known before the area is, where a word leads to it.
    states: NonNull<AtomicU8>,
    lifetime: PhantomData<&'a ()>,
}

impl fmt::Debug for CpuLists<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CpuLists").finish_non_exhaustive()
    }
}

impl<'a> CpuLists<'a> {
    /// # Safety
    /// The area and `frames` are of one store, live for `'a`, and `states` are those of `frames`.
    #[inline(always)]
    pub(super) const unsafe fn new(area: NonNull<Area>, frames: NonNull<Frames>, states: NonNull<AtomicU8>) -> Self {
        Self { area, frames, states, lifetime: PhantomData }
    }

    #[inline(always)]
    pub(super) fn area_ptr(&self) -> NonNull<Area> {
        self.area
    }

    #[inline(always)]
    pub(super) fn area(&self) -> &'a Area {
        // SAFETY: it lives for 'a, by `new`; its changing parts are in cells.
        unsafe { self.area.as_ref() }
    }

    #[inline(always)]
    pub(super) fn states(&self) -> NonNull<AtomicU8> {
        self.states
    }

    #[inline(always)]
    fn frames(&self) -> &'a Frames {
        // SAFETY: they live for 'a, by `new`, and never change.
        unsafe { self.frames.as_ref() }
    }

    #[inline(always)]
    pub(super) fn common(&self) -> &'a stacks::Common {
        // SAFETY: as `frames`: their store keeps both.
        unsafe { self.frames().common.as_ref() }
    }

    /// The state byte of a frame.
    ///
    /// # Safety
    /// The table has that frame.
    #[inline(always)]
    unsafe fn state(&self, index: usize) -> &'a AtomicU8 {
        // SAFETY: in the table by the caller's promise; the table outlives the areas, since their store borrows it.
        unsafe { self.states.add(index).as_ref() }
    }

    /// Number of the zone's first frame.
    #[inline(always)]
    pub(crate) fn origin(&self) -> u64 {
        self.frames().origin
    }

    /// The state byte of a frame, or `None` if the zone has no such frame **or a signal waits for an answer**.
    #[inline(always)]
    pub(crate) fn frame(&self, index: u64) -> Option<&'a AtomicU8> {
        // Relaxed: a signal that comes now is answered by the next operation.
        if index < u64::from(self.area().visible_frames.load(Ordering::Relaxed)) {
            // SAFETY: `visible_frames` is 0 or so many frames from the first on as have been opened.
            return Some(unsafe { self.state(index as usize) });
        }
        None
    }

    /// The state byte of a block's head that is on a list, signal or not; `None` if the zone has no such frame.
    #[inline]
    pub(crate) fn frame_always(&self, index: u64) -> Option<&'a AtomicU8> {
        // SAFETY: below the length of the state table, and a block of a list, so that its pageblock has been opened.
        (index < u64::from(self.common().frames)).then(|| unsafe { self.state(index as usize) })
    }

    /// Makes the first `frames` frames, with readable state bytes, visible unless a signal waits.
    #[inline]
    pub(crate) fn show(&self, frames: u32) {
        // Relaxed: a signal that comes now is seen by the answer.
        let visible = self.area().visible_frames.load(Ordering::Relaxed);
        if visible != 0 && visible < frames {
            self.answer(Signals::NONE, frames);
        }
    }

    /// Answers signals, which have been carried out before this call, and makes the first `frames` frames visible,
    /// with readable state bytes. Returns those that were set.
    pub(crate) fn answer(&self, done: Signals, frames: u32) -> Signals {
        self.area().answer(done, frames.min(self.common().frames))
    }
}
