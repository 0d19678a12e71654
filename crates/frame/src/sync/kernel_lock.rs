//! The seam for a kernel's own lock.
//!
//! Which lock is used is a property of the whole program, as `cfg(loom)` is, and not of one that depends on the crate:
//! features are joined, this is chosen once. Without the flag nothing here is compiled into a kernel.
#![expect(clippy::disallowed_types, reason = "the word is the kernel's, whose atomics are `core`'s")]

use core::sync::atomic::AtomicUsize;

/// A kernel's own lock (ticket, queued, one that a lock checker watches), for every lock inside the allocator.
///
/// It is named once, by [`kernel_lock!`](crate::kernel_lock), and used if the kernel is built with
/// `RUSTFLAGS="--cfg pageblock_kernel_lock"`. A lock is one word, which begins at 0. `examples/lock` is a ticket lock
/// with a test.
///
/// # Safety
/// 1. From the return of `lock`, or a `try_lock` that returns true, to the call of `unlock`, no other call takes a lock
///    of the same word.
/// 2. All that the program wrote before `unlock` is seen after the next `lock` or `try_lock` of the word (release and
///    acquire).
/// 3. None of the functions calls the allocator. They are called with interrupts off, and on any CPU.
///
/// ```
/// use core::sync::atomic::{AtomicUsize, Ordering};
/// use pageblock_frame::sync::KernelLock;
/// struct TestAndSet;
/// // SAFETY: 1. One caller finds the word at 0. 2. Acquire and Release. 3. They call nothing.
/// unsafe impl KernelLock for TestAndSet {
///     fn lock(word: &AtomicUsize) {
///         while !Self::try_lock(word) {
///             core::hint::spin_loop();
///         }
///     }
///     fn try_lock(word: &AtomicUsize) -> bool {
///         word.swap(1, Ordering::Acquire) == 0
///     }
///     unsafe fn unlock(word: &AtomicUsize) {
///         word.store(0, Ordering::Release);
///     }
/// }
/// let word = AtomicUsize::new(0);
/// assert!(TestAndSet::try_lock(&word) && !TestAndSet::try_lock(&word));
/// ```
pub unsafe trait KernelLock {
    /// Waits until the lock of this word is free, and takes it.
    fn lock(word: &AtomicUsize);

    /// Takes the lock of this word if it is free; true if it is the caller's now.
    fn try_lock(word: &AtomicUsize) -> bool;

    /// Gives the lock of this word up.
    ///
    /// # Safety
    /// The caller holds it.
    unsafe fn unlock(word: &AtomicUsize);
}

/// Names the [`KernelLock`](crate::sync::KernelLock) that the allocator is to use, once in a program that is built with
/// `--cfg pageblock_kernel_lock`.
#[macro_export]
macro_rules! kernel_lock {
    ($lock:ty) => {
        const _: () = {
            use ::core::sync::atomic::AtomicUsize;
            use $crate::sync::KernelLock;

            #[unsafe(no_mangle)]
            fn __pageblock_lock(word: &AtomicUsize) {
                <$lock as KernelLock>::lock(word);
            }

            #[unsafe(no_mangle)]
            fn __pageblock_try_lock(word: &AtomicUsize) -> bool {
                <$lock as KernelLock>::try_lock(word)
            }

            /// # Safety
            /// The caller holds the lock.
            #[unsafe(no_mangle)]
            unsafe fn __pageblock_unlock(word: &AtomicUsize) {
                // SAFETY: the caller's promise is passed on.
                unsafe { <$lock as KernelLock>::unlock(word) };
            }
        };
    };
}

#[cfg(pageblock_kernel_lock)]
pub(super) use body::{Mutex, MutexGuard};

#[cfg(pageblock_kernel_lock)]
#[expect(unsafe_code, reason = "a lock's value is reached by the holder alone: the kernel's promise")]
mod body {
    use core::cell::UnsafeCell;
    use core::marker::PhantomData;
    use core::ops::{Deref, DerefMut};
    use core::sync::atomic::AtomicUsize;

    unsafe extern "Rust" {
        fn __pageblock_lock(word: &AtomicUsize);
        fn __pageblock_try_lock(word: &AtomicUsize) -> bool;
        fn __pageblock_unlock(word: &AtomicUsize);
    }

    /// A value behind the kernel's lock.
    pub(crate) struct Mutex<T> {
        word: AtomicUsize,
        value: UnsafeCell<T>,
    }

    // SAFETY: the value is reached by one holder at a time, which may be on any CPU.
    unsafe impl<T: Send> Sync for Mutex<T> {}

    /// The lock is held, by the CPU that has taken it.
    pub(crate) struct MutexGuard<'a, T> {
        mutex: &'a Mutex<T>,
        stays: PhantomData<*const ()>,
    }

    // SAFETY: a shared guard gives shared access to the value only.
    unsafe impl<T: Sync> Sync for MutexGuard<'_, T> {}

    impl<T> Mutex<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self { word: AtomicUsize::new(0), value: UnsafeCell::new(value) }
        }

        fn guard(&self) -> MutexGuard<'_, T> {
            MutexGuard { mutex: self, stays: PhantomData }
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            // SAFETY: `kernel_lock!` defines it, with this signature.
            unsafe { __pageblock_lock(&self.word) };
            self.guard()
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            // SAFETY: as above.
            unsafe { __pageblock_try_lock(&self.word) }.then(|| self.guard())
        }

        pub(crate) fn get_mut(&mut self) -> &mut T {
            self.value.get_mut()
        }

        pub(crate) fn into_inner(self) -> T {
            self.value.into_inner()
        }
    }

    impl<T> Drop for MutexGuard<'_, T> {
        fn drop(&mut self) {
            // SAFETY: the guard is there because its lock was taken; it goes now.
            unsafe { __pageblock_unlock(&self.mutex.word) };
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            // SAFETY: the lock is held as long as the guard is there.
            unsafe { &*self.mutex.value.get() }
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            // SAFETY: as above, and the guard is borrowed alone.
            unsafe { &mut *self.mutex.value.get() }
        }
    }
}
