//! riscv64 without an operating system: the compiler's library has the memory functions.

use core::panic::PanicInfo;

core::arch::global_asm!(".globl _start", "_start:", "j program");

/// Ends the program.
pub(crate) fn exit(status: i32) -> ! {
    loop {
        // SAFETY: waits; the status is for a debugger.
        unsafe { core::arch::asm!("wfi", in("a0") status) };
    }
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    exit(101)
}
