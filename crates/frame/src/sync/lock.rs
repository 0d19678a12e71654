//! The real body's lock: `spin`'s test-and-set lock, or the kernel's own.
#![cfg_attr(not(pageblock_kernel_lock), expect(clippy::disallowed_types, reason = "the project's locks live here"))]

use core::ops::{Deref, DerefMut};

#[cfg(not(pageblock_kernel_lock))]
use spin::mutex::{SpinMutex as Mutex, SpinMutexGuard as MutexGuard};

use super::interleave::point;
#[cfg(pageblock_kernel_lock)]
use super::kernel_lock::{Mutex, MutexGuard};
use crate::{Hooks, Platform};

/// A spin lock around a value.
///
/// Test-and-set, not a ticket: with more virtual CPUs than host CPUs a ticket lock stalls on a descheduled next in
/// line. A kernel that knows better supplies a lock of its own: [`KernelLock`](super::KernelLock).
pub struct Lock<T>(Mutex<T>);

/// A held [`Lock`].
pub struct LockGuard<'a, T>(MutexGuard<'a, T>);

impl<T> Lock<T> {
    /// An unlocked lock.
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Waits until the lock is free, and takes it.
    #[inline]
    pub fn lock(&self) -> LockGuard<'_, T> {
        match self.try_lock() {
            Some(guard) => guard,
            None => self.wait(),
        }
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) -> LockGuard<'_, T> {
        // A scheduler of the tests lets the holder go on.
        #[cfg(interleave)]
        return core::iter::repeat_with(|| self.try_lock()).flatten().next().unwrap_or_else(|| unreachable!("no end"));
        #[cfg(not(interleave))]
        LockGuard(self.0.lock())
    }

    /// As [`lock`](Self::lock), waiting in the kernel's own way.
    #[inline]
    pub(super) fn lock_on<P: Platform>(&self) -> LockGuard<'_, T> {
        match self.0.try_lock() {
            Some(guard) => LockGuard(guard),
            None => self.wait_on::<P>(),
        }
    }

    #[cold]
    #[inline(never)]
    fn wait_on<P: Platform>(&self) -> LockGuard<'_, T> {
        // The kernel's own lock waits in the kernel's own way.
        if cfg!(pageblock_kernel_lock) {
            return self.wait();
        }
        let mut taken = None;
        loop {
            P::hooks().wait_for_lock(core::ptr::from_ref(self).addr(), &mut || {
                taken = taken.take().or_else(|| self.try_lock());
                taken.is_some()
            });
            // The kernel may come back without the lock.
            if let Some(guard) = taken.take() {
                return guard;
            }
        }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<LockGuard<'_, T>> {
        point();
        self.0.try_lock().map(LockGuard)
    }

    /// The value, without locking: no other code can reach it.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }

    /// The value, giving the lock up.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T> Deref for LockGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for LockGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
