//! A pageblock: 512 frames, one cache line of free bits and one line of values derived from them.

use core::fmt;
use core::mem::offset_of;
use core::num::{NonZeroU16, NonZeroU64};

use crate::{MigrateType, PAGEBLOCK_FRAMES};

mod change;
mod presence;
mod visit;

pub use change::{Fill, Given, Taken, TopChange, WordGiven};
pub use visit::{Visit, Visited};

/// Words in a pageblock's free map.
pub const BLOCK_WORDS: usize = PAGEBLOCK_FRAMES as usize / 64;
/// No block: where the number of a pageblock is expected and there is none.
pub const NO_BLOCK: u32 = u32::MAX;

/// One pageblock's free state, under its region's lock.
///
/// # Invariants
/// 1. A bit of `map` is set if and only if that frame is free in the zone (not on a per-CPU list, not taken out).
/// 2. `free` is the number of set bits.
/// 3. Bit `8 * o + w` of `presence` is set if and only if the 64 frames of word `w` decompose into at least one maximal
///    free block of order `o`, for orders 0 to 6. (From order 6 on, blocks are made of full words, which are those of
///    order 6.) While frames are `loose` that holds for order 6 only.
/// 4. `top` is the highest order of any maximal free block inside, [`Pageblock::WHOLE`] if all frames are free and no
///    block is taken from it, and [`Pageblock::NO_TOP`] if none is.
///
/// | field | changed by |
/// |---|---|
/// | `map`, `presence`, `free`, `loose`, `top` | the methods of `block/change.rs`, and [`Visited::set`] |
/// | `migrate_type`, `saved_type`, `managed`, `reserved_by` | the setters of that name |
/// | `note`, `obstacle`, `part_note` | the scanners of compaction: hints, of which a wrong one costs time |
///
/// ```
/// use pageblock_frame::{MigrateType, Pageblock};
/// let mut block = Pageblock::empty(MigrateType::Movable);
/// assert_eq!(block.give(12, 2).to, 2); // frames 12 to 15
/// assert_eq!(block.give(8, 2).to, 3); // with 8 to 11 they are one block of order 3
/// let taken = block.take(0).unwrap();
/// assert_eq!((taken.place, taken.from, block.free()), (8, 3, 7));
/// ```
#[derive(Clone)]
#[repr(C, align(128))]
pub struct Pageblock {
    map: [u64; BLOCK_WORDS],
    presence: u64,
    free: u16,
    /// Free frames that have come back since `presence` was computed; a taker computes it again first, if there are
    /// any.
    loose: u16,
    top: u8,
    migrate_type: MigrateType,
    managed: u16,
    saved_type: MigrateType,
    reserved_by: u16,
    note: u16,
    obstacle: Option<NonZeroU16>,
    part_note: u16,
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

    /// A block with all of its frames free, in none of the sets yet.
    #[must_use]
    pub const fn wholly_free(migrate_type: MigrateType) -> Self {
        Self {
            map: [u64::MAX; BLOCK_WORDS],
            presence: presence::ALL_FULL,
            free: PAGEBLOCK_FRAMES as u16,
            managed: PAGEBLOCK_FRAMES as u16,
            top: Self::WHOLE,
            ..Self::empty(migrate_type)
        }
    }

    /// One bit a frame, set while the frame is free.
    #[must_use]
    #[inline]
    pub const fn map(&self) -> &[u64; BLOCK_WORDS] {
        &self.map
    }

    /// A word of the map.
    #[must_use]
    #[inline]
    pub const fn word(&self, word: usize) -> u64 {
        self.map[word % BLOCK_WORDS]
    }

    /// Free frames, 0 to 512.
    #[must_use]
    #[inline]
    pub const fn free(&self) -> u16 {
        self.free
    }

    /// Of them, those of which [`presence`](Self::presence) does not know.
    #[must_use]
    pub const fn loose(&self) -> u16 {
        self.loose
    }

    /// For each order the words of the map with a maximal free block of it (see invariant 3).
    #[must_use]
    pub const fn presence(&self) -> u64 {
        self.presence
    }

    /// The lowest word of the map that has a free block of an order below 6 or a larger one, the smallest sufficient
    /// blocks first.
    #[must_use]
    #[inline]
    pub fn word_with(&self, order: u32) -> Option<usize> {
        let found = NonZeroU64::new(self.presence >> (order * BLOCK_WORDS as u32))?;
        Some(found.trailing_zeros() as usize % BLOCK_WORDS)
    }

    /// One bit for each word of the map that is full.
    #[must_use]
    #[inline]
    pub const fn full_words(&self) -> u32 {
        presence::full_words(self.presence)
    }

    /// The smallest order from `order < 6` on, up to 6, of which there is a maximal free block.
    #[must_use]
    pub const fn smallest_order(&self, order: u32) -> Option<u32> {
        presence::smallest_order(self.presence, order)
    }

    /// The largest order that the block can serve (see invariant 4).
    #[must_use]
    #[inline]
    pub const fn top(&self) -> u8 {
        self.top
    }

    /// [`presence`](Self::presence) and [`top`](Self::top) by the map: checks compare them with it.
    #[must_use]
    pub fn recomputed(&self) -> Self {
        let mut found = self.clone();
        found.free = self.map.iter().map(|word| word.count_ones() as u16).sum();
        found.loose = 0;
        found.presence = presence::block_presence(&self.map);
        found.top = presence::top_order(found.presence).map_or(Self::NO_TOP, |order| order as u8);
        found
    }

    /// The pageblock's purpose.
    #[must_use]
    #[inline]
    pub const fn migrate_type(&self) -> MigrateType {
        self.migrate_type
    }

    /// Changes it; free frames are then free as that.
    #[inline]
    pub const fn set_migrate_type(&mut self, migrate_type: MigrateType) {
        self.migrate_type = migrate_type;
    }

    /// The pageblock's purpose before it was isolated.
    #[must_use]
    pub const fn saved_type(&self) -> MigrateType {
        self.saved_type
    }

    /// Remembers the purpose, before it is isolated.
    pub const fn save_type(&mut self) {
        self.saved_type = self.migrate_type;
    }

    /// Frames of this block that exist and belong to the allocator, 0 to 512.
    #[must_use]
    #[inline]
    pub const fn managed(&self) -> u16 {
        self.managed
    }

    /// So many more frames belong to the allocator.
    pub const fn add_managed(&mut self, frames: u16) {
        self.managed += frames;
    }

    /// The owner of the per-CPU lists that alone refill from it, a number above 0; 0 if it is not reserved.
    #[must_use]
    #[inline]
    pub const fn reserved_by(&self) -> u16 {
        self.reserved_by
    }

    /// Reserves it for an owner, or for none.
    #[inline]
    pub const fn set_reserved_by(&mut self, owner: u16) {
        self.reserved_by = owner;
    }

    /// Left by scanners that could not empty it: 0, or one more than its free frames then.
    #[must_use]
    #[inline]
    pub const fn note(&self) -> u16 {
        self.note
    }

    /// Left by scanners: one more than the place in the pageblock of the frame that was in the way.
    #[must_use]
    #[inline]
    pub const fn obstacle(&self) -> Option<NonZeroU16> {
        self.obstacle
    }

    /// Left by scanners that could make no smaller block in it: 0, or one more than its free frames then.
    #[must_use]
    #[inline]
    pub const fn part_note(&self) -> u16 {
        self.part_note
    }

    /// Notes that it could not be emptied as it is.
    #[inline]
    pub const fn note_unemptied(&mut self) {
        self.note = self.free + 1;
    }

    /// Notes that no smaller block could be made in it as it is.
    pub const fn note_unparted(&mut self) {
        self.part_note = self.free + 1;
    }

    /// Notes which frame was in the way.
    #[inline]
    pub const fn note_obstacle(&mut self, obstacle: Option<NonZeroU16>) {
        self.obstacle = obstacle;
    }

    /// Clears the scanners' notes.
    pub const fn forget_notes(&mut self) {
        (self.note, self.obstacle, self.part_note) = (0, None, 0);
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
}
