//! When a migrate type has nothing left: taking from another, and claiming whole pageblocks where that pays.
//!
//! Because free frames are found through their pageblock, a claim moves a few bits, where Linux moves every free page
//! of the block. A frame that is free is always found under its pageblock's own type (Linux got there in 6.10): a
//! victim that is not claimed keeps its type and all it has left.
//!
//! A victim is chosen by the figures that the regions have published, and looked at again under its region's lock.

use pageblock_frame::sync::{AtomicU32, Ordering};
use pageblock_frame::trace::{Event, Fallback};
use pageblock_frame::{
    AllocFlags, Hooks, MigrateType, NO_BLOCK, Order, PAGEBLOCK_FRAMES, Pageblock, Pfn, Platform, StateByte, StateView,
};

use crate::free_area::FreeAreaId;
use crate::ones::Ones;
use crate::policy::{Policy, fallbacks};
use crate::region::{BLOCK_SHIFT, Region};
use crate::taken::{Taken, TakenMany};
use crate::zone::{Place, Zone};

/// How often a victim that another CPU has changed meanwhile is chosen anew.
const ATTEMPTS: u32 = 64;

/// A request on its way through the rules, and its outcome.
#[derive(Debug, Clone, Copy)]
struct Request {
    order: u32,
    wanted: MigrateType,
    flags: AllocFlags,
    mark: StateByte,
    /// Types were mixed, or that was refused: a boost is pending.
    boost_pending: bool,
    /// Fate of the victim's pageblock.
    claim: Claim,
}

impl Request {
    const fn new(order: Order, wanted: MigrateType, flags: AllocFlags, mark: StateByte) -> Self {
        Self { order: order.as_u8() as u32, wanted, flags, mark, boost_pending: false, claim: Claim::IfItPays }
    }
}

/// Fate of a victim's pageblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    /// It changes type if enough of it is free or alike; else it is taken from all the same.
    IfItPays,
    /// It changes type, or is left alone.
    Only,
    /// It keeps its type.
    Never,
}

/// A pageblock of another type that can serve.
#[derive(Debug, Clone, Copy)]
struct Victim {
    region: u32,
    /// Its largest order: that of a run of whole pageblocks if it is the first of one.
    top: u32,
    from: MigrateType,
}

/// A victim under its region's lock.
#[derive(Debug, Clone, Copy)]
struct Found {
    block: u32,
    top: u32,
    from: MigrateType,
}

/// From which pageblock of another type each ordinary type takes without another mixing.
///
/// Hints, of which neither half need fit the other: the pageblock is looked at again under its region's lock.
#[derive(Debug)]
pub(crate) struct StolenBlocks {
    /// By its number in the zone, or `NO_BLOCK`.
    blocks: [AtomicU32; MigrateType::PCP_COUNT],
    /// Frames that are left of it; [`u32::MAX`] for as long as the pageblock can serve.
    frames: [AtomicU32; MigrateType::PCP_COUNT],
}

/// One of [`StolenBlocks`].
#[derive(Debug, Clone, Copy)]
struct StolenBlock {
    block: u32,
    frames: u32,
}

impl StolenBlock {
    const fn without_end(block: u32) -> Self {
        Self { block, frames: u32::MAX }
    }
}

impl StolenBlocks {
    pub(crate) fn new() -> Self {
        let all = |value| core::array::from_fn(|_| AtomicU32::new(value));
        Self { blocks: all(NO_BLOCK), frames: all(0) }
    }

    fn get(&self, migrate_type: MigrateType) -> Option<StolenBlock> {
        let block = self.blocks.get(migrate_type.index())?.load(Ordering::Relaxed);
        let frames = self.frames.get(migrate_type.index())?.load(Ordering::Relaxed);
        (block != NO_BLOCK).then_some(StolenBlock { block, frames })
    }

    fn set(&self, migrate_type: MigrateType, stolen: StolenBlock) {
        let places = self.blocks.get(migrate_type.index()).zip(self.frames.get(migrate_type.index()));
        if let Some((block, frames)) = places {
            block.store(stolen.block, Ordering::Relaxed);
            frames.store(stolen.frames, Ordering::Relaxed);
        }
    }
}

impl<'m> Zone<'m> {
    /// Takes a block with all the rules (`rmqueue`'s core): the atomic reserve first where the request may use it, CMA
    /// where it is more than half of the free frames, the request's own type, CMA, other types, and at last the atomic
    /// reserve for those that cannot wait.
    #[cold]
    #[inline(never)]
    pub(crate) fn alloc_by_rules<P: Platform>(
        &self,
        order: Order,
        wanted: MigrateType,
        flags: AllocFlags,
    ) -> Option<Pfn> {
        let mark = StateByte::allocated(order, wanted);
        let mut request = Request::new(order, wanted, flags, mark);
        let taken = self.take_plainly::<P>(&request);
        let taken = taken.or_else(|| self.take_kept::<P>(&mut request));
        let taken = taken.or_else(|| self.take_from_stolen::<P>(&request));
        let taken = taken.or_else(|| self.take_fallback::<P>(&mut request));
        if request.boost_pending {
            self.boost_for_mixing();
        }
        let last_resort = flags.intersects(AllocFlags::OOM | AllocFlags::NON_BLOCK);
        let reserve = || self.take::<P>(request.order, MigrateType::HighAtomic, mark);
        let index = taken.or_else(|| last_resort.then(reserve).flatten())?;
        Some(self.pfn_of(index))
    }

    /// Takes up to `out.len()` blocks of `order`, marks each as listed, and says how many there were: those of the
    /// type's own pageblocks, then others by the rules, as many fallbacks as it takes (`rmqueue_bulk()`). Writes
    /// zone-relative indices.
    pub fn alloc_bulk_by_rules<P: Platform>(
        &self,
        order: Order,
        wanted: MigrateType,
        flags: AllocFlags,
        out: &mut [u32],
    ) -> usize {
        let mark = StateByte::listed(order, wanted);
        let mut request = Request::new(order, wanted, flags, mark);
        let mut taken = TakenMany::<P>::new(self, order, out);
        loop {
            // A claim has replenished the type.
            if request.claim != Claim::Never {
                taken.got += self.alloc_bulk::<P>(order, wanted, taken.out.get_mut(taken.got..).unwrap_or_default());
            }
            if taken.got == taken.out.len() {
                break;
            }
            let stolen = self.take_from_stolen::<P>(&request);
            let Some(index) = stolen.or_else(|| self.take_fallback::<P>(&mut request)) else { break };
            taken.out.get_mut(taken.got).into_iter().for_each(|slot| *slot = index);
            taken.got += 1;
        }
        if request.boost_pending {
            self.boost_for_mixing();
        }
        taken.handed_out()
    }

    /// The rules up to the request's own type and CMA.
    fn take_plainly<P: Platform>(&self, request: &Request) -> Option<u32> {
        let take = |migrate_type| self.take::<P>(request.order, migrate_type, request.mark);
        let cma = request.flags.contains(AllocFlags::CMA);
        let cma_first = cma && self.free_cma() > self.free_frames() / 2;
        let reserve_first = request.flags.contains(AllocFlags::HIGHATOMIC);
        let reserve = if reserve_first { take(MigrateType::HighAtomic) } else { None };
        let before = reserve.or_else(|| if cma_first { take(MigrateType::Cma) } else { None });
        let own = before.or_else(|| take(request.wanted));
        own.or_else(|| if cma { take(MigrateType::Cma) } else { None })
    }

    /// Claims a whole pageblock, for a type that cannot move, rather than mix or go on mixing.
    fn take_kept<P: Platform>(&self, request: &mut Request) -> Option<u32> {
        let wanted = request.wanted;
        if !self.policy.keep_whole || wanted == MigrateType::Movable || !wanted.is_ordinary() {
            return None;
        }
        let mut whole = Request { flags: request.flags | AllocFlags::NOFRAGMENT, ..*request };
        let taken = self.take_fallback::<P>(&mut whole);
        request.boost_pending |= whole.boost_pending;
        if fallbacks(wanted).into_iter().all(|from| self.summary.regions(FreeAreaId::whole(from)) == 0) {
            self.note_short();
        }
        taken
    }

    /// Takes from the pageblock that this type mixed into before, as far as it was stolen. Not another mixing: frames
    /// that Linux moves to the request's lists are taken from there without an event. Our default keeps to that
    /// pageblock while it can serve, which also keeps the others clean.
    fn take_from_stolen<P: Platform>(&self, request: &Request) -> Option<u32> {
        let Request { order, wanted, .. } = *request;
        let stolen = self.stolen.get(wanted)?;
        let Place { mut region, index } = self.lock_at::<P>(stolen.block << BLOCK_SHIFT)?;
        let block = index >> BLOCK_SHIFT;
        let b = region.blocks.get(block)?;
        let serves = b.top() != Pageblock::NO_TOP && b.top() != Pageblock::WHOLE && u32::from(b.top()) >= order;
        if order >= BLOCK_SHIFT || !serves || !b.migrate_type().is_ordinary() || stolen.frames >> order == 0 {
            return None;
        }
        if !self.policy.goes_on {
            self.stolen.set(wanted, StolenBlock { frames: stolen.frames - (1 << order), ..stolen });
        }
        let index = region.take_from(block, order)?;
        region.states.set(index, request.mark);
        self.publish(&mut region);
        Some(region.offset + index)
    }

    /// Takes from another migrate type (`__rmqueue_fallback()`).
    fn take_fallback<P: Platform>(&self, request: &mut Request) -> Option<u32> {
        if !request.wanted.is_ordinary() {
            return None;
        }
        if self.policy.claims_or_steals {
            return self.claim_or_steal::<P>(request);
        }
        for _ in 0..ATTEMPTS {
            let victim = self.choose_victim::<P>(request)?;
            if victim.top < BLOCK_SHIFT {
                request.boost_pending = true;
                if request.flags.contains(AllocFlags::FRAGMENT_STALL) && victim.top < self.stall_order {
                    // Nothing else is looked for: the caller waits for the pages that kswapd is about to free.
                    self.marks.refused.fetch_add(1, Ordering::Relaxed);
                    return None;
                }
            }
            if let Some(index) = self.take_from_victim::<P>(victim, request) {
                return Some(index);
            }
        }
        None
    }

    /// Claims a pageblock, the first one with the largest free block that pays; or else takes the smallest block that
    /// serves (`__rmqueue_claim()` and `__rmqueue_steal()`). A request that has stolen goes on stealing.
    fn claim_or_steal<P: Platform>(&self, request: &mut Request) -> Option<u32> {
        let Request { order, wanted, flags, .. } = *request;
        if request.claim != Claim::Never {
            request.claim = Claim::Only;
            let whole = self.largest_victim::<P>(order.max(BLOCK_SHIFT), wanted);
            let parts = (order..BLOCK_SHIFT).rev().filter(|_| !flags.contains(AllocFlags::NOFRAGMENT));
            let parts = parts.take_while(|&top| self.policy.can_claim(top, wanted));
            let parts = parts.filter_map(|top| self.smallest_victim(top, wanted).filter(|found| found.top == top));
            let claimed = whole.into_iter().chain(parts).find_map(|victim| {
                let index = self.take_from_victim::<P>(victim, request)?;
                Some((index, victim.top < BLOCK_SHIFT))
            });
            if let Some((index, mixes)) = claimed {
                request.boost_pending |= mixes;
                return Some(index);
            }
        }
        if flags.contains(AllocFlags::NOFRAGMENT) || order >= BLOCK_SHIFT {
            return None;
        }
        request.claim = Claim::Never;
        for _ in 0..ATTEMPTS {
            let victim = self.smallest_victim(order, wanted)?;
            if let Some(index) = self.take_from_victim::<P>(victim, request) {
                return Some(index);
            }
        }
        None
    }

    /// Which pageblock of another type serves: the least fragmented, or for movable requests that cannot claim it the
    /// most fragmented.
    fn choose_victim<P: Platform>(&self, request: &Request) -> Option<Victim> {
        let Request { order, wanted, flags, .. } = *request;
        let least = if flags.contains(AllocFlags::NOFRAGMENT) { order.max(BLOCK_SHIFT) } else { order };
        let largest = match self.largest_victim::<P>(least, wanted) {
            None if least < BLOCK_SHIFT && fallbacks(wanted).into_iter().any(|from| self.revoke::<P>(from, order)) => {
                self.largest_victim::<P>(least, wanted)?
            }
            found => found?,
        };
        let smallest = !self.policy.can_claim(largest.top, wanted)
            && wanted == MigrateType::Movable
            && largest.top > order
            && self.policy.smallest_for_movable;
        Some(if smallest { self.smallest_victim(order, wanted).unwrap_or(largest) } else { largest })
    }

    /// Takes the block from the victim, claiming it first if that pays. `None` if another CPU has changed it meanwhile.
    fn take_from_victim<P: Platform>(&self, victim: Victim, request: &Request) -> Option<u32> {
        let Request { order, wanted, .. } = *request;
        let mut region = self.lock::<P>(victim.region)?;
        let found = region.find_victim(victim, order, self.policy);
        let Some(found) = found else {
            self.publish(&mut region);
            return None;
        };
        let change_ownership = request.claim != Claim::Never && self.try_claim(&mut region, found, request);
        match request.claim {
            Claim::Only if !change_ownership => {
                self.publish(&mut region);
                return None;
            }
            Claim::IfItPays if !change_ownership => self.remember_stolen(&mut region, found, request),
            _ => {}
        }
        let index = if change_ownership && order >= BLOCK_SHIFT {
            region.take(order, wanted)
        } else if change_ownership && found.top >= BLOCK_SHIFT {
            region.open_whole(wanted).and_then(|block| region.take_from(block, order))
        } else {
            region.take_from(found.block, order)
        };
        let fallback = index.map(|index| Fallback {
            pfn: region.pfn_of(index),
            alloc_order: Order::saturating(order as u8),
            fallback_order: Order::saturating(found.top as u8),
            wanted,
            from: found.from,
            change_ownership,
        });
        if let Some(fallback) = &fallback {
            region.events.note(fallback);
        }
        if let Some(index) = index {
            region.states.set(index, request.mark);
        }
        self.publish(&mut region);
        let offset = region.offset;
        drop(region);
        let taken = Taken::<P>::new(self, offset + index?, order);
        if let Some(fallback) = fallback {
            P::hooks().trace(&Event::Fallback(fallback));
        }
        Some(taken.handed_out())
    }

    /// The fallback type's pageblock that can serve the largest order; among equals the first type of the table.
    fn largest_victim<P: Platform>(&self, least: u32, wanted: MigrateType) -> Option<Victim> {
        let mut best: Option<Victim> = None;
        for from in fallbacks(wanted) {
            let whole = self.whole_victim::<P>(from, least);
            let partial = || {
                let found = self.summary.least_fragmented(from, least)?;
                Some(Victim { region: found.region, top: found.top, from })
            };
            let Some(found) = whole.or_else(partial) else { continue };
            if best.is_none_or(|b| b.top < found.top) {
                best = Some(found);
            }
        }
        best
    }

    /// A run of wholly free pageblocks of a type: the largest, or the smallest that serves, as the policy says.
    fn whole_victim<P: Platform>(&self, from: MigrateType, least: u32) -> Option<Victim> {
        let regions = Ones(self.summary.regions(FreeAreaId::whole(from)));
        let mut best: Option<Victim> = None;
        for region in regions {
            let Some(top) = self.lock::<P>(region)?.victim_run(from, least, self.policy) else { continue };
            if best.is_none_or(|b| b.top < top) {
                best = Some(Victim { region, top, from });
            }
            if !self.policy.claim_whole_run || top == u32::from(self.max_order().as_u8()) {
                break;
            }
        }
        best
    }

    /// The fallback types' most fragmented pageblock that still serves.
    fn smallest_victim(&self, order: u32, wanted: MigrateType) -> Option<Victim> {
        let smallest = |from| {
            let found = self.summary.most_fragmented(from, order)?;
            Some(Victim { region: found.region, top: found.top, from })
        };
        // Of equals the first type of the table.
        fallbacks(wanted).into_iter().filter_map(smallest).min_by_key(|victim| victim.top)
    }

    /// The rest for the wanted type of a pageblock that it takes a block from and could not claim.
    fn remember_stolen(&self, region: &mut Region<'m>, victim: Found, request: &Request) {
        let Request { order, wanted, .. } = *request;
        region.freshen(victim.block);
        let Some(b) = region.blocks.get(victim.block) else { return };
        let before = if self.policy.can_claim(victim.top, wanted) {
            u32::from(b.free())
        } else if self.policy.smallest_for_movable {
            // Such a victim is smaller than a word.
            1 << b.smallest_order(order).unwrap_or(order)
        } else {
            1 << order
        };
        let block = (region.offset >> BLOCK_SHIFT) + victim.block;
        let frames = before.saturating_sub(1 << order);
        let part = StolenBlock { block, frames };
        self.stolen.set(wanted, if self.policy.goes_on { StolenBlock::without_end(block) } else { part });
    }

    /// Gives the victim's pageblock to the wanted type, if enough of it is free or compatible
    /// (`steal_suitable_fallback()`). True if it did.
    fn try_claim(&self, region: &mut Region<'m>, victim: Found, request: &Request) -> bool {
        let Request { order, wanted, .. } = *request;
        if victim.top >= BLOCK_SHIFT {
            let keep = if self.policy.claim_whole_run { victim.top } else { order.max(BLOCK_SHIFT) };
            region.claim_run(victim, keep, wanted);
            return true;
        }
        if !self.policy.can_claim(victim.top, wanted) {
            return false;
        }
        let Some(free) = region.blocks.get(victim.block).map(|b| u64::from(b.free())) else { return false };
        let alike = if self.policy.claim_counts_compatible { region.alike(victim, free, wanted) } else { 0 };
        if free + alike < PAGEBLOCK_FRAMES / 2 {
            return false;
        }
        region.set_type(victim.block, wanted);
        // Neither type can move: the loser goes on in the pageblock that is mixed now, rather than take it back, and so
        // on in turn.
        if self.policy.goes_on && wanted != MigrateType::Movable && victim.from != MigrateType::Movable {
            let block = (region.offset >> BLOCK_SHIFT) + victim.block;
            self.stolen.set(victim.from, StolenBlock::without_end(block));
        }
        true
    }
}

impl Region<'_> {
    /// The largest order of a run of wholly free pageblocks of a type, or the smallest from `least` on, as the policy
    /// says.
    fn victim_run(&mut self, from: MigrateType, least: u32, policy: Policy) -> Option<u32> {
        if policy.claim_whole_run {
            self.largest_run(from).filter(|&order| order >= least)
        } else {
            self.find_run(from, least.max(BLOCK_SHIFT)).map(|run| run.order)
        }
    }

    /// The victim's pageblock, if the region still has it.
    fn find_victim(&mut self, victim: Victim, order: u32, policy: Policy) -> Option<Found> {
        let Victim { top, from, .. } = victim;
        if top < BLOCK_SHIFT {
            let block = self.free_area.lowest(FreeAreaId::new(from, top))?;
            return Some(Found { block, top, from });
        }
        let top = self.victim_run(from, order, policy)?;
        let run = self.find_run(from, top)?;
        Some(Found { block: run.first, top: run.order, from })
    }

    /// Used frames of the victim's pageblock that suit the wanted type.
    fn alike(&self, victim: Found, free: u64, wanted: MigrateType) -> u64 {
        let movable = movable_frames(self.states.view(), victim.block);
        match (wanted, victim.from) {
            (MigrateType::Movable, _) => movable,
            (_, MigrateType::Movable) => PAGEBLOCK_FRAMES.saturating_sub(free + movable),
            _ => 0,
        }
    }

    /// Gives the first `2^(keep-9)` pageblocks of a wholly free run to another type; the rest keeps its type.
    fn claim_run(&mut self, victim: Found, keep: u32, wanted: MigrateType) {
        for block in victim.block..victim.block + (1 << (keep - BLOCK_SHIFT)) {
            self.set_type(block, wanted);
        }
    }
}

/// Used frames of a pageblock with holders that can move them, by the heads' state bytes.
pub(crate) fn movable_frames(states: StateView<'_>, block: u32) -> u64 {
    if states.immovable(block).is_some() {
        return 0;
    }
    let first = block << BLOCK_SHIFT;
    let mut movable = 0;
    for word in (first..first + PAGEBLOCK_FRAMES as u32).step_by(64) {
        let (heads, ours) = (states.heads(word), states.movable_heads(word));
        // A frame before a head is a block of its own.
        let single = ours & heads >> 1;
        movable += u64::from(single.count_ones());
        movable += Ones(ours & !single).map(|at| states.get(word + at).order().frames()).sum::<u64>();
    }
    movable.min(PAGEBLOCK_FRAMES)
}
