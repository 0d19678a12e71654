//! The usual bodies of [`Platform`](crate::Platform)'s functions, for the architecture that is compiled for: interrupts
//! off and back on, and the number of the CPU from the register that kernels keep it in. They run where a kernel runs,
//! and fault elsewhere.
//!
//! | architecture | interrupts | the CPU's number |
//! |---|---|---|
//! | x86-64 | `RFLAGS.IF` | the 32-bit word at the GS base |
//! | aarch64 | `DAIF`, interrupts and fast interrupts | `TPIDR_EL1` |
//! | riscv32, riscv64 | `sstatus.SIE`; `arch::machine` has `mstatus.MIE` | `tp` |
//! | Arm, A profile | `CPSR`, interrupts and fast interrupts | `TPIDRPRW` |
//!
//! Code that waits in a loop calls [`core::hint::spin_loop`], which is the pause instruction of each of them.
//!
//! ```no_run
//! # #[cfg(target_arch = "x86_64")] {
//! use core::ptr::NonNull;
//! use pageblock::{CpuId, IrqState, Platform, arch};
//! struct Kernel;
//! // SAFETY: 1. tasks are not preempted in the kernel, and each CPU has its number before it uses the allocator; 2. handlers are
//! // interrupt handlers only; 3. all memory is mapped where it is.
//! unsafe impl Platform for Kernel {
//!     const MAX_CPUS: usize = 8;
//!     fn phys_to_virt(pa: u64) -> NonNull<u8> {
//!         NonNull::new(pa as *mut u8).unwrap_or(NonNull::dangling())
//!     }
//!     fn pin() -> CpuId {
//!         // SAFETY: as above.
//!         unsafe { arch::cpu_number() }
//!     }
//!     fn irq_save() -> IrqState {
//!         arch::irq_save()
//!     }
//!     unsafe fn irq_restore(state: IrqState) {
//!         // SAFETY: the caller's promise is passed on.
//!         unsafe { arch::irq_restore(state) }
//!     }
//! }
//! # }
//! ```
#![expect(unsafe_code, reason = "instructions that only a kernel executes")]

use core::arch::asm;

use crate::{CpuId, IrqState};

/// Turns interrupts off on this CPU; returns whether they were on.
#[inline(always)]
pub fn irq_save() -> IrqState {
    let state: usize;
    // No asm here is `nomem`: the compiler moves no access to memory out of the section.
    #[cfg(target_arch = "x86_64")]
    // SAFETY: pushes and pops one word.
    unsafe {
        asm!("pushfq", "pop {}", "cli", out(reg) state);
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: reads and sets the mask.
    unsafe {
        asm!("mrs {}, daif", "msr daifset, #3", out(reg) state, options(nostack, preserves_flags));
    }
    #[cfg(any(target_arch = "riscv32", target_arch = "riscv64"))]
    // SAFETY: clears one bit.
    unsafe {
        asm!("csrrci {}, sstatus, 2", out(reg) state, options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "arm")]
    // SAFETY: reads and sets the mask.
    unsafe {
        asm!("mrs {}, cpsr", "cpsid if", out(reg) state, options(nostack, preserves_flags));
    }
    IrqState::new(state)
}

/// Returns interrupts to the state that [`irq_save`] found.
///
/// # Safety
/// `state` is of the latest [`irq_save`] on this CPU that has not been restored.
#[inline(always)]
pub unsafe fn irq_restore(state: IrqState) {
    let state = state.bits();
    #[cfg(target_arch = "x86_64")]
    if state & 1 << 9 != 0 {
        // SAFETY: they were on, by the caller's promise.
        unsafe { asm!("sti", options(nostack)) };
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the mask is as it was, by the caller's promise.
    unsafe {
        asm!("msr daif, {}", in(reg) state, options(nostack, preserves_flags));
    }
    #[cfg(any(target_arch = "riscv32", target_arch = "riscv64"))]
    // SAFETY: the bit is as it was, by the caller's promise.
    unsafe {
        asm!("csrs sstatus, {}", in(reg) state & 2, options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "arm")]
    // SAFETY: the mask is as it was, by the caller's promise; flags of conditions are not written.
    unsafe {
        asm!("msr cpsr_c, {}", in(reg) state, options(nostack, preserves_flags));
    }
}

/// The number of the CPU that executes this. To the compiler it is a value that memory may change: it is read anew each
/// time, since the task may have moved.
///
/// # Safety
/// The CPU has been given its number: by `set_cpu_number`, on x86-64 by a GS base that points to it.
#[must_use]
#[inline(always)]
pub unsafe fn cpu_number() -> CpuId {
    let number: usize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the number is there, by the caller's promise. The upper half of the register is cleared.
    unsafe {
        asm!("mov {:e}, gs:[0]", out(reg) number, options(nostack, preserves_flags, readonly));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: reads a register that is the kernel's.
    unsafe {
        asm!("mrs {}, tpidr_el1", out(reg) number, options(nostack, preserves_flags, readonly));
    }
    #[cfg(any(target_arch = "riscv32", target_arch = "riscv64"))]
    // SAFETY: reads a register that no compiled code writes.
    unsafe {
        asm!("mv {}, tp", out(reg) number, options(nostack, preserves_flags, readonly));
    }
    #[cfg(target_arch = "arm")]
    // SAFETY: reads a register that is the kernel's.
    unsafe {
        asm!("mrc p15, 0, {}, c13, c0, 4", out(reg) number, options(nostack, preserves_flags, readonly));
    }
    CpuId::new(number as u32)
}

/// Gives the CPU that executes this its number.
///
/// # Safety
/// No other CPU has this number, and nothing else keeps anything in the register.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub unsafe fn set_cpu_number(cpu: CpuId) {
    let number = cpu.index();
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the register is the kernel's, by the caller's promise.
    unsafe {
        asm!("msr tpidr_el1, {}", in(reg) number, options(nostack, preserves_flags));
    }
    #[cfg(any(target_arch = "riscv32", target_arch = "riscv64"))]
    // SAFETY: the register is the kernel's, by the caller's promise.
    unsafe {
        asm!("mv tp, {}", in(reg) number, options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "arm")]
    // SAFETY: the register is the kernel's, by the caller's promise.
    unsafe {
        asm!("mcr p15, 0, {}, c13, c0, 4", in(reg) number, options(nostack, preserves_flags));
    }
}

/// For firmware and kernels in machine mode.
#[cfg(any(target_arch = "riscv32", target_arch = "riscv64"))]
pub mod machine {
    use core::arch::asm;

    use crate::IrqState;

    /// As [`irq_save`](super::irq_save), in machine mode.
    #[inline(always)]
    pub fn irq_save() -> IrqState {
        let state: usize;
        // SAFETY: clears one bit.
        unsafe { asm!("csrrci {}, mstatus, 8", out(reg) state, options(nostack, preserves_flags)) };
        IrqState::new(state)
    }

    /// As [`irq_restore`](super::irq_restore), in machine mode.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    pub unsafe fn irq_restore(state: IrqState) {
        // SAFETY: the bit is as it was, by the caller's promise.
        unsafe { asm!("csrs mstatus, {}", in(reg) state.bits() & 8, options(nostack, preserves_flags)) };
    }
}
