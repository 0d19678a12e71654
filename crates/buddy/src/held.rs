//! Blocks that a caller holds: splitting them, giving parts back, exact counts, many at once.

use pageblock_frame::{AllocFlags, MigrateType, Order, Pfn, PfnRange, Platform, StateByte};

use crate::Zone;
use crate::bulk::{Effort, Given};
use crate::core::{BLOCK_SHIFT, ZoneCore};
use crate::edit::aligned_pieces;
use crate::error::{FreeError, IsolateError, SplitError, ZoneError};
use crate::refill::Refill;

impl Zone<'_> {
    /// Splits a block that the caller holds into blocks of order `parts`, each of which is then freed on its own
    /// (`split_page()`, which always splits down to single frames).
    ///
    /// # Errors
    /// [`SplitError`]; nothing has changed.
    pub fn split<P: Platform>(&self, pfn: Pfn, order: Order, parts: Order) -> Result<(), SplitError> {
        if parts >= order {
            return Err(SplitError::Order);
        }
        let index = self.index_of(pfn).ok_or(FreeError::OutOfRange)?;
        // The lock makes this exact against a wrong free of the same block on another CPU.
        let _core = self.lock::<P>();
        let state = self.states().get(index);
        if state.without_type() != StateByte::allocated(order, MigrateType::Unmovable).raw() {
            return Err(self.wrong_free(index).into());
        }
        let part = state.with_order(parts);
        for at in (index..index + order.frames() as u32).step_by(parts.frames() as usize) {
            self.states().set(at, part);
        }
        Ok(())
    }

    /// Gives back frames that the caller holds, in whatever blocks: whole ones, parts of one, several.
    /// What is left of a block that was not given back whole stays allocated, in the largest aligned blocks that it makes.
    ///
    /// # Errors
    /// [`FreeError`] for the first frame that is not held; nothing has changed.
    pub fn free_range<P: Platform>(&self, range: PfnRange) -> Result<(), FreeError> {
        if range.is_empty() {
            return Ok(());
        }
        let last = Pfn::new(range.end.as_u64() - 1);
        let (Some(start), Some(last)) = (self.index_of(range.start), self.index_of(last)) else {
            return Err(FreeError::OutOfRange);
        };
        let mut core = self.lock::<P>();
        let mut at = start;
        while at <= last {
            let held = self.states().head_of(at).filter(|(_, state)| state.is_allocated());
            let Some((head, state)) = held else { return Err(self.wrong_free(at)) };
            at = head + state.order().frames() as u32;
        }
        let mut at = start;
        while at <= last {
            let Some((head, state)) = self.states().head_of(at) else { break };
            let end = head + state.order().frames() as u32;
            self.states().set(head, StateByte::INSIDE);
            let cut = end.min(last + 1);
            for (piece, order) in
                aligned_pieces(head, at - head, u32::MAX).chain(aligned_pieces(cut, end - cut, u32::MAX))
            {
                self.states().set(piece, state.with_order(Order::saturating(order as u8)));
            }
            core.give_range(at, cut - at);
            at = end;
        }
        self.publish(&core);
        Ok(())
    }

    /// Hands out exactly `frames` neighbouring frames, naturally aligned to the next power of two, and keeps the rest free
    /// (`alloc_pages_exact()`). They are held as the largest aligned blocks that they make;
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
        let _ = self.free_range::<P>(tail);
        Some(PfnRange::from_len(pfn, frames))
    }

    /// Takes up to `out.len()` blocks of `order` under one lock hold and marks them as listed: for per-CPU lists.
    /// Writes zone-relative indices, returns how many.
    #[inline]
    pub fn alloc_bulk<P: Platform>(&self, order: Order, migrate_type: MigrateType, out: &mut [u32]) -> usize {
        let mut core = self.lock::<P>();
        let mark = StateByte::listed(order, migrate_type);
        let got = core.take_many(order, migrate_type, mark, out);
        self.publish(&core);
        got
    }

    /// The same with a bound on what the call does: fewer blocks than asked for, but at least one, where they are few to a pageblock.
    /// `out` may have room for more, so that whole words of 64 frames come.
    #[inline]
    pub fn refill<P: Platform>(&self, refill: Refill, out: &mut [u32]) -> usize {
        let mut core = self.lock::<P>();
        let got = core.refill(refill, (out, &mut Effort::of_one_refill()));
        self.publish(&core);
        got
    }

    /// Gives listed blocks back under one lock hold. Returns how many were not listed with this order; those are left as
    /// they are.
    #[inline]
    pub fn free_bulk<P: Platform>(&self, order: Order, blocks: &[u32]) -> usize {
        self.free_within::<P>(order, blocks, Effort::unlimited()).refused
    }

    /// As [`free_bulk`](Self::free_bulk), with a bound on what the call does: it may stop before the last block, and does
    /// at least one.
    #[inline]
    pub fn free_some<P: Platform>(&self, order: Order, blocks: &[u32]) -> Given {
        self.free_within::<P>(order, blocks, Effort::of_one_drain())
    }

    #[inline]
    fn free_within<P: Platform>(&self, order: Order, blocks: &[u32], mut effort: Effort) -> Given {
        let mut core = self.lock::<P>();
        let given = core.give_many(order, blocks, &mut effort);
        self.publish(&core);
        given
    }
}

impl ZoneCore<'_> {
    /// Makes frames the allocator's, free.
    pub(crate) fn release(&mut self, range: PfnRange) -> Result<(), ZoneError> {
        let first = (range.start.as_u64() - self.base.as_u64()) as u32;
        let frames = range.len() as u32;
        for (index, order) in aligned_pieces(first, frames, self.max_order) {
            if let Some(taken) = self.first_managed(index, 1 << order) {
                return Err(ZoneError::Overlap(self.pfn_of(taken)));
            }
        }
        for (index, order) in aligned_pieces(first, frames, self.max_order) {
            self.clear_absent(index, 1 << order);
            for block in index >> BLOCK_SHIFT..((index + (1u32 << order) - 1) >> BLOCK_SHIFT) + 1 {
                if let Some(b) = self.blocks.get_mut(block as usize) {
                    b.managed += (1u32 << order).min(1 << BLOCK_SHIFT) as u16;
                }
            }
            self.give(index, order);
        }
        self.managed += range.len();
        self.present += range.len();
        Ok(())
    }

    /// The first frame of the run that is free or held, if there is one.
    fn first_managed(&self, index: u32, frames: u32) -> Option<u32> {
        let blocks = (index >> BLOCK_SHIFT) as usize..((index + frames - 1) >> BLOCK_SHIFT) as usize + 1;
        if self.blocks.get(blocks).is_some_and(|blocks| blocks.iter().all(|b| b.managed == 0)) {
            return None;
        }
        (index..index + frames).find(|&i| !self.none_free(i, 1) || self.states.head_of(i).is_some())
    }

    /// Forgets that frames were reserved or holes.
    fn clear_absent(&mut self, index: u32, frames: u32) {
        if !self.absent_marked {
            return;
        }
        for frame in index..index + frames {
            if self.states.get(frame) == StateByte::RESERVED {
                self.present = self.present.saturating_sub(1);
            }
            self.states.set(frame, StateByte::INSIDE);
        }
    }

    /// Changes a pageblock's type, but for isolated ones.
    pub(crate) fn retype(&mut self, block: u32, migrate_type: MigrateType) -> Result<(), IsolateError> {
        let b = self.blocks.get(block as usize).ok_or(IsolateError::OutOfRange)?;
        if b.migrate_type == MigrateType::Isolate || migrate_type == MigrateType::Isolate {
            return Err(IsolateError::AlreadyIsolated);
        }
        self.set_type(block, migrate_type);
        Ok(())
    }
}
