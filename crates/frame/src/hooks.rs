//! The seam that a kernel may fill: the services that the allocator asks it for, none of which memory safety rests on.

use crate::migration::Migrate;
use crate::reclaim::Reclaim;
use crate::sync::spin_hint;
use crate::trace::Event;
use crate::{CpuId, NodeId};

/// Services of a kernel. Each has a default, which is a kernel without that service; an implementation is the value
/// that
/// [`Platform::hooks`](crate::Platform::hooks) returns, most often of a type without fields.
///
/// The trait is safe: a wrong answer makes requests slower or makes them fail, and harms no memory.
///
/// ```
/// use core::ptr::NonNull;
/// use core::sync::atomic::{AtomicU64, Ordering};
/// use pageblock_frame::{CpuId, Hooks, Platform};
/// static TICKS: AtomicU64 = AtomicU64::new(5);
/// struct Kernel;
/// // SAFETY: one CPU, no interrupts; nothing is mapped, and nothing is asked to be.
/// unsafe impl Platform for Kernel {
///     const MAX_CPUS: usize = 1;
///     fn phys_to_virt(_pa: u64) -> NonNull<u8> { NonNull::dangling() }
///     fn hooks() -> impl Hooks { Kernel }
/// }
/// impl Hooks for Kernel {
///     fn now(&self) -> u64 { TICKS.load(Ordering::Relaxed) * 1_000_000 }
/// }
/// assert_eq!(Kernel::hooks().now(), 5_000_000);
/// ```
pub trait Hooks {
    /// Monotonic time in nanoseconds; 0 where there is no clock.
    #[must_use]
    #[inline]
    fn now(&self) -> u64 {
        0
    }

    /// Makes `cpu` call the allocator's `handle_kick` soon, by an inter-processor interrupt. True if it will; false,
    /// the default, if nothing was sent: then no CPU waits for its answer, which comes with that CPU's next operation.
    #[inline]
    fn kick(&self, _cpu: CpuId) -> bool {
        false
    }

    /// Wakes the node's reclaim thread.
    #[inline]
    fn wake_kswapd(&self, _node: NodeId) {}

    /// Wakes the node's compaction thread.
    #[inline]
    fn wake_kcompactd(&self, _node: NodeId) {}

    /// Waits until the node's reclaim makes progress ([`wake_waiters`](Hooks::wake_waiters)), at most until
    /// [`now`](Hooks::now) reaches `deadline`. Returning at once is always allowed.
    #[inline]
    fn wait_until(&self, _node: NodeId, _deadline: u64) {}

    /// Wakes the tasks that are in [`wait_until`](Hooks::wait_until) on the node.
    #[inline]
    fn wake_waiters(&self, _node: NodeId) {}

    /// The owner that can move memory; without one there is no compaction, and its code is not linked.
    #[must_use]
    #[inline]
    fn migrator(&self) -> Option<&'static (dyn Migrate + Sync)> {
        None
    }

    /// The owner that can give memory up; without one there is no reclaim, and its code is not linked.
    #[must_use]
    #[inline]
    fn reclaimer(&self) -> Option<&'static (dyn Reclaim + Sync)> {
        None
    }

    /// Notes that the current task reclaims (`PF_MEMALLOC`); false if it does already, and then it must not again. A
    /// kernel with tasks keeps a flag in each.
    #[must_use]
    #[inline]
    fn enter_reclaim(&self) -> bool {
        true
    }

    /// Ends the section that [`enter_reclaim`](Hooks::enter_reclaim) began. A call too many lets an owner re-enter
    /// reclaim, which the allocator counts and bounds.
    #[inline]
    fn leave_reclaim(&self) {}

    /// Waits for a lock of the allocator's that another CPU holds, in the kernel's own way: with a queue of tickets, a
    /// hint to the hypervisor. `attempt` takes the lock if it is free, and says whether it has; `lock` tells one lock
    /// from another. The default spins. Called with interrupts off and in the middle of an operation: it must not call
    /// the allocator.
    #[inline]
    fn wait_for_lock(&self, _lock: usize, attempt: &mut dyn FnMut() -> bool) {
        while !attempt() {
            spin_hint();
        }
    }

    /// Receives every structured event. Called with no lock held; must not allocate from the allocator that it watches.
    #[inline]
    fn trace(&self, _event: &Event) {}
}

/// A kernel without services: every default.
///
/// ```
/// use pageblock_frame::{Hooks, NoHooks};
/// assert_eq!(NoHooks.now(), 0);
/// assert!(NoHooks.migrator().is_none());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHooks;

impl Hooks for NoHooks {}
