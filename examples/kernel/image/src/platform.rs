//! The seam to the allocator: this kernel as a [`Platform`].

use core::ptr::NonNull;

use pageblock_frame::{CpuId, IrqState, NodeId, Platform};
use x86_64::instructions::interrupts;

use crate::arch::idt::vector;
use crate::arch::paging::phys_ptr;
use crate::arch::{apic, clock, cpu};

/// The machine that this kernel runs on.
#[derive(Debug)]
pub struct Kernel;

// SAFETY: 1. no task is ever moved or preempted, so a CPU is pinned by running; 2. the interrupt flag is cleared in between;
// 3. `phys_ptr` reaches all memory through the direct map, which is never taken away.
unsafe impl Platform for Kernel {
    const MAX_CPUS: usize = cpu::MAX_CPUS;

    #[inline(always)]
    fn phys_to_virt(pa: u64) -> NonNull<u8> {
        NonNull::new(phys_ptr(pa)).unwrap_or(NonNull::dangling())
    }

    #[inline(always)]
    fn pin() -> CpuId {
        cpu::current()
    }

    #[inline(always)]
    fn irq_save() -> IrqState {
        let enabled = interrupts::are_enabled();
        interrupts::disable();
        usize::from(enabled)
    }

    #[inline(always)]
    fn irq_restore(state: IrqState) {
        if state != 0 {
            interrupts::enable();
        }
    }

    fn now() -> u64 {
        clock::now_ns()
    }

    /// The thread is the last CPU: an interrupt ends its sleep.
    fn wake_kcompactd(_node: NodeId) {
        if let Some(last) = cpu::online().last() {
            apic::send(last, vector::KICK);
        }
    }

    fn kick(target: CpuId) {
        if let Some(target) = cpu::all().get(target.index()) {
            apic::send(target, vector::KICK);
        }
    }
}
