//! No firmware (`-bios none`): machine mode, all harts arrive at once, and the clock is a device.

use core::arch::{asm, global_asm};

use core::sync::atomic::{AtomicU32, Ordering};
pub use pageblock::arch::machine::{irq_restore, irq_save};

use crate::CPUS;

/// The name of the machine.
pub const NAME: &str = "riscv32";
/// Number of the timer's interrupt, and the bit of `mstatus` that lets interrupts in.
pub const TIMER: usize = 7;
pub const ENABLE: usize = 1 << 3;
/// When each hart is to be interrupted: two words a hart.
const TIMES: usize = 0x0200_4000;

/// An instruction with a register of this mode: `csr!("csrw ", "tvec, {}")` is `csrw mtvec, {}`.
macro_rules! csr {
    ($before:literal, $after:literal) => {
        concat!($before, "m", $after)
    };
}

/// Our number for each hart, 0 while it has to wait.
static NUMBERS: [AtomicU32; CPUS] = [const { AtomicU32::new(0) }; CPUS];

// Hart 0 goes on, the others wait for their numbers.
global_asm!(
    ".pushsection .text.start, \"ax\"",
    ".globl start",
    "start:",
    "beqz a0, 3f",
    "li t0, {cpus}",
    "bgeu a0, t0, 2f",
    "la t0, {numbers}",
    "slli t1, a0, 2",
    "add t0, t0, t1",
    "1: lw a1, 0(t0)",
    "beqz a1, 1b",
    "fence r, rw",
    "j start_other",
    "2: wfi",
    "j 2b",
    "3: j start_first",
    ".popsection",
    cpus = const CPUS,
    numbers = sym NUMBERS,
);

/// Has the timer interrupt this CPU at this time, and not before.
pub fn set_timer(at: u64) {
    let hart: usize;
    // SAFETY: reads a number.
    unsafe { asm!("csrr {}, mhartid", out(reg) hart, options(nomem, nostack)) };
    let time = core::ptr::with_exposed_provenance_mut::<u32>(TIMES + hart * 8);
    // SAFETY: the device's registers. The upper half is out of reach while the lower one changes, so that no time in
    // between counts.
    unsafe {
        time.add(1).write_volatile(u32::MAX);
        time.write_volatile(at as u32);
        time.add(1).write_volatile((at >> 32) as u32);
    }
}

/// Lets the hart with this hardware number go on as CPU `number`. False if there is no such hart.
pub fn start_cpu(hardware: u64, number: usize) -> bool {
    let waits = NUMBERS.get(hardware as usize);
    // Release: pairs with the fence of the hart, which then sees the kernel's set-up.
    waits.inspect(|waits| waits.store(number as u32, Ordering::Release)).is_some()
}
