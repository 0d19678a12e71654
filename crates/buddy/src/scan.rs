//! Operations for the scanners of compaction: looking at pageblocks, withholding them, and moving frames in and out of
//! hand.
//!
//! A pageblock's free frames are isolated by withholding the pageblock, which moves one list entry: the frames stay
//! free in the map, no request can allocate them, and a scanner that stops half-way has only that entry to put back.
//! Every method holds the zone lock for a bounded number of word operations, with interrupts saved.

mod notes;
mod view;

pub use view::{BlockView, Held, Patience, Servable, count_free_blocks};

use core::cell::Cell;
use core::marker::PhantomData;
use core::ops::Range;

use pageblock_frame::runs::{self, WORD_FRAMES, WORD_ORDER};
use pageblock_frame::sync::IrqGuard;
use pageblock_frame::{
    BLOCK_WORDS, MigrateType, Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, Pageblock, Pfn, Platform, StateByte,
};

use crate::free_area::FreeAreaId;
use crate::ones::Ones;
use crate::policy::fallbacks;
use crate::region::{BLOCK_SHIFT, Region};
use crate::zone::Zone;

/// Pageblocks looked at in one lock hold.
const LOOKS_PER_HOLD: u32 = 64;
/// From so many frames of one pageblock on, giving them back recounts the pageblock rather than merge one by one.
const RECOUNT_FROM: usize = 6;

/// A scanner's access to a zone. One thread's; it notes whether it ever had to wait for the lock.
///
/// ```
/// # use core::mem::MaybeUninit;
/// # use core::ptr::NonNull;
/// use pageblock_buddy::{Patience, Zone, ZoneConfig, ZoneStorage};
/// use pageblock_frame::{AllocFlags, Carver, MigrateType, NodeId, Order, Pfn, PfnRange, ZoneKind};
/// # struct Host;
/// # // SAFETY: one thread, no memory asked for.
/// # unsafe impl pageblock_frame::Platform for Host {
/// #     const MAX_CPUS: usize = 1;
/// #     fn phys_to_virt(_: u64) -> NonNull<u8> { NonNull::dangling() }
/// # }
/// let span = PfnRange::new(Pfn::new(0), Pfn::new(1024));
/// let config = ZoneConfig::new(ZoneKind::Normal, NodeId::new(0), span);
/// let mut raw = vec![MaybeUninit::uninit(); ZoneStorage::bytes(span, config.max_order)];
/// let storage = ZoneStorage::carve(span, config.max_order, &mut Carver::new(&mut raw)).unwrap();
/// let zone = Zone::new::<Host>(config, storage).unwrap();
/// // SAFETY: the numbers are only looked at; there is no memory behind them.
/// unsafe { zone.release(span) }.unwrap();
///
/// let scan = zone.scan::<Host>(Patience::Note);
/// assert_eq!(scan.withhold(1).map(|view| view.free), Some(512));
/// assert_eq!(zone.free_frames(), 512); // block 0 only
/// let mut targets = [0; 2];
/// assert_eq!(scan.take(1, Order::ZERO, &mut targets), 2);
/// assert_eq!(targets, [512, 513]);
/// // SAFETY: they were taken above.
/// unsafe { scan.give_free(&targets, Order::ZERO) };
/// scan.restore(1);
/// assert_eq!((zone.free_frames(), zone.check()), (1024, Ok(())));
/// assert!(!scan.is_contended());
/// ```
#[derive(Debug)]
pub struct ZoneScan<'z, 'm, P> {
    zone: &'z Zone<'m>,
    patience: Patience,
    contended: Cell<bool>,
    platform: PhantomData<P>,
}

impl<'m> Zone<'m> {
    /// A scanner's access to the zone.
    #[must_use]
    pub const fn scan<P: Platform>(&self, patience: Patience) -> ZoneScan<'_, 'm, P> {
        ZoneScan { zone: self, patience, contended: Cell::new(false), platform: PhantomData }
    }
}

/// A locked region, and a pageblock in it by its number there.
struct Looked<'z, 'm, P: Platform> {
    region: IrqGuard<'z, Region<'m>, P>,
    block: u32,
}

impl<'z, 'm, P: Platform> ZoneScan<'z, 'm, P> {
    /// The region of a pageblock, locked.
    #[inline]
    fn lock(&self, block: u32) -> Option<Looked<'z, 'm, P>> {
        let lock = self.zone.region_lock(block.checked_mul(1 << BLOCK_SHIFT)?)?;
        let free = if self.patience == Patience::Note { lock.try_lock_irq::<P>() } else { None };
        self.contended.set(self.contended.get() || self.patience == Patience::Note && free.is_none());
        let region = free.unwrap_or_else(|| lock.lock_irq::<P>());
        let block = block - (region.offset >> BLOCK_SHIFT);
        Some(Looked { region, block })
    }

    /// Runs `change` on the region of a pageblock, and publishes the changes.
    #[inline]
    fn changing<R>(&self, block: u32, change: impl FnOnce(&mut Region<'m>, u32) -> R) -> Option<R> {
        let Looked { mut region, block } = self.lock(block)?;
        let result = change(&mut region, block);
        self.zone.publish(&mut region);
        Some(result)
    }

    /// The zone.
    #[must_use]
    #[inline]
    pub const fn zone(&self) -> &'z Zone<'m> {
        self.zone
    }

    /// True if the lock was held by another CPU once (only with [`Patience::Note`]).
    #[must_use]
    pub const fn is_contended(&self) -> bool {
        self.contended.get()
    }

    /// Number of pageblocks, from the zone's base to its end.
    #[must_use]
    pub const fn blocks(&self) -> u32 {
        self.zone.states().len().div_ceil(PAGEBLOCK_FRAMES as usize) as u32
    }

    /// A pageblock now; `None` past the end.
    #[must_use]
    #[inline]
    pub fn view(&self, block: u32) -> Option<BlockView> {
        let looked = self.lock(block)?;
        view(&looked.region, looked.block)
    }

    /// A pageblock's free frames now; none past the end.
    #[must_use]
    #[inline]
    pub fn map(&self, block: u32) -> [u64; BLOCK_WORDS] {
        let map = |Looked { region, block }: Looked<'_, '_, P>| region.blocks.get(block).map(|b| *b.map());
        self.lock(block).and_then(map).unwrap_or([0; BLOCK_WORDS])
    }

    /// Shows pageblocks to `visit`, up to 64 to a lock hold. It is called with the lock held: it must be short, and
    /// call nothing.
    #[inline]
    pub fn survey(&self, blocks: Range<u32>, mut visit: impl FnMut(u32, &Pageblock)) {
        let end = blocks.end.min(self.blocks());
        let mut at = blocks.start;
        while at < end {
            // Regions begin at multiples of this.
            let next = (at / LOOKS_PER_HOLD * LOOKS_PER_HOLD + LOOKS_PER_HOLD).min(end);
            let Some(Looked { region, block }) = self.lock(at) else { return };
            region.blocks.for_each(block..block + (next - at), |number, b| visit(at + (number - block), b));
            at = next;
        }
    }

    /// Writes the lowest pageblocks of a type, from pageblock `from` on, with a largest free block of exactly this
    /// order, below 9; returns how many.
    pub fn listed(&self, migrate_type: MigrateType, order: Order, from: u32, out: &mut [u32]) -> usize {
        let set = FreeAreaId::new(migrate_type, u32::from(order.as_u8()).min(BLOCK_SHIFT - 1));
        let Some(first) = from.checked_mul(1 << BLOCK_SHIFT).map(|index| self.zone.region_of(index)) else { return 0 };
        let mut found = 0;
        for number in Ones(self.zone.summary.regions(set)).filter(|&number| number >= first) {
            let Some(region) = self.zone.lock::<P>(number) else { break };
            let offset = region.offset >> BLOCK_SHIFT;
            let mut at = from.saturating_sub(offset);
            while let Some(slot) = out.get_mut(found)
                && let Some(block) = region.free_area.first_from(set, at)
            {
                *slot = offset + block;
                found += 1;
                at = block + 1;
            }
        }
        found
    }

    /// Which type could serve a block of `order` to a request of this type, as the free areas are now. Watermarks are
    /// not asked.
    #[must_use]
    pub fn servable(&self, order: Order, wanted: MigrateType) -> Servable {
        let serves = |migrate_type| self.zone.can_serve(migrate_type, order);
        if serves(wanted) || (wanted == MigrateType::Movable && serves(MigrateType::Cma)) {
            return Servable::Own;
        }
        let at_least = order.max(PAGEBLOCK_ORDER);
        let claimable = |top: Order| self.zone.policy.can_claim(u32::from(top.as_u8()), wanted);
        let others = |order| fallbacks(wanted).into_iter().any(|from| self.zone.can_serve(from, order));
        // The claims allowed do not depend on the order from the largest one that cannot on.
        let least = Order::LIMIT.up_to().find(|&top| top >= order && claimable(top));
        if wanted.is_ordinary() && least.is_some_and(others) {
            return Servable::Claimable;
        }
        let whole = MigrateType::ALL.into_iter().any(|from| self.zone.can_serve(from, at_least));
        if whole { Servable::WholeBlock } else { Servable::No }
    }

    /// Free blocks by order, of all types.
    #[must_use]
    pub fn free_blocks(&self) -> [u64; Order::COUNT] {
        self.zone.free_blocks()
    }

    /// Withholds a pageblock of an ordinary or CMA type from allocation, and returns it as it is then. `None`, with
    /// nothing changed, if it is not the allocator's, of another type, or withheld already.
    #[inline]
    pub fn withhold(&self, block: u32) -> Option<BlockView> {
        self.changing(block, |region, block| {
            withhold(region, block)?;
            view(region, block)
        })?
    }

    /// As [`withhold`](Self::withhold), and returns the free frames, which nothing is allocated from: one bit a frame.
    #[inline]
    pub fn isolate(&self, block: u32) -> Option<[u64; BLOCK_WORDS]> {
        self.changing(block, |region, block| {
            withhold(region, block)?;
            region.blocks.get(block).map(|b| *b.map())
        })?
    }

    /// Gives back a pageblock that [`withhold`](Self::withhold) took, with its former type.
    #[inline]
    pub fn restore(&self, block: u32) {
        // Only the scanner that withheld it calls this; if it is not withheld any more, there is nothing to do.
        self.changing(block, |region, block| _ = region.unisolate(block));
    }

    /// Takes up to `out.len()` free blocks of `order` below 6 out of one pageblock and marks them isolated. Isolated
    /// single ones first, then from the bottom. Writes indices, returns how many.
    pub fn take(&self, block: u32, order: Order, out: &mut [u32]) -> usize {
        let taken = self.changing(block, |region, block| {
            let got = region.take_runs(block, u32::from(order.as_u8()), out);
            for index in out.iter_mut().take(got) {
                region.states.set(*index, StateByte::isolated(order));
                *index += region.offset;
            }
            got
        });
        taken.unwrap_or(0)
    }

    /// Marks blocks that their owner has lent as isolated. Writes a 1 into `taken` for each that still was the
    /// allocated block that the scanner had seen.
    ///
    /// # Safety
    /// The holder of each block that is allocated with this state has lent it, and neither uses nor frees it before
    /// [`unmark`](Self::unmark); or, if it is given to [`give_free`](Self::give_free), never again.
    #[expect(unsafe_code, reason = "the caller's word that the blocks are lent")]
    pub unsafe fn mark(&self, lent: &[Held]) -> u64 {
        let mut taken = 0;
        for (i, held) in lent.iter().enumerate() {
            // Held so that this is exact against a free of the same block on another CPU.
            let Some(_place) = self.lock(held.index >> BLOCK_SHIFT) else { continue };
            let isolated = StateByte::isolated(held.order());
            if held.state.is_allocated() && self.zone.states.replace::<P>(held.index, held.state, isolated) {
                taken |= 1 << i;
            }
        }
        taken
    }

    /// Makes a block that [`mark`](Self::mark) has isolated its holder's again.
    ///
    /// # Safety
    /// `mark` has isolated the block for the caller, and neither this nor [`give_free`](Self::give_free) had it since.
    #[expect(unsafe_code, reason = "the caller's word that it has the block")]
    pub unsafe fn unmark(&self, held: Held) {
        self.zone.states.set(held.index, held.state);
    }

    /// Makes an isolated block an allocated movable one, before something is moved into it.
    ///
    /// # Safety
    /// The caller has the block, from [`take`](Self::take) or [`reclaim_target`](Self::reclaim_target).
    #[expect(unsafe_code, reason = "the caller's word that it has the block")]
    pub unsafe fn lend_target(&self, index: u32, order: Order) {
        self.zone.states.set(index, StateByte::allocated(order, MigrateType::Movable));
    }

    /// Turns a block that was allocated while it was a target back into an isolated one. False if it is not allocated
    /// any more.
    ///
    /// # Safety
    /// If the block is allocated with this order, the caller holds it, and nothing uses its frames.
    #[expect(unsafe_code, reason = "the caller's word that it holds the block")]
    pub unsafe fn reclaim_target(&self, index: u32, order: Order) -> bool {
        let Some(_place) = self.lock(index >> BLOCK_SHIFT) else { return false };
        let state = self.zone.states.get(index);
        let ours = state.without_type() == StateByte::allocated(order, MigrateType::Unmovable).raw();
        ours && self.zone.states.replace::<P>(index, state, StateByte::isolated(order))
    }

    /// Frees isolated blocks of one order. Those that are not isolated with this order are left alone; returns how
    /// many.
    ///
    /// # Safety
    /// The caller has those that are isolated, from [`take`](Self::take), [`reclaim_target`](Self::reclaim_target) or
    /// [`mark`](Self::mark); nothing uses their frames.
    #[expect(unsafe_code, reason = "the caller's word that it has the blocks")]
    pub unsafe fn give_free(&self, indices: &[u32], order: Order) -> usize {
        let mut refused = 0;
        let mut rest = indices;
        while let Some(&first) = rest.first() {
            let block = first >> BLOCK_SHIFT;
            let same = rest.iter().position(|index| index >> BLOCK_SHIFT != block).unwrap_or(rest.len());
            let (group, others) = rest.split_at_checked(same.max(1)).unwrap_or((rest, &[]));
            let part = self.changing(block, |region, block| region.give_isolated(block, order, group));
            refused += part.unwrap_or(group.len());
            rest = others;
        }
        refused
    }

    /// Gives back to allocation the pageblocks that a block covers, if they are withheld, and takes the block at once,
    /// as one of type `wanted`, if all of it is free. Whole pageblocks become pageblocks of that type.
    pub fn capture(&self, index: u32, order: Order, wanted: MigrateType) -> Option<Pfn> {
        self.take_block(index, order, |region, index| {
            for block in blocks_of(index, order) {
                let _ = region.unisolate(block);
            }
            region.take_place(index, order, wanted)
        })
    }

    /// Takes a block if all of it is free and not withheld, as one of type `wanted`. Whole pageblocks become pageblocks
    /// of that type.
    pub fn take_whole(&self, index: u32, order: Order, wanted: MigrateType) -> Option<Pfn> {
        self.take_block(index, order, |region, index| region.take_place(index, order, wanted))
    }

    fn take_block(&self, index: u32, order: Order, take: impl FnOnce(&mut Region<'m>, u32) -> bool) -> Option<Pfn> {
        let inside = u64::from(index) + order.frames() <= self.zone.states().len() as u64;
        if !inside || order > self.zone.max_order() || !u64::from(index).is_multiple_of(order.frames()) {
            return None;
        }
        let taken = self.changing(index >> BLOCK_SHIFT, |region, _| take(region, index - region.offset))?;
        taken.then(|| self.zone.pfn_of(index))
    }

    /// Sets a pageblock's skip bit. Returns the former one.
    pub fn set_skip(&self, block: u32) -> bool {
        let old = self.changing(block, |region, block| {
            let word = region.skip.get_mut((block / 64) as usize)?;
            let old = *word >> (block % 64) & 1 == 1;
            *word |= 1 << (block % 64);
            Some(old)
        });
        old.flatten().unwrap_or(false)
    }

    /// A pageblock's skip bit.
    #[must_use]
    pub fn is_skipped(&self, block: u32) -> bool {
        self.lock(block).is_some_and(|looked| looked.region.is_skipped(looked.block))
    }

    /// Clears all skip bits (`__reset_isolation_suitable()`).
    pub fn clear_skips(&self) {
        self.zone.each_region(|region| region.skip.fill(0));
    }
}

#[inline]
fn withhold(region: &mut Region<'_>, block: u32) -> Option<()> {
    let migrate_type = region.blocks.get(block)?.migrate_type();
    if !migrate_type.is_ordinary() && migrate_type != MigrateType::Cma {
        return None;
    }
    region.isolate(block).ok()
}

fn view(region: &Region<'_>, block: u32) -> Option<BlockView> {
    let b = region.blocks.get(block)?;
    let number = (region.offset >> BLOCK_SHIFT) + block;
    Some(BlockView::of(number, b, region.is_skipped(block)))
}

/// The pageblocks that a block lies in.
fn blocks_of(index: u32, order: Order) -> Range<u32> {
    index >> BLOCK_SHIFT..((index + (order.frames() as u32 - 1)) >> BLOCK_SHIFT) + 1
}

impl Region<'_> {
    fn take_place(&mut self, index: u32, order: Order, wanted: MigrateType) -> bool {
        let o = u32::from(order.as_u8());
        let withheld = |block| self.blocks.get(block).is_none_or(|b| b.migrate_type() == MigrateType::Isolate);
        if o > self.max_order || blocks_of(index, order).any(withheld) || !self.take_at(index, o) {
            return false;
        }
        for block in blocks_of(index, order) {
            let ordinary = self.blocks.get(block).is_some_and(|b| b.migrate_type().is_ordinary());
            if o >= BLOCK_SHIFT && wanted.is_ordinary() && ordinary {
                self.set_type(block, wanted);
            }
        }
        self.states.set(index, StateByte::allocated(order, wanted));
        true
    }

    /// Takes blocks of `order` below 6 out of a pageblock, exact runs before parts of larger ones.
    fn take_runs(&mut self, block: u32, order: u32, out: &mut [u32]) -> usize {
        if order >= WORD_ORDER || self.blocks.get(block).is_none_or(|b| b.free() == 0) {
            return 0;
        }
        let mut got = 0;
        self.edit_block(block, |map| {
            for only_exact in [true, false] {
                for (word, map) in map.iter_mut().enumerate() {
                    let runs = runs::runs(*map, order);
                    let mut starts = if only_exact { runs::exact(runs, order) } else { runs };
                    while starts != 0
                        && let Some(slot) = out.get_mut(got)
                    {
                        let at = starts.trailing_zeros();
                        starts &= starts - 1;
                        *map &= !(runs::ones(order) << at);
                        *slot = block << BLOCK_SHIFT | (word as u32) << WORD_ORDER | at;
                        got += 1;
                    }
                }
            }
        });
        got
    }

    /// Frees those of one pageblock's blocks that are isolated with this order; returns how many are not.
    fn give_isolated(&mut self, block: u32, order: Order, group: &[u32]) -> usize {
        let isolated = StateByte::isolated(order);
        let o = u32::from(order.as_u8());
        let mut masks = [0u64; BLOCK_WORDS];
        let mut refused = 0;
        for &index in group {
            let index = index.wrapping_sub(self.offset);
            if self.states.get(index) != isolated {
                refused += 1;
                continue;
            }
            self.states.set(index, StateByte::INSIDE);
            if o >= WORD_ORDER || group.len() < RECOUNT_FROM {
                self.give(index, o);
            } else {
                masks[(index >> WORD_ORDER) as usize % BLOCK_WORDS] |= runs::ones(o) << (index % WORD_FRAMES);
            }
        }
        if masks != [0; BLOCK_WORDS] {
            self.edit_block(block, |map| map.iter_mut().zip(masks).for_each(|(word, mask)| *word |= mask));
        }
        refused
    }
}
