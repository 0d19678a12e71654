//! Pageblocks without metadata yet: their state, in one byte instead.
//!
//! | byte | pageblock | its line | state of its frames |
//! |---|---|---|---|
//! | 0 | nothing of it belongs to the allocator | [`Pageblock::empty`] | `Inside` |
//! | 1 to 3 | all of it is free, as one of the three ordinary types | all bits set | `Inside` |
//! | 4 | nothing of it belongs to the allocator, all of it exists | as 0 | `Reserved` |
//! | 5 | nothing of it exists | as 0 | `Hole` |
//! | 6 | opened: as its line and its state bytes say | written | written |
//!
//! The holder of the region's lock writes the line and the state bytes, and then the 6, which stays (release). A CPU
//! that reads the 6 (acquire) may read state bytes; lines are read under the lock.

use crate::block::Pageblock;
use crate::sync::{AtomicU8, Ordering};
use crate::wide::{load8, store8};
use crate::{MigrateType, StateByte};

const NOTHING: u8 = 0;
const FREE: u8 = 1;
const FREE_MOVABLE: u8 = FREE + MigrateType::Movable as u8;
const RESERVED: u8 = 4;
const HOLE: u8 = 5;
const OPENED: u8 = 6;

/// State of a pageblock that has not been opened.
///
/// ```
/// use pageblock_frame::{MigrateType, Unopened};
/// assert_ne!(Unopened::Nothing, Unopened::Free(MigrateType::Movable));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unopened {
    /// Nothing of it belongs to the allocator.
    Nothing,
    /// All of it is free, as a type that is ordinary.
    Free(MigrateType),
    /// The same as nothing, and all of its frames exist.
    Reserved,
    /// None of its frames exists.
    Hole,
}

/// How far a pageblock has come into being: see the [module](self).
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Opening(AtomicU8);

impl Opening {
    /// Of a pageblock of which nothing belongs to the allocator.
    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(NOTHING))
    }

    /// That of which this is the byte.
    #[inline]
    const fn from_ref(byte: &AtomicU8) -> &Self {
        // SAFETY: a value of the same layout.
        unsafe { &*core::ptr::from_ref(byte).cast() }
    }

    /// True if its line and its state bytes have been written.
    #[inline]
    pub(crate) fn is_opened(&self) -> bool {
        // Acquire: pairs with the release in `open`.
        self.0.load(Ordering::Acquire) == OPENED
    }

    /// Its state; `None` if it has been opened.
    #[inline]
    pub(crate) fn unopened(&self) -> Option<Unopened> {
        match self.0.load(Ordering::Relaxed) {
            NOTHING => Some(Unopened::Nothing),
            RESERVED => Some(Unopened::Reserved),
            HOLE => Some(Unopened::Hole),
            OPENED => None,
            number => Some(Unopened::Free(MigrateType::from_index(number - FREE).unwrap_or_default())),
        }
    }

    /// The state of all its frames; `None` if it has been opened.
    #[cold]
    pub(crate) fn state(&self) -> Option<StateByte> {
        self.unopened().map(|unopened| match unopened {
            Unopened::Reserved => StateByte::RESERVED,
            Unopened::Hole => StateByte::HOLE,
            Unopened::Nothing | Unopened::Free(_) => StateByte::INSIDE,
        })
    }

    /// Its line as it will be when it is opened.
    #[cold]
    pub(crate) fn line(&self) -> &'static Pageblock {
        match self.unopened() {
            Some(Unopened::Free(MigrateType::Unmovable)) => &FREE_LINES[0],
            Some(Unopened::Free(MigrateType::Reclaimable)) => &FREE_LINES[2],
            Some(Unopened::Free(_)) => &FREE_LINES[1],
            _ => &EMPTY_LINE,
        }
    }

    /// Sets its state. Only the holder of the region's lock may, while it has not been opened.
    #[inline]
    pub(crate) fn set(&self, unopened: Unopened) {
        let number = match unopened {
            Unopened::Nothing => NOTHING,
            Unopened::Free(migrate_type) => FREE + (migrate_type as u8).min(2),
            Unopened::Reserved => RESERVED,
            Unopened::Hole => HOLE,
        };
        self.0.store(number, Ordering::Relaxed);
    }

    /// True if all of it is free and it has not been opened.
    #[inline]
    fn is_free(&self) -> bool {
        (FREE..RESERVED).contains(&self.0.load(Ordering::Relaxed))
    }

    /// Makes it free as a movable one, unless it has been opened. True if it was reserved.
    #[inline]
    fn release(&self) -> bool {
        let old = self.0.load(Ordering::Relaxed);
        if old != OPENED {
            self.0.store(FREE_MOVABLE, Ordering::Relaxed);
        }
        old == RESERVED
    }

    /// Its line and its state bytes have been written.
    pub(crate) fn open(&self) {
        // Release: pairs with the acquire in `is_opened`.
        self.0.store(OPENED, Ordering::Release);
    }
}

/// Openings of pageblocks that follow one another. At boot nothing of most of them belongs to the allocator: those are
/// read and written eight at a time.
#[derive(Clone, Copy)]
pub(crate) struct Openings<'m>(&'m [AtomicU8]);

impl<'m> Openings<'m> {
    pub(crate) const fn new(openings: &'m [Opening]) -> Self {
        // SAFETY: as many values of the same layout.
        Self(unsafe { core::slice::from_raw_parts(openings.as_ptr().cast(), openings.len()) })
    }

    /// How many there are before the first that has been opened.
    pub(crate) fn unopened(self) -> usize {
        self.position(|opening| opening.is_opened()).unwrap_or(self.0.len())
    }

    /// The place of the first that has not been opened and is free.
    pub(crate) fn first_free(self) -> Option<usize> {
        self.position(Opening::is_free)
    }

    /// Makes those that have not been opened free as movable ones. Returns how many were reserved.
    pub(crate) fn release(self) -> u64 {
        let (eights, rest) = self.0.as_chunks();
        let mut reserved = 0;
        for eight in eights {
            if load8(eight) == NOTHING_OF_EIGHT {
                store8(eight, u64::from_ne_bytes([FREE_MOVABLE; 8]));
            } else {
                reserved += release_each(eight);
            }
        }
        reserved + release_each(rest)
    }

    /// The first one that the question is answered with yes for; it is not for one of which nothing is the
    /// allocator's.
    #[inline]
    fn position(self, is: impl Fn(&Opening) -> bool) -> Option<usize> {
        let is = |byte: &AtomicU8| is(Opening::from_ref(byte));
        let (eights, rest) = self.0.as_chunks::<8>();
        for (number, eight) in eights.iter().enumerate() {
            if load8(eight) != NOTHING_OF_EIGHT
                && let Some(place) = eight.iter().position(is)
            {
                return Some(number * 8 + place);
            }
        }
        rest.iter().position(is).map(|place| eights.len() * 8 + place)
    }
}

const NOTHING_OF_EIGHT: u64 = u64::from_ne_bytes([NOTHING; 8]);

#[cold]
fn release_each(bytes: &[AtomicU8]) -> u64 {
    bytes.iter().map(|byte| u64::from(Opening::from_ref(byte).release())).sum()
}

static EMPTY_LINE: Pageblock = Pageblock::empty(MigrateType::Movable);
static FREE_LINES: [Pageblock; 3] = [
    Pageblock::wholly_free(MigrateType::Unmovable),
    Pageblock::wholly_free(MigrateType::Movable),
    Pageblock::wholly_free(MigrateType::Reclaimable),
];
