//! Every lock and every atomic of the project.
//!
//! Two bodies with one interface: `real` (`spin`, `core`), and `model` under `cfg(loom)`, where the model checker
//! explores the interleavings. Other crates may not name `core::sync::atomic` or `spin`; `clippy.toml` sees to it.
//!
//! * [`Lock`]: a spin lock, or the kernel's own ([`KernelLock`]). [`Lock::lock_irq`] takes it with interrupts saved through the [`Platform`], which is
//!   how the zone lock is always taken outside models and single-threaded tests.
//! * [`Slot`]: a `u32` that is only touched under a lock or by one owner, but lives in shared storage.
//! * [`PerCpuPtr`]: the word by which a platform leads its CPU to the allocator's data of that CPU.
//! * [`Once`]: written once, read for ever.
//! * Atomics: used with the weakest ordering that is right, each pair justified where it is used. Targets without
//!   64-bit atomics keep figures of 64 bits in two halves (`split`).
//!
//! Constructors are `const` except under the model checker: its objects must be made inside a model;
//! [`const_unless_model!`](crate::const_unless_model) writes both forms.
//!
//! ```
//! use pageblock_frame::sync::Lock;
//! static COUNT: Lock<u32> = Lock::new(0);
//! *COUNT.lock() += 1;
//! assert_eq!(*COUNT.lock(), 1);
//! ```

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

use crate::CpuId;
use crate::platform::{IrqState, Platform};

#[cfg(not(loom))]
mod interleave;
mod kernel_lock;
#[cfg(not(loom))]
mod lock;
#[cfg(loom)]
mod model;
#[cfg(not(loom))]
mod real;
#[cfg(any(all(test, not(loom)), not(target_has_atomic = "64")))]
mod split;

mod per_cpu_ptr;

pub use kernel_lock::KernelLock;
#[cfg(not(loom))]
pub use lock::{Lock, LockGuard};
pub use per_cpu_ptr::PerCpuPtr;

#[cfg(loom)]
pub use model::*;
#[cfg(not(loom))]
pub use real::*;

#[cfg(interleave)]
pub use interleave::at_each_point;

pub use core::sync::atomic::Ordering;

/// Declares a function `const`, except under the model checker.
#[macro_export]
macro_rules! const_unless_model {
    ($(#[$meta:meta])* $vis:vis const fn $($rest:tt)*) => {
        #[cfg(not(loom))]
        $(#[$meta])* $vis const fn $($rest)*
        #[cfg(loom)]
        $(#[$meta])* $vis fn $($rest)*
    };
}

/// Restores the interrupt state when dropped.
#[derive(Debug)]
struct IrqRestore<P: Platform> {
    state: IrqState,
    // Interrupts are the executing CPU's: the guard is not sent elsewhere.
    platform: PhantomData<(*mut (), P)>,
}

impl<P: Platform> Drop for IrqRestore<P> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the state was saved when this guard was made, and guards are dropped in reverse order where they are
        // locals of the project; a caller that drops two `IrqGuard`s in another order lets interrupts in early, which a
        // held `Lock` turns into a wait, not into an access.
        unsafe { P::irq_restore(self.state) };
    }
}

/// The caller stays on its CPU until this is dropped.
///
/// ```
/// # use core::ptr::NonNull;
/// use pageblock_frame::CpuId;
/// use pageblock_frame::sync::Pinned;
/// # struct Kernel;
/// # // SAFETY: one CPU, no interrupts; no memory asked for.
/// # unsafe impl pageblock_frame::Platform for Kernel {
/// #     const MAX_CPUS: usize = 1;
/// #     fn phys_to_virt(_: u64) -> NonNull<u8> { NonNull::dangling() }
/// # }
/// let pinned = Pinned::<Kernel>::new();
/// assert_eq!(pinned.cpu(), CpuId::new(0));
/// ```
#[derive(Debug)]
pub struct Pinned<P: Platform> {
    cpu: CpuId,
    // Pinning is the executing task's: the guard is not sent elsewhere.
    platform: PhantomData<(*mut (), P)>,
}

impl<P: Platform> Pinned<P> {
    /// Pins the caller.
    #[must_use]
    #[inline]
    pub fn new() -> Self {
        Self { cpu: P::pin(), platform: PhantomData }
    }

    /// The CPU that executes the caller.
    #[must_use]
    #[inline]
    pub const fn cpu(&self) -> CpuId {
        self.cpu
    }
}

impl<P: Platform> Default for Pinned<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform> Drop for Pinned<P> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `new` pinned the caller, and this guard ends that once.
        unsafe { P::unpin() };
    }
}

/// How a platform turns interrupts off and back on, as a value: for calls that take a lock which interrupt handlers
/// take too, on something that remembers its platform so that its callers need not name it.
///
/// ```
/// # use core::ptr::NonNull;
/// use pageblock_frame::sync::Interrupts;
/// # struct Kernel;
/// # // SAFETY: one CPU, no interrupts; no memory asked for.
/// # unsafe impl pageblock_frame::Platform for Kernel {
/// #     const MAX_CPUS: usize = 1;
/// #     fn phys_to_virt(_: u64) -> NonNull<u8> { NonNull::dangling() }
/// # }
/// let interrupts = Interrupts::of::<Kernel>();
/// assert_eq!(interrupts.off(|| 1 + 1), 2);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Interrupts {
    save: fn() -> IrqState,
    restore: unsafe fn(IrqState),
}

/// Restores the interrupt state when dropped, also where the action panics.
struct Restore(unsafe fn(IrqState), IrqState);

impl Drop for Restore {
    fn drop(&mut self) {
        // SAFETY: `off` saved this state just before, and its action has ended.
        unsafe { (self.0)(self.1) };
    }
}

impl Interrupts {
    /// The platform's way.
    #[must_use]
    pub const fn of<P: Platform>() -> Self {
        Self { save: P::irq_save, restore: P::irq_restore }
    }

    /// Runs `action` with interrupts off on this CPU.
    #[inline]
    pub fn off<R>(self, action: impl FnOnce() -> R) -> R {
        let _restore = Restore(self.restore, (self.save)());
        action()
    }
}

/// A held [`Lock`] with interrupts off: released in that order, lock first, on the CPU that took it.
///
/// ```compile_fail,E0277
/// # struct Kernel;
/// # // SAFETY: nothing is asked of it.
/// # unsafe impl pageblock_frame::Platform for Kernel {
/// #     const MAX_CPUS: usize = 1;
/// #     fn phys_to_virt(_: u64) -> core::ptr::NonNull<u8> { core::ptr::NonNull::dangling() }
/// # }
/// fn sends<T: Send>() {}
/// sends::<pageblock_frame::sync::IrqGuard<'static, u32, Kernel>>();
/// ```
#[derive(Debug)]
pub struct IrqGuard<'a, T, P: Platform> {
    // Declaration order is drop order: the lock is free before an interrupt can come.
    guard: LockGuard<'a, T>,
    _irq: IrqRestore<P>,
}

impl<T, P: Platform> Deref for IrqGuard<'_, T, P> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T, P: Platform> DerefMut for IrqGuard<'_, T, P> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<T> fmt::Debug for Lock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for LockGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard").finish_non_exhaustive()
    }
}

impl<T> Lock<T> {
    /// Saves the interrupt state, turns interrupts off, and takes the lock.
    #[inline]
    pub fn lock_irq<P: Platform>(&self) -> IrqGuard<'_, T, P> {
        let irq = IrqRestore { state: P::irq_save(), platform: PhantomData };
        IrqGuard { guard: self.lock_on::<P>(), _irq: irq }
    }

    /// As [`lock_irq`](Self::lock_irq) if the lock is free; otherwise `None`, with interrupts as they were.
    #[inline]
    pub fn try_lock_irq<P: Platform>(&self) -> Option<IrqGuard<'_, T, P>> {
        let irq = IrqRestore { state: P::irq_save(), platform: PhantomData };
        Some(IrqGuard { guard: self.try_lock()?, _irq: irq })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use core::ptr::NonNull;
    use std::sync::Barrier;
    use std::thread;

    use super::*;
    use crate::Hooks;

    static WAITS: AtomicUsize = AtomicUsize::new(0);

    struct Queued;

    // SAFETY: no memory asked for; the lock is the test's alone.
    unsafe impl Platform for Queued {
        const MAX_CPUS: usize = 4;

        fn phys_to_virt(_: u64) -> NonNull<u8> {
            NonNull::dangling()
        }

        fn hooks() -> impl Hooks {
            Self
        }
    }

    impl Hooks for Queued {
        /// Gives up at first, and asks again after it has the lock: neither may do harm.
        fn wait_for_lock(&self, lock: usize, attempt: &mut dyn FnMut() -> bool) {
            assert_ne!(lock, 0);
            if WAITS.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
                return thread::yield_now();
            }
            while !attempt() {
                thread::yield_now();
            }
            assert!(attempt(), "it is held still");
        }
    }

    #[test]
    fn a_kernel_waits_for_a_lock_in_its_own_way() {
        let lock = Lock::new(0u32);
        let begin = Barrier::new(2);
        thread::scope(|scope| {
            let held = lock.lock_irq::<Queued>();
            let other = scope.spawn(|| {
                begin.wait();
                *lock.lock_irq::<Queued>() += 1;
            });
            begin.wait();
            while WAITS.load(Ordering::Relaxed) < 2 {
                thread::yield_now();
            }
            assert!(!other.is_finished());
            drop(held);
        });
        assert_eq!(*lock.lock(), 1);
    }
}
