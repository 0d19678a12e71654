//! The table of exception vectors: 16 of 128 bytes.

use core::arch::global_asm;

use super::{on_fault, on_interrupt};

global_asm!(
    ".macro fault",
    ".balign 128",
    "b fault_here",
    ".endm",
    ".balign 2048",
    ".globl vectors",
    "vectors:",
    // From this level on the stack of level 0: never used.
    ".rept 4",
    "fault",
    ".endr",
    // From this level: synchronous, interrupt, fast interrupt, system error.
    "fault",
    ".balign 128",
    "b interrupt_here",
    "fault",
    "fault",
    // From lower levels there are none: the following code is never entered that way.
    ".balign 128",
    "fault_here:",
    "mrs x0, esr_el1",
    "mrs x1, elr_el1",
    "mrs x2, far_el1",
    "bl {on_fault}",
    // Saves the registers that a function may change; the target has no floating point. Interrupts stay off, so that
    // the place to return to stays.
    "interrupt_here:",
    "sub sp, sp, #176",
    "stp x0, x1, [sp]",
    "stp x2, x3, [sp, #16]",
    "stp x4, x5, [sp, #32]",
    "stp x6, x7, [sp, #48]",
    "stp x8, x9, [sp, #64]",
    "stp x10, x11, [sp, #80]",
    "stp x12, x13, [sp, #96]",
    "stp x14, x15, [sp, #112]",
    "stp x16, x17, [sp, #128]",
    "stp x18, x29, [sp, #144]",
    "str x30, [sp, #160]",
    "bl {on_interrupt}",
    "ldr x30, [sp, #160]",
    "ldp x18, x29, [sp, #144]",
    "ldp x16, x17, [sp, #128]",
    "ldp x14, x15, [sp, #112]",
    "ldp x12, x13, [sp, #96]",
    "ldp x10, x11, [sp, #80]",
    "ldp x8, x9, [sp, #64]",
    "ldp x6, x7, [sp, #48]",
    "ldp x4, x5, [sp, #32]",
    "ldp x2, x3, [sp, #16]",
    "ldp x0, x1, [sp]",
    "add sp, sp, #176",
    "eret",
    on_fault = sym on_fault,
    on_interrupt = sym on_interrupt,
);
