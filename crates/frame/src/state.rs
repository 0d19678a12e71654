//! One state byte a frame: the frame's state, kept by its holder.
//!
//! The byte is atomic and relaxed. It is written only by the frame's current owner: the zone lock's holder while the
//! frame is free, the CPU that lists it, the holder of the block it heads. Readers without ownership (the error
//! path of a free, the migrate scanner) see a recent value, and must cope with a stale one.
//!
//! Only a block's **head** carries information. That a frame is inside an allocated block is derived from the heads
//! below it ([`StateView::head_of`]), on the error path and in scanners.
//!
//! | byte | [`FrameState`] | legal next | written by |
//! |---|---|---|---|
//! | `0000_0000` | `Inside`: free in the map, or not the head of its block | `Listed`, `Allocated`, `Isolated`, `Reserved` | zone lock |
//! | `0000_0001` | `Reserved`: firmware, kernel image, metadata | `Inside` (handed over later) | boot, zone lock |
//! | `0000_0010` | `Hole`: there is no such frame | `Reserved`, `Inside` (memory added) | boot, zone lock |
//! | `0001_oooo` | `Isolated(order)`: head of a block taken out by a scanner | `Inside`, `Allocated` | the scanner |
//! | `01tt_oooo` | `Listed(order, type)`: head of a block on a per-CPU list | `Allocated`, `Inside` (drain) | the list's CPU |
//! | `10tt_oooo` | `Allocated(order, type)`: head of a block that a caller holds | `Listed`, `Inside`, `Isolated` | the code that frees or splits it |
//!
//! `tt` is the migrate type for the three ordinary types; 3 stands for any other, and such a block never goes
//! through a per-CPU list.

use core::mem::MaybeUninit;
use core::ops::Range;

use crate::opening::{Opening, Openings};
use crate::sync::{AtomicU8, Ordering};
use crate::{MigrateType, Order, PAGEBLOCK_FRAMES, Platform};

/// Frames of a pageblock.
const BLOCK: u32 = PAGEBLOCK_FRAMES as u32;
/// The low four bits: the order.
const ORDER_BITS: u8 = 0x0f;
const TYPE_SHIFT: u32 = 4;
const TAG_BITS: u8 = 0xc0;
const TAG_LISTED: u8 = 0x40;
const TAG_ALLOCATED: u8 = 0x80;
const TAG_ISOLATED: u8 = 0x10;

/// The raw state byte.
///
/// ```
/// use pageblock_frame::{FrameState, MigrateType, Order, StateByte};
/// let byte = StateByte::allocated(Order::new(3).unwrap(), MigrateType::Movable);
/// assert_eq!(byte.decode(), FrameState::Allocated(Order::new(3).unwrap(), Some(MigrateType::Movable)));
/// assert_eq!(StateByte::INSIDE.decode(), FrameState::Inside);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct StateByte(u8);

/// A decoded state byte; see the [module's table](self).
///
/// ```
/// use pageblock_frame::{FrameState, Order, StateByte};
/// assert_eq!(StateByte::isolated(Order::ZERO).decode(), FrameState::Isolated(Order::ZERO));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameState {
    /// Free in the map, or not the head of its block.
    Inside,
    /// Not the allocator's to give.
    Reserved,
    /// There is no such frame.
    Hole,
    /// Head of a block that a scanner took out.
    Isolated(Order),
    /// Head of a block on a per-CPU list.
    Listed(Order, Option<MigrateType>),
    /// Head of a block that a caller holds; the type is `None` for high-order atomic and CMA blocks.
    Allocated(Order, Option<MigrateType>),
}

impl StateByte {
    /// Free in the map, or not the head of its block.
    pub const INSIDE: Self = Self(0);
    /// Not the allocator's to give.
    pub const RESERVED: Self = Self(1);
    /// There is no such frame.
    pub const HOLE: Self = Self(2);

    /// The byte as stored.
    #[must_use]
    #[inline]
    pub const fn from_raw(raw: u8) -> Self {
        Self(raw)
    }

    /// The byte as stored.
    #[must_use]
    #[inline]
    pub const fn raw(self) -> u8 {
        self.0
    }

    const fn type_bits(migrate_type: MigrateType) -> u8 {
        let index = migrate_type as u8;
        (if index < 3 { index } else { 3 }) << TYPE_SHIFT
    }

    /// Head of a block that a caller holds.
    #[must_use]
    #[inline]
    pub const fn allocated(order: Order, migrate_type: MigrateType) -> Self {
        Self(TAG_ALLOCATED | Self::type_bits(migrate_type) | order.as_u8())
    }

    /// Head of a block on a per-CPU list.
    #[must_use]
    #[inline]
    pub const fn listed(order: Order, migrate_type: MigrateType) -> Self {
        Self(TAG_LISTED | Self::type_bits(migrate_type) | order.as_u8())
    }

    /// Head of a block that a scanner took out.
    #[must_use]
    #[inline]
    pub const fn isolated(order: Order) -> Self {
        Self(TAG_ISOLATED | order.as_u8())
    }

    /// True for the head of a block that a caller holds.
    #[must_use]
    #[inline]
    pub const fn is_allocated(self) -> bool {
        self.0 & TAG_BITS == TAG_ALLOCATED
    }

    /// True for the head of a block on a per-CPU list.
    #[must_use]
    #[inline]
    pub const fn is_listed(self) -> bool {
        self.0 & TAG_BITS == TAG_LISTED
    }

    /// True for any head: its [`order`](StateByte::order) means something.
    #[must_use]
    #[inline]
    pub const fn is_head(self) -> bool {
        self.0 >= TAG_ISOLATED
    }

    /// A listed head in place of an allocated one, or the other way round, with the same order and type.
    #[must_use]
    #[inline]
    pub const fn listed_again(self) -> Self {
        Self(self.0 ^ (TAG_ALLOCATED ^ TAG_LISTED))
    }

    /// The migrate type in a head's byte; `None` for the types that share a number.
    #[must_use]
    pub const fn migrate_type(self) -> Option<MigrateType> {
        match (self.0 >> TYPE_SHIFT) & 3 {
            0 => Some(MigrateType::Unmovable),
            1 => Some(MigrateType::Movable),
            2 => Some(MigrateType::Reclaimable),
            _ => None,
        }
    }

    /// The same kind of head with another order.
    #[must_use]
    #[inline]
    pub const fn with_order(self, order: Order) -> Self {
        Self(self.0 & !ORDER_BITS | order.as_u8())
    }

    /// The byte without the migrate type: equal for heads of the same kind and order.
    #[must_use]
    #[inline]
    pub const fn without_type(self) -> u8 {
        self.0 & !(3 << TYPE_SHIFT)
    }

    /// The order of the block that the frame heads.
    #[must_use]
    #[inline]
    pub const fn order(self) -> Order {
        Order::saturating(self.0 & ORDER_BITS)
    }

    /// Meaning of the byte.
    #[must_use]
    pub const fn decode(self) -> FrameState {
        let order = self.order();
        let migrate_type = self.migrate_type();
        match self.0 & TAG_BITS {
            TAG_ALLOCATED => FrameState::Allocated(order, migrate_type),
            TAG_LISTED => FrameState::Listed(order, migrate_type),
            _ if self.0 & TAG_ISOLATED != 0 => FrameState::Isolated(order),
            _ => match self.0 {
                1 => FrameState::Reserved,
                2 => FrameState::Hole,
                _ => FrameState::Inside,
            },
        }
    }
}

/// The state bytes of a run of frames, indexed from the first frame's, which begins a pageblock.
///
/// The bytes of a pageblock that has not been [opened](crate::Pageblocks) have never been written. They are not read:
/// the pageblock as a whole has the frames' state.
///
/// A table is for the frames' owners, which write; others have a [`StateView`] of it.
///
/// ```
/// use pageblock_frame::{FrameState, MigrateType, Order, StateByte, StateTable, sync::AtomicU8};
/// let bytes: Vec<AtomicU8> = (0..8).map(|_| AtomicU8::new(0)).collect();
/// let table = StateTable::new(&bytes);
/// table.set(4, StateByte::allocated(Order::new(2).unwrap(), MigrateType::Unmovable));
/// assert_eq!(table.head_of(6), Some((4, StateByte::allocated(Order::new(2).unwrap(), MigrateType::Unmovable))));
/// assert_eq!(table.head_of(3), None);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct StateTable<'m>(StateView<'m>);

impl<'m> StateTable<'m> {
    /// The table over these bytes.
    #[must_use]
    pub const fn new(bytes: &'m [AtomicU8]) -> Self {
        // SAFETY: as many values of the same layout; nothing is written through the slice but values.
        let bytes = unsafe { core::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) };
        Self(StateView { bytes, openings: &[] })
    }

    /// The table over bytes of which those of a pageblock are written when it is opened.
    pub(crate) const fn deferred(bytes: &'m [MaybeUninit<AtomicU8>], openings: &'m [Opening]) -> Self {
        Self(StateView { bytes, openings })
    }

    /// The bytes, read or not.
    #[cfg(loom)]
    pub(crate) const fn bytes(&self) -> &'m [MaybeUninit<AtomicU8>] {
        self.0.bytes
    }

    /// The table, for reading.
    #[must_use]
    #[inline]
    pub const fn view(&self) -> StateView<'m> {
        self.0
    }

    /// Where the first byte is; its target lives for `'m`.
    #[must_use]
    pub const fn start(&self) -> core::ptr::NonNull<AtomicU8> {
        core::ptr::NonNull::from_ref(self.0.bytes).cast()
    }

    /// The atomic byte of a frame, or `None` past the end and in a pageblock that has not been opened.
    #[must_use]
    #[inline]
    pub fn byte(&self, index: u32) -> Option<&'m AtomicU8> {
        self.0.byte(index)
    }

    /// The same of the frame with this index, of any width.
    #[must_use]
    #[inline]
    pub fn byte_at(&self, index: u64) -> Option<&'m AtomicU8> {
        self.byte(u32::try_from(index).ok()?)
    }

    /// Makes a frame something else. Only its owner may; past the end, and where nothing has been opened, nothing
    /// happens.
    #[inline]
    pub fn set(&self, index: u32, state: StateByte) {
        if let Some(byte) = self.byte(index) {
            byte.store(state.0, Ordering::Relaxed);
        }
    }

    /// Makes a frame something else if it still is `from`, and says whether it was. Exact against a free on another
    /// CPU that takes no lock where [`Platform::HARDENED`].
    #[inline]
    pub fn replace<P: Platform>(&self, index: u32, from: StateByte, to: StateByte) -> bool {
        let Some(byte) = self.byte(index) else { return false };
        if P::HARDENED {
            // Relaxed: it decides which of two calls has the frame, and publishes nothing.
            return byte.compare_exchange(from.0, to.0, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        }
        let same = byte.load(Ordering::Relaxed) == from.0;
        if same {
            byte.store(to.0, Ordering::Relaxed);
        }
        same
    }

    /// The table of up to `frames` frames from `first` on, which begins a pageblock, or of as many of them as there
    /// are.
    #[must_use]
    pub fn part(&self, first: usize, frames: usize) -> StateTable<'m> {
        let rest = self.bytes.get(first..).unwrap_or_default();
        let openings = self.openings.get(first / BLOCK as usize..).unwrap_or_default();
        let blocks = frames.div_ceil(BLOCK as usize).min(openings.len());
        Self(StateView {
            bytes: rest.get(..frames).unwrap_or(rest),
            openings: openings.get(..blocks).unwrap_or_default(),
        })
    }

    /// The bytes of the 64 frames from `first` on, a multiple of 64, if there are that many and they have been opened:
    /// for loops over the bits of a word, which need no check of each index.
    #[must_use]
    #[inline]
    pub fn chunk(&self, first: u32) -> Option<&'m [AtomicU8; 64]> {
        self.run(first, 64).first_chunk()
    }

    /// Writes the bytes of a pageblock for the first time.
    pub(crate) fn write_block(&self, block: u32, state: StateByte) {
        let rest = self.bytes.get((block * BLOCK) as usize..).unwrap_or_default();
        let bytes = rest.get(..BLOCK as usize).unwrap_or(rest);
        #[cfg(loom)]
        for byte in bytes {
            // SAFETY: the model's bytes are values from the beginning.
            unsafe { byte.assume_init_ref() }.store(state.0, Ordering::Relaxed);
        }
        // SAFETY: 1. the bytes are borrowed for 'm, and writable, since each is in a cell. 2. No other CPU reads or
        // writes them before the pageblock is opened, which the caller does afterwards.
        #[cfg(not(loom))]
        unsafe {
            bytes.as_ptr().cast_mut().cast::<u8>().write_bytes(state.0, bytes.len());
        }
    }
}

/// States of the frames of a run, for reading: see [`StateTable`].
#[derive(Clone, Copy, Debug)]
pub struct StateView<'m> {
    bytes: &'m [MaybeUninit<AtomicU8>],
    /// One for each pageblock; none at all if all have been opened.
    openings: &'m [Opening],
}

impl<'m> StateView<'m> {
    /// How far a pageblock has come into being; `None` if all have been opened.
    #[inline]
    pub(crate) fn opening(&self, block: u32) -> Option<&'m Opening> {
        self.openings.get(block as usize)
    }

    /// True if the bytes of a pageblock have been written, and may be read.
    #[must_use]
    #[inline]
    pub fn is_opened(&self, block: u32) -> bool {
        self.opening(block).is_none_or(Opening::is_opened)
    }

    /// How many pageblocks from `first` on, up to `most`, have not been opened.
    #[must_use]
    pub fn unopened_run(&self, first: u32, most: u32) -> u32 {
        let rest = self.openings.get(first as usize..).unwrap_or_default();
        let some = rest.get(..most as usize).unwrap_or(rest);
        Openings::new(some).unopened() as u32
    }

    /// The openings of some pageblocks.
    pub(crate) fn openings(&self, blocks: Range<u32>) -> Openings<'m> {
        Openings::new(self.openings.get(blocks.start as usize..blocks.end as usize).unwrap_or_default())
    }

    /// Number of frames.
    #[must_use]
    #[inline]
    pub const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// True if there are no frames.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// State of a frame now; [`StateByte::HOLE`] past the end.
    #[must_use]
    #[inline]
    pub fn get(&self, index: u32) -> StateByte {
        match self.byte(index) {
            Some(byte) => StateByte(byte.load(Ordering::Relaxed)),
            None if (index as usize) < self.len() => self.unopened_state(index),
            None => StateByte::HOLE,
        }
    }

    /// State of a frame in a pageblock that had not been opened a moment ago.
    #[cold]
    fn unopened_state(&self, index: u32) -> StateByte {
        let Some(opening) = self.opening(index / BLOCK) else { return StateByte::HOLE };
        // Another CPU, or an interrupt, may have opened it since: then the frame's own byte counts.
        let opened = || self.byte(index).map_or(StateByte::INSIDE, |byte| StateByte(byte.load(Ordering::Relaxed)));
        opening.state().unwrap_or_else(opened)
    }

    /// The bytes of a pageblock, none if it has not been opened; `None` if not all of its frames are here.
    #[inline]
    pub(crate) fn block(&self, block: u32) -> Option<Option<&'m [AtomicU8; BLOCK as usize]>> {
        let bytes = self.bytes.as_chunks::<{ BLOCK as usize }>().0.get(block as usize)?;
        if !self.is_opened(block) {
            return Some(None);
        }
        // SAFETY: the pageblock's bytes were written before it was opened.
        Some(unsafe { bytes.as_slice().assume_init_ref() }.first_chunk())
    }

    /// The bytes of up to `frames` frames of one pageblock from `index` on; none if it has not been opened.
    #[inline]
    pub(crate) fn run(&self, index: u32, frames: u32) -> &'m [AtomicU8] {
        let frames = frames.min(BLOCK - index % BLOCK) as usize;
        let rest = self.bytes.get(index as usize..).unwrap_or_default();
        let some = if self.is_opened(index / BLOCK) { rest.get(..frames).unwrap_or(rest) } else { &[] };
        // SAFETY: the pageblock's bytes were written before it was opened.
        unsafe { some.assume_init_ref() }
    }

    /// The head, and its state, of the block that a frame is in: itself, or the nearest head below it that reaches it.
    /// `None` for a frame in no block. Looks at no more than [`Order::COUNT`] bytes, since blocks are aligned.
    #[must_use]
    pub fn head_of(&self, index: u32) -> Option<(u32, StateByte)> {
        Order::LIMIT.up_to().find_map(|order| {
            let head = index & !(order.frames() as u32 - 1);
            let state = self.get(head);
            (state.is_head() && state.order() >= order).then_some((head, state))
        })
    }

    #[inline]
    fn byte(&self, index: u32) -> Option<&'m AtomicU8> {
        let byte = self.bytes.get(index as usize)?;
        // SAFETY: the pageblock's bytes were written before it was opened.
        self.is_opened(index / BLOCK).then(|| unsafe { byte.assume_init_ref() })
    }
}

impl<'m> core::ops::Deref for StateTable<'m> {
    type Target = StateView<'m>;

    #[inline]
    fn deref(&self) -> &StateView<'m> {
        &self.0
    }
}
