//! The seam to the allocator: this kernel as a [`Platform`].

use core::ptr::NonNull;

use core::sync::atomic::Ordering;

use pageblock_frame::migration::Migrate;
use pageblock_frame::reclaim::Reclaim;
use pageblock_frame::sync::PerCpuPtr;
use pageblock_frame::{CpuId, Hooks, IrqState, NodeId, Platform};
use x86_64::instructions::interrupts;

use crate::arch::idt::vector;
use crate::arch::paging::phys_ptr;
use crate::arch::{apic, clock, cpu};
use crate::cache::CACHE;
use crate::owners::Owners;
use crate::reclaim;

/// Ends the sleep of the last CPU, which is whatever thread there is.
pub fn wake_last() {
    if let Some(last) = cpu::online().last() {
        apic::send(last, vector::KICK);
    }
}

/// The machine that this kernel runs on.
#[derive(Debug)]
pub struct Kernel;

// SAFETY: 1. no task is ever moved or preempted, so a CPU is pinned by running; 2. the interrupt flag is cleared in
// between;
// 3. `phys_ptr` reaches all memory through the direct map, which is never taken away; 4. the word is beside the CPU's
//    number, at GS.
unsafe impl Platform for Kernel {
    const MAX_CPUS: usize = cpu::MAX_CPUS;
    const CPU_WORD: bool = true;

    #[inline(always)]
    fn phys_to_virt(pa: u64) -> NonNull<u8> {
        NonNull::new(phys_ptr(pa)).unwrap_or(NonNull::dangling())
    }

    #[inline(always)]
    fn pin() -> CpuId {
        cpu::current()
    }

    #[inline(always)]
    fn cpu_word() -> PerCpuPtr {
        cpu::word()
    }

    #[inline(always)]
    unsafe fn set_cpu_word(word: PerCpuPtr) {
        cpu::set_word(word);
    }

    #[inline(always)]
    fn irq_save() -> IrqState {
        let enabled = interrupts::are_enabled();
        interrupts::disable();
        IrqState::new(usize::from(enabled))
    }

    #[inline(always)]
    unsafe fn irq_restore(state: IrqState) {
        if state.bits() != 0 {
            interrupts::enable();
        }
    }

    fn hooks() -> impl Hooks {
        Self
    }
}

impl Hooks for Kernel {
    fn now(&self) -> u64 {
        clock::now_ns()
    }

    fn wake_kswapd(&self, _node: NodeId) {
        reclaim::wake();
    }

    /// The thread is the last CPU: an interrupt ends its sleep.
    fn wake_kcompactd(&self, _node: NodeId) {
        wake_last();
    }

    fn migrator(&self) -> Option<&'static (dyn Migrate + Sync)> {
        Some(&Owners)
    }

    fn reclaimer(&self) -> Option<&'static (dyn Reclaim + Sync)> {
        Some(&CACHE)
    }

    /// A CPU does one thing at a time, and its interrupts' requests cannot wait: the flag is the CPU's.
    fn enter_reclaim(&self) -> bool {
        let reclaims = &cpu::this().reclaims;
        // Relaxed: read on the same CPU.
        !reclaims.load(Ordering::Relaxed) && {
            reclaims.store(true, Ordering::Relaxed);
            true
        }
    }

    fn leave_reclaim(&self) {
        cpu::this().reclaims.store(false, Ordering::Relaxed);
    }

    fn kick(&self, target: CpuId) -> bool {
        cpu::all().get(target.index()).is_some_and(|target| {
            apic::send(target, vector::KICK);
            true
        })
    }
}
