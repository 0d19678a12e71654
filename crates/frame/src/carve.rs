//! Turning raw bytes into typed, zeroed metadata: the one place where memory gets a type.

use core::mem::MaybeUninit;

use crate::Pageblock;
#[cfg(not(loom))]
use crate::{
    Descriptor,
    sync::{AtomicU8, AtomicU32},
};

/// Types for which all bytes zero is a value.
///
/// # Safety
/// The implementor promises that a zeroed byte pattern of its size is a valid value, and that it needs no drop.
pub unsafe trait Zeroed {}

// SAFETY: an integer of zero bytes is 0.
unsafe impl Zeroed for u8 {}
// SAFETY: an integer of zero bytes is 0.
unsafe impl Zeroed for u32 {}
// SAFETY: an integer of zero bytes is 0.
unsafe impl Zeroed for u64 {}
// SAFETY: outside the model this is an integer in an `UnsafeCell`.
#[cfg(not(loom))]
unsafe impl Zeroed for AtomicU8 {}
// SAFETY: outside the model this is an integer in an `UnsafeCell`.
#[cfg(not(loom))]
unsafe impl Zeroed for AtomicU32 {}
// SAFETY: integers, and migrate types, of which number 0 is `Unmovable`.
unsafe impl Zeroed for Pageblock {}
// SAFETY: four integers.
#[cfg(not(loom))]
unsafe impl Zeroed for Descriptor {}

/// Cuts typed slices off a run of raw bytes, from its start.
///
/// ```
/// use core::mem::MaybeUninit;
/// use pageblock_frame::Carver;
/// let mut raw = [MaybeUninit::<u8>::uninit(); 64];
/// let mut carver = Carver::new(&mut raw);
/// let words: &mut [u64] = carver.take(4).unwrap();
/// words[3] = 7;
/// assert_eq!(words, [0, 0, 0, 7]);
/// assert!(carver.take::<u64>(5).is_none()); // too little left
/// assert!(carver.take::<u8>(1).is_some()); // and nothing was lost by asking
/// ```
#[derive(Debug)]
pub struct Carver<'m> {
    rest: &'m mut [MaybeUninit<u8>],
}

impl<'m> Carver<'m> {
    /// Cuts from these bytes.
    #[must_use]
    pub const fn new(bytes: &'m mut [MaybeUninit<u8>]) -> Self {
        Self { rest: bytes }
    }

    /// Bytes that are left.
    #[must_use]
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// A zeroed slice of `count` values, aligned, or `None` (with nothing taken) if the bytes do not suffice.
    pub fn take<T: Zeroed>(&mut self, count: usize) -> Option<&'m mut [T]> {
        let start = self.claim::<T>(count)?;
        // SAFETY: 1. `start` is valid for `count` values and exclusive for 'm. 2. It is aligned for `T`. 3. All bytes
        // are written before the slice is made, and `T: Zeroed` says that zero bytes are `count` valid values.
        unsafe {
            core::ptr::write_bytes(start, 0, count);
            Some(core::slice::from_raw_parts_mut(start, count))
        }
    }

    /// Room for `count` values, aligned and not initialised, or `None` (with nothing taken) if the bytes do not
    /// suffice.
    pub fn take_uninit<T>(&mut self, count: usize) -> Option<&'m mut [MaybeUninit<T>]> {
        let start = self.claim::<T>(count)?.cast();
        // SAFETY: `start` is aligned for `T`, valid for `count` values and exclusive for 'm; nothing need be
        // initialised.
        Some(unsafe { core::slice::from_raw_parts_mut(start, count) })
    }

    /// A slice of `count` values made by `value`, aligned. `None` if the bytes do not suffice (with nothing taken), or
    /// if `value` has none. The values are never dropped.
    ///
    /// ```
    /// use core::mem::MaybeUninit;
    /// use pageblock_frame::Carver;
    /// let mut raw = [MaybeUninit::<u8>::uninit(); 64];
    /// let squares = Carver::new(&mut raw).take_with(5, |i| Some(i * i)).unwrap();
    /// assert_eq!(squares, [0, 1, 4, 9, 16]);
    /// ```
    pub fn take_with<T>(&mut self, count: usize, mut value: impl FnMut(usize) -> Option<T>) -> Option<&'m mut [T]> {
        let start = self.claim::<T>(count)?;
        for i in 0..count {
            let value = value(i)?;
            // SAFETY: `start` is aligned for `T` and valid for `count` values, exclusively for 'm.
            unsafe { start.add(i).write(value) };
        }
        // SAFETY: as above, and all `count` values have been written.
        Some(unsafe { core::slice::from_raw_parts_mut(start, count) })
    }

    /// Puts a value there, aligned. `None`, with nothing taken, if the bytes do not suffice. It is never dropped.
    pub fn place<T>(&mut self, value: T) -> Option<&'m mut T> {
        let start = self.claim::<T>(1)?;
        // SAFETY: `start` is aligned for `T` and valid for a value, exclusively for 'm; it is one once it is written.
        unsafe {
            start.write(value);
            Some(&mut *start)
        }
    }

    /// Room for `count` values that are made one by one, each perhaps with bytes of the same storage. `None`, with
    /// nothing taken, if the bytes do not suffice.
    ///
    /// ```
    /// use core::mem::MaybeUninit;
    /// use pageblock_frame::Carver;
    /// let mut raw = [MaybeUninit::<u8>::uninit(); 64];
    /// let mut carver = Carver::new(&mut raw);
    /// let mut rows = carver.slots::<&mut [u8]>(2).unwrap();
    /// rows.push(carver.take(3).unwrap()).unwrap();
    /// rows.push(carver.take(5).unwrap()).unwrap();
    /// assert!(rows.push(&mut []).is_none()); // no room
    /// assert_eq!(rows.filled().iter().map(|row| row.len()).sum::<usize>(), 8);
    /// ```
    pub fn slots<T>(&mut self, count: usize) -> Option<Slots<'m, T>> {
        Some(Slots { places: self.take_uninit(count)?, filled: 0 })
    }

    /// Room for `count` values, aligned, exclusive for 'm, not initialised.
    fn claim<T>(&mut self, count: usize) -> Option<*mut T> {
        let bytes = size_of::<T>().checked_mul(count)?;
        self.take_bytes(bytes, align_of::<T>()).map(|bytes| bytes.as_mut_ptr().cast::<T>())
    }

    /// `bytes` bytes, not initialised, aligned to `align` (a power of two), or `None` with nothing taken.
    pub fn take_bytes(&mut self, bytes: usize, align: usize) -> Option<&'m mut [MaybeUninit<u8>]> {
        let skip = self.rest.as_ptr().align_offset(align);
        let needed = skip.checked_add(bytes)?;
        if needed > self.rest.len() {
            return None;
        }
        let (head, tail) = core::mem::take(&mut self.rest).split_at_mut(needed);
        self.rest = tail;
        head.get_mut(skip..)
    }
}

/// Places for values in carved memory, filled from the first on. A value goes where it stays: on a small stack there is
/// no room for a list of them.
///
/// # Invariants
/// The first `filled` places hold values.
#[derive(Debug)]
pub struct Slots<'m, T> {
    places: &'m mut [MaybeUninit<T>],
    filled: usize,
}

impl<'m, T> Slots<'m, T> {
    /// Fills the next place. `None` if all are filled.
    pub fn push(&mut self, value: T) -> Option<&mut T> {
        let place = self.places.get_mut(self.filled)?.as_mut_ptr();
        // SAFETY: the place is exclusively borrowed, and holds a value once it is written.
        unsafe {
            place.write(value);
            self.filled += 1;
            Some(&mut *place)
        }
    }

    /// The values. They are never dropped.
    #[must_use]
    pub fn filled(self) -> &'m mut [T] {
        // SAFETY: `filled` places have been written, and the slice is exclusive for 'm.
        unsafe { core::slice::from_raw_parts_mut(self.places.as_mut_ptr().cast(), self.filled) }
    }
}
