//! Memory that comes: giving frames to the allocator at boot or later, and recording those that are not its own.

use pageblock_frame::sync::Ordering;
use pageblock_frame::{Pfn, PfnRange, StateByte, StateTable, Unopened};

use crate::error::ZoneError;
use crate::region::{BLOCK_SHIFT, Region};
use crate::zone::Zone;

/// Why a frame that does not belong to the allocator does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Absent {
    /// It exists and is in other use: firmware, the kernel's image, metadata.
    Reserved,
    /// It does not exist.
    Hole,
}

/// Frames of a part at most: 128 pageblocks.
const STEP: u64 = 128 << BLOCK_SHIFT;

/// A run of frames in one region.
#[derive(Clone, Copy)]
struct Part {
    region: u32,
    /// Index of the first in the region.
    index: u32,
    frames: u32,
}

/// Share of a [`Part`] that is done at once.
#[derive(Clone, Copy)]
enum Stretch {
    /// Whole pageblocks that have not been opened.
    Unopened { first: u32, blocks: u32 },
    /// Frames of one pageblock.
    Frames { index: u32, frames: u32 },
}

/// A part in runs of whole pageblocks that have not been opened, and pieces of others.
fn stretches<'m>(states: StateTable<'m>, part: Part) -> impl Iterator<Item = Stretch> + use<'m> {
    const WHOLE: u32 = 1 << BLOCK_SHIFT;
    let (mut at, end) = (part.index, part.index + part.frames);
    core::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let start = at;
        if at.is_multiple_of(WHOLE) {
            let (first, whole) = (at >> BLOCK_SHIFT, (end - at) >> BLOCK_SHIFT);
            let blocks = states.unopened_run(first, whole);
            at += blocks << BLOCK_SHIFT;
            if blocks > 0 {
                return Some(Stretch::Unopened { first, blocks });
            }
        }
        at = (((start >> BLOCK_SHIFT) + 1) << BLOCK_SHIFT).min(end);
        Some(Stretch::Frames { index: start, frames: at - start })
    })
}

impl Zone<'_> {
    /// Gives frames to the allocator: at boot, or when memory is added. They start out free, in movable pageblocks.
    /// Returns how many there were.
    ///
    /// # Errors
    /// [`ZoneError::OutOfRange`] for frames outside the zone, [`ZoneError::Overlap`] if one of them belongs to the
    /// allocator already. Nothing has changed then.
    ///
    /// # Safety
    /// 1. The frames are used by nothing else, now and as long as frames of the zone are used.
    /// 2. No other call releases any of them at the same time.
    #[expect(unsafe_code, reason = "the caller's word for what the frames are")]
    pub unsafe fn release(&self, range: PfnRange) -> Result<u64, ZoneError> {
        if range.is_empty() {
            return Ok(0);
        }
        if range.start < self.span().start || range.end > self.span().end {
            return Err(ZoneError::OutOfRange(range));
        }
        for part in self.parts(range) {
            let taken = self.locked(part.region, |region| region.first_managed_of(part)).flatten();
            if let Some(taken) = taken {
                return Err(ZoneError::Overlap(taken));
            }
        }
        for part in self.parts(range) {
            self.locked(part.region, |region| {
                let was_reserved = region.release(part);
                self.publish(region);
                self.managed.fetch_add(u64::from(part.frames), Ordering::Relaxed);
                self.present.fetch_add(u64::from(part.frames) - was_reserved, Ordering::Relaxed);
            });
        }
        Ok(range.len())
    }

    /// Records frames that exist but are not the allocator's, or that do not exist, so that a wrong free of
    /// one is named. Frames that belong to the allocator are left alone.
    pub fn mark_absent(&self, range: PfnRange, absent: Absent) {
        for part in self.parts(range.intersect(self.span())) {
            let marked = self.locked(part.region, |region| region.mark_absent(part, absent));
            if absent == Absent::Reserved {
                self.present.fetch_add(marked.unwrap_or(0), Ordering::Relaxed);
            }
        }
    }

    /// A range inside the zone in parts, each of which is short enough to be worked on with interrupts off.
    fn parts(&self, range: PfnRange) -> impl Iterator<Item = Part> + use<> {
        let shift = self.region_shift();
        let (mut at, end) =
            (range.start.as_u64() - self.base().as_u64(), range.end.as_u64().saturating_sub(self.base().as_u64()));
        core::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let region = at >> shift;
            let next = (at / STEP + 1) * STEP;
            let next = next.min((region + 1) << shift).min(end);
            let index = at - (region << shift);
            let part = Part { region: region as u32, index: index as u32, frames: (next - at) as u32 };
            at = next;
            Some(part)
        })
    }
}

impl Region<'_> {
    /// Makes frames the allocator's, free. Returns how many had been marked as reserved.
    fn release(&mut self, part: Part) -> u64 {
        let mut was_reserved = 0;
        for stretch in stretches(self.states, part) {
            match stretch {
                Stretch::Unopened { first, blocks } => {
                    was_reserved += self.blocks.release_unopened(first..first + blocks) << BLOCK_SHIFT;
                    self.release_unopened(first, blocks);
                }
                Stretch::Frames { index, frames } => was_reserved += self.release_frames(index, frames),
            }
        }
        self.managed += u64::from(part.frames);
        was_reserved
    }

    /// The same of frames of one pageblock.
    fn release_frames(&mut self, index: u32, frames: u32) -> u64 {
        if let Some(b) = self.blocks.get_mut(index >> BLOCK_SHIFT) {
            b.add_managed(frames as u16);
        }
        let was_reserved = self.clear_absent(index, frames);
        let spans = self.word_spans(index, frames);
        self.edit_block(index >> BLOCK_SHIFT, |map| spans.for_each(|(_, word, mask)| map[word] |= mask));
        was_reserved
    }

    /// The first frame of the part that belongs to the allocator, if there is one.
    fn first_managed_of(&self, part: Part) -> Option<Pfn> {
        let taken = stretches(self.states, part).find_map(|stretch| match stretch {
            Stretch::Unopened { first, blocks } => {
                self.blocks.first_free_unopened(first..first + blocks).map(|block| block << BLOCK_SHIFT)
            }
            Stretch::Frames { index, frames } => self.first_managed(index, frames),
        });
        taken.map(|index| self.pfn_of(index))
    }

    /// The first of these frames of one pageblock that is free or held, if there is one.
    fn first_managed(&self, index: u32, frames: u32) -> Option<u32> {
        if self.blocks.get(index >> BLOCK_SHIFT).is_none_or(|b| b.managed() == 0) {
            return None;
        }
        (index..index + frames).find(|&i| !self.none_free(i, 1) || self.states.head_of(i).is_some())
    }

    /// Forgets that frames were reserved or holes. Returns how many were reserved.
    fn clear_absent(&mut self, index: u32, frames: u32) -> u64 {
        if !self.absent_marked {
            return 0;
        }
        let mut reserved = 0;
        for frame in index..index + frames {
            reserved += u64::from(self.states.get(frame) == StateByte::RESERVED);
            self.states.set(frame, StateByte::INSIDE);
        }
        reserved
    }

    /// Marks frames that are not the allocator's. Returns how many were not marked before.
    fn mark_absent(&mut self, part: Part, absent: Absent) -> u64 {
        self.absent_marked = true;
        let state = match absent {
            Absent::Reserved => StateByte::RESERVED,
            Absent::Hole => StateByte::HOLE,
        };
        let unopened = if absent == Absent::Reserved { Unopened::Reserved } else { Unopened::Hole };
        let mut marked = 0;
        for stretch in stretches(self.states, part) {
            match stretch {
                Stretch::Unopened { first, blocks } => {
                    for block in first..first + blocks {
                        if self.blocks.unopened(block) == Some(Unopened::Nothing) {
                            self.blocks.set_unopened(block, unopened);
                            marked += 1 << BLOCK_SHIFT;
                        }
                    }
                }
                Stretch::Frames { index, frames } => marked += self.mark_frames(index, frames, state),
            }
        }
        marked
    }

    /// The same of frames of one pageblock.
    fn mark_frames(&mut self, first: u32, frames: u32, state: StateByte) -> u64 {
        let Some(unmanaged) = self.blocks.get_mut(first >> BLOCK_SHIFT).map(|b| b.managed() == 0) else { return 0 };
        let mut marked = 0;
        for index in first..first + frames {
            if self.states.get(index) == StateByte::INSIDE
                && (unmanaged || self.none_free(index, 1) && self.states.head_of(index).is_none())
            {
                self.states.set(index, state);
                marked += 1;
            }
        }
        marked
    }
}
