//! The pageblocks of a zone or of a part of it, with the state bytes of their frames.

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr::NonNull;

use crate::opening::Opening;
use crate::sync::AtomicU8;
use crate::{Carver, PAGEBLOCK_FRAMES, Pageblock, StateByte, StateTable, Unopened, Visit};

/// Pageblocks that one opening looks at beyond itself to find how far all are open.
const LOOKS: u32 = 16;

/// The pageblocks of a run of frames and the state bytes of those, which come into being together: a pageblock is
/// *opened* when it is first written to. Until then nothing of it exists but one byte, and reads see the value that the
/// byte stands for.
///
/// # Invariants
/// 1. There is a pageblock for every frame, and a byte that says how far it has come into being for every pageblock, or
///    no such bytes: then all have been opened.
/// 2. The lines of opened pageblocks have been written, and their state bytes.
/// 3. The first `prefix` pageblocks have been opened, and none from `end` on.
///
/// ```
/// use core::mem::MaybeUninit;
/// use pageblock_frame::{Carver, MigrateType, Pageblock, Pageblocks, StateByte, Unopened};
/// // Memory that nothing has been written to.
/// let mut raw = vec![MaybeUninit::uninit(); Pageblocks::bytes(2, 1000)];
/// let mut blocks = Pageblocks::carve(2, 1000, &mut Carver::new(&mut raw)).unwrap();
/// blocks.set_unopened(0, Unopened::Free(MigrateType::Reclaimable));
/// assert_eq!(blocks.get(0).map(|b| (b.free(), b.migrate_type())), Some((512, MigrateType::Reclaimable)));
/// assert_eq!((blocks.opened_frames(), blocks.states().get(7)), (0, StateByte::INSIDE));
/// blocks.get_mut(0).unwrap().take(0);
/// assert_eq!((blocks.opened_frames(), blocks.get(0).unwrap().free()), (512, 511));
/// assert!(blocks.get(2).is_none());
///
/// let mut visit = blocks.visit(&[3, 7, 1000, 999], 0b1101, 0, StateByte::INSIDE);
/// let mut frame = visit.next().unwrap();
/// assert_eq!((frame.index(), frame.set(1 << 3)), (3, 0xfe));
/// assert!(visit.next().is_none()); // there is no frame 1000
/// assert_eq!(visit.left(), 0b1100);
/// ```
#[derive(Debug)]
pub struct Pageblocks<'m> {
    blocks: &'m mut [MaybeUninit<Pageblock>],
    states: StateTable<'m>,
    prefix: u32,
    end: u32,
    /// How often one was to be changed that is not there.
    missed: u32,
}

impl<'m> Pageblocks<'m> {
    /// None.
    #[must_use]
    pub const fn none() -> Self {
        Self { blocks: &mut [], states: StateTable::deferred(&[], &[]), prefix: 0, end: 0, missed: 0 }
    }

    /// Bytes that [`carve`](Self::carve) takes at most.
    #[must_use]
    pub const fn bytes(blocks: usize, frames: usize) -> usize {
        blocks * (size_of::<Pageblock>() + size_of::<Opening>())
            + align_of::<Pageblock>()
            + frames * size_of::<AtomicU8>()
    }

    /// Cuts so many pageblocks off raw bytes, with nothing in them, and the state bytes of so many frames. `None` if
    /// the bytes do not suffice, or for more frames than the pageblocks have.
    #[cfg(not(loom))]
    pub fn carve(blocks: usize, frames: usize, carver: &mut Carver<'m>) -> Option<Self> {
        if frames > blocks.checked_mul(PAGEBLOCK_FRAMES as usize)? {
            return None;
        }
        let lines = carver.take_uninit(blocks)?;
        // Behind the parts aligned to cache lines, so that the state bytes of a word's 64 frames are one line.
        let bytes = carver.take_uninit(frames)?;
        let openings = carver.take_with(blocks, |_| Some(Opening::new()))?;
        Some(Self { blocks: lines, states: StateTable::deferred(bytes, openings), prefix: 0, end: 0, missed: 0 })
    }

    /// The same inside a model, where all are opened from the beginning.
    #[cfg(loom)]
    pub fn carve(blocks: usize, frames: usize, carver: &mut Carver<'m>) -> Option<Self> {
        let lines = carver.take_uninit(blocks)?;
        for line in &mut *lines {
            line.write(Pageblock::empty(crate::MigrateType::Movable));
        }
        let bytes = carver.take_with(frames, |_| Some(AtomicU8::new(0)))?;
        Some(Self {
            blocks: lines,
            states: StateTable::new(bytes),
            prefix: blocks as u32,
            end: blocks as u32,
            missed: 0,
        })
    }

    /// Inside a model, pageblocks that have not been opened, in memory that was written before: each state byte is
    /// `old`.
    #[cfg(loom)]
    pub fn carve_unopened(blocks: usize, frames: usize, old: StateByte, carver: &mut Carver<'m>) -> Option<Self> {
        let lines = carver.take_uninit(blocks)?;
        let bytes = carver.take_with(frames, |_| Some(AtomicU8::new(old.raw())))?;
        let openings = carver.take_with(blocks, |_| Some(Opening::new()))?;
        let bytes = StateTable::new(bytes).bytes();
        Some(Self { blocks: lines, states: StateTable::deferred(bytes, openings), prefix: 0, end: 0, missed: 0 })
    }

    /// Cuts the first `blocks` off, or all if there are fewer, and leaves the rest. Nothing has been opened yet.
    #[must_use]
    pub fn cut(&mut self, blocks: usize) -> Self {
        let opened = self.prefix != 0;
        let blocks = blocks.min(self.blocks.len());
        let (first, rest) = core::mem::take(&mut self.blocks).split_at_mut(blocks);
        let frames = blocks * PAGEBLOCK_FRAMES as usize;
        let prefix = |lines: &[MaybeUninit<Pageblock>]| if opened { lines.len() as u32 } else { 0 };
        let states = self.states;
        self.prefix = prefix(rest);
        self.end = self.prefix;
        self.states = states.part(frames, states.len().saturating_sub(frames));
        self.blocks = rest;
        Self { prefix: prefix(first), end: prefix(first), blocks: first, states: states.part(0, frames), missed: 0 }
    }

    /// The state bytes.
    #[must_use]
    #[inline]
    pub const fn states(&self) -> StateTable<'m> {
        self.states
    }

    /// Number of pageblocks.
    #[must_use]
    #[inline]
    pub const fn len(&self) -> usize {
        self.blocks.len()
    }

    /// True if there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// All frames below this one have been opened.
    #[must_use]
    #[inline]
    pub fn opened_frames(&self) -> usize {
        (self.prefix as usize * PAGEBLOCK_FRAMES as usize).min(self.states.len())
    }

    /// No pageblock from this one on has been opened.
    #[must_use]
    #[inline]
    pub const fn opened_end(&self) -> u32 {
        self.end
    }

    /// A pageblock, opened or not.
    #[must_use]
    #[inline]
    pub fn get(&self, block: u32) -> Option<&Pageblock> {
        let line = self.blocks.get(block as usize)?;
        match self.states.opening(block) {
            Some(opening) if !opening.is_opened() => Some(opening.line()),
            // SAFETY: it has been opened, and so written.
            _ => Some(unsafe { line.assume_init_ref() }),
        }
    }

    /// A pageblock to be changed, which opens it.
    #[must_use]
    #[inline]
    pub fn get_mut(&mut self, block: u32) -> Option<&mut Pageblock> {
        if !self.states.is_opened(block) {
            self.open(block);
        }
        // SAFETY: it has been opened, and so written.
        self.blocks.get_mut(block as usize).map(|line| unsafe { line.assume_init_mut() })
    }

    /// As [`get_mut`](Self::get_mut), for a pageblock that is there if all invariants hold. If it is not, that is
    /// counted.
    #[must_use]
    #[inline]
    pub fn known_mut(&mut self, block: u32) -> Option<&mut Pageblock> {
        if block as usize >= self.blocks.len() {
            self.miss(block);
            return None;
        }
        self.get_mut(block)
    }

    #[cold]
    #[inline(never)]
    fn miss(&mut self, block: u32) {
        self.missed = self.missed.saturating_add(1);
        debug_assert!(false, "there is no pageblock {block}");
    }

    /// How often a pageblock was to be changed that is not there: an invariant was broken.
    #[must_use]
    pub const fn missed(&self) -> u32 {
        self.missed
    }

    /// A pageblock to be changed, if it has been opened.
    #[must_use]
    #[inline]
    pub fn opened_mut(&mut self, block: u32) -> Option<&mut Pageblock> {
        let line = self.blocks.get_mut(block as usize)?;
        // SAFETY: it has been opened, and so written.
        (block < self.prefix || self.states.is_opened(block)).then(|| unsafe { line.assume_init_mut() })
    }

    /// Changes some pageblocks, as far as they have been opened.
    #[inline]
    pub fn each_opened(&mut self, blocks: Range<u32>, mut change: impl FnMut(&mut Pageblock)) {
        let first = blocks.start.max(self.prefix);
        let end = blocks.end.min(self.prefix);
        if let Some(lines) = self.blocks.get_mut(blocks.start as usize..end as usize) {
            // SAFETY: all of them have been opened, and so written.
            unsafe { lines.assume_init_mut() }.iter_mut().for_each(&mut change);
        }
        for block in first..blocks.end {
            self.opened_mut(block).into_iter().for_each(&mut change);
        }
    }

    /// Shows some pageblocks, opened or not, with their numbers, as far as there are any.
    #[inline]
    pub fn for_each(&self, blocks: Range<u32>, mut visit: impl FnMut(u32, &Pageblock)) {
        let lines = self.blocks.get(blocks.start as usize..).unwrap_or_default();
        let lines = lines.get(..blocks.len()).unwrap_or(lines);
        let opened = self.prefix.saturating_sub(blocks.start) as usize;
        for (i, line) in lines.iter().enumerate() {
            let number = blocks.start + i as u32;
            let unopened = if i < opened { None } else { self.states.opening(number) };
            let b = match unopened {
                Some(opening) if !opening.is_opened() => opening.line(),
                // SAFETY: it has been opened, and so written.
                _ => unsafe { line.assume_init_ref() },
            };
            visit(number, b);
        }
    }

    /// State of a pageblock that has not been opened; `None` if it has.
    #[must_use]
    #[inline]
    pub fn unopened(&self, block: u32) -> Option<Unopened> {
        self.states.opening(block)?.unopened()
    }

    /// Sets the state of a pageblock that has not been opened. False, with nothing changed, if it has.
    #[inline]
    pub fn set_unopened(&mut self, block: u32, unopened: Unopened) -> bool {
        let Some(opening) = self.states.opening(block).filter(|opening| !opening.is_opened()) else { return false };
        opening.set(unopened);
        true
    }

    /// Makes some pageblocks, as far as they have not been opened, free as movable ones. Returns how many were
    /// reserved.
    pub fn release_unopened(&mut self, blocks: Range<u32>) -> u64 {
        self.states.openings(blocks).release()
    }

    /// The first of some pageblocks that has not been opened and is free.
    #[must_use]
    pub fn first_free_unopened(&self, blocks: Range<u32>) -> Option<u32> {
        let place = self.states.openings(blocks.clone()).first_free()?;
        Some(blocks.start + place as u32)
    }

    /// Writes a pageblock's line and state bytes for the first time, from its state.
    #[cold]
    #[inline(never)]
    fn open(&mut self, block: u32) {
        let Some((line, opening)) = self.blocks.get_mut(block as usize).zip(self.states.opening(block)) else { return };
        write_line(line, opening);
        self.states.write_block(block, opening.state().unwrap_or(StateByte::INSIDE));
        opening.open();
        self.end = self.end.max(block + 1);
        self.grow_prefix();
    }

    fn grow_prefix(&mut self) {
        for _ in 0..LOOKS {
            if self.prefix as usize >= self.blocks.len() || !self.states.is_opened(self.prefix) {
                return;
            }
            self.prefix += 1;
        }
    }

    /// Opens the first pageblock that has not been, so that [`opened_frames`](Self::opened_frames) grows.
    pub fn open_next(&mut self) {
        if (self.prefix as usize) < self.blocks.len() {
            if self.states.is_opened(self.prefix) {
                self.grow_prefix();
            } else {
                self.open(self.prefix);
            }
        }
    }

    /// Of the frames with these indices, up to 64, those that `picked` has a bit for, one after the other, up to the
    /// first that does not exist or is not in this state. `origin` is the index of the first frame in here.
    #[inline]
    pub fn visit<'i>(&mut self, indices: &'i [u32], picked: u64, origin: u32, state: StateByte) -> Visit<'_, 'm, 'i> {
        let there = if indices.len() < 64 { (1 << indices.len()) - 1 } else { u64::MAX };
        let opened = self.opened_frames();
        let blocks = NonNull::from_mut(&mut *self.blocks).cast();
        let (left, states) = (picked & there, self.states);
        Visit { blocks, states, opened, indices, left, origin, state, borrow: PhantomData }
    }
}

/// A function of its own: the line is on its stack for a moment.
fn write_line(line: &mut MaybeUninit<Pageblock>, opening: &Opening) {
    line.write(opening.line().clone());
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::MigrateType;

    /// Memory in which each byte looks like the head of an allocated block.
    fn with_old_bytes(check: impl FnOnce(Pageblocks<'_>)) {
        let allocated = StateByte::allocated(crate::Order::ZERO, MigrateType::Movable).raw();
        let mut raw = std::vec![MaybeUninit::new(allocated); Pageblocks::bytes(40, 40 * 512)];
        check(Pageblocks::carve(40, 40 * 512, &mut Carver::new(&mut raw)).unwrap());
    }

    #[test]
    fn what_was_in_memory_before_is_never_read() {
        with_old_bytes(|mut blocks| {
            let states = blocks.states();
            assert!((0..40 * 512).all(|index| states.get(index) == StateByte::INSIDE && states.byte(index).is_none()));
            states.set(600, StateByte::HOLE);
            assert_eq!((states.get(600), states.heads(512), states.movable_heads(512)), (StateByte::INSIDE, 0, 0));
            assert!(states.chunk(512).is_none() && states.immovable(3) == Some(512) && states.head_of(9).is_none());
            blocks.set_unopened(2, Unopened::Hole);
            let _ = blocks.get_mut(1);
            let _ = blocks.get_mut(2);
            assert!((512..1024).all(|index| states.get(index) == StateByte::INSIDE));
            assert!((1024..1536).all(|index| states.get(index) == StateByte::HOLE));
            assert!(states.chunk(512).is_some());
            assert!(!blocks.set_unopened(2, Unopened::Nothing), "it has been opened");
        });
    }

    #[test]
    fn a_pageblock_that_is_missing_is_recorded() {
        with_old_bytes(|mut blocks| {
            assert!(blocks.get_mut(40).is_none() && blocks.known_mut(39).is_some());
            assert_eq!(blocks.missed(), 0);
            let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| blocks.known_mut(40).is_some()));
            assert!(found.is_err() == cfg!(debug_assertions) && !found.unwrap_or(false));
            assert_eq!(blocks.missed(), 1);
        });
    }

    #[test]
    fn the_prefix_passes_over_what_was_opened_before() {
        with_old_bytes(|mut blocks| {
            for block in (1..30).rev() {
                let _ = blocks.get_mut(block);
            }
            assert_eq!((blocks.opened_frames(), blocks.opened_end()), (0, 30));
            let _ = blocks.get_mut(0);
            assert_eq!(blocks.opened_frames(), LOOKS as usize * 512, "so far one call looks");
            blocks.open_next();
            assert_eq!(blocks.opened_frames(), 30 * 512);
            blocks.open_next();
            assert_eq!((blocks.opened_frames(), blocks.opened_end()), (31 * 512, 31));
        });
    }
}
