//! One state byte a frame: what the frame is to whoever holds it.
//!
//! The byte is atomic and relaxed. It is written only by the frame's current owner: the zone lock's holder while the
//! frame is free, the CPU whose list it is on, the holder of the block it heads. Readers without ownership (the error
//! path of a free, the migrate scanner) see a recent value, and must cope with a stale one.
//!
//! Only a block's **head** carries information. That a frame is inside an allocated block is derived from the heads
//! below it ([`StateTable::head_of`]), on the error path and in scanners.
//!
//! | byte | [`FrameState`] | legal next | written by |
//! |---|---|---|---|
//! | `0000_0000` | `Inside`: free in the map, or not the head of its block | `Listed`, `Allocated`, `Isolated`, `Reserved` | zone lock |
//! | `0000_0001` | `Reserved`: firmware, kernel image, metadata | `Inside` (handed over later) | boot, zone lock |
//! | `0000_0010` | `Hole`: there is no such frame | `Reserved`, `Inside` (memory added) | boot, zone lock |
//! | `0001_oooo` | `Isolated(order)`: head of a block taken out by a scanner | `Inside`, `Allocated` | the scanner |
//! | `01tt_oooo` | `Listed(order, type)`: head of a block on a per-CPU list | `Allocated`, `Inside` (drain) | the list's CPU |
//! | `10tt_oooo` | `Allocated(order, type)`: head of a block that a caller holds | `Listed`, `Inside`, `Isolated` | whoever frees or splits it |
//!
//! `tt` is the migrate type for the three ordinary types; 3 stands for any other, and such a block never goes
//! through a per-CPU list.

use crate::sync::{AtomicU8, Ordering};
use crate::{MigrateType, Order};

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

/// The migrate type of a head as it stands in the state byte: 0, 16, 32 or 48.
///
/// ```
/// use pageblock_frame::{MigrateType, Order, StateByte};
/// let state = StateByte::allocated(Order::ZERO, MigrateType::Reclaimable);
/// assert_eq!(state.allocated_as(Order::ZERO).unwrap().get(), 32);
/// assert!(state.allocated_as(Order::MAX).is_none());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TypeBits(u32);

impl TypeBits {
    /// Those of a type.
    #[must_use]
    #[inline(always)]
    pub const fn of(migrate_type: MigrateType) -> Self {
        Self(StateByte::type_bits(migrate_type) as u32)
    }

    /// The number.
    #[must_use]
    #[inline(always)]
    pub const fn get(self) -> u32 {
        // SAFETY: both constructors see to it. The compiler need not mask what it shifts back and forth.
        unsafe { core::hint::assert_unchecked(self.0 & !(3 << TYPE_SHIFT) == 0) };
        self.0
    }
}

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
    #[inline(always)]
    pub const fn from_raw(raw: u8) -> Self {
        Self(raw)
    }

    /// The byte as stored.
    #[must_use]
    #[inline(always)]
    pub const fn raw(self) -> u8 {
        self.0
    }

    const fn type_bits(migrate_type: MigrateType) -> u8 {
        let index = migrate_type as u8;
        (if index < 3 { index } else { 3 }) << TYPE_SHIFT
    }

    /// Head of a block that a caller holds.
    #[must_use]
    #[inline(always)]
    pub const fn allocated(order: Order, migrate_type: MigrateType) -> Self {
        Self(TAG_ALLOCATED | Self::type_bits(migrate_type) | order.as_u8())
    }

    /// Head of a block on a per-CPU list.
    #[must_use]
    #[inline(always)]
    pub const fn listed(order: Order, migrate_type: MigrateType) -> Self {
        Self(TAG_LISTED | Self::type_bits(migrate_type) | order.as_u8())
    }

    /// Head of a block that a scanner took out.
    #[must_use]
    #[inline(always)]
    pub const fn isolated(order: Order) -> Self {
        Self(TAG_ISOLATED | order.as_u8())
    }

    /// True for the head of a block that a caller holds.
    #[must_use]
    #[inline(always)]
    pub const fn is_allocated(self) -> bool {
        self.0 & TAG_BITS == TAG_ALLOCATED
    }

    /// True for the head of a block on a per-CPU list.
    #[must_use]
    #[inline(always)]
    pub const fn is_listed(self) -> bool {
        self.0 & TAG_BITS == TAG_LISTED
    }

    /// True for any head: its [`order`](StateByte::order) means something.
    #[must_use]
    #[inline(always)]
    pub const fn is_head(self) -> bool {
        self.0 >= TAG_ISOLATED
    }

    /// The migrate type of an allocated head of this order, as bits; `None` if the byte is anything else.
    #[must_use]
    #[inline(always)]
    pub const fn allocated_as(self, order: Order) -> Option<TypeBits> {
        let bits = self.0 as u32 ^ Self::allocated(order, MigrateType::Unmovable).0 as u32;
        if bits & !(3 << TYPE_SHIFT) == 0 { Some(TypeBits(bits)) } else { None }
    }

    /// A listed head in place of an allocated one, with the same order and type.
    #[must_use]
    #[inline(always)]
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
    #[inline(always)]
    pub const fn with_order(self, order: Order) -> Self {
        Self(self.0 & !ORDER_BITS | order.as_u8())
    }

    /// The byte without the migrate type: equal for heads of the same kind and order.
    #[must_use]
    #[inline(always)]
    pub const fn without_type(self) -> u8 {
        self.0 & !(3 << TYPE_SHIFT)
    }

    /// The order of the block that the frame heads.
    #[must_use]
    #[inline(always)]
    pub const fn order(self) -> Order {
        Order::saturating(self.0 & ORDER_BITS)
    }

    /// What the byte says.
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

/// The state bytes of a run of frames, indexed from the first frame's.
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
pub struct StateTable<'m> {
    pub(crate) bytes: &'m [AtomicU8],
}

impl<'m> StateTable<'m> {
    /// The table over these bytes.
    #[must_use]
    pub const fn new(bytes: &'m [AtomicU8]) -> Self {
        Self { bytes }
    }

    /// The first byte; what it points to lives for `'m`.
    #[must_use]
    pub const fn start(&self) -> core::ptr::NonNull<AtomicU8> {
        core::ptr::NonNull::from_ref(self.bytes).cast()
    }

    /// Number of frames.
    #[must_use]
    #[inline(always)]
    pub const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// True if there are no frames.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The atomic byte of a frame, or `None` past the end.
    #[must_use]
    #[inline(always)]
    pub fn byte(&self, index: u32) -> Option<&'m AtomicU8> {
        self.bytes.get(index as usize)
    }

    /// The atomic byte of the frame with this index, of any width, or `None` past the end.
    #[must_use]
    #[inline(always)]
    pub fn byte_at(&self, index: u64) -> Option<&'m AtomicU8> {
        usize::try_from(index).ok().and_then(|index| self.bytes.get(index))
    }

    /// What a frame is now; [`StateByte::HOLE`] past the end.
    #[must_use]
    #[inline(always)]
    pub fn get(&self, index: u32) -> StateByte {
        match self.bytes.get(index as usize) {
            Some(byte) => StateByte(byte.load(Ordering::Relaxed)),
            None => StateByte::HOLE,
        }
    }

    /// Makes a frame something else. Only its owner may; past the end nothing happens.
    #[inline(always)]
    pub fn set(&self, index: u32, state: StateByte) {
        if let Some(byte) = self.bytes.get(index as usize) {
            byte.store(state.0, Ordering::Relaxed);
        }
    }

    /// The table of the 64 frames from `first` on, or of as many of them as there are.
    #[must_use]
    #[inline(always)]
    pub fn word(&self, first: u32) -> StateTable<'m> {
        let rest = self.bytes.get(first as usize..).unwrap_or_default();
        Self { bytes: rest.get(..64).unwrap_or(rest) }
    }

    /// The table of up to `frames` frames from `first` on, or of as many of them as there are.
    #[must_use]
    pub fn part(&self, first: usize, frames: usize) -> StateTable<'m> {
        let rest = self.bytes.get(first..).unwrap_or_default();
        Self { bytes: rest.get(..frames).unwrap_or(rest) }
    }

    /// Makes every frame of the table the same. Only their owner may.
    #[inline]
    pub fn fill(&self, state: StateByte) {
        for byte in self.bytes {
            byte.store(state.0, Ordering::Relaxed);
        }
    }

    /// True if every frame of the table heads a block of the kind and order of `state`, of whatever type.
    #[must_use]
    #[inline]
    pub fn all_are(&self, state: StateByte) -> bool {
        let differing = self.bytes.iter().fold(0, |found, byte| found | byte.load(Ordering::Relaxed) ^ state.0);
        StateByte(differing).without_type() == 0
    }

    /// The bytes of the 64 frames from `first` on, if there are that many: for loops over the bits of a word, which need no
    /// check of each index.
    #[must_use]
    #[inline(always)]
    pub fn chunk(&self, first: u32) -> Option<&'m [AtomicU8; 64]> {
        self.bytes.get(first as usize..).and_then(|rest| rest.first_chunk())
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
}
