//! riscv64 in supervisor mode above OpenSBI, riscv32 in machine mode above nothing ([`firmware`] describes that).

#[cfg_attr(target_arch = "riscv64", path = "opensbi.rs")]
#[cfg_attr(target_arch = "riscv32", path = "bare.rs")]
#[macro_use]
mod firmware;

use core::arch::{asm, global_asm};

pub use firmware::{NAME, irq_restore, irq_save, start_cpu};

use crate::stack::{BOOT_BYTES, BOOT_STACK, BYTES, STACKS};
use crate::{boot_main, other_main, work};

/// The serial port (16550), and the device that ends the machine.
const UART: usize = 0x1000_0000;
const TEST_DEVICE: usize = 0x10_0000;
/// Ends the machine with the status in the upper half.
const TEST_STATUS: u32 = 0x3333;
/// Ticks of the clock, 10 MHz, from one timer interrupt to the next: 1 ms.
const INTERVAL: u64 = 10_000;
/// `mcause` or `scause` of the timer's interrupt.
const TIMER_CAUSE: usize = 1 << (usize::BITS - 1) | firmware::TIMER;

global_asm!(
    // The first hart: a0 its number, a1 the device tree. It is our CPU 0.
    ".pushsection .text.boot, \"ax\"",
    ".globl start_first",
    "start_first:",
    "mv tp, zero",
    "la sp, {boot_stack}",
    "li t0, {boot_bytes}",
    "add sp, sp, t0",
    "tail {boot_main}",
    // The others: a0 its number, a1 our number.
    ".globl start_other",
    "start_other:",
    "mv tp, a1",
    "la sp, {stacks}",
    "addi t1, a1, 1",
    "slli t1, t1, {shift}",
    "add sp, sp, t1",
    "tail {other_main}",
    ".popsection",
    boot_stack = sym BOOT_STACK,
    boot_bytes = const BOOT_BYTES,
    stacks = sym STACKS,
    shift = const BYTES.ilog2(),
    boot_main = sym boot_main,
    other_main = sym other_main,
);

global_asm!(
    // Saves the registers that a function may change, calls, restores. The word is 4 or 8 bytes.
    ".macro each op",
    "\\op ra, 0*{word}(sp)",
    "\\op t0, 1*{word}(sp)",
    "\\op t1, 2*{word}(sp)",
    "\\op t2, 3*{word}(sp)",
    "\\op t3, 4*{word}(sp)",
    "\\op t4, 5*{word}(sp)",
    "\\op t5, 6*{word}(sp)",
    "\\op t6, 7*{word}(sp)",
    "\\op a0, 8*{word}(sp)",
    "\\op a1, 9*{word}(sp)",
    "\\op a2, 10*{word}(sp)",
    "\\op a3, 11*{word}(sp)",
    "\\op a4, 12*{word}(sp)",
    "\\op a5, 13*{word}(sp)",
    "\\op a6, 14*{word}(sp)",
    "\\op a7, 15*{word}(sp)",
    ".endm",
    ".balign 4",
    ".globl trap",
    "trap:",
    "addi sp, sp, -16*{word}",
    ".if {word} == 8",
    "each sd",
    ".else",
    "each sw",
    ".endif",
    csr!("csrr a0, ", "cause"),
    csr!("csrr a1, ", "epc"),
    "call {on_trap}",
    ".if {word} == 8",
    "each ld",
    ".else",
    "each lw",
    ".endif",
    "addi sp, sp, 16*{word}",
    csr!("", "ret"),
    word = const size_of::<usize>(),
    on_trap = sym on_trap,
);

unsafe extern "C" {
    fn trap();
}

/// A trap: the timer's, or a fault, which ends the machine. Interrupts are off.
extern "C" fn on_trap(cause: usize, place: usize) {
    assert!(cause == TIMER_CAUSE, "trap {cause:#x} at {place:#x}");
    work::tick();
    // Afterwards: a handler that is slower than the interval leaves its CPU time for other work all the same.
    firmware::set_timer(now() + INTERVAL);
}

/// The clock.
fn now() -> u64 {
    #[cfg(target_pointer_width = "64")]
    {
        let time: u64;
        // SAFETY: reads the clock.
        unsafe { asm!("rdtime {}", out(reg) time, options(nomem, nostack)) };
        time
    }
    #[cfg(target_pointer_width = "32")]
    loop {
        let (high, low, again): (u32, u32, u32);
        // SAFETY: reads the clock, which may carry between its halves.
        unsafe {
            asm!("rdtimeh {}", "rdtime {}", "rdtimeh {}", out(reg) high, out(reg) low, out(reg) again, options(nomem, nostack));
        }
        if high == again {
            return u64::from(high) << 32 | u64::from(low);
        }
    }
}

/// Goes on with `then` on the stack that ends at `top`.
pub fn on_stack(top: usize, then: extern "C" fn(usize, usize) -> !, arguments: [usize; 2]) -> ! {
    let [first, second] = arguments;
    // SAFETY: the stack is this CPU's and nothing is on it; nothing comes back to the one before.
    unsafe { asm!("mv sp, {}", "jr {}", in(reg) top, in(reg) then, in("a0") first, in("a1") second, options(noreturn)) }
}

/// Turns timer interrupts on for this CPU.
pub fn start_timer() {
    firmware::set_timer(now() + INTERVAL);
    // SAFETY: the handler is in place before interrupts are on, and this CPU has its stack and number.
    unsafe {
        asm!(csr!("csrw ", "tvec, {}"), in(reg) trap as *const ());
        asm!(csr!("csrs ", "ie, {}"), in(reg) 1usize << firmware::TIMER);
        asm!(csr!("csrs ", "status, {}"), in(reg) firmware::ENABLE);
    }
}

/// Turns all interrupts off for this CPU.
pub fn stop_timer() {
    // SAFETY: off is always allowed.
    unsafe { asm!(csr!("csrc ", "status, {}"), in(reg) firmware::ENABLE) };
}

/// For a CPU that has done its work.
pub fn sleep() -> ! {
    loop {
        // SAFETY: waits.
        unsafe { asm!("wfi") };
    }
}

/// Sends a byte.
pub fn put(byte: u8) {
    // SAFETY: the serial port's data register; the firmware has set it up, and QEMU's is always ready.
    unsafe { core::ptr::with_exposed_provenance_mut::<u8>(UART).write_volatile(byte) };
}

/// Ends the machine, and QEMU with this status.
pub fn exit(status: u32) -> ! {
    // SAFETY: the test device's register.
    unsafe { core::ptr::with_exposed_provenance_mut::<u32>(TEST_DEVICE).write_volatile(status << 16 | TEST_STATUS) };
    sleep()
}
