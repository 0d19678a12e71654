//! A pageblock: 512 frames, one cache line of free bits and one line of what is derived from them.

use core::fmt;

use crate::{MigrateType, PAGEBLOCK_FRAMES};

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
    /// For use by the rooms above: deferral, ages.
    pub spare: [u8; 49],
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
            spare: [0; 49],
        }
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

const _: () = assert!(size_of::<Pageblock>() == 128);
