//! The seam that a kernel fills: what the hardware is.

use core::ptr::NonNull;

use crate::migration::Migrate;
use crate::reclaim::Reclaim;
use crate::sync::CpuWord;
use crate::trace::Event;
use crate::{CpuId, NodeId, PfnRange};

/// What [`Platform::irq_save`] found, for [`Platform::irq_restore`]: opaque to this project.
pub type IrqState = usize;

/// The machine under the allocator. All functions are static: an implementation is a name, not a value.
///
/// Only [`MAX_CPUS`](Platform::MAX_CPUS) and [`phys_to_virt`](Platform::phys_to_virt) have no default; the defaults fit
/// a kernel with one CPU that calls the allocator with interrupts off.
///
/// # Safety
/// The implementation promises:
/// 1. [`pin`](Platform::pin) returns the CPU that executes the caller, below `MAX_CPUS`, and the caller stays on that CPU,
///    not preempted by another task, until the matching [`unpin`](Platform::unpin). Interrupts may come in between.
/// 2. Between [`irq_save`](Platform::irq_save) and [`irq_restore`](Platform::irq_restore) no interrupt handler that uses
///    the allocator runs on this CPU.
/// 3. [`phys_to_virt`](Platform::phys_to_virt) returns a pointer through which the frame at that address can be read and
///    written for as long as the allocator exists, at the same distance for neighbouring frames.
/// 4. If [`CPU_WORD`](Platform::CPU_WORD) is true, [`cpu_word`](Platform::cpu_word) returns what
///    [`set_cpu_word`](Platform::set_cpu_word) was given last on the executing CPU, or [`CpuWord::new`]: never what another CPU was given.
///
/// ```
/// use core::ptr::NonNull;
/// use pageblock_frame::{Platform, CpuId};
/// struct Kernel;
/// // SAFETY: one CPU, no interrupts; nothing is mapped, and nothing is asked to be.
/// unsafe impl Platform for Kernel {
///     const MAX_CPUS: usize = 1;
///     fn phys_to_virt(_pa: u64) -> NonNull<u8> { NonNull::dangling() }
/// }
/// assert_eq!(Kernel::pin(), CpuId::new(0));
/// ```
pub unsafe trait Platform: 'static {
    /// Number of CPUs that can ever be online.
    const MAX_CPUS: usize;

    /// Whether there can be per-CPU lists at all. A small kernel that says no does without their code; whether they are used where
    /// this says yes is a matter of configuration.
    const PER_CPU_LISTS: bool = true;

    /// Makes a free to a per-CPU list claim the block with one atomic compare and exchange, so that of two CPUs which free one
    /// block at the same instant exactly one is told of its error. Without it that race, and only that, is not seen.
    const HARDENED: bool = false;

    /// For kernels that have to be small: serves all orders by the same code, where others have copies of it for the common
    /// ones, and leaves out what chooses between zones (fair zones, zone spreading, stalls before mixing).
    const SMALL_CODE: bool = false;

    /// Whether the platform keeps one word for the allocator on each CPU, by [`cpu_word`](Platform::cpu_word) and
    /// [`set_cpu_word`](Platform::set_cpu_word). It leads to the CPU's own lists of the largest zone at once, where else the number of
    /// the CPU leads to a table and the table to the lists. Worth it where the word is one instruction away: a variable at a fixed
    /// distance from GS base, `TPIDR_EL1` or `tp`, or a thread-local one.
    const CPU_WORD: bool = false;

    /// A pointer to the byte at physical address `pa`; used only for metadata carved out of the memory map and for
    /// zeroing frames.
    fn phys_to_virt(pa: u64) -> NonNull<u8>;

    /// Fills frames with zeroes, for requests with [`Gfp::ZERO`](crate::Gfp::ZERO). The default writes through
    /// [`phys_to_virt`](Platform::phys_to_virt); override it where the machine has something better, or where nothing is
    /// behind the frames.
    ///
    /// # Safety
    /// The caller owns the frames: nobody else reads or writes them meanwhile.
    #[inline]
    unsafe fn zero_frames(frames: PfnRange)
    where
        Self: Sized,
    {
        // SAFETY: the caller's promise is passed on.
        unsafe { crate::zero_through_mapping::<Self>(frames) };
    }

    /// The memory node that a CPU is on; asked once a CPU, when the allocator is initialised.
    #[must_use]
    fn node_of(_cpu: CpuId) -> NodeId {
        NodeId::new(0)
    }

    /// Keeps the caller on its CPU, and says which one that is.
    #[must_use]
    #[inline(always)]
    fn pin() -> CpuId {
        CpuId::new(0)
    }

    /// Ends what [`pin`](Platform::pin) began.
    #[inline(always)]
    fn unpin() {}

    /// The word of the CPU that executes this, which is pinned: [`CpuWord::new`] at first. Forgetting it is allowed, as when a CPU is
    /// reset: the allocator sets it again.
    #[must_use]
    #[inline(always)]
    fn cpu_word() -> CpuWord {
        CpuWord::new()
    }

    /// Replaces the word of the CPU that executes this, which is pinned. An interrupt in between sees either.
    #[inline(always)]
    fn set_cpu_word(_word: CpuWord) {}

    /// Turns interrupts off on this CPU and returns what they were.
    #[must_use]
    #[inline(always)]
    fn irq_save() -> IrqState {
        0
    }

    /// Returns interrupts to what [`irq_save`](Platform::irq_save) found.
    #[inline(always)]
    fn irq_restore(_state: IrqState) {}

    /// Monotonic time in nanoseconds; 0 where there is no clock.
    #[must_use]
    fn now() -> u64 {
        0
    }

    /// Makes `cpu` call the allocator's `handle_kick` soon, by an inter-processor interrupt. Without it, a drain request waits for that CPU's next
    /// operation.
    fn kick(_cpu: CpuId) {}

    /// Wakes the node's reclaim thread.
    fn wake_kswapd(_node: NodeId) {}

    /// Wakes the node's compaction thread.
    fn wake_kcompactd(_node: NodeId) {}

    /// Waits until the node's reclaim makes progress ([`wake_waiters`](Platform::wake_waiters)), at most until
    /// [`now`](Platform::now) reaches `deadline`. Returning at once is always allowed.
    fn wait_until(_node: NodeId, _deadline: u64) {}

    /// Wakes whoever is in [`wait_until`](Platform::wait_until) on the node.
    fn wake_waiters(_node: NodeId) {}

    /// Who can move memory; without one there is no compaction, and its code is not linked.
    #[must_use]
    #[inline(always)]
    fn migrator() -> Option<&'static (dyn Migrate + Sync)> {
        None
    }

    /// Who can give memory up; without one there is no reclaim, and its code is not linked.
    #[must_use]
    #[inline(always)]
    fn reclaimer() -> Option<&'static (dyn Reclaim + Sync)> {
        None
    }

    /// Notes that the current task reclaims (`PF_MEMALLOC`); false if it does already, and then it must not again. A kernel with
    /// tasks keeps a flag in each.
    #[must_use]
    #[inline(always)]
    fn enter_reclaim() -> bool {
        true
    }

    /// Ends what [`enter_reclaim`](Platform::enter_reclaim) began.
    #[inline(always)]
    fn leave_reclaim() {}

    /// Receives every structured event. Called with no lock held; must not allocate from the allocator that it watches.
    #[inline(always)]
    fn trace(_event: &Event) {}
}
