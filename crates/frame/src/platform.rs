//! The seam that a kernel fills: the hardware.

use core::ptr::NonNull;

use crate::hooks::{Hooks, NoHooks};
use crate::sync::PerCpuPtr;
use crate::{CpuId, NodeId, PfnRange};

/// The interrupt state that [`Platform::irq_save`] found, for [`Platform::irq_restore`]. Its bits are the platform's.
///
/// ```
/// use pageblock_frame::IrqState;
/// const INTERRUPT_FLAG: usize = 1 << 9;
/// let state = IrqState::new(0x246);
/// assert_ne!(state.bits() & INTERRUPT_FLAG, 0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(transparent)]
#[must_use = "interrupts stay off until the state is restored"]
pub struct IrqState(usize);

impl IrqState {
    /// A state of these bits.
    #[inline]
    pub const fn new(bits: usize) -> Self {
        Self(bits)
    }

    /// The bits.
    #[must_use]
    #[inline]
    pub const fn bits(self) -> usize {
        self.0
    }
}

/// The machine under the allocator. All functions are static: an implementation is a name, not a value.
///
/// Only [`MAX_CPUS`](Platform::MAX_CPUS) and [`phys_to_virt`](Platform::phys_to_virt) have no default; the defaults fit
/// a kernel with one CPU that calls the allocator with interrupts off.
///
/// # Safety
/// The implementation promises:
/// 1. [`pin`](Platform::pin) returns the CPU that executes the caller, below `MAX_CPUS`, and the caller stays on that
///    CPU, not preempted by another task, until the matching [`unpin`](Platform::unpin). Interrupts may come in
///    between.
/// 2. Between [`irq_save`](Platform::irq_save) and [`irq_restore`](Platform::irq_restore) no interrupt handler that
///    uses the allocator runs on this CPU.
/// 3. Unless [`HAS_MEMORY`](Platform::HAS_MEMORY) is false, [`phys_to_virt`](Platform::phys_to_virt) returns a pointer
///    through which the frame at that address can be read and written for as long as the allocator exists, at the same
///    distance for neighbouring frames.
/// 4. If [`CPU_WORD`](Platform::CPU_WORD) is true, [`cpu_word`](Platform::cpu_word) returns the word that
///    [`set_cpu_word`](Platform::set_cpu_word) was given last on the executing CPU, or [`PerCpuPtr::new`]: never one
///    that another CPU was given.
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

    /// Whether there can be per-CPU lists at all. A small kernel that says no does without their code; whether they are
    /// used where this says yes is a matter of configuration.
    const PER_CPU_LISTS: bool = true;

    /// Makes a free to a per-CPU list claim the block with one atomic compare and exchange, so that of two CPUs which
    /// free one block at the same instant exactly one is told of its error. Without it that race, and only that, is not
    /// seen.
    const HARDENED: bool = false;

    /// For kernels that have to be small: serves all orders by the same code, where others have copies of it for the
    /// common ones, and leaves out the choice between zones (fair zones, zone spreading, stalls before mixing).
    const SMALL_CODE: bool = false;

    /// Whether the platform keeps one word for the allocator on each CPU, by [`cpu_word`](Platform::cpu_word) and
    /// [`set_cpu_word`](Platform::set_cpu_word). It leads to the CPU's own lists of the largest zone at once, where
    /// else the number of the CPU leads to a table and the table to the lists. Worth it where the word is one
    /// instruction away: a variable at a fixed distance from GS base, `TPIDR_EL1` or `tp`, or a thread-local one.
    const CPU_WORD: bool = false;

    /// Whether there is memory behind the frames. A simulated machine with numbers for frames says no: then the
    /// allocator reads and writes no frame, and may be initialised by safe code.
    const HAS_MEMORY: bool = true;

    /// A pointer to the byte at physical address `pa`; used only for metadata carved out of the memory map and for
    /// zeroing frames.
    fn phys_to_virt(pa: u64) -> NonNull<u8>;

    /// Fills frames with zeroes, for requests with [`Gfp::ZERO`](crate::Gfp::ZERO). The default writes through
    /// [`phys_to_virt`](Platform::phys_to_virt); override it where the machine has something better. Not called where
    /// [`HAS_MEMORY`](Platform::HAS_MEMORY) is false.
    ///
    /// # Safety
    /// The caller owns the frames: no other code reads or writes them meanwhile.
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
    #[inline]
    fn pin() -> CpuId {
        CpuId::new(0)
    }

    /// Ends the state that [`pin`](Platform::pin) began.
    ///
    /// # Safety
    /// The caller ends a [`pin`](Platform::pin) of its own that has not been ended, and uses the CPU's number no more.
    /// [`Pinned`](crate::sync::Pinned) is this promise as a guard.
    #[inline]
    unsafe fn unpin() {}

    /// The word of the CPU that executes this, which is pinned: [`PerCpuPtr::new`] at first. Forgetting it is allowed,
    /// as when a CPU is reset: the allocator sets it again.
    #[must_use]
    #[inline]
    fn cpu_word() -> PerCpuPtr {
        PerCpuPtr::new()
    }

    /// Replaces the word of the CPU that executes this, which is pinned. An interrupt in between sees either.
    ///
    /// # Safety
    /// The word is [`PerCpuPtr::new`], or leads to the allocator's data of this CPU: a word that was carried here
    /// from another CPU would let both into one CPU's lists. The allocator calls this; a kernel does for a CPU that is
    /// reset, if at all.
    #[inline]
    unsafe fn set_cpu_word(_word: PerCpuPtr) {}

    /// Turns interrupts off on this CPU and returns their former state.
    #[inline]
    fn irq_save() -> IrqState {
        IrqState::new(0)
    }

    /// Returns interrupts to the state that [`irq_save`](Platform::irq_save) found.
    ///
    /// # Safety
    /// `state` is of the latest [`irq_save`](Platform::irq_save) on this CPU that has not been restored, and the caller
    /// holds no lock that it took since. The guards of [`sync`](crate::sync) are this promise.
    #[inline]
    unsafe fn irq_restore(_state: IrqState) {}

    /// The services of the kernel that no memory safety rests on; without them there is no clock, kick, reclaim or
    /// compaction.
    #[must_use]
    #[inline]
    fn hooks() -> impl Hooks {
        NoHooks
    }
}
