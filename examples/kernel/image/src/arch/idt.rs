//! Interrupt gates and the one place where all traps arrive.

use core::sync::atomic::Ordering;

use pageblock_frame::sync::Once;
use x86_64::VirtAddr;
use x86_64::instructions::tables::lidt;
use x86_64::registers::control::Cr2;
use x86_64::structures::DescriptorTablePointer;

use super::gdt::ist;
use super::{apic, cpu, ipi};
use crate::console::print_emergency;
use crate::qemu::{Exit, exit};
use crate::space;

core::arch::global_asm!(include_str!("traps.s"), options(att_syntax));

unsafe extern "C" {
    /// 256 stubs of 16 bytes each.
    static trap_stubs: [[u8; 16]; 256];
}

/// Vectors of interrupts; exceptions have those below 32.
pub mod vector {
    /// A page that is not there.
    pub const PAGE_FAULT: u8 = 14;
    /// The timer of the local interrupt controller.
    pub const TIMER: u8 = 0x40;
    /// Another CPU wants the allocator's lists of this one.
    pub const KICK: u8 = 0x41;
    /// Another CPU changed a translation.
    pub const SHOOTDOWN: u8 = 0x42;
    /// A spurious interrupt.
    pub const SPURIOUS: u8 = 0xff;
}

/// Values that the stub pushed, lowest address first.
#[derive(Debug)]
#[repr(C)]
pub struct TrapFrame {
    /// R15 to RAX, as the stub pushed them.
    pub regs: [u64; 15],
    /// Which trap.
    pub vector: u64,
    /// The processor's error code, or 0.
    pub error: u64,
    /// Where it happened.
    pub rip: u64,
    /// Code segment.
    pub cs: u64,
    /// Flags.
    pub rflags: u64,
    /// Stack pointer.
    pub rsp: u64,
    /// Stack segment.
    pub ss: u64,
}

/// A 64-bit interrupt gate.
#[derive(Clone, Copy)]
#[repr(C)]
struct Gate {
    offset_low: u16,
    selector: u16,
    ist: u8,
    kind: u8,
    offset_mid: u16,
    offset_high: u32,
    zero: u32,
}

impl Gate {
    const fn new(target: u64, ist: u8) -> Self {
        Self {
            offset_low: target as u16,
            selector: 8,
            ist,
            kind: 0x8e, // present, ring 0, interrupt gate: interrupts stay off until the return
            offset_mid: (target >> 16) as u16,
            offset_high: (target >> 32) as u32,
            zero: 0,
        }
    }
}

static IDT: Once<[Gate; 256]> = Once::new();

fn table() -> [Gate; 256] {
    let stubs = &raw const trap_stubs as u64;
    core::array::from_fn(|vector| {
        let slot = match vector {
            2 => ist::NMI,
            8 => ist::DOUBLE_FAULT,
            18 => ist::MACHINE_CHECK,
            0..32 => ist::EXCEPTION,
            _ => ist::IRQ,
        };
        Gate::new(stubs + 16 * vector as u64, slot)
    })
}

/// Loads the table, which all CPUs share.
pub fn load() {
    if IDT.get().is_none() {
        // A second caller's table would be the same.
        let _ = IDT.set(table());
    }
    let gates = IDT.get().expect("set above");
    let limit = (size_of_val(gates) - 1) as u16;
    // SAFETY: the table is static, and every gate leads to its stub.
    unsafe { lidt(&DescriptorTablePointer { limit, base: VirtAddr::from_ptr(gates) }) };
}

/// Where every trap arrives, with interrupts off, on a stack of its own.
#[unsafe(no_mangle)]
extern "C" fn trap_entry(frame: &TrapFrame) {
    match frame.vector as u8 {
        vector::TIMER => {
            cpu::this().ticks.fetch_add(1, Ordering::Relaxed);
            apic::end_of_interrupt();
            crate::irq::on_tick();
        }
        vector::KICK => {
            cpu::this().kicks.fetch_add(1, Ordering::Relaxed);
            apic::end_of_interrupt();
            crate::irq::on_kick();
        }
        vector::SHOOTDOWN => {
            apic::end_of_interrupt();
            ipi::serve();
        }
        vector::SPURIOUS => {}
        vector::PAGE_FAULT if space::handle_fault(Cr2::read_raw()) => {}
        _ => fatal(frame),
    }
}

/// An exception in the kernel is the end of it.
fn fatal(frame: &TrapFrame) -> ! {
    print_emergency(format_args!(
        "\nTRAP {} error {:#x} on CPU {} at {:#x}, stack {:#x}, flags {:#x}, cr2 {:#x}\n",
        frame.vector,
        frame.error,
        cpu::current().index(),
        frame.rip,
        frame.rsp,
        frame.rflags,
        Cr2::read_raw(),
    ));
    exit(Exit::Fail)
}
