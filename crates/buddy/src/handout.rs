//! Handing out blocks and taking them back: the way in for single requests.
//!
//! Single frames and whole pageblocks, which are most requests, are served without a call; orders 1 to 3 by a function each,
//! since a constant order saves a third of the instructions; the rest by one for all.

use pageblock_frame::sync::{IrqGuard, Ordering};
use pageblock_frame::trace::Event;
use pageblock_frame::{AllocFlags, FrameState, MigrateType, Order, PAGEBLOCK_ORDER, Pfn, Platform, StateByte};

use crate::core::ZoneCore;
use crate::error::FreeError;
use crate::fallback::Taken;
use crate::zone::Zone;

/// The order with this number, for constants.
const fn order_of(order: u32) -> Order {
    Order::saturating(order as u8)
}

impl<'m> Zone<'m> {
    /// Hands out a block, or `None` if no pageblock that the rules allow can serve it. Watermarks are the caller's business.
    /// Mirrors `rmqueue()`.
    #[inline(always)]
    pub fn alloc<P: Platform>(&self, order: Order, migrate_type: MigrateType, flags: AllocFlags) -> Option<Pfn> {
        match order.as_u8() {
            0 => self.alloc_by::<P>(ZoneCore::take_small::<0>, (Order::ZERO, migrate_type), flags),
            1 => self.alloc_small::<P, 1>(migrate_type, flags),
            2 => self.alloc_small::<P, 2>(migrate_type, flags),
            3 => self.alloc_small::<P, 3>(migrate_type, flags),
            9 => self.alloc_by::<P>(ZoneCore::take_whole, (PAGEBLOCK_ORDER, migrate_type), flags),
            _ => self.alloc_any::<P>(order, migrate_type, flags),
        }
    }

    #[inline(never)]
    fn alloc_small<P: Platform, const ORDER: u32>(&self, migrate_type: MigrateType, flags: AllocFlags) -> Option<Pfn> {
        self.alloc_by::<P>(ZoneCore::take_small::<ORDER>, (order_of(ORDER), migrate_type), flags)
    }

    #[inline(never)]
    fn alloc_any<P: Platform>(&self, order: Order, migrate_type: MigrateType, flags: AllocFlags) -> Option<Pfn> {
        if order > self.max_order() {
            return None;
        }
        let take = |core: &mut ZoneCore<'m>, migrate_type| core.take(u32::from(order.as_u8()), migrate_type);
        self.alloc_by::<P>(take, (order, migrate_type), flags)
    }

    /// Hands out a block by a short path, or by all the rules where that does not lead to one.
    #[inline(always)]
    fn alloc_by<P: Platform>(
        &self,
        take: impl FnOnce(&mut ZoneCore<'m>, MigrateType) -> Option<u32>,
        (order, migrate_type): (Order, MigrateType),
        flags: AllocFlags,
    ) -> Option<Pfn> {
        let mut core = self.lock::<P>();
        // Nothing is reserved or CMA unless some pageblock ever was: then the request's own type comes first.
        let plain = !core.has_unusable && migrate_type.is_ordinary();
        let Some(index) = (if plain { take(&mut core, migrate_type) } else { None }) else {
            return self.alloc_by_rules(core, order, migrate_type, flags);
        };
        self.states().set(index, StateByte::allocated(order, migrate_type));
        self.publish_free(&core);
        Some(self.pfn_of(index))
    }

    #[cold]
    #[inline(never)]
    fn alloc_by_rules<P: Platform>(
        &self,
        mut core: IrqGuard<'_, ZoneCore<'m>, P>,
        order: Order,
        migrate_type: MigrateType,
        flags: AllocFlags,
    ) -> Option<Pfn> {
        if migrate_type == MigrateType::Isolate {
            return None;
        }
        let Taken { index, fallback } = core.take_by_rules(u32::from(order.as_u8()), migrate_type, flags)?;
        self.states().set(index, StateByte::allocated(order, migrate_type));
        self.publish(&core);
        drop(core);
        if let Some(fallback) = fallback {
            P::trace(&Event::Fallback(fallback));
        }
        Some(self.pfn_of(index))
    }

    /// Takes back a block with exactly the order with which it was handed out (or into which it was split).
    ///
    /// # Errors
    /// [`FreeError`] says what the frame is instead; nothing has changed.
    #[inline(always)]
    pub fn free<P: Platform>(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        match order.as_u8() {
            0 => self.free_by::<P>(|core, index| core.give_small(index, 0), pfn, Order::ZERO),
            1 => self.free_small::<P, 1>(pfn),
            2 => self.free_small::<P, 2>(pfn),
            3 => self.free_small::<P, 3>(pfn),
            9 => self.free_by::<P>(ZoneCore::give_whole, pfn, PAGEBLOCK_ORDER),
            _ => self.free_any::<P>(pfn, order),
        }
    }

    #[inline(never)]
    fn free_small<P: Platform, const ORDER: u32>(&self, pfn: Pfn) -> Result<(), FreeError> {
        self.free_by::<P>(|core, index| core.give_small(index, ORDER), pfn, order_of(ORDER))
    }

    #[inline(never)]
    fn free_any<P: Platform>(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let give = |core: &mut ZoneCore<'m>, index| core.give(index, u32::from(order.as_u8()));
        self.free_by::<P>(give, pfn, order)
    }

    #[inline(always)]
    fn free_by<P: Platform>(
        &self,
        give: impl FnOnce(&mut ZoneCore<'m>, u32),
        pfn: Pfn,
        order: Order,
    ) -> Result<(), FreeError> {
        let index = pfn.as_u64().wrapping_sub(self.base().as_u64());
        let Some(byte) = self.states().byte_at(index) else { return Err(FreeError::OutOfRange) };
        let mut core = self.lock::<P>();
        // Relaxed: written before under this lock, or by the holder who is now calling.
        let state = StateByte::from_raw(byte.load(Ordering::Relaxed));
        if state.without_type() != StateByte::allocated(order, MigrateType::Unmovable).raw() {
            return Err(self.wrong_free(index as u32));
        }
        byte.store(StateByte::INSIDE.raw(), Ordering::Relaxed);
        give(&mut core, index as u32);
        self.publish(&core);
        Ok(())
    }

    /// Says why the frame does not head a block of the expected order.
    #[cold]
    #[must_use]
    pub fn wrong_free(&self, index: u32) -> FreeError {
        if !self.span().contains(self.pfn_of(index)) {
            return FreeError::OutOfRange;
        }
        match self.states().get(index).decode() {
            FrameState::Allocated(allocated, _) => FreeError::OrderMismatch { allocated },
            FrameState::Listed(..) => FreeError::OnList,
            FrameState::Isolated(_) => FreeError::Isolated,
            FrameState::Reserved | FrameState::Hole => FreeError::Reserved,
            FrameState::Inside => match self.states().head_of(index) {
                Some((head, state)) if state.is_allocated() => FreeError::NotHead { head: self.pfn_of(head) },
                Some((_, state)) if state.is_listed() => FreeError::OnList,
                Some(_) => FreeError::Isolated,
                None => FreeError::NotAllocated,
            },
        }
    }
}
