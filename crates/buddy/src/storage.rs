//! The memory that a zone's metadata lives in.

use bitvec::slice::BitSlice;
use pageblock_frame::Carver;
use pageblock_frame::sync::AtomicU8;
use pageblock_frame::{Order, PAGEBLOCK_FRAMES, Pageblock, Pfn, PfnRange, StateTable};

use crate::free_area;

/// A zone's metadata: a [`Pageblock`] for each 512 frames, a state byte a frame, and about 8 bytes
/// a pageblock for skip bits and for the sets of pageblocks that can serve an order.
///
/// ```
/// use core::mem::MaybeUninit;
/// use pageblock_buddy::ZoneStorage;
/// use pageblock_frame::{Carver, Pfn, PfnRange, Order};
/// let span = PfnRange::new(Pfn::new(0), Pfn::new(4096));
/// let bytes = ZoneStorage::bytes(span, Order::MAX);
/// assert!(bytes < 4096 * 3 / 2 + 256); // at most one and a half bytes a frame
/// let mut raw = vec![MaybeUninit::uninit(); bytes];
/// let storage = ZoneStorage::carve(span, Order::MAX, &mut Carver::new(&mut raw));
/// assert!(storage.is_some());
/// ```
#[derive(Debug)]
pub struct ZoneStorage<'m> {
    pub(crate) blocks: &'m mut [Pageblock],
    pub(crate) states: StateTable<'m>,
    pub(crate) skip: &'m mut BitSlice<u64>,
    pub(crate) sets: &'m mut [free_area::Row],
}

/// The first frame that metadata for a span describes: its start rounded down to the largest block.
pub(crate) const fn base_of(span: PfnRange, max_order: Order) -> Pfn {
    let unit = if max_order.frames() > PAGEBLOCK_FRAMES { max_order.frames() } else { PAGEBLOCK_FRAMES };
    Pfn::new(span.start.as_u64() & !(unit - 1))
}

/// Pageblocks that metadata for a span describes.
pub(crate) const fn blocks_of(span: PfnRange, max_order: Order) -> usize {
    if span.is_empty() {
        return 0;
    }
    (span.end.as_u64() - base_of(span, max_order).as_u64()).div_ceil(PAGEBLOCK_FRAMES) as usize
}

/// Frames from the base to the end of the span.
pub(crate) const fn states_of(span: PfnRange, max_order: Order) -> usize {
    if span.is_empty() { 0 } else { (span.end.as_u64() - base_of(span, max_order).as_u64()) as usize }
}

impl<'m> ZoneStorage<'m> {
    /// Bytes that [`carve`](Self::carve) takes at most, whatever the alignment of what it takes from.
    #[must_use]
    pub const fn bytes(span: PfnRange, max_order: Order) -> usize {
        let blocks = blocks_of(span, max_order);
        let words = Self::words(blocks);
        blocks * size_of::<Pageblock>()
            + states_of(span, max_order) * size_of::<AtomicU8>()
            + words * size_of::<u64>()
            + align_of::<Pageblock>()
            + size_of::<u64>()
    }

    /// Cuts the metadata of a zone with this span off raw bytes; `None`, with nothing lost but alignment, if they do not suffice.
    pub fn carve(span: PfnRange, max_order: Order, carver: &mut Carver<'m>) -> Option<Self> {
        if carver.remaining() < Self::bytes(span, max_order) {
            return None;
        }
        let blocks = carver.take::<Pageblock>(blocks_of(span, max_order))?;
        // Behind what is aligned to cache lines, so that the state bytes of a word's 64 frames are one line.
        #[cfg(not(loom))]
        let states = carver.take::<AtomicU8>(states_of(span, max_order))?;
        // The model checker's atomics are not zeroes, but made one by one.
        #[cfg(loom)]
        let states = carver.take_with(states_of(span, max_order), |_| Some(AtomicU8::new(0)))?;
        let words = carver.take::<u64>(Self::words(blocks.len()))?;
        Self::from_parts(blocks, states, words)
    }

    /// Number of `u64`s that [`from_parts`](Self::from_parts) wants for so many pageblocks.
    #[must_use]
    pub const fn words(blocks: usize) -> usize {
        blocks.div_ceil(64) + free_area::rows_needed(blocks) * free_area::ROW
    }

    /// Metadata in slices of the caller's: so many pageblocks, a state byte for each frame of the span, and
    /// [`words`](Self::words). `None` if they do not fit one another.
    pub fn from_parts(blocks: &'m mut [Pageblock], states: &'m [AtomicU8], words: &'m mut [u64]) -> Option<Self> {
        if words.len() != Self::words(blocks.len()) || states.len().div_ceil(PAGEBLOCK_FRAMES as usize) != blocks.len()
        {
            return None;
        }
        let (skip, sets) = words.split_at_mut_checked(blocks.len().div_ceil(64))?;
        let skip = BitSlice::try_from_slice_mut(skip).ok()?.get_mut(..blocks.len())?;
        sets.fill(0);
        let (sets, _) = sets.as_chunks_mut::<{ free_area::ROW }>();
        Some(Self { blocks, states: StateTable::new(states), skip, sets })
    }
}
