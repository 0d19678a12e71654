//! Allocation and free of single blocks.
//!
//! A search asks the zone's [`Summary`](crate::summary::Summary) for the region with the most fragmented pageblock that
//! still serves, locks it, and takes the block there. Where another CPU was faster, it searches again.

use pageblock_frame::sync::Ordering;
use pageblock_frame::{AllocFlags, FrameState, MigrateType, Order, Pfn, Platform, StateByte};

use crate::error::FreeError;
use crate::free_area::FreeAreaId;
use crate::ones::Ones;
use crate::region::{BLOCK_SHIFT, Region};
use crate::zone::{Place, Zone};

impl<'m> Zone<'m> {
    /// Hands out a block, or `None` if no pageblock that the rules allow can serve it. Watermarks are the caller's
    /// business. Mirrors `rmqueue()`.
    #[inline(never)]
    pub fn alloc<P: Platform>(&self, order: Order, migrate_type: MigrateType, flags: AllocFlags) -> Option<Pfn> {
        if order > self.max_order() || migrate_type == MigrateType::Isolate {
            return None;
        }
        let o = u32::from(order.as_u8());
        // Only these may take from the reserve and from CMA first.
        let plain = !flags.intersects(AllocFlags::HIGHATOMIC | AllocFlags::CMA) && migrate_type.is_ordinary();
        let mark = StateByte::allocated(order, migrate_type);
        let taken = if plain { self.take::<P>(o, migrate_type, mark) } else { None };
        match taken {
            Some(index) => Some(self.pfn_of(index)),
            None => self.alloc_by_rules::<P>(order, migrate_type, flags),
        }
    }

    /// Takes a block of `order` from pageblocks of exactly this type (`__rmqueue_smallest()`), and marks its head.
    pub(crate) fn take<P: Platform>(&self, order: u32, migrate_type: MigrateType, mark: StateByte) -> Option<u32> {
        if order > BLOCK_SHIFT {
            let regions = Ones(self.summary.regions(FreeAreaId::whole(migrate_type)));
            return regions.into_iter().find_map(|region| self.take_in::<P>(region, order, migrate_type, mark));
        }
        loop {
            let region = self.search::<P>(order, migrate_type)?;
            let taken = self.take_in::<P>(region, order, migrate_type, mark);
            if taken.is_some() {
                return taken;
            }
        }
    }

    /// The same from one region, if it has one.
    fn take_in<P: Platform>(&self, number: u32, order: u32, migrate_type: MigrateType, mark: StateByte) -> Option<u32> {
        let mut region = self.lock::<P>(number)?;
        let taken = region.take(order, migrate_type);
        if let Some(index) = taken {
            region.states.set(index, mark);
        }
        self.publish(&mut region);
        taken.map(|index| region.offset + index)
    }

    /// The region with the most fragmented pageblock of a type that serves an order up to 9.
    #[inline]
    pub(crate) fn search<P: Platform>(&self, order: u32, migrate_type: MigrateType) -> Option<u32> {
        match self.summary.most_fragmented(migrate_type, order) {
            Some(found) => Some(found.region),
            None => self.search_whole::<P>(order, migrate_type),
        }
    }

    #[inline(never)]
    fn search_whole<P: Platform>(&self, order: u32, migrate_type: MigrateType) -> Option<u32> {
        loop {
            let moves = self.summary.moves();
            if let Some(found) = self.summary.most_fragmented(migrate_type, order) {
                return Some(found.region);
            }
            let whole = self.summary.regions(FreeAreaId::whole(migrate_type));
            if whole != 0 {
                return Some(whole.trailing_zeros());
            }
            let revoked = order < BLOCK_SHIFT && self.revoke::<P>(migrate_type, order);
            if !revoked && self.summary.moves() == moves {
                return None;
            }
        }
    }

    /// True if a pageblock of the type serves the order.
    pub(crate) fn can_serve(&self, migrate_type: MigrateType, order: Order) -> bool {
        let o = u32::from(order.as_u8());
        if o < BLOCK_SHIFT && self.summary.most_fragmented(migrate_type, o).is_some() {
            return true;
        }
        let regions = self.summary.regions(FreeAreaId::whole(migrate_type));
        if o > BLOCK_SHIFT {
            return self.in_some(regions, |region| region.find_run(migrate_type, o).is_some());
        }
        if regions != 0 {
            return true;
        }
        // Pageblocks reserved by CPUs are not wholly free; other types have no such pageblocks.
        if o == BLOCK_SHIFT || !migrate_type.is_ordinary() {
            return false;
        }
        let reserved = self.summary.regions(FreeAreaId::reserved(migrate_type));
        self.in_some(reserved, |region| region.reserved_serves(migrate_type, o))
    }

    /// True if a test holds in one of these regions.
    fn in_some(&self, regions: u64, mut test: impl FnMut(&mut Region<'m>) -> bool) -> bool {
        Ones(regions).any(|region| self.locked(region, &mut test).unwrap_or(false))
    }

    /// Takes back a block with exactly the order with which it was handed out (or into which it was split).
    ///
    /// # Errors
    /// [`FreeError`] names the frame's state instead; nothing has changed.
    ///
    /// # Safety
    /// 1. If the block is allocated, the caller holds it: it was handed out to the caller, and has not been given back.
    /// 2. Nothing uses its frames any more.
    #[expect(unsafe_code, reason = "the caller's word that it holds the block")]
    #[inline(never)]
    pub unsafe fn free<P: Platform>(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let Place { mut region, index } = self.claim_for_free::<P>(pfn, order)?;
        region.give(index, u32::from(order.as_u8()));
        self.publish(&mut region);
        Ok(())
    }

    /// Checks that the frame heads a block of the order that a caller holds, and makes it the zone's.
    #[inline]
    fn claim_for_free<P: Platform>(&self, pfn: Pfn, order: Order) -> Result<Place<'_, 'm, P>, FreeError> {
        let index = pfn.as_u64().wrapping_sub(self.base().as_u64());
        let Some(byte) = self.states.byte_at(index) else {
            let index = u32::try_from(index).map_err(|_| FreeError::OutOfRange)?;
            return Err(self.wrong_free(index));
        };
        let place = self.lock_at::<P>(index as u32).ok_or(FreeError::OutOfRange)?;
        // Relaxed: written before under this lock, or by the holder that is now calling.
        let state = StateByte::from_raw(byte.load(Ordering::Relaxed));
        let mut held = state.without_type() == StateByte::allocated(order, MigrateType::Unmovable).raw();
        if P::HARDENED && held {
            // A free of the same block to a per-CPU list takes no lock: of the two exactly one wins.
            let inside = StateByte::INSIDE.raw();
            held = byte.compare_exchange(state.raw(), inside, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        } else if held {
            byte.store(StateByte::INSIDE.raw(), Ordering::Relaxed);
        }
        if held { Ok(place) } else { Err(self.wrong_free(index as u32)) }
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
