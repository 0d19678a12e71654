//! When a migrate type has nothing left: taking from another, and claiming whole pageblocks where that pays.
//!
//! Because what is free is found through its pageblock, a claim moves a few bits, where Linux moves every free page of the block.
//! A frame that is free is always found under its pageblock's own type (Linux got there in 6.10): a victim that is
//! not claimed keeps its type and all it has left.

use pageblock_frame::trace::Fallback;
use pageblock_frame::{AllocFlags, FrameState, MigrateType, NO_BLOCK, Order, PAGEBLOCK_FRAMES, Pageblock};

use crate::bits;
use crate::core::{BLOCK_SHIFT, ZoneCore};
use crate::free_area::FreeAreaId;
use crate::policy::fallbacks;

/// What the slow half of an allocation found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    pub(crate) index: u32,
    pub(crate) fallback: Option<Fallback>,
}

impl From<u32> for Taken {
    fn from(index: u32) -> Self {
        Self { index, fallback: None }
    }
}

/// A pageblock of another type that can serve.
#[derive(Debug, Clone, Copy)]
struct Victim {
    block: u32,
    /// Its largest order: that of a run of whole pageblocks if it is the first of one.
    top: u32,
    from: MigrateType,
}

/// What a type may take from a pageblock of another type without another mixing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Loan {
    block: u32,
    /// Frames that are left of it; `u32::MAX`: for as long as the pageblock can serve.
    frames: u32,
}

impl Loan {
    /// Nothing.
    pub(crate) const NONE: Self = Self { block: NO_BLOCK, frames: 0 };

    const fn without_end(block: u32) -> Self {
        Self { block, frames: u32::MAX }
    }
}

impl ZoneCore<'_> {
    /// Takes a block with all the rules (`rmqueue`'s core): the atomic reserve first where the request may use it, CMA where
    /// it is more than half of what is free, the request's own type, CMA, other types, and at last the atomic reserve for those who
    /// cannot wait.
    pub(crate) fn take_by_rules(&mut self, order: u32, wanted: MigrateType, flags: AllocFlags) -> Option<Taken> {
        let cma = flags.contains(AllocFlags::CMA);
        let reserve_first = flags.contains(AllocFlags::HIGHATOMIC);
        let cma_first = cma && self.free_cma > self.free / 2;
        let simple = |index: u32| Taken::from(index);
        None.or_else(|| reserve_first.then(|| self.take(order, MigrateType::HighAtomic)).flatten().map(simple))
            .or_else(|| cma_first.then(|| self.take(order, MigrateType::Cma)).flatten().map(simple))
            .or_else(|| self.take(order, wanted).map(simple))
            .or_else(|| cma.then(|| self.take(order, MigrateType::Cma)).flatten().map(simple))
            .or_else(|| self.take_kept(order, wanted, flags))
            .or_else(|| self.take_borrowed(order, wanted).map(simple))
            .or_else(|| self.take_fallback(order, wanted, flags))
            .or_else(|| {
                let last_resort = flags.intersects(AllocFlags::OOM | AllocFlags::NON_BLOCK);
                last_resort.then(|| self.take(order, MigrateType::HighAtomic)).flatten().map(simple)
            })
    }

    /// Claims a whole pageblock, for a type that cannot move, rather than mix or go on mixing.
    fn take_kept(&mut self, order: u32, wanted: MigrateType, flags: AllocFlags) -> Option<Taken> {
        if !self.policy.keep_whole || wanted == MigrateType::Movable || !wanted.is_ordinary() {
            return None;
        }
        let taken = self.take_fallback(order, wanted, flags | AllocFlags::NOFRAGMENT);
        self.short = self.largest_victim(BLOCK_SHIFT, wanted).is_none();
        taken
    }

    /// Takes from the pageblock that this type mixed into before, as far as it was lent. Not another mixing: what Linux moves to
    /// the request's lists it takes from there without an event. Our default keeps to that pageblock while it can serve,
    /// which also keeps the others clean.
    fn take_borrowed(&mut self, order: u32, wanted: MigrateType) -> Option<u32> {
        let loan = *self.borrowed.get(wanted.index())?;
        let b = self.blocks.get(loan.block as usize)?;
        let serves = b.top != Pageblock::NO_TOP && b.top != Pageblock::WHOLE && u32::from(b.top) >= order;
        if order >= BLOCK_SHIFT || !serves || !b.migrate_type.is_ordinary() || loan.frames >> order == 0 {
            return None;
        }
        if !self.policy.goes_on
            && let Some(loan) = self.borrowed.get_mut(wanted.index())
        {
            loan.frames -= 1 << order;
        }
        self.take_from(loan.block, order)
    }

    /// What remains for the wanted type of a pageblock that it takes a block from and could not claim.
    fn lend(&mut self, victim: Victim, order: u32, wanted: MigrateType) {
        self.freshen(victim.block);
        let Some(b) = self.blocks.get(victim.block as usize) else { return };
        let before = if self.policy.can_claim(victim.top, wanted) {
            u32::from(b.free)
        } else if self.policy.smallest_for_movable {
            // Such a victim is smaller than a word.
            1 << bits::smallest_order(b.presence, order).unwrap_or(order)
        } else {
            1 << order
        };
        let frames = before.saturating_sub(1 << order);
        let loan =
            if self.policy.goes_on { Loan::without_end(victim.block) } else { Loan { block: victim.block, frames } };
        if let Some(place) = self.borrowed.get_mut(wanted.index()) {
            *place = loan;
        }
    }

    /// Takes from another migrate type (`__rmqueue_fallback()`).
    fn take_fallback(&mut self, order: u32, wanted: MigrateType, flags: AllocFlags) -> Option<Taken> {
        if !wanted.is_ordinary() {
            return None;
        }
        let least = if flags.contains(AllocFlags::NOFRAGMENT) { order.max(BLOCK_SHIFT) } else { order };
        let largest = self.largest_victim(least, wanted)?;
        let claimable = self.policy.can_claim(largest.top, wanted);
        let victim = if !claimable
            && wanted == MigrateType::Movable
            && largest.top > order
            && self.policy.smallest_for_movable
        {
            self.smallest_victim(order, wanted)?
        } else {
            largest
        };
        if victim.top < BLOCK_SHIFT {
            self.mixed = true;
            if flags.contains(AllocFlags::FRAGMENT_STALL) && victim.top < self.stall_order {
                // Nothing else is looked for: the caller waits for the pages that kswapd is about to free.
                self.events.refused = self.events.refused.wrapping_add(1);
                return None;
            }
        }
        let change_ownership = self.try_claim(victim, order, wanted);
        if !change_ownership {
            self.lend(victim, order, wanted);
        }
        let index = if change_ownership && order >= BLOCK_SHIFT {
            self.take(order, wanted)?
        } else if change_ownership && victim.top >= BLOCK_SHIFT {
            let block = self.open_whole(wanted)?;
            self.take_from(block, order)?
        } else {
            self.take_from(victim.block, order)?
        };
        Some(Taken {
            index,
            fallback: Some(Fallback {
                pfn: self.pfn_of(index),
                alloc_order: Order::saturating(order as u8),
                fallback_order: Order::saturating(victim.top as u8),
                wanted,
                from: victim.from,
                change_ownership,
            }),
        })
    }

    /// The fallback type's pageblock that can serve the largest order; among equals the first type of the table.
    fn largest_victim(&mut self, least: u32, wanted: MigrateType) -> Option<Victim> {
        let mut best: Option<Victim> = None;
        for from in fallbacks(wanted) {
            let Some(found) = self.largest_of(from, least) else { continue };
            if best.is_none_or(|b| b.top < found.top) {
                best = Some(found);
            }
        }
        best
    }

    /// The pageblock of a type that can serve the largest order, at least `least`.
    fn largest_of(&mut self, from: MigrateType, least: u32) -> Option<Victim> {
        let whole = if self.policy.claim_whole_run {
            self.largest_run(from).filter(|&order| order >= least).and_then(|order| self.find_run(from, order))
        } else {
            self.find_run(from, least.max(BLOCK_SHIFT))
        };
        let victim = |block, top| Victim { block, top, from };
        whole.map(|(block, top)| victim(block, top)).or_else(|| {
            let block = self.free_area.least_fragmented(from, least)?;
            Some(victim(block, self.blocks.get(block as usize).map_or(least, |b| u32::from(b.top))))
        })
    }

    /// The fallback types' most fragmented pageblock that still serves.
    fn smallest_victim(&mut self, order: u32, wanted: MigrateType) -> Option<Victim> {
        let smallest = |from| self.free_area.smallest_top(from, order).map(|top| (top, from));
        // Of equals the first type of the table.
        let Some((top, from)) = fallbacks(wanted).into_iter().filter_map(smallest).min_by_key(|&(top, _)| top) else {
            return self.largest_victim(order, wanted);
        };
        let block = self.free_area.lowest(FreeAreaId::new(from, top))?;
        Some(Victim { block, top, from })
    }

    /// Gives the victim's pageblock to the wanted type, if enough of it is free or compatible
    /// (`steal_suitable_fallback()`). True if it did.
    fn try_claim(&mut self, victim: Victim, order: u32, wanted: MigrateType) -> bool {
        if victim.top >= BLOCK_SHIFT {
            let keep = if self.policy.claim_whole_run { victim.top } else { order.max(BLOCK_SHIFT) };
            self.claim_run(victim, keep, wanted);
            return true;
        }
        if !self.policy.can_claim(victim.top, wanted) {
            return false;
        }
        let Some(free) = self.blocks.get(victim.block as usize).map(|b| u64::from(b.free)) else { return false };
        let alike = if self.policy.claim_counts_compatible { self.alike(victim, free, wanted) } else { 0 };
        if free + alike < PAGEBLOCK_FRAMES / 2 {
            return false;
        }
        self.set_type(victim.block, wanted);
        // Neither type can move: the loser goes on in the pageblock that is mixed now, rather than take it back, and so on in turn.
        if self.policy.goes_on
            && wanted != MigrateType::Movable
            && victim.from != MigrateType::Movable
            && let Some(borrowed) = self.borrowed.get_mut(victim.from.index())
        {
            *borrowed = Loan::without_end(victim.block);
        }
        true
    }

    /// Used frames of the victim's pageblock that suit the wanted type.
    fn alike(&self, victim: Victim, free: u64, wanted: MigrateType) -> u64 {
        let movable = self.movable_frames(victim.block);
        match (wanted, victim.from) {
            (MigrateType::Movable, _) => movable,
            (_, MigrateType::Movable) => PAGEBLOCK_FRAMES.saturating_sub(free + movable),
            _ => 0,
        }
    }

    /// Used frames of a pageblock whose holders can move them, by the heads' state bytes.
    #[must_use]
    pub(crate) fn movable_frames(&self, block: u32) -> u64 {
        let first = block << BLOCK_SHIFT;
        let (mut at, mut movable) = (first, 0);
        while at < first + PAGEBLOCK_FRAMES as u32 {
            let state = self.states.get(at);
            if let FrameState::Allocated(order, Some(MigrateType::Movable)) = state.decode() {
                movable += order.frames();
            }
            at += if state.is_head() { state.order().frames() as u32 } else { 1 };
        }
        movable.min(PAGEBLOCK_FRAMES)
    }

    /// Gives the first `2^(keep-9)` pageblocks of a wholly free run to another type; the rest stays what it was.
    fn claim_run(&mut self, victim: Victim, keep: u32, wanted: MigrateType) {
        for block in victim.block..victim.block + (1 << (keep - BLOCK_SHIFT)) {
            self.set_type(block, wanted);
        }
    }
}
