//! Choosing by occupancy: which pageblocks to empty, and how full a pageblock must be to take their contents.
//!
//! One pass over the pageblocks' counts, a load or two each and no frame looked at, gives both.

use core::ops::Range;

use arrayvec::ArrayVec;
use pageblock_buddy::ZoneScan;
use pageblock_frame::{
    BLOCK_WORDS, FrameState, MigrateType, Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, Pageblock, Platform, StateView,
};

use crate::cluster::{BLOCK, keep};
use crate::config::CompactionConfig;
use crate::request::{Origin, Request};

/// Candidates kept of one pass.
const CANDIDATES: usize = 8;
/// Free frames a step of the histogram.
const STEP: u16 = 8;
const STEPS: usize = PAGEBLOCK_FRAMES as usize / STEP as usize + 1;

/// Pageblocks that make one block of the wanted order, or the one that holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Frames in use: the cost of emptying it.
    pub(crate) used: u32,
    /// Frames of it that are free and would count as room.
    pub(crate) free: u32,
    /// First pageblock.
    pub(crate) block: u32,
}

/// The result of one pass.
#[derive(Debug)]
pub(crate) struct Choice {
    /// The emptiest first.
    pub(crate) candidates: ArrayVec<Candidate, CANDIDATES>,
    /// Frames of the wanted block: no more can be in its way.
    frames: u32,
    /// Free frames in possible targets, by how many their pageblock has.
    space: [u32; STEPS],
    /// Free frames in pageblocks of other types that may be filled when those are.
    foreign: u32,
}

/// The step of the histogram that a pageblock is in. One that is known to be impossible to empty is as good as full.
#[inline]
pub(crate) const fn step_of(b: &Pageblock) -> u16 {
    if b.note() != 0 { 0 } else { b.free() / STEP }
}

/// Whether something may be moved into this pageblock.
#[inline]
pub(crate) const fn is_target(b: &Pageblock) -> bool {
    b.free() > 0 && matches!(b.migrate_type(), MigrateType::Movable | MigrateType::Cma) && !b.is_wholly_free()
}

/// Whether something may be moved into this pageblock of another type, once there is no target left.
#[inline]
pub(crate) const fn is_foreign_target(b: &Pageblock) -> bool {
    b.free() > 0 && matches!(b.migrate_type(), MigrateType::Unmovable | MigrateType::Reclaimable) && !b.is_wholly_free()
}

/// The note that says: could not be emptied with this many free frames.
pub(crate) const fn note_for(free: u16) -> u16 {
    free + 1
}

/// Which pageblocks may be emptied for a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sources {
    /// Fewest frames that must belong to the allocator.
    least: u16,
    /// One bit a migrate type.
    types: u8,
    /// Pageblocks that make one block of the wanted order, and frames.
    group: u32,
    frames: u32,
    /// Pageblocks of other types may be filled, too. Not unasked: that mixes types.
    pub(crate) foreign: bool,
}

impl Sources {
    pub(crate) fn new(request: &Request, order: Order, config: &CompactionConfig) -> Self {
        let least = if order < PAGEBLOCK_ORDER { 1 } else { PAGEBLOCK_FRAMES as u16 };
        let movable = request.migrate_type == MigrateType::Movable;
        let types = 0b111 | u8::from(movable) << MigrateType::Cma as u8;
        let group = (order.frames() / PAGEBLOCK_FRAMES).max(1) as u32;
        let foreign = config.foreign_targets && request.origin != Origin::Proactive;
        Self { least, types, group, frames: order.frames() as u32, foreign }
    }

    /// Whether a pageblock may be emptied, as far as its counts say.
    #[inline]
    pub(crate) const fn contain(self, b: &Pageblock) -> bool {
        // An isolated pageblock's type is in no set.
        let kind = self.types >> (b.migrate_type() as u8) & 1 == 1;
        let note = if self.least > 1 { b.note() } else { b.part_note() };
        b.managed() >= self.least && kind && note != note_for(b.free())
    }
}

impl Choice {
    /// Looks at `blocks`; `skip` is asked for pageblocks tried before.
    pub(crate) fn make<P: Platform>(
        scan: &ZoneScan<'_, '_, P>,
        blocks: Range<u32>,
        sources: Sources,
        skip: impl Fn(u32) -> bool,
    ) -> Self {
        let mut choice = Self { candidates: ArrayVec::new(), frames: sources.frames, space: [0; STEPS], foreign: 0 };
        let mut worst = u32::MAX;
        let mut group = Some((0, 0));
        scan.survey(blocks, |block, b| {
            let mut room = if is_target(b) { u32::from(b.free()) } else { 0 };
            if room > 0
                && let Some(space) = choice.space.get_mut(usize::from(step_of(b)))
            {
                *space += room;
            } else if sources.foreign && is_foreign_target(b) {
                room = u32::from(b.free());
                choice.foreign += room;
            }
            let mut own = sources.contain(b).then(|| (u32::from(b.managed().wrapping_sub(b.free())), room));
            if sources.group > 1 {
                let before = if block.is_multiple_of(sources.group) { Some((0, 0)) } else { group };
                group = before.zip(own).map(|((used, free), (more, room))| (used + more, free + room));
                own = group.filter(|_| (block + 1).is_multiple_of(sources.group));
            }
            if let Some((used, free)) = own
                && used > 0
                && used < worst
                && !skip(block + 1 - sources.group)
            {
                worst = choice.offer(Candidate { used, free, block: block + 1 - sources.group });
            }
        });
        choice
    }

    /// Keeps a candidate; returns how many frames in use are too many from now on.
    #[inline(never)]
    fn offer(&mut self, candidate: Candidate) -> u32 {
        if self.candidates.is_full() {
            self.candidates.pop();
        }
        let at = self.candidates.partition_point(|known| known.used <= candidate.used);
        let mut candidate = candidate;
        keep(&mut self.candidates, candidate);
        // Its place is `at`: it changes places with each one behind.
        for later in self.candidates.iter_mut().skip(at) {
            core::mem::swap(later, &mut candidate);
        }
        if self.candidates.is_full() { self.candidates.last().map_or(0, |last| last.used) } else { u32::MAX }
    }

    /// How empty targets must be at most to have room for a candidate's blocks, as a step; `None` if there is not as
    /// much room outside it. Beyond the last step where all targets, and others, are needed.
    pub(crate) fn threshold(&self, candidate: &Candidate) -> Option<u16> {
        let all = self.space.iter().sum::<u32>() + self.foreign;
        let need = candidate.used.min(self.frames);
        let mut room = 0;
        let step = self.space.iter().position(|space| {
            room += space;
            room >= need
        });
        (all >= need + candidate.free).then_some(step.unwrap_or(STEPS) as u16)
    }
}

/// A frame that keeps its pageblock from being emptied; `None` if no single one can be named.
pub(crate) type Blocker = Option<u32>;

/// Findings from the states of an aligned block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Appraisal {
    /// Frames in use, if all of them are in movable blocks that are small enough.
    pub(crate) used: Result<u32, Blocker>,
    /// State bytes that were read.
    pub(crate) read: u32,
}

/// Whether the frames of an aligned block are all free, or in movable blocks inside it that are small enough.
pub(crate) fn appraise(
    states: StateView<'_>,
    map: &[u64; BLOCK_WORDS],
    frames: Range<u32>,
    config: &CompactionConfig,
) -> Appraisal {
    let mut result = Appraisal { used: Ok(0), read: 0 };
    for at in words_of(&frames) {
        let word = Word::new(at, &frames);
        result.read += word.mask.count_ones();
        match appraise_word(states, map, word, config) {
            Ok(part) => result.used = result.used.map(|used| used + part.used),
            Err(blocker) => return Appraisal { used: Err(blocker), ..result },
        }
    }
    result
}

/// The first frames of the words that a range reaches into.
pub(crate) fn words_of(frames: &Range<u32>) -> impl Iterator<Item = u32> + use<> {
    (frames.start & !63..frames.end).step_by(64)
}

/// Some of 64 frames.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Word {
    /// First of the 64 frames.
    pub(crate) at: u32,
    /// One bit for each frame in question.
    pub(crate) mask: u64,
}

impl Word {
    /// Those of the word that begins at `at` that belong to a range which reaches into it.
    pub(crate) fn new(at: u32, frames: &Range<u32>) -> Self {
        let from = frames.start.max(at) - at;
        let to = frames.end.min(at + 64) - at;
        Self { at, mask: (u64::MAX >> (64 - (to - from))) << from }
    }
}

/// The blocks in use among 64 frames, if all can be moved.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    /// Heads of the blocks.
    pub(crate) heads: u64,
    /// Frames.
    pub(crate) used: u32,
}

/// [`appraise`] for some of 64 frames.
#[inline]
pub(crate) fn appraise_word(
    states: StateView<'_>,
    map: &[u64; BLOCK_WORDS],
    word: Word,
    config: &CompactionConfig,
) -> Result<Part, Blocker> {
    let Word { at, mask } = word;
    let (heads, movable) = (states.heads(at) & mask, states.movable_heads(at) & mask);
    if heads != movable {
        return Err(Some(at + (heads & !movable).trailing_zeros().min(63)));
    }
    let free = map.get(at as usize / 64 % BLOCK_WORDS).map_or(0, |word| (word & mask).count_ones());
    let singles = movable.count_ones();
    let used = if free + singles == mask.count_ones() { singles } else { sum_of_orders(states, at, movable, config)? };
    // Frames that are neither free nor in a movable block are holes, reserved, or tails of a block from below.
    if used + free == mask.count_ones() { Ok(Part { heads: movable, used }) } else { Err(None) }
}

/// Frames in the movable blocks with these heads; the head of one that is too large to be moved, if there is one.
fn sum_of_orders(states: StateView<'_>, at: u32, heads: u64, config: &CompactionConfig) -> Result<u32, Blocker> {
    let mut left = heads;
    let mut sum = 0;
    while left != 0 {
        let head = at + left.trailing_zeros();
        match states.get(head).decode() {
            FrameState::Allocated(order, _) if order <= config.largest_move => sum += order.frames() as u32,
            _ => return Err(Some(head)),
        }
        left &= left - 1;
    }
    Ok(sum)
}

/// A part of a pageblock that can be emptied, if there is one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BestPart {
    /// Its first frame.
    pub(crate) index: Option<u32>,
    /// State bytes that were read to find it.
    pub(crate) read: u32,
}

/// The aligned block of `order` below a pageblock that costs least to empty.
pub(crate) fn best_part(
    states: StateView<'_>,
    map: &[u64; BLOCK_WORDS],
    block: u32,
    order: Order,
    config: &CompactionConfig,
) -> BestPart {
    let frames = order.frames() as u32;
    let mut best = BestPart { index: None, read: 0 };
    let mut most = 0;
    let mut offset = 0;
    // Not `step_by`, which would divide by a number that it cannot know to be above 0.
    while offset < BLOCK {
        let free = free_in(map, offset, frames);
        // A part with nothing free costs as much as it makes.
        if free > most {
            let index = block * BLOCK + offset;
            let part = appraise(states, map, index..index + frames, config);
            best.read += part.read;
            if part.used.is_ok() {
                (best.index, most) = (Some(index), free);
            }
        }
        offset += frames;
    }
    best
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
