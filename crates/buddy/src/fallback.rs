//! When a migrate type has nothing left: taking from another, and claiming whole pageblocks where that pays.
//!
//! Because free lists are lists of pageblocks, a claim moves one entry, where Linux moves every free page of the block.
//! A frame that is free is always on the list of its pageblock's own type (Linux got there in 6.10): a victim that is
//! not claimed keeps its type and all it has left.

use pageblock_frame::trace::Fallback;
use pageblock_frame::{AllocFlags, FrameState, MigrateType, Order, PAGEBLOCK_FRAMES};

use crate::core::{BLOCK_SHIFT, ZoneCore, list_index};
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
    listed: u32,
    from: MigrateType,
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
            .or_else(|| self.take_fallback(order, wanted, flags))
            .or_else(|| {
                let last_resort = flags.intersects(AllocFlags::OOM | AllocFlags::NON_BLOCK);
                last_resort.then(|| self.take(order, MigrateType::HighAtomic)).flatten().map(simple)
            })
    }

    /// Takes from another migrate type (`__rmqueue_fallback()`).
    fn take_fallback(&mut self, order: u32, wanted: MigrateType, flags: AllocFlags) -> Option<Taken> {
        if !wanted.is_ordinary() {
            return None;
        }
        let least = if flags.contains(AllocFlags::NOFRAGMENT) { order.max(BLOCK_SHIFT) } else { order };
        let largest = self.largest_victim(least, wanted)?;
        let claimable = self.policy.can_claim(largest.listed, wanted);
        let victim = if !claimable
            && wanted == MigrateType::Movable
            && largest.listed > order
            && self.policy.smallest_for_movable
        {
            self.smallest_victim(order, wanted)?
        } else {
            largest
        };
        let change_ownership = self.try_claim(victim, order, wanted);
        let index = if change_ownership {
            self.take(order, wanted)?
        } else {
            self.take_from(victim.block, victim.listed, order)?
        };
        Some(Taken {
            index,
            fallback: Some(Fallback {
                pfn: self.pfn_of(index),
                alloc_order: Order::saturating(order as u8),
                fallback_order: Order::saturating(victim.listed as u8),
                wanted,
                from: victim.from,
                change_ownership,
            }),
        })
    }

    /// The fallback type's pageblock that can serve the largest order; among equals the first type of the table.
    fn largest_victim(&self, least: u32, wanted: MigrateType) -> Option<Victim> {
        let lists = |from: MigrateType| self.nonempty[from.index()] >> least << least;
        let mut best: Option<Victim> = None;
        for from in fallbacks(wanted) {
            let Some(listed) = lists(from).checked_ilog2() else { continue };
            if best.is_none_or(|b| b.listed < listed) {
                best = self.victim(from, listed);
            }
        }
        best
    }

    /// The fallback types' most fragmented pageblock that still serves.
    fn smallest_victim(&self, order: u32, wanted: MigrateType) -> Option<Victim> {
        let mut best: Option<Victim> = None;
        for from in fallbacks(wanted) {
            let lists = self.nonempty[from.index()] >> order << order;
            if lists != 0 && best.is_none_or(|b| b.listed > lists.trailing_zeros()) {
                best = self.victim(from, lists.trailing_zeros());
            }
        }
        best
    }

    fn victim(&self, from: MigrateType, listed: u32) -> Option<Victim> {
        let block = *self.heads.get(list_index(from, listed))?;
        Some(Victim { block, listed, from })
    }

    /// Gives the victim's pageblock to the wanted type, if enough of it is free or compatible
    /// (`steal_suitable_fallback()`). True if it did.
    fn try_claim(&mut self, victim: Victim, order: u32, wanted: MigrateType) -> bool {
        if victim.listed >= BLOCK_SHIFT {
            let keep = if self.policy.claim_whole_run { victim.listed } else { order.max(BLOCK_SHIFT) };
            self.claim_run(victim, keep, wanted);
            return true;
        }
        if !self.policy.can_claim(victim.listed, wanted) {
            return false;
        }
        let Some(free) = self.blocks.get(victim.block as usize).map(|b| u64::from(b.free)) else { return false };
        let alike = if self.policy.claim_counts_compatible { self.alike(victim, free, wanted) } else { 0 };
        if free + alike < PAGEBLOCK_FRAMES / 2 {
            return false;
        }
        self.set_type(victim.block, wanted);
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
        self.unlink(victim.block);
        self.uncount(victim.listed, 1);
        for half in (keep..victim.listed).rev() {
            self.link(victim.block + Self::run_blocks(half), victim.from, half);
            self.count(half, 1);
        }
        let first = victim.block as usize;
        for b in self.blocks.get_mut(first..first + Self::run_blocks(keep) as usize).unwrap_or_default() {
            b.migrate_type = wanted;
        }
        self.link(victim.block, wanted, keep);
        self.count(keep, 1);
    }
}
