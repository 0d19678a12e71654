//! Our machine with what it holds: executes operations, and makes room where frames suffice but lie apart.
//!
//! Linux compacts when a request for a large block finds only pieces. The pages that it moves move in our machine too, to places
//! that our allocator chooses. But ours lie elsewhere, so that this need not make the same room: where a request is refused for
//! want of a large enough block, ours empties the pageblock that takes the fewest moves. The clock of the allocator stands
//! still meanwhile.

use std::time::{Duration, Instant};

use pageblock_buddy::{FreeError, Zone};
use pageblock_frame::{
    AllocFlags, FrameState, Gfp, MigrateType, Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, Pfn, PfnRange,
};

use super::machine::{Cpu, Machine};
use super::plan::{Block, NONE, Op};

/// In `holders`: the rest is the first place of a frame. Frames from 8 TiB on cannot be told apart and do not move.
const ORIGIN: u32 = 1 << 31;
/// Pageblocks of a zone that are tried for one request.
const ATTEMPTS: usize = 64;

/// Our machine.
#[derive(Debug)]
pub(crate) struct Ours<'m> {
    /// Its zones.
    pub(crate) machine: Machine<'m>,
    /// For each frame who was placed there last: 0 for frames held since the start that never moved; the number of a block
    /// plus 1; with [`ORIGIN`], the first place of a frame held since the start.
    holders: Vec<u32>,
    /// For each frame held since the start its present place, [`NONE`] if that is the first one.
    places: Vec<u32>,
    any_moved: bool,
    /// What execution found.
    pub(crate) tally: Tally,
}

/// What the execution of operations found.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Time in the allocator.
    pub(crate) time: Duration,
    /// Requests and frees.
    pub(crate) operations: u64,
    /// Requests that were refused, by order.
    pub(crate) refused: [u64; Order::COUNT],
    /// Of those, the ones for which no zone had enough free frames.
    pub(crate) refused_for_memory: u64,
    /// Frees that the zones refused, and the first of them.
    pub(crate) rejected: u64,
    /// The first of them.
    pub(crate) first_rejection: Option<String>,
    /// Pageblocks emptied to make room.
    pub(crate) emptied: u64,
    /// Frames moved for that.
    pub(crate) moved: u64,
}

impl<'m> Ours<'m> {
    /// A machine whose held frames below `frames` are all held since the start.
    pub(crate) fn new(machine: Machine<'m>, frames: u64) -> Self {
        let (holders, places) = (vec![0; frames as usize], vec![NONE; frames as usize]);
        Self { machine, holders, places, any_moved: false, tally: Tally::default() }
    }

    /// Executes operations; the clock runs only while the allocator does.
    pub(crate) fn execute(&mut self, ops: &[Op], blocks: &mut [Block]) {
        let mut known = 0;
        let mut started = Instant::now();
        for (at, &op) in ops.iter().enumerate() {
            if self.step(op, blocks) {
                continue;
            }
            self.tally.time += started.elapsed();
            self.learn(&ops[known..at], blocks);
            known = at;
            self.make_room(op, blocks);
            started = Instant::now();
        }
        self.tally.time += started.elapsed();
        self.tally.operations += ops.len() as u64;
        self.learn(&ops[known..], blocks);
    }

    /// One operation; false for a request that was refused. A refused request leaves its block without frames, and the frees
    /// of that block do nothing.
    #[inline]
    fn step(&mut self, op: Op, blocks: &mut [Block]) -> bool {
        let freed = match op {
            Op::Alloc { block, order, gfp, node } => {
                let mut place = self.machine.alloc(order, gfp, node);
                if place.is_none() && order == Order::ZERO {
                    place = self.machine.alloc_anyhow(order, gfp, node);
                }
                blocks[block as usize].ours = place.map_or(NONE, |pfn| pfn.as_u64() as u32);
                return place.is_some();
            }
            Op::Free { block, order } => match std::mem::replace(&mut blocks[block as usize].ours, NONE) {
                NONE => Ok(()),
                ours => self.machine.free(Pfn::new(u64::from(ours)), order),
            },
            Op::FreePart { block, offset, frames } => match blocks[block as usize].ours {
                NONE => Ok(()),
                ours => self.machine.free_range(range(ours + offset, frames)),
            },
            Op::FreeStart { pfn, frames } if self.any_moved => self.free_moved(pfn, frames),
            Op::Move { block, order } => self.move_block(block, order, blocks),
            Op::MoveStart { pfn, frames } => self.move_start(pfn, frames),
            Op::FreeStart { pfn, frames: 1 } => self.machine.free(Pfn::new(u64::from(pfn)), Order::ZERO),
            Op::FreeStart { pfn, frames } => self.machine.free_range(range(pfn, frames)),
        };
        if let Err(error) = freed {
            self.tally.rejected += 1;
            self.tally.first_rejection.get_or_insert_with(|| format!("{op:?}: {error}"));
        }
        true
    }

    /// Frees frames held since the start, wherever they are now.
    fn free_moved(&mut self, first: u32, frames: u32) -> Result<(), FreeError> {
        for pfn in first..first + frames {
            self.machine.free(self.place(pfn), Order::ZERO)?;
            self.places[pfn as usize] = NONE;
        }
        Ok(())
    }

    /// Where a frame held since the start is now.
    fn place(&self, pfn: u32) -> Pfn {
        let place = self.places.get(pfn as usize).copied().filter(|&place| place != NONE);
        Pfn::new(u64::from(place.unwrap_or(pfn)))
    }

    /// Moves a block, if there is a place in a pageblock of its type.
    fn move_block(&mut self, block: u32, order: Order, blocks: &mut [Block]) -> Result<(), FreeError> {
        let ours = &mut blocks[block as usize].ours;
        if *ours == NONE {
            return Ok(());
        }
        let old = Pfn::new(u64::from(*ours));
        let Some(new) = self.machine.place_near(old, order) else { return Ok(()) };
        *ours = new.as_u64() as u32;
        self.machine.free(old, order)
    }

    /// Moves frames held since the start.
    fn move_start(&mut self, first: u32, frames: u32) -> Result<(), FreeError> {
        for pfn in (first..first + frames).filter(|&pfn| pfn < ORIGIN) {
            let old = self.place(pfn);
            let Some(new) = self.machine.place_near(old, Order::ZERO) else { return Ok(()) };
            self.relocated(pfn, new.as_u64() as u32);
            self.machine.free(old, Order::ZERO)?;
        }
        Ok(())
    }

    fn relocated(&mut self, origin: u32, place: u32) {
        self.any_moved = true;
        self.places[origin as usize] = place;
        self.holders[place as usize] = ORIGIN | origin;
    }

    /// Frees the frames held since the start that are not in their first place. Returns their first places.
    pub(crate) fn free_moved_start(&mut self) -> Result<Vec<Pfn>, FreeError> {
        let moved = |pfn: &u32| self.places[*pfn as usize] != NONE;
        let pfns: Vec<u32> = (0..self.places.len() as u32).filter(moved).collect();
        for &pfn in &pfns {
            self.free_moved(pfn, 1)?;
        }
        Ok(pfns.into_iter().map(|pfn| Pfn::new(u64::from(pfn))).collect())
    }

    /// Notes where blocks were placed.
    fn learn(&mut self, ops: &[Op], blocks: &[Block]) {
        for op in ops {
            if let &(Op::Alloc { block, .. } | Op::Move { block, .. }) = op
                && let Some(holder) = self.holders.get_mut(blocks[block as usize].ours as usize)
            {
                *holder = block + 1;
            }
        }
    }

    /// A request found no block above the watermarks: empties a pageblock where only fragmentation is in the way; then
    /// goes below the watermarks; then empties one there.
    #[cold]
    fn make_room(&mut self, op: Op, blocks: &mut [Block]) {
        let Op::Alloc { block, order, gfp, node } = op else { return };
        let (mut place, flags) = (None, gfp.slow_alloc_flags(order));
        if self.empty_one(order, gfp, flags, blocks) {
            place = self.machine.alloc(order, gfp, node);
        }
        place = place.or_else(|| self.machine.alloc_anyhow(order, gfp, node));
        if place.is_none() && self.empty_one(order, gfp, flags | AllocFlags::NO_WATERMARKS, blocks) {
            place = self.machine.alloc_anyhow(order, gfp, node);
        }
        let Some(pfn) = place else {
            self.tally.refused[order.index()] += 1;
            self.tally.refused_for_memory += u64::from(!self.machine.has_frames(order, gfp));
            return;
        };
        blocks[block as usize].ours = pfn.as_u64() as u32;
        self.holders[pfn.as_u64() as usize] = block + 1;
    }

    /// Empties a pageblock of a zone that the request may use and that would serve it but for fragmentation.
    fn empty_one(&mut self, order: Order, gfp: Gfp, flags: AllocFlags, blocks: &mut [Block]) -> bool {
        if order == Order::ZERO || order > PAGEBLOCK_ORDER {
            return false;
        }
        let limit = gfp.zone_limit().unwrap_or_default();
        for index in (0..self.machine.zones().len()).rev() {
            let zone = &self.machine.zones()[index];
            let unlimited = flags.contains(AllocFlags::NO_WATERMARKS);
            let rest = zone.free_frames().saturating_sub(order.frames());
            let request = (Order::ZERO, zone.mark_for(flags));
            if zone.kind() > limit || !(unlimited || zone.watermark_ok_with(rest, request, limit, flags)) {
                continue;
            }
            for (first, room) in candidates(zone) {
                let Some(pages) = self.pages(&self.machine.zones()[index], first, room, blocks) else { continue };
                if self.empty(index, first, &pages, blocks) {
                    self.tally.emptied += 1;
                    return true;
                }
            }
        }
        false
    }

    /// The pages of a pageblock and who holds them, if all of them can be moved and there is room for them elsewhere.
    fn pages(&self, zone: &Zone<'_>, first: Pfn, room: u64, blocks: &[Block]) -> Option<Vec<Page>> {
        let base = zone.index_of(first)?;
        let (mut at, end) = (base, base + PAGEBLOCK_FRAMES as u32);
        let mut pages: Vec<Page> = Vec::new();
        let mut needed = 0;
        while at < end {
            let state = zone.states().get(at);
            let pfn = zone.pfn_of(at).as_u64() as u32;
            match state.decode() {
                FrameState::Inside => at += 1,
                FrameState::Allocated(order, Some(MigrateType::Movable)) if order < PAGEBLOCK_ORDER => {
                    let holder = self.holder(pfn, order, blocks)?;
                    pages.push(Page { pfn, order, holder });
                    needed += order.frames();
                    at += order.frames() as u32;
                }
                _ => return None,
            }
        }
        (needed <= room).then_some(pages)
    }

    fn holder(&self, pfn: u32, order: Order, blocks: &[Block]) -> Option<Holder> {
        let holder = self.holders[pfn as usize];
        if holder == 0 || holder & ORIGIN != 0 {
            let origin = if holder == 0 { pfn } else { holder & !ORIGIN };
            let here = order == Order::ZERO && pfn < ORIGIN && self.place(origin).as_u64() == u64::from(pfn);
            return here.then_some(Holder::Start(origin));
        }
        let number = holder - 1;
        // A block that was freed in part is not in one place any more.
        let block = blocks.get(number as usize)?;
        (block.ours == pfn && block.order == order).then_some(Holder::Block(number))
    }

    /// Moves the pages of a pageblock elsewhere in its zone. False if there is no room for them; those that were moved stay so.
    fn empty(&mut self, zone: usize, first: Pfn, pages: &[Page], blocks: &mut [Block]) -> bool {
        let zone = &self.machine.zones()[zone];
        let needed: u64 = pages.iter().map(|page| page.order.frames()).sum();
        if zone.isolate_block::<Cpu>(first).is_err() {
            return false;
        }
        let fits = zone.free_frames() >= needed;
        let mut left = if fits { pages } else { &[] };
        while let Some((page, rest)) = left.split_first() {
            let Some(place) = zone.alloc::<Cpu>(page.order, MigrateType::Movable, AllocFlags::NOFRAGMENT) else {
                break;
            };
            // The page was found held with this order just now, and nothing else runs.
            if zone.free::<Cpu>(Pfn::new(u64::from(page.pfn)), page.order).is_err() {
                break;
            }
            left = rest;
            let place = place.as_u64() as u32;
            self.tally.moved += page.order.frames();
            match page.holder {
                Holder::Block(number) => {
                    blocks[number as usize].ours = place;
                    self.holders[place as usize] = number + 1;
                }
                Holder::Start(origin) => {
                    self.any_moved = true;
                    self.places[origin as usize] = place;
                    self.holders[place as usize] = ORIGIN | origin;
                }
            }
        }
        let emptied = fits && left.is_empty();
        zone.unisolate_block::<Cpu>(first).is_ok() && emptied
    }
}

/// A page in a pageblock that is to be emptied.
#[derive(Clone, Copy, Debug)]
struct Page {
    pfn: u32,
    order: Order,
    holder: Holder,
}

#[derive(Clone, Copy, Debug)]
enum Holder {
    /// A block of the trace.
    Block(u32),
    /// Held since the start, by its first place.
    Start(u32),
}

/// The movable pageblocks that take the fewest moves to empty, each with the free frames of the others.
fn candidates(zone: &Zone<'_>) -> Vec<(Pfn, u64)> {
    let mut free = 0;
    let mut found: Vec<(u16, u32)> = zone.inspect(|core| {
        let mut found = Vec::new();
        for (block, number) in core.pageblocks().iter().zip(0u32..) {
            if block.migrate_type == MigrateType::Movable {
                free += u64::from(block.free);
                if u64::from(block.managed) == PAGEBLOCK_FRAMES && !block.is_wholly_free() {
                    found.push((block.free, number));
                }
            }
        }
        found
    });
    let key = |&(free, number): &(u16, u32)| (std::cmp::Reverse(free), number);
    if found.len() > ATTEMPTS {
        found.select_nth_unstable_by_key(ATTEMPTS, key);
        found.truncate(ATTEMPTS);
    }
    found.sort_unstable_by_key(key);
    let place = |(own, number): (u16, u32)| (zone.pfn_of(number * PAGEBLOCK_FRAMES as u32), free - u64::from(own));
    found.into_iter().map(place).collect()
}

fn range(first: u32, frames: u32) -> PfnRange {
    PfnRange::from_len(Pfn::new(u64::from(first)), u64::from(frames))
}
