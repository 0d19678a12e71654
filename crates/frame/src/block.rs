//! A pageblock: 512 frames, one cache line of free bits and one line of values derived from them.

use core::fmt;
use core::hint::cold_path;
use core::marker::PhantomData;
use core::mem::offset_of;
use core::num::{NonZeroU16, NonZeroU64};
use core::ptr::NonNull;

use crate::sync::{AtomicU8, Ordering};
use crate::{MigrateType, PAGEBLOCK_FRAMES, StateByte, StateTable};

/// Words in a pageblock's free map.
pub const BLOCK_WORDS: usize = PAGEBLOCK_FRAMES as usize / 64;
/// No block: where the number of a pageblock is expected and there is none.
pub const NO_BLOCK: u32 = u32::MAX;

/// One pageblock's free state, under its zone's lock.
///
/// # Invariants
/// 1. A bit of `map` is set if and only if that frame is free in the zone (not on a per-CPU list, not taken out).
/// 2. `free` is the number of set bits.
/// 3. Bit `8 * o + w` of `presence` is set if and only if the 64 frames of word `w` decompose into at least one maximal
///    free block of order `o`, for orders 0 to 6. (From order 6 on, blocks are made of full words, which are those of
///    order 6.) While frames are `loose` that holds for order 6 only.
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
    /// Of them, those that have come back since `presence` was computed; a taker of its frames computes it
    /// again first, if there are any.
    pub loose: u16,
    /// The largest order that the block can serve (see invariant 4).
    pub top: u8,
    /// The pageblock's purpose.
    pub migrate_type: MigrateType,
    /// Frames of this block that exist and belong to the allocator, 0 to 512.
    pub managed: u16,
    /// The pageblock's purpose before it was isolated.
    pub saved_type: MigrateType,
    /// The owner of the per-CPU lists that alone refill from it, a number above 0; 0 if it is not reserved.
    pub reserved_by: u16,
    /// Left by scanners that could not empty it: 0, or one more than its free frames then. This and the next two are
    /// hints: a scanner that believes a wrong one does too much or too little, and nothing else.
    pub note: u16,
    /// Left by scanners: one more than the place in the pageblock of the frame that was in the way.
    pub obstacle: Option<NonZeroU16>,
    /// Left by scanners that could make no smaller block in it: 0, or one more than its free frames then.
    pub part_note: u16,
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
            loose: 0,
            top: Self::NO_TOP,
            migrate_type,
            managed: 0,
            saved_type: migrate_type,
            reserved_by: 0,
            note: 0,
            obstacle: None,
            part_note: 0,
        }
    }

    /// Counts frames that have come back, with bits set, of which `presence` does not know.
    #[inline]
    pub fn count_loose(&mut self, frames: u16) {
        // One addition for both numbers, neither of which is ever above 512.
        // SAFETY: the two are neighbours (below), aligned for a word, and any value of either is one.
        unsafe {
            let both = (&raw mut *self).byte_add(offset_of!(Self, free)).cast::<u32>();
            *both = (*both).wrapping_add(u32::from(frames) * 0x1_0001);
        }
    }

    /// Of the aligned 16, 32 and 64 frames around a frame, counted from anywhere that is a multiple of 512: how many of
    /// the three are all free.
    #[must_use]
    #[inline]
    pub fn free_around(&self, index: u32) -> u8 {
        let byte = (index / 8) as usize % (8 * BLOCK_WORDS);
        let map = (&raw const self.map).cast::<u8>();
        // SAFETY: as many aligned bytes around one of the map are the map's, which is of 64 and aligned for them; any
        // value is one. In which direction they count does not matter to neighbours.
        unsafe {
            let byte = if cfg!(target_endian = "little") { byte } else { byte ^ 7 };
            u8::from(*map.add(byte & !1).cast::<u16>() == u16::MAX)
                + u8::from(*map.add(byte & !3).cast::<u32>() == u32::MAX)
                + u8::from(*map.add(byte & !7).cast::<u64>() == u64::MAX)
        }
    }

    /// A block with all of its frames free, in none of the sets yet.
    #[must_use]
    pub const fn wholly_free(migrate_type: MigrateType) -> Self {
        Self {
            map: [u64::MAX; BLOCK_WORDS],
            presence: 0xff << (6 * BLOCK_WORDS),
            free: PAGEBLOCK_FRAMES as u16,
            managed: PAGEBLOCK_FRAMES as u16,
            top: Self::WHOLE,
            ..Self::empty(migrate_type)
        }
    }

    /// True if all 512 frames are free.
    #[must_use]
    #[inline]
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

/// Frames of [`Pageblocks`](crate::Pageblocks) on the way through a list of indices; see there.
///
/// # Invariants
/// There is an opened pageblock in `blocks`, borrowed for `'t`, for each frame below `opened`, which has a state byte.
/// Each bit of `left` is the place of an index.
#[derive(Debug)]
pub struct Visit<'t, 'm, 'i> {
    pub(crate) blocks: NonNull<Pageblock>,
    pub(crate) states: StateTable<'m>,
    /// All frames below this one have been opened.
    pub(crate) opened: usize,
    pub(crate) indices: &'i [u32],
    pub(crate) left: u64,
    pub(crate) origin: u32,
    pub(crate) state: StateByte,
    pub(crate) borrow: PhantomData<&'t mut [Pageblock]>,
}

impl<'m> Visit<'_, 'm, '_> {
    /// The frames that have not been visited: one bit for the place of each.
    #[must_use]
    #[inline]
    pub const fn left(&self) -> u64 {
        self.left
    }

    /// The next frame; `None` at the end, and if there is no such frame or it is in another state.
    #[inline]
    #[expect(
        clippy::should_implement_trait,
        reason = "a frame is lent, so that no two of one pageblock are out at once"
    )]
    pub fn next(&mut self) -> Option<Visited<'_>> {
        let at = NonZeroU64::new(self.left)?.trailing_zeros();
        // SAFETY: by the invariants there is an index at each place.
        let index = unsafe { self.indices.get_unchecked(at as usize) }.wrapping_sub(self.origin);
        let state = if (index as usize) < self.opened {
            // SAFETY: by the invariants.
            unsafe { self.states.start().add(index as usize).as_ref() }
        } else {
            cold_path();
            self.states.byte(index)?
        };
        if state.load(Ordering::Relaxed) != self.state.raw() {
            return None;
        }
        self.left &= self.left - 1;
        // Eight frames are a byte of the map, and a pageblock is as long as two maps. Wide, so that nothing is widened
        // later.
        let eight = index as usize / 8;
        let line = eight & !(8 * BLOCK_WORDS - 1);
        // SAFETY: the frame has a state byte that may be read, so that its pageblock is there and has been opened; the
        // byte of the map is one of the 64 with which the pageblock begins.
        unsafe {
            let lines = self.blocks.cast::<u8>().add(line);
            let eight = lines.add(if cfg!(target_endian = "little") { eight } else { eight ^ 7 });
            Some(Visited { index, left: self.left, block: lines.add(line).cast(), eight, state, borrow: PhantomData })
        }
    }
}

/// One frame of a [`Visit`].
///
/// # Invariants
/// `eight` points into the map of `block`; both are borrowed for `'v`, and no other reference to them is held.
#[derive(Debug)]
pub struct Visited<'v> {
    index: u32,
    left: u64,
    block: NonNull<Pageblock>,
    eight: NonNull<u8>,
    state: &'v AtomicU8,
    borrow: PhantomData<&'v mut Pageblock>,
}

impl<'v> Visited<'v> {
    /// Its index in the table.
    #[must_use]
    #[inline]
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// The frames that are to be visited after it: one bit for the place of each.
    #[must_use]
    #[inline]
    pub const fn left(&self) -> u64 {
        self.left
    }

    /// Its state byte.
    #[must_use]
    #[inline]
    pub const fn state(&self) -> &'v AtomicU8 {
        self.state
    }

    /// Its pageblock.
    #[must_use]
    #[inline]
    pub fn block(&mut self) -> &mut Pageblock {
        // SAFETY: by the invariants.
        unsafe { self.block.as_mut() }
    }

    /// True if the eight of the map beside those that begin with a multiple of eight and have this frame among them are
    /// all free: the other eight of an aligned 16.
    #[must_use]
    #[inline]
    pub fn is_beside_full(&self) -> bool {
        // SAFETY: by the invariants; the map is aligned, so that it has both bytes of a pair.
        unsafe { self.eight.as_ptr().map_addr(|at| at ^ 1).read() == u8::MAX }
    }

    /// The same of the aligned 16 that have this frame among them: the other 16 of an aligned 32.
    #[must_use]
    #[inline]
    pub fn is_pair_beside_full(&self) -> bool {
        // SAFETY: by the invariants; the map is aligned, so that it has both pairs of bytes of four.
        unsafe { self.eight.as_ptr().map_addr(|at| (at & !1) ^ 2).cast::<u16>().read() == u16::MAX }
    }

    /// Sets bits among the eight of the map that begin with a multiple of eight and have this one among them, the first
    /// of them in the lowest bit. Returns the eight.
    #[inline]
    pub fn set(&mut self, bits: u8) -> u8 {
        // SAFETY: by the invariants.
        unsafe {
            let now = self.eight.read() | bits;
            self.eight.write(now);
            now
        }
    }
}

const _: () = assert!(size_of::<Pageblock>() == 2 * size_of::<[u64; BLOCK_WORDS]>());
const _: () = assert!(offset_of!(Pageblock, map) == 0 && offset_of!(Pageblock, free) % 4 == 0);
const _: () = assert!(offset_of!(Pageblock, loose) == offset_of!(Pageblock, free) + 2);
const _: () = assert!(size_of::<Pageblock>() == 128);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loose_frames_are_free_ones() {
        let mut block = Pageblock::empty(MigrateType::Movable);
        block.free = 100;
        block.count_loose(8);
        block.count_loose(1);
        assert_eq!((block.free, block.loose, block.top), (109, 9, Pageblock::NO_TOP));
    }

    #[test]
    #[cfg(not(loom))]
    fn each_frame_has_its_bit_and_its_pageblock() {
        let mut raw = std::vec![core::mem::MaybeUninit::uninit(); crate::Pageblocks::bytes(2, 1024)];
        let mut table = crate::Pageblocks::carve(2, 1024, &mut crate::Carver::new(&mut raw)).unwrap();
        let _ = table.get_mut(0);
        let _ = table.get_mut(1);
        for first in (0..1024).step_by(64) {
            let some: std::vec::Vec<u32> = (first..first + 64).map(|index| index + 5000).collect();
            let mut visit = table.visit(&some, u64::MAX, 5000, StateByte::INSIDE);
            while let Some(mut frame) = visit.next() {
                let index = frame.index();
                frame.state().store(index as u8, Ordering::Relaxed);
                let before = frame.block().map;
                frame.set(1 << (index % 8));
                let mut expected = before;
                expected[(index / 64) as usize % 8] |= 1 << (index % 64);
                assert_eq!(frame.block().map, expected);
            }
            assert_eq!(visit.left(), 0);
        }
        assert!(table.iter().all(|block| block.map == [u64::MAX; BLOCK_WORDS]));
        assert_eq!(table.states().get(777).raw(), 777u32 as u8);
    }
}
