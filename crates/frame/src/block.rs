//! A pageblock: 512 frames, one cache line of free bits and one line of what is derived from them.

use core::fmt;

use crate::sync::AtomicU8;
use crate::{MigrateType, PAGEBLOCK_FRAMES, StateTable};

/// Words in a pageblock's free map.
pub const BLOCK_WORDS: usize = PAGEBLOCK_FRAMES as usize / 64;
/// No block: where the number of a pageblock is expected and there is none.
pub const NO_BLOCK: u32 = u32::MAX;

/// One pageblock's free state, under its zone's lock.
///
/// # Invariants
/// 1. A bit of `map` is set if and only if that frame is free in the zone (not on a per-CPU list, not taken out).
/// 2. `free` is the number of set bits.
/// 3. Bit `8 * o + w` of `presence` is set if and only if the 64 frames of word `w` decompose into at least one maximal free
///    block of order `o`, for orders 0 to 6. (From order 6 on, blocks are made of full words, which are those of order 6.)
///    While `stale` is set that holds for order 6 only.
/// 4. `top` is the highest order of any maximal free block inside, [`Pageblock::WHOLE`] if all frames are free, and
///    [`Pageblock::NO_TOP`] if none is.
#[derive(Clone)]
#[repr(C, align(128))]
pub struct Pageblock {
    /// One bit a frame, set while the frame is free.
    pub map: [u64; BLOCK_WORDS],
    /// For each order the words of the map with a maximal free block of it (see invariant 3).
    pub presence: u64,
    /// Free frames, 0 to 512.
    pub free: u16,
    /// The largest order that the block can serve (see invariant 4).
    pub top: u8,
    /// What the block is for.
    pub migrate_type: MigrateType,
    /// Frames of this block that exist and belong to the allocator, 0 to 512.
    pub managed: u16,
    /// What the block was for before it was isolated.
    pub saved_type: MigrateType,
    /// Blocks have come back since `presence` was computed; whoever takes from the pageblock computes it again first.
    pub stale: bool,
    /// For use by the rooms above: deferral, ages.
    pub spare: [u8; 48],
}

impl Pageblock {
    /// Value of `top` for a block with nothing free.
    pub const NO_TOP: u8 = u8::MAX;
    /// Value of `top` for a wholly free block.
    pub const WHOLE: u8 = 9;

    /// A block with nothing free in it.
    #[must_use]
    pub const fn empty(migrate_type: MigrateType) -> Self {
        Self {
            map: [0; BLOCK_WORDS],
            presence: 0,
            free: 0,
            top: Self::NO_TOP,
            migrate_type,
            managed: 0,
            saved_type: migrate_type,
            stale: false,
            spare: [0; 48],
        }
    }

    /// Eight frames of the map, the one with this index, counted from anywhere that is a multiple of 512, among them; the first
    /// of the eight in the lowest bit.
    #[inline(always)]
    pub fn eight_mut(&mut self, index: u32) -> &mut u8 {
        let place = (index / 8) as usize % (8 * BLOCK_WORDS);
        let place = if cfg!(target_endian = "little") { place } else { place ^ 7 };
        // SAFETY: the map's words are as many bytes, any value of which is one; the borrow of the block goes over to the
        // byte.
        unsafe { &mut (*(&raw mut self.map).cast::<[u8; 8 * BLOCK_WORDS]>())[place] }
    }

    /// True if all 512 frames are free.
    #[must_use]
    #[inline(always)]
    pub const fn is_wholly_free(&self) -> bool {
        self.free as u64 == PAGEBLOCK_FRAMES
    }
}

impl fmt::Debug for Pageblock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pageblock")
            .field("migrate_type", &self.migrate_type)
            .field("free", &self.free)
            .field("top", &self.top)
            .finish_non_exhaustive()
    }
}

/// The pageblocks of a zone and the state bytes of their frames, looked up together with one check.
///
/// # Invariants
/// There is a pageblock for every frame.
///
/// ```
/// use pageblock_frame::{BlockTable, MigrateType, Pageblock, StateTable, sync::AtomicU8};
/// let states: Vec<AtomicU8> = (0..1000).map(|_| AtomicU8::new(0)).collect();
/// let mut blocks = [Pageblock::empty(MigrateType::Movable), Pageblock::empty(MigrateType::Unmovable)];
/// let mut table = BlockTable::new(&mut blocks, StateTable::new(&states)).unwrap();
/// assert_eq!(table.at(999).map(|(block, _)| block.migrate_type), Some(MigrateType::Unmovable));
/// assert!(table.at(1000).is_none());
/// assert!(BlockTable::new(&mut blocks[..1], StateTable::new(&states)).is_none());
/// ```
#[derive(Debug)]
pub struct BlockTable<'b, 'm> {
    blocks: &'b mut [Pageblock],
    states: StateTable<'m>,
}

impl<'b, 'm> BlockTable<'b, 'm> {
    /// Both tables, if every frame has a pageblock.
    #[must_use]
    #[inline]
    pub const fn new(blocks: &'b mut [Pageblock], states: StateTable<'m>) -> Option<Self> {
        if states.len().div_ceil(PAGEBLOCK_FRAMES as usize) <= blocks.len() {
            Some(Self { blocks, states })
        } else {
            None
        }
    }

    /// The pageblock of a frame, and its state byte; `None` past the end.
    #[inline(always)]
    pub fn at(&mut self, index: u32) -> Option<(&mut Pageblock, &'m AtomicU8)> {
        let byte = self.states.byte(index)?;
        // SAFETY: the frame exists, so its pageblock does, by the invariant.
        let block = unsafe { self.blocks.get_unchecked_mut((index / PAGEBLOCK_FRAMES as u32) as usize) };
        Some((block, byte))
    }
}

const _: () = assert!(size_of::<Pageblock>() == 128);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_frames_of_a_map() {
        let mut block = Pageblock::empty(MigrateType::Movable);
        *block.eight_mut(512 + 64 + 15) |= 0x80;
        *block.eight_mut(3) |= 1 << 3;
        assert_eq!((block.map[0], block.map[1]), (1 << 3, 1 << 15));
    }
}
