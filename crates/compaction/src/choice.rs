//! Choosing by occupancy: which pageblocks to empty, and how full the ones must be that take what they held.
//!
//! One pass over the pageblocks' counts, a load or two each and no frame looked at, gives both.

use arrayvec::ArrayVec;
use pageblock_buddy::{BlockView, ZoneScan};
use pageblock_frame::{
    BLOCK_WORDS, FrameState, MigrateType, Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, Platform, StateTable,
};

use crate::{Config, Request};

/// Candidates kept of one pass.
const CANDIDATES: usize = 8;
/// Free frames a step of the histogram.
const STEP: u16 = 8;
const STEPS: usize = PAGEBLOCK_FRAMES as usize / STEP as usize + 1;

/// Pageblocks that make one block of the wanted order, or the one that holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Frames in use: what emptying it costs.
    pub(crate) used: u32,
    /// Frames of it that are free and would count as room.
    pub(crate) free: u32,
    /// First pageblock.
    pub(crate) block: u32,
}

/// What one pass found.
#[derive(Debug)]
pub(crate) struct Choice {
    /// The emptiest first.
    pub(crate) candidates: ArrayVec<Candidate, CANDIDATES>,
    /// Free frames in possible targets, by how many their pageblock has.
    space: [u32; STEPS],
}

/// The step of the histogram that a pageblock is in. One that is known to be impossible to empty is as good as full.
pub(crate) const fn step_of(view: &BlockView) -> u16 {
    if view.note != 0 { 0 } else { view.free / STEP }
}

/// Whether something may be moved into this pageblock.
pub(crate) const fn is_target(view: &BlockView) -> bool {
    let movable = matches!(view.migrate_type, MigrateType::Movable | MigrateType::Cma);
    movable && !view.withheld && view.free > 0 && !view.is_wholly_free()
}

/// The note that says: could not be emptied with this many free frames.
pub(crate) const fn hopeless(view: &BlockView) -> u16 {
    view.free + 1
}

fn is_source(view: &BlockView, request: &Request, order: Order) -> bool {
    let whole = order < PAGEBLOCK_ORDER || u64::from(view.managed) == PAGEBLOCK_FRAMES;
    let kind = view.migrate_type.is_ordinary()
        || (view.migrate_type == MigrateType::Cma && request.migrate_type == MigrateType::Movable);
    whole && kind && !view.withheld && view.managed > 0 && view.note != hopeless(view)
}

impl Choice {
    /// Looks at `blocks`. `order` is at least that of a single frame; `skip` is asked for pageblocks tried before.
    pub(crate) fn make<P: Platform>(
        scan: &ZoneScan<'_, '_, P>,
        blocks: core::ops::Range<u32>,
        request: &Request,
        order: Order,
        skip: impl Fn(u32) -> bool,
    ) -> Self {
        let mut choice = Self { candidates: ArrayVec::new(), space: [0; STEPS] };
        let group = (order.frames() / PAGEBLOCK_FRAMES).max(1) as u32;
        let mut cost = Some((0, 0));
        scan.survey(blocks, |view| {
            if is_target(&view)
                && let Some(space) = choice.space.get_mut(usize::from(step_of(&view)))
            {
                *space += u32::from(view.free);
            }
            if view.block.is_multiple_of(group) {
                cost = Some((0, 0));
            }
            let usable = is_source(&view, request, order) && !skip(view.block);
            let room = if is_target(&view) { u32::from(view.free) } else { 0 };
            cost = cost.filter(|_| usable).map(|(used, free)| (used + u32::from(view.used()), free + room));
            if (view.block + 1).is_multiple_of(group)
                && let Some((used, free)) = cost.filter(|&(used, _)| used > 0)
            {
                choice.offer(Candidate { used, free, block: view.block + 1 - group });
            }
        });
        choice
    }

    fn offer(&mut self, candidate: Candidate) {
        if self.candidates.is_full() {
            if self.candidates.last().is_some_and(|last| last.used <= candidate.used) {
                return;
            }
            self.candidates.pop();
        }
        let at = self.candidates.partition_point(|known| known.used <= candidate.used);
        self.candidates.insert(at, candidate);
    }

    /// How empty targets must be at most to have room for what a candidate holds, as a step; `None` if there is not as much
    /// room outside it.
    pub(crate) fn threshold(&self, candidate: &Candidate) -> Option<u16> {
        let all: u32 = self.space.iter().sum();
        let mut room = 0;
        let step = self.space.iter().position(|space| {
            room += space;
            room >= candidate.used
        })?;
        (all >= candidate.used + candidate.free).then_some(step as u16)
    }
}

/// Whether the frames of an aligned block are all free or in movable blocks inside it that are small enough.
/// Returns how many are in use, and how many state bytes were read.
pub(crate) fn appraise(
    states: StateTable<'_>,
    map: &[u64; BLOCK_WORDS],
    (index, frames): (u32, u32),
    config: &Config,
) -> (Option<u32>, u32) {
    if frames as u64 == PAGEBLOCK_FRAMES && *map == [0; BLOCK_WORDS] && !states.any_movable(index, frames) {
        return (None, frames);
    }
    let (mut used, mut free, mut read) = (0, 0, 0);
    let mut at = index & !63;
    while at < index + frames {
        let from = index.max(at) - at;
        let to = (index + frames).min(at + 64) - at;
        let mask = (u64::MAX >> (64 - (to - from))) << from;
        let (heads, movable) = (states.heads(at) & mask, states.movable_heads(at) & mask);
        read += mask.count_ones();
        if heads != movable {
            return (None, read);
        }
        let here = map.get(at as usize / 64 % BLOCK_WORDS).map_or(0, |word| (word & mask).count_ones());
        free += here;
        used += if here + movable.count_ones() == mask.count_ones() {
            movable.count_ones()
        } else {
            let Some(sum) = sum_of_orders(states, at, movable, config) else { return (None, read) };
            sum
        };
        at += 64;
    }
    ((used + free == frames).then_some(used), read)
}

/// Frames in the movable blocks with these heads; `None` if one of them is too large to be moved.
fn sum_of_orders(states: StateTable<'_>, at: u32, heads: u64, config: &Config) -> Option<u32> {
    let mut left = heads;
    let mut sum = 0;
    while left != 0 {
        let FrameState::Allocated(order, _) = states.get(at + left.trailing_zeros()).decode() else { return None };
        if order > config.largest_move {
            return None;
        }
        sum += order.frames() as u32;
        left &= left - 1;
    }
    Some(sum)
}

/// The aligned block of `order` below a pageblock that costs least to empty, if any can be: its first index.
pub(crate) fn best_part(
    states: StateTable<'_>,
    map: &[u64; BLOCK_WORDS],
    (block, order): (u32, Order),
    config: &Config,
) -> (Option<u32>, u32) {
    let frames = order.frames() as u32;
    let (mut best, mut read) = (None, 0);
    for offset in (0..PAGEBLOCK_FRAMES as u32).step_by(frames as usize) {
        let free = free_in(map, offset, frames);
        if best.is_some_and(|(_, most)| most >= free) || free == 0 {
            continue;
        }
        let index = block * PAGEBLOCK_FRAMES as u32 + offset;
        let (used, looked) = appraise(states, map, (index, frames), config);
        read += looked;
        if used.is_some() {
            best = Some((index, free));
        }
    }
    (best.map(|(index, _)| index), read)
}

fn free_in(map: &[u64; BLOCK_WORDS], offset: u32, frames: u32) -> u32 {
    let word = offset as usize / 64;
    if frames >= 64 {
        let words = map.get(word..word + frames as usize / 64).unwrap_or_default();
        return words.iter().map(|word| word.count_ones()).sum();
    }
    let mask = ((1u64 << frames) - 1) << (offset % 64);
    map.get(word).map_or(0, |word| (word & mask).count_ones())
}
