//! Single frames of many pageblocks in turn, with a bit of the map each.

use core::hint::cold_path;
use core::marker::PhantomData;
use core::num::NonZeroU64;
use core::ptr::NonNull;

use super::{BLOCK_WORDS, Pageblock};
use crate::sync::{AtomicU8, Ordering};
use crate::{StateByte, StateTable};

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

#[cfg(test)]
mod tests {
    use super::*;

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
        table.for_each(0..table.len() as u32, |_, block| assert_eq!(block.map, [u64::MAX; BLOCK_WORDS]));
        assert_eq!(table.states().get(777).raw(), 777u32 as u8);
    }
}
