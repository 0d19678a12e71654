//! Blocks between the zone and the caller, which go back if a hook unwinds meanwhile.

use core::marker::PhantomData;
use core::mem::ManuallyDrop;

use pageblock_frame::{Order, Platform, StateByte};

use crate::zone::{Place, Zone};

/// A block that has been taken and marked.
pub(crate) struct Taken<'z, 'm, P: Platform> {
    zone: &'z Zone<'m>,
    index: u32,
    order: u32,
    platform: PhantomData<P>,
}

impl<'z, 'm, P: Platform> Taken<'z, 'm, P> {
    pub(crate) const fn new(zone: &'z Zone<'m>, index: u32, order: u32) -> Self {
        Self { zone, index, order, platform: PhantomData }
    }

    /// The block is the caller's.
    pub(crate) fn handed_out(self) -> u32 {
        ManuallyDrop::new(self).index
    }
}

impl<P: Platform> Drop for Taken<'_, '_, P> {
    fn drop(&mut self) {
        if let Some(Place { mut region, index }) = self.zone.lock_at::<P>(self.index) {
            region.states.set(index, StateByte::INSIDE);
            region.give(index, self.order);
            self.zone.publish(&mut region);
        }
    }
}

/// Blocks of one order that have been taken, and marked as listed.
pub(crate) struct TakenMany<'z, 'm, 'o, P: Platform> {
    zone: &'z Zone<'m>,
    order: Order,
    pub(crate) out: &'o mut [u32],
    pub(crate) got: usize,
    platform: PhantomData<P>,
}

impl<'z, 'm, 'o, P: Platform> TakenMany<'z, 'm, 'o, P> {
    pub(crate) const fn new(zone: &'z Zone<'m>, order: Order, out: &'o mut [u32]) -> Self {
        Self { zone, order, out, got: 0, platform: PhantomData }
    }

    /// The blocks are the caller's.
    pub(crate) fn handed_out(self) -> usize {
        ManuallyDrop::new(self).got
    }
}

impl<P: Platform> Drop for TakenMany<'_, '_, '_, P> {
    fn drop(&mut self) {
        // SAFETY: they were listed for this call alone.
        #[expect(unsafe_code, reason = "the zone's own blocks")]
        unsafe {
            self.zone.free_bulk::<P>(self.order, self.out.get(..self.got).unwrap_or_default());
        }
    }
}
