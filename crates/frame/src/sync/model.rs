//! The model checker's body: the same interface over `loom`.

use core::fmt;
use core::ops::{Deref, DerefMut};

pub use loom::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, fence};

/// A compiler fence has no meaning in a model, where every access is a call.
pub fn compiler_fence(_order: core::sync::atomic::Ordering) {}

/// loom's own mutex with a flag beside it that only [`Lock::try_lock`] reads.
///
/// loom 0.7's `try_lock` hides its failing branch (a waiter on the mutex is never scheduled into it), and a
/// compare-and-swap loop exceeds loom's branch limit; the flag makes the failure visible at the price of one atomic.
pub struct Lock<T> {
    held: AtomicBool,
    value: loom::sync::Mutex<T>,
}

/// A held [`Lock`].
pub struct LockGuard<'a, T> {
    held: &'a AtomicBool,
    guard: loom::sync::MutexGuard<'a, T>,
}

impl<T> Lock<T> {
    /// An unlocked lock.
    pub fn new(value: T) -> Self {
        Self { held: AtomicBool::new(false), value: loom::sync::Mutex::new(value) }
    }

    /// Waits until the lock is free, and takes it.
    pub fn lock(&self) -> LockGuard<'_, T> {
        let guard = self.value.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.held.store(true, core::sync::atomic::Ordering::Relaxed);
        LockGuard { held: &self.held, guard }
    }

    /// The model checker waits for all.
    pub(super) fn lock_on<P: crate::Platform>(&self) -> LockGuard<'_, T> {
        self.lock()
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<LockGuard<'_, T>> {
        if self.held.load(core::sync::atomic::Ordering::Relaxed) {
            return None;
        }
        let guard = self.value.try_lock().ok()?;
        self.held.store(true, core::sync::atomic::Ordering::Relaxed);
        Some(LockGuard { held: &self.held, guard })
    }

    /// The value, without locking: no other code can reach it.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The value, giving the lock up.
    pub fn into_inner(self) -> T {
        self.value.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl<T> Drop for LockGuard<'_, T> {
    fn drop(&mut self) {
        self.held.store(false, core::sync::atomic::Ordering::Relaxed);
    }
}

impl<T> Deref for LockGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for LockGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// A `u32` in shared storage that is only touched under a lock or by one owner; checked by the model.
#[derive(Debug)]
pub struct Slot(loom::cell::UnsafeCell<u32>);

// SAFETY: loom tracks every access through `with` and `with_mut` and panics on one that nothing orders.
unsafe impl Sync for Slot {}

impl Default for Slot {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Slot {
    /// A slot with this value.
    #[must_use]
    pub fn new(value: u32) -> Self {
        Self(loom::cell::UnsafeCell::new(value))
    }

    /// The value.
    #[must_use]
    pub fn get(&self) -> u32 {
        // SAFETY: the pointer is valid inside `with`; loom reports a concurrent writer.
        self.0.with(|value| unsafe { *value })
    }

    /// Replaces the value.
    pub fn set(&self, new: u32) {
        // SAFETY: the pointer is valid inside `with_mut`; loom reports any concurrent access.
        self.0.with_mut(|value| unsafe { *value = new });
    }
}

/// A value that is written once and then only read. Models write it before they start threads.
pub struct Once<T>(std::sync::OnceLock<T>);

impl<T> Once<T> {
    /// Nothing written yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(std::sync::OnceLock::new())
    }

    /// The value, if it has been written.
    #[must_use]
    pub fn get(&self) -> Option<&T> {
        self.0.get()
    }

    /// Writes the value.
    ///
    /// # Errors
    /// The value is handed back if one was there already.
    pub fn set(&self, value: T) -> Result<(), T> {
        self.0.set(value)
    }
}

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for Once<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").field("written", &self.0.get().is_some()).finish()
    }
}

/// A reference that is set once and then only read. Models set it before they start threads.
pub struct OnceRef<T: 'static>(std::sync::OnceLock<&'static T>);

impl<T> OnceRef<T> {
    /// Nothing set yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(std::sync::OnceLock::new())
    }

    /// The reference, if it has been set.
    #[must_use]
    pub fn get(&self) -> Option<&'static T> {
        self.0.get().copied()
    }

    /// Sets the reference.
    ///
    /// # Errors
    /// It is handed back if there was one already.
    pub fn set(&self, target: &'static T) -> Result<(), &'static T> {
        self.0.set(target)
    }
}

impl<T> Default for OnceRef<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for OnceRef<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnceRef").field("set", &self.0.get().is_some()).finish()
    }
}

/// Lets the other threads of the model run.
pub fn spin_hint() {
    loom::thread::yield_now();
}
