//! What the one who may work in an area sees of it: the frames that may be touched, and the signals.

use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use super::super::{AtomicU8, Ordering, spin_hint};
use super::gate::Key;
#[cfg(loom)]
use super::model::Frames;
#[cfg(not(loom))]
use super::real::Frames;
use super::{Area, SIGNAL_OFFLINE, SIGNAL_TAKEN};

/// An area, seen by the one who may work in it.
pub struct View<'a, T> {
    // A raw pointer, because the slots lie behind what it points to; it also keeps the view on its thread.
    pub(super) area: NonNull<Area<T>>,
    // What the store of the area keeps for all of them.
    pub(super) frames: NonNull<Frames>,
    // The first of the state bytes, as many as the area's `frames`.
    pub(super) states: NonNull<AtomicU8>,
    pub(super) lifetime: PhantomData<&'a ()>,
}

impl<T> fmt::Debug for View<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").finish_non_exhaustive()
    }
}

impl<'a, T> View<'a, T> {
    #[inline(always)]
    pub(super) const fn new(area: NonNull<Area<T>>, frames: NonNull<Frames>, states: NonNull<AtomicU8>) -> Self {
        Self { area, frames, states, lifetime: PhantomData }
    }

    #[inline(always)]
    pub(super) fn area(&self) -> &'a Area<T> {
        // SAFETY: the store made the pointer to an area that lives for 'a; what changes in it is in cells.
        unsafe { self.area.as_ref() }
    }

    #[inline(always)]
    pub(super) fn frames(&self) -> &'a Frames {
        // SAFETY: the store keeps them as long as the area, and they never change.
        unsafe { self.frames.as_ref() }
    }

    /// The state byte of a frame.
    ///
    /// # Safety
    /// The table has that frame.
    #[inline(always)]
    unsafe fn state(&self, index: usize) -> &'a AtomicU8 {
        // SAFETY: in the table by the caller's promise; the table outlives the areas, whose store borrows it.
        unsafe { self.states.add(index).as_ref() }
    }

    /// Number of the frame with index 0.
    #[must_use]
    #[inline(always)]
    pub fn origin(&self) -> u64 {
        self.frames().origin
    }

    /// The state byte of a frame, or `None` if the table has no such frame **or a signal waits to be answered**.
    #[inline(always)]
    pub fn frame(&self, index: u64) -> Option<&'a AtomicU8> {
        // Relaxed: a signal that comes now is answered by the next operation.
        if index < u64::from(self.area().open.load(Ordering::Relaxed)) {
            // SAFETY: `open` is 0 or the length of the state table.
            return Some(unsafe { self.state(index as usize) });
        }
        None
    }

    /// The state byte of a frame, signal or not; `None` if the table has no such frame.
    #[inline]
    pub fn frame_always(&self, index: u64) -> Option<&'a AtomicU8> {
        // SAFETY: below the length of the state table.
        (index < u64::from(self.area().frames)).then(|| unsafe { self.state(index as usize) })
    }

    /// Answers: reopens the area, unless signals other than `done` are set, and clears `done`. Returns what was set.
    ///
    /// What `done` asked for has been done before this call.
    pub fn answer(&self, done: u32) -> u32 {
        let area = self.area();
        // The order matters. A signal that is set after the next line's read-modify-write synchronises with it, so its
        // `open = 0` comes after our store and stays; one that is set before is seen in what it returns.
        area.open.store(area.frames, Ordering::Relaxed);
        let seen = area.signals.fetch_and(!done, Ordering::AcqRel);
        if seen & !done != 0 {
            area.open.store(0, Ordering::Relaxed);
        }
        seen
    }

    /// Shuts the area as a signal would: the owner's own operations all take their slow way.
    pub fn close(&self) {
        self.area().open.store(0, Ordering::Relaxed);
    }

    pub(super) fn come_online(&self, key: Key) -> bool {
        let area = self.area();
        let mut seen = area.signals.load(Ordering::Relaxed);
        loop {
            if seen & SIGNAL_OFFLINE == 0 {
                return false;
            }
            if seen & SIGNAL_TAKEN != 0 {
                spin_hint();
                seen = area.signals.load(Ordering::Relaxed);
                continue;
            }
            // Acquire: what takers did to the area happened before.
            match area.signals.compare_exchange(seen, seen & !SIGNAL_OFFLINE, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
        area.gate.leave(key);
        true
    }
}
