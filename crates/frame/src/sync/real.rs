//! The real body: `core` atomics; locks are in `lock`.
#![expect(clippy::disallowed_types, reason = "this module is where the project's locks and atomics live")]

use core::fmt;
use core::marker::PhantomData;
pub use core::sync::atomic::{compiler_fence, fence};

use core::sync::atomic::{self, Ordering};

use super::interleave::point;

/// Newtypes, so that clippy can tell these from `core`'s own.
macro_rules! atomic {
    ($($name:ident($value:ty) $(, $arithmetic:ident)?;)*) => {$(
        /// An atomic; the methods are those of `core::sync::atomic`.
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub struct $name(atomic::$name);

        impl $name {
            /// An atomic with this value.
            #[must_use]
            pub const fn new(value: $value) -> Self {
                Self(atomic::$name::new(value))
            }

            /// The value now.
            #[inline]
            pub fn load(&self, order: Ordering) -> $value {
                point();
                self.0.load(order)
            }

            /// The value, read by the only CPU that writes it: a plain load, which the compiler may fold into its user.
            ///
            /// # Safety
            /// All writes are made by the caller's CPU, or happened before.
            #[inline]
            pub unsafe fn load_own(&self) -> $value {
                point();
                // SAFETY: no other thread writes, by the caller's promise; an interrupt's write is over before it
                // returns.
                unsafe { *self.0.as_ptr() }
            }

            /// Replaces the value.
            #[inline]
            pub fn store(&self, value: $value, order: Ordering) {
                point();
                self.0.store(value, order);
            }

            /// Replaces the value and returns the old one, in one step.
            #[inline]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.swap(value, order)
            }

            /// Replaces `current` by `new` if it is there.
            ///
            /// # Errors
            /// The value that was there instead.
            #[inline]
            pub fn compare_exchange(
                &self, current: $value, new: $value, success: Ordering, failure: Ordering,
            ) -> Result<$value, $value> {
                point();
                self.0.compare_exchange(current, new, success, failure)
            }

            /// As [`Self::compare_exchange`], but may fail without reason.
            ///
            /// # Errors
            /// The value that was there.
            #[inline]
            pub fn compare_exchange_weak(
                &self, current: $value, new: $value, success: Ordering, failure: Ordering,
            ) -> Result<$value, $value> {
                point();
                self.0.compare_exchange_weak(current, new, success, failure)
            }

            /// Bitwise or; returns the old value.
            #[inline]
            pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.fetch_or(value, order)
            }

            /// Bitwise and; returns the old value.
            #[inline]
            pub fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.fetch_and(value, order)
            }
        }
        $(atomic!(@$arithmetic $name($value));)?
    )*};
    (@arithmetic $name:ident($value:ty)) => {
        impl $name {
            /// Adds; returns the old value.
            #[inline]
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.fetch_add(value, order)
            }

            /// Subtracts; returns the old value.
            #[inline]
            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.fetch_sub(value, order)
            }

            /// The larger of both stays; returns the old value.
            #[inline]
            pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_max(value, order)
            }
        }
    };
}

atomic! {
    AtomicBool(bool);
    AtomicU8(u8), arithmetic;
    AtomicU16(u16), arithmetic;
    AtomicU32(u32), arithmetic;
    AtomicUsize(usize), arithmetic;
}

#[cfg(target_has_atomic = "64")]
atomic! {
    AtomicU64(u64), arithmetic;
    AtomicI64(i64), arithmetic;
}

#[cfg(not(target_has_atomic = "64"))]
pub use super::split::{AtomicI64, AtomicU64};

/// A `u32` in shared storage that is only touched under a lock or by one owner.
///
/// Relaxed loads and stores here; under the model checker an access that no lock orders is reported as a race.
///
/// ```
/// let slot = pageblock_frame::sync::Slot::new(7);
/// slot.set(8);
/// assert_eq!(slot.get(), 8);
/// ```
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Slot(AtomicU32);

impl Slot {
    /// A slot with this value.
    #[must_use]
    pub const fn new(value: u32) -> Self {
        Self(AtomicU32::new(value))
    }

    /// The value.
    #[must_use]
    #[inline]
    pub fn get(&self) -> u32 {
        self.0.load(core::sync::atomic::Ordering::Relaxed)
    }

    /// Replaces the value.
    #[inline]
    pub fn set(&self, value: u32) {
        self.0.store(value, core::sync::atomic::Ordering::Relaxed);
    }
}

/// A value that is written once and then only read.
///
/// ```
/// static CONFIG: pageblock_frame::sync::Once<u32> = pageblock_frame::sync::Once::new();
/// assert_eq!(CONFIG.get(), None);
/// assert_eq!(CONFIG.set(5), Ok(()));
/// assert_eq!(CONFIG.set(6), Err(6));
/// assert_eq!(CONFIG.get(), Some(&5));
/// ```
pub struct Once<T>(spin::Once<T>);

impl<T> Once<T> {
    /// Nothing written yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(spin::Once::new())
    }

    /// The value, if it has been written.
    #[must_use]
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.0.get()
    }

    /// Writes the value.
    ///
    /// # Errors
    /// The value is handed back if one was there already.
    pub fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.0.call_once(|| value.take().unwrap_or_else(|| unreachable!("call_once runs its closure once")));
        value.map_or(Ok(()), Err)
    }
}

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for Once<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").field("written", &self.0.is_completed()).finish()
    }
}

/// A reference that is set once and then only read, with a single load.
///
/// ```
/// static LIMIT: pageblock_frame::sync::OnceRef<u32> = pageblock_frame::sync::OnceRef::new();
/// assert_eq!(LIMIT.get(), None);
/// assert_eq!(LIMIT.set(&5), Ok(()));
/// assert_eq!(LIMIT.set(&6), Err(&6));
/// assert_eq!(LIMIT.get(), Some(&5));
/// ```
pub struct OnceRef<T: 'static> {
    /// Null, or from a `&'static T`.
    target: atomic::AtomicPtr<T>,
    /// It hands out the pointer that it was given, on any thread.
    reference: PhantomData<&'static T>,
}

impl<T> OnceRef<T> {
    /// Nothing set yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { target: atomic::AtomicPtr::new(core::ptr::null_mut()), reference: PhantomData }
    }

    /// The reference, if it has been set.
    #[must_use]
    #[inline]
    pub fn get(&self) -> Option<&'static T> {
        // Acquire pairs with the release in `set`: a thread that sees the pointer sees its target.
        let target = self.target.load(Ordering::Acquire);
        // SAFETY: null, or made from a `&'static T` by `set`.
        unsafe { target.as_ref() }
    }

    /// Sets the reference.
    ///
    /// # Errors
    /// It is handed back if there was one already.
    pub fn set(&self, target: &'static T) -> Result<(), &'static T> {
        let new = core::ptr::from_ref(target).cast_mut();
        let set = self.target.compare_exchange(core::ptr::null_mut(), new, Ordering::Release, Ordering::Relaxed);
        set.map_or(Err(target), |_| Ok(()))
    }
}

impl<T> Default for OnceRef<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for OnceRef<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnceRef").field("set", &self.get().is_some()).finish()
    }
}

/// Tells the CPU that it is in a wait loop.
#[inline]
pub fn spin_hint() {
    core::hint::spin_loop();
}
