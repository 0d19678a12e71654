//! Functions that the compiler calls and the host's libcore does not bring: `memcpy` and its kin, and the unwinding
//! personality.
//!
//! In assembly, so that the optimiser cannot turn a loop back into a call to itself. `memcmp` and `strlen` are loops of
//! single bytes and used little.

use core::arch::global_asm;

global_asm!(
    ".text",
    ".globl memcpy, memmove, memset, memcmp, bcmp, strlen, rust_eh_personality, _Unwind_Resume",
    "memcpy:",
    "    mov %rdi, %rax",
    "    mov %rdx, %rcx",
    "    shr $3, %rcx",
    "    rep movsq",
    "    mov %edx, %ecx",
    "    and $7, %ecx",
    "    rep movsb",
    "    ret",
    "memmove:",
    "    mov %rdi, %rax",
    "    mov %rdi, %rcx",
    "    sub %rsi, %rcx",
    "    cmp %rdx, %rcx", // forwards is right unless the target begins inside the source
    "    jae memcpy",
    "    lea -1(%rdi, %rdx), %rdi",
    "    lea -1(%rsi, %rdx), %rsi",
    "    mov %rdx, %rcx",
    "    std",
    "    rep movsb",
    "    cld",
    "    ret",
    "memset:",
    "    mov %rdi, %r8",
    "    movzbl %sil, %eax",
    "    movabs $0x0101010101010101, %rcx",
    "    imul %rcx, %rax",
    "    mov %rdx, %rcx",
    "    shr $3, %rcx",
    "    rep stosq",
    "    mov %edx, %ecx",
    "    and $7, %ecx",
    "    rep stosb",
    "    mov %r8, %rax",
    "    ret",
    "memcmp:",
    "bcmp:",
    "    xor %ecx, %ecx",
    "1:  cmp %rdx, %rcx",
    "    je 2f",
    "    movzbl (%rdi, %rcx), %eax",
    "    movzbl (%rsi, %rcx), %r8d",
    "    inc %rcx",
    "    sub %r8d, %eax",
    "    je 1b",
    "    ret",
    "2:  xor %eax, %eax",
    "    ret",
    "strlen:",
    "    xor %eax, %eax",
    "3:  cmpb $0, (%rdi, %rax)",
    "    je 4f",
    "    inc %rax",
    "    jmp 3b",
    "4:  ret",
    "rust_eh_personality:", // both are referred to by libcore and liballoc, which were built with unwinding
    "_Unwind_Resume:",      // nothing here unwinds
    "    ud2",
    options(att_syntax)
);
