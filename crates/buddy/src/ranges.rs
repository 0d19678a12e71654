//! Ranges of frames: blocks at a given place, splitting a caller's block, giving parts back, exact counts.

use pageblock_frame::{AllocFlags, MigrateType, Order, Pfn, PfnRange, Platform, StateByte};

use crate::error::{AllocAtError, FreeError, SplitError};
use crate::region::BLOCK_SHIFT;
use crate::span::aligned_pieces;
use crate::zone::{Place, Zone};

impl Zone<'_> {
    /// Hands out the block at a given place.
    ///
    /// # Errors
    /// [`AllocAtError`]; nothing has changed.
    pub fn alloc_at<P: Platform>(&self, pfn: Pfn, order: Order) -> Result<(), AllocAtError> {
        if !pfn.is_aligned(order) || order > self.max_order() {
            return Err(AllocAtError::Misaligned);
        }
        let last = pfn.add(order.frames() - 1);
        let (Some(index), Some(_)) = (self.index_of(pfn), self.index_of(last)) else {
            return Err(AllocAtError::OutOfRange);
        };
        let Place { mut region, index } = self.lock_at::<P>(index).ok_or(AllocAtError::OutOfRange)?;
        if !region.take_at(index, u32::from(order.as_u8())) {
            return Err(AllocAtError::Busy);
        }
        let migrate_type = region.blocks.get(index >> BLOCK_SHIFT).map_or(MigrateType::Movable, |b| b.migrate_type());
        region.states.set(index, StateByte::allocated(order, migrate_type));
        self.publish(&mut region);
        Ok(())
    }

    /// Splits a block that the caller holds into blocks of order `parts`, each of which is then freed on its own
    /// (`split_page()`, which always splits down to single frames).
    ///
    /// # Errors
    /// [`SplitError`]; nothing has changed.
    ///
    /// # Safety
    /// If the block is allocated, the caller holds it: it was handed out to the caller, and has not been given back.
    #[expect(unsafe_code, reason = "the caller's word that it holds the block")]
    pub unsafe fn split<P: Platform>(&self, pfn: Pfn, order: Order, parts: Order) -> Result<(), SplitError> {
        if parts >= order {
            return Err(SplitError::Order);
        }
        let index = self.index_of(pfn).ok_or(FreeError::OutOfRange)?;
        // The lock makes this exact against a wrong free of the same block on another CPU.
        let _place = self.lock_at::<P>(index).ok_or(FreeError::OutOfRange)?;
        let state = self.states.get(index);
        let part = state.with_order(parts);
        let held = state.without_type() == StateByte::allocated(order, MigrateType::Unmovable).raw();
        if !held || !self.states.replace::<P>(index, state, part) {
            return Err(self.wrong_free(index).into());
        }
        for at in (index..index + order.frames() as u32).step_by(parts.frames() as usize).skip(1) {
            self.states.set(at, part);
        }
        Ok(())
    }

    /// Gives back frames that the caller holds, in whatever blocks: whole ones, parts of one, several. The rest of
    /// a block that was not given back whole stays allocated, in the largest aligned blocks that it makes. Interrupts
    /// are off for one pageblock at a time.
    ///
    /// # Errors
    /// [`FreeError`] for the first frame that is not held; nothing has changed.
    ///
    /// # Safety
    /// 1. The caller holds the allocated ones of these frames: they were handed out to the caller, and have not been
    ///    given back.
    /// 2. Nothing uses them any more.
    #[expect(unsafe_code, reason = "the caller's word that it holds the frames")]
    pub unsafe fn free_range<P: Platform>(&self, range: PfnRange) -> Result<(), FreeError> {
        self.give_range::<P>(range)
    }

    /// [`free_range`](Self::free_range) of frames that this crate's caller holds.
    fn give_range<P: Platform>(&self, range: PfnRange) -> Result<(), FreeError> {
        if range.is_empty() {
            return Ok(());
        }
        let last = Pfn::new(range.end.as_u64() - 1);
        let (Some(start), Some(last)) = (self.index_of(range.start), self.index_of(last)) else {
            return Err(FreeError::OutOfRange);
        };
        let mut at = start;
        while at <= last {
            let claimed = self.held_at(at).filter(|held| self.claim::<P>(*held));
            let Some(held) = claimed else {
                let error = self.wrong_free(at);
                self.unclaim::<P>(start, at);
                return Err(error);
            };
            at = held.end;
        }
        let mut at = start;
        while at <= last
            && let Some(held) = self.claimed_at(at)
        {
            self.free_part::<P>(held, at, held.end.min(last + 1));
            at = held.end;
        }
        Ok(())
    }

    /// The allocated block that a frame is in.
    fn held_at(&self, index: u32) -> Option<HeldBlock> {
        let (head, state) = self.states.head_of(index).filter(|(_, state)| state.is_allocated())?;
        Some(HeldBlock { head, end: head + state.order().frames() as u32, state })
    }

    /// Makes an allocated block this call's. The holder calls, so that no state byte of its frames changes meanwhile;
    /// unless another CPU frees it too, which [`Platform::HARDENED`] promises to tell: then the block is listed, on no
    /// list, until its frames are given back, and any other free of it is refused.
    fn claim<P: Platform>(&self, held: HeldBlock) -> bool {
        !P::HARDENED || self.states.replace::<P>(held.head, held.state, held.state.listed_again())
    }

    /// The block that a frame is in, which this call has claimed.
    fn claimed_at(&self, index: u32) -> Option<HeldBlock> {
        let (head, state) = self.states.head_of(index)?;
        let state = if state.is_listed() { state.listed_again() } else { state };
        Some(HeldBlock { head, end: head + state.order().frames() as u32, state })
    }

    /// Ends the claims of the blocks from `start` to `end`.
    fn unclaim<P: Platform>(&self, start: u32, end: u32) {
        let mut at = start;
        while P::HARDENED
            && at < end
            && let Some(held) = self.claimed_at(at)
        {
            self.states.set(held.head, held.state);
            at = held.end;
        }
    }

    /// Gives back the frames `from..to` of a block, a pageblock at a time.
    fn free_part<P: Platform>(&self, held: HeldBlock, from: u32, to: u32) {
        self.states.set(held.head, StateByte::INSIDE);
        let HeldBlock { head, end, state } = held;
        for (piece, order) in aligned_pieces(head, from - head, u32::MAX).chain(aligned_pieces(to, end - to, u32::MAX))
        {
            self.states.set(piece, state.with_order(Order::saturating(order as u8)));
        }
        let mut at = from;
        while at < to {
            let next = ((at >> BLOCK_SHIFT) + 1) << BLOCK_SHIFT;
            let next = next.min(to);
            if let Some(Place { mut region, index }) = self.lock_at::<P>(at) {
                region.give_range(index, next - at);
                self.publish(&mut region);
            }
            at = next;
        }
    }

    /// Hands out exactly `frames` neighbouring frames, naturally aligned to the next power of two, and keeps the rest
    /// free (`alloc_pages_exact()`). They are held as the largest aligned blocks that they make;
    /// [`free_range`](Self::free_range) takes them back.
    pub fn alloc_exact<P: Platform>(
        &self,
        frames: u64,
        migrate_type: MigrateType,
        flags: AllocFlags,
    ) -> Option<PfnRange> {
        let order = Order::fitting(frames)?;
        let pfn = self.alloc::<P>(order, migrate_type, flags)?;
        let tail = PfnRange::new(pfn.add(frames), pfn.add(order.frames()));
        // The block is ours and the tail lies in it, so this cannot be refused.
        let _ = self.give_range::<P>(tail);
        Some(PfnRange::from_len(pfn, frames))
    }
}

/// A block that a caller holds, in zone-relative indices.
#[derive(Clone, Copy)]
struct HeldBlock {
    head: u32,
    end: u32,
    state: StateByte,
}
