//! Handing out blocks and taking them back: the way in for single requests.

use pageblock_frame::sync::{IrqGuard, Ordering};
use pageblock_frame::trace::Event;
use pageblock_frame::{AllocFlags, FrameState, Hooks, MigrateType, Order, Pfn, Platform, StateByte};

use crate::core::ZoneCore;
use crate::error::FreeError;
use crate::fallback::Taken;
use crate::zone::Zone;

impl<'m> Zone<'m> {
    /// Hands out a block, or `None` if no pageblock that the rules allow can serve it. Watermarks are the caller's business.
    /// Mirrors `rmqueue()`.
    #[inline(never)]
    pub fn alloc<P: Platform>(&self, order: Order, migrate_type: MigrateType, flags: AllocFlags) -> Option<Pfn> {
        if order > self.max_order() {
            return None;
        }
        let mut core = self.lock::<P>();
        // Nothing is reserved or CMA unless some pageblock ever was: then the request's own type comes first.
        let plain = !core.has_unusable && migrate_type.is_ordinary();
        let taken = if plain { core.take(u32::from(order.as_u8()), migrate_type) } else { None };
        let Some(index) = taken else { return self.alloc_by_rules(core, order, migrate_type, flags) };
        self.hand_out(&core, index, StateByte::allocated(order, migrate_type))
    }

    #[inline(always)]
    fn hand_out(&self, core: &ZoneCore<'_>, index: u32, state: StateByte) -> Option<Pfn> {
        self.states().set(index, state);
        self.publish_free(core);
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
        let taken = core.take_by_rules(u32::from(order.as_u8()), migrate_type, flags);
        if core::mem::take(&mut core.mixed) {
            self.boost_for_mixing(&mut core);
        }
        if core::mem::take(&mut core.short) {
            self.note_short();
        }
        let Taken { index, fallback } = taken?;
        if let Some(fallback) = &fallback {
            core.events.note(fallback);
        }
        self.states().set(index, StateByte::allocated(order, migrate_type));
        self.publish(&core);
        drop(core);
        if let Some(fallback) = fallback {
            P::hooks().trace(&Event::Fallback(fallback));
        }
        Some(self.pfn_of(index))
    }

    /// Takes back a block with exactly the order with which it was handed out (or into which it was split).
    ///
    /// # Errors
    /// [`FreeError`] says what the frame is instead; nothing has changed.
    #[inline(never)]
    pub fn free<P: Platform>(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let (mut core, index) = self.take_back::<P>(pfn, order)?;
        core.give(index, u32::from(order.as_u8()));
        self.publish(&core);
        Ok(())
    }

    /// Checks that the frame heads a block of the order that a caller holds, and makes it the zone's.
    #[inline(always)]
    fn take_back<P: Platform>(
        &self,
        pfn: Pfn,
        order: Order,
    ) -> Result<(IrqGuard<'_, ZoneCore<'m>, P>, u32), FreeError> {
        let index = pfn.as_u64().wrapping_sub(self.base().as_u64());
        let Some(byte) = self.states().byte_at(index) else { return Err(FreeError::OutOfRange) };
        let core = self.lock::<P>();
        // Relaxed: written before under this lock, or by the holder who is now calling.
        let state = StateByte::from_raw(byte.load(Ordering::Relaxed));
        if state.without_type() != StateByte::allocated(order, MigrateType::Unmovable).raw() {
            return Err(self.wrong_free(index as u32));
        }
        byte.store(StateByte::INSIDE.raw(), Ordering::Relaxed);
        Ok((core, index as u32))
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
