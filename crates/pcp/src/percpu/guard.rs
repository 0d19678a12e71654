//! The two ways to work in an area: as its CPU's own code, and in the place of a CPU that is offline.

use core::marker::PhantomData;

use pageblock_frame::Platform;
use pageblock_frame::sync::{Ordering, compiler_fence};

use super::busy::StoreTag;
use super::{Area, CpuLists};

/// A CPU's own code, in its area. Leaves when dropped.
///
/// Tests hold one to be an operation that an interrupt comes on top of ([`PcpLists::enter`](crate::PcpLists::enter)).
#[derive(Debug)]
pub struct LocalGuard<'a, P: Platform> {
    lists: CpuLists<'a>,
    platform: PhantomData<fn() -> P>,
}

impl<'a, P: Platform> LocalGuard<'a, P> {
    /// The caller is pinned and has just set the busy flag.
    #[inline(always)]
    pub(super) fn new(lists: CpuLists<'a>) -> Self {
        // An interrupt must find the mark before anything that it protects has changed.
        compiler_fence(Ordering::SeqCst);
        Self { lists, platform: PhantomData }
    }

    /// The lists, for fast operations.
    #[inline(always)]
    pub(crate) fn lists(&self) -> &CpuLists<'a> {
        &self.lists
    }

    /// The lists, for slow operations.
    pub(crate) fn lists_mut(&mut self) -> &mut CpuLists<'a> {
        &mut self.lists
    }

    /// Its area, which it does not leave.
    pub(super) fn stay(self) -> core::ptr::NonNull<Area> {
        let area = self.lists.area_ptr();
        core::mem::forget(self);
        area
    }

    /// Leaves for good: until [`Areas::come_online`](super::Areas::come_online) the area is an
    /// [`OfflineGuard`]'s, and [`Areas::enter`](super::Areas::enter) fails on this CPU.
    pub(crate) fn go_offline(self) {
        // The busy flag stays set.
        self.lists.area().set_offline();
        core::mem::forget(self);
        // SAFETY: ends the `pin` of this guard's entry, once.
        unsafe { P::unpin() };
    }
}

impl<P: Platform> Drop for LocalGuard<'_, P> {
    #[inline(always)]
    fn drop(&mut self) {
        // All that the mark protects is done before an interrupt finds it gone.
        compiler_fence(Ordering::SeqCst);
        self.lists.area().busy.clear(StoreTag::of::<P>(self.lists.states()));
        // SAFETY: ends the `pin` of this guard's entry, once.
        unsafe { P::unpin() };
    }
}

/// Another CPU's code, in the area of a CPU that is offline. Leaves when dropped.
#[derive(Debug)]
pub(crate) struct OfflineGuard<'a>(CpuLists<'a>);

impl<'a> OfflineGuard<'a> {
    /// The caller has just taken the area.
    pub(super) fn new(lists: CpuLists<'a>) -> Self {
        Self(lists)
    }

    pub(crate) fn lists_mut(&mut self) -> &mut CpuLists<'a> {
        &mut self.0
    }
}

impl Drop for OfflineGuard<'_> {
    fn drop(&mut self) {
        self.0.area().give_up();
    }
}
