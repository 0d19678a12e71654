//! The way to an area that every platform has: by the number of the CPU.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic;

use super::gate::{ABSENT, Absent, Key};
use super::real::Frames;
use super::{Area, View};
use crate::sync::{AtomicBool, AtomicUsize, Ordering};

/// For each CPU that the platform can have its area, or [`ABSENT`], of which nothing but the gate may be read.
#[derive(Debug)]
pub(super) struct Table<'a, T> {
    areas: NonNull<NonNull<Area<T>>>,
    /// Not to be read for [`ABSENT`].
    frames: NonNull<Frames>,
    borrows: PhantomData<&'a ()>,
}

impl<T> Clone for Table<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Table<'_, T> {}

impl<'a, T> Table<'a, T> {
    /// With the areas of all CPUs that the platform can have.
    pub(super) const fn new(areas: NonNull<NonNull<Area<T>>>, frames: NonNull<Frames>) -> Self {
        Self { areas, frames, borrows: PhantomData }
    }

    /// A CPU's area, perhaps [`ABSENT`].
    ///
    /// # Safety
    /// The platform can have that CPU.
    #[inline(always)]
    pub(super) unsafe fn area(self, cpu: usize) -> NonNull<Area<T>> {
        // SAFETY: in the table, by the caller's promise; it is not written after it was made.
        unsafe { *self.areas.add(cpu).as_ref() }
    }

    /// A present area, whose gate the caller has passed.
    ///
    /// # Safety
    /// It is in the table, and not [`ABSENT`].
    #[inline(always)]
    pub(super) unsafe fn view(self, area: NonNull<Area<T>>) -> View<'a, T> {
        // SAFETY: the area is there, so that the table has been set, and what the areas have in common with it.
        let states = unsafe { self.frames.as_ref() }.states;
        View::new(area, self.frames, states)
    }
}

/// Most CPUs for which a table of absent ones is at hand.
const MOST_ABSENT: usize = 64;

/// Pointers to [`ABSENT`].
#[repr(transparent)]
struct AbsentTable<const CPUS: usize>([NonNull<Absent>; CPUS]);

// SAFETY: what they point to is a static with atomics in it.
unsafe impl<const CPUS: usize> Sync for AbsentTable<CPUS> {}

static NO_CPU: AbsentTable<1> = AbsentTable([NonNull::from_ref(&ABSENT); 1]);
static NO_CPUS: AbsentTable<MOST_ABSENT> = AbsentTable([NonNull::from_ref(&ABSENT); MOST_ABSENT]);

/// The key of no area: keys are addresses of bytes that are there, or 1.
const NO_KEY: Key = Key(usize::MAX);

/// A table that is set once. Before, all CPUs are absent.
///
/// | field | legal values | who may change it |
/// |---|---|---|
/// | `areas` | a table of absent CPUs, null if they are too many for one; then a store's | the one who has set `taken`, once |
/// | `frames` | anything; then the store's | the same, before `areas` and `key` |
/// | `key` | [`NO_KEY`]; then the key of the store's areas, if words may lead to them | the same |
/// | `taken` | – | [`set`](Self::set) |
#[derive(Debug)]
pub(super) struct TableRef<T> {
    areas: atomic::AtomicPtr<NonNull<Area<T>>>,
    key: AtomicUsize,
    frames: UnsafeCell<Frames>,
    taken: AtomicBool,
}

impl<T: 'static> TableRef<T> {
    /// For so many CPUs that the platform can have: null only if they are more than [`MOST_ABSENT`].
    pub(super) const fn new(possible: usize) -> Self {
        let absent = match possible {
            0..=1 => (&raw const NO_CPU).cast_mut().cast(),
            2..=MOST_ABSENT => (&raw const NO_CPUS).cast_mut().cast(),
            _ => core::ptr::null_mut(),
        };
        Self {
            areas: atomic::AtomicPtr::new(absent),
            key: AtomicUsize::new(NO_KEY.0),
            frames: UnsafeCell::new(Frames { states: NonNull::dangling(), origin: 0 }),
            taken: AtomicBool::new(false),
        }
    }

    /// Sets it; with `key` words may lead to the areas, whose key it is.
    pub(super) fn set(&self, table: Table<'static, T>, key: Option<Key>) {
        // Relaxed: it decides who is first, and publishes nothing.
        if self.taken.swap(true, Ordering::Relaxed) {
            return;
        }
        // SAFETY: 1. we are the only ones ever to write. 2. Nobody reads before `areas` or `key` is stored, below. 3. The table's pointer
        // is to what its store keeps for 'static.
        let states = unsafe {
            *self.frames.get() = *table.frames.as_ref();
            table.frames.as_ref().states
        };
        // Release pairs with the acquire in `get`: who sees the pointer sees the table, the areas and `frames`.
        self.areas.store(table.areas.as_ptr(), Ordering::Release);
        if let Some(key) = key {
            // `frames_by` makes a pointer of the key.
            let _ = states.as_ptr().expose_provenance();
            // Release pairs with the acquire in `key`: who sees it sees `frames`.
            self.key.store(key.0, Ordering::Release);
        }
    }

    /// The table, for the number of CPUs that `new` was told.
    #[inline(always)]
    pub(super) fn get(&self, possible: usize) -> Option<Table<'_, T>> {
        let table = self.areas.load(Ordering::Acquire);
        let areas = if possible <= MOST_ABSENT {
            // SAFETY: neither `new` nor `set` made it null.
            unsafe { NonNull::new_unchecked(table) }
        } else {
            NonNull::new(table)?
        };
        Some(Table::new(areas, NonNull::from_ref(&self.frames).cast()))
    }

    /// The key by which a CPU's word may lead to one of the areas, or one that no area has.
    #[inline(always)]
    pub(super) fn key(&self) -> Key {
        Key(self.key.load(Ordering::Acquire))
    }

    /// Whether words may lead to the areas.
    pub(super) fn has_key(&self) -> bool {
        self.key() != NO_KEY
    }

    /// A present area, whose gate the caller has passed.
    ///
    /// # Safety
    /// It is in the table.
    #[inline(always)]
    pub(super) unsafe fn view(&self, area: NonNull<Area<T>>) -> View<'_, T> {
        // SAFETY: an area is there, so that `set` has written it.
        let states = unsafe { &*self.frames.get() }.states;
        View::new(area, NonNull::from_ref(&self.frames).cast(), states)
    }

    /// The area to which a word has led.
    ///
    /// # Safety
    /// It has this key, which came from [`key`](Self::key).
    #[inline(always)]
    pub(super) unsafe fn view_by(&self, area: NonNull<Area<T>>, key: Key) -> View<'_, T> {
        // SAFETY: not `NO_KEY`, which no area has, so that it is where the state bytes begin; `set` has exposed the pointer.
        let states = unsafe { NonNull::new_unchecked(core::ptr::with_exposed_provenance_mut(key.0)) };
        View::new(area, NonNull::from_ref(&self.frames).cast(), states)
    }
}
