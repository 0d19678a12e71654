//! OpenSBI: supervisor mode, the clock and other harts by calls of the firmware.

use core::arch::{asm, global_asm};

pub use pageblock::arch::{irq_restore, irq_save};

/// The name of the machine.
pub const NAME: &str = "riscv64";
/// Number of the timer's interrupt, and the bit of `sstatus` that lets interrupts in.
pub const TIMER: usize = 5;
pub const ENABLE: usize = 1 << 1;
/// Extensions: timer, and hart state management.
const TIME: usize = 0x5449_4d45;
const HSM: usize = 0x48_534d;

/// An instruction with a register of this mode: `csr!("csrw ", "tvec, {}")` is `csrw stvec, {}`.
macro_rules! csr {
    ($before:literal, $after:literal) => {
        concat!($before, "s", $after)
    };
}

// The firmware starts one hart, whichever it is.
global_asm!(".pushsection .text.start, \"ax\"", ".globl start", "start:", "j start_first", ".popsection",);

unsafe extern "C" {
    fn start_other();
}

/// Calls function 0 of an extension; true if the firmware says that it has done it.
fn call(extension: usize, arguments: [usize; 3]) -> bool {
    let [a, b, c] = arguments;
    let error: isize;
    // SAFETY: neither function that is called here touches memory of the kernel's.
    unsafe {
        asm!("ecall", inlateout("a0") a => error, inlateout("a1") b => _, in("a2") c, in("a6") 0, in("a7") extension);
    }
    error == 0
}

/// Has the timer interrupt this CPU at this time, and not before.
pub fn set_timer(at: u64) {
    call(TIME, [at as usize, 0, 0]);
}

/// Starts the hart with this hardware number as CPU `number`. False if the firmware refuses.
pub fn start_cpu(hardware: u64, number: usize) -> bool {
    call(HSM, [hardware as usize, start_other as *const () as usize, number])
}
