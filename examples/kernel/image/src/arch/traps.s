# One 16-byte stub a vector: makes the frame uniform (vector and error code) and goes on in trap_common.

.section .text.traps, "ax", @progbits
.globl trap_stubs
    .balign 16
trap_stubs:
    .set vector, 0
    .rept 256
    .balign 16
    .if (vector == 8) || (vector >= 10 && vector <= 14) || (vector == 17) || (vector == 21) || (vector == 29) || (vector == 30)
    .else
    pushq $0
    .endif
    pushq $vector
    jmp trap_common
    .set vector, vector + 1
    .endr

# The interrupted code may be in the middle of anything: its SSE registers are its own, and its direction flag.
# Its red zone is safe because every vector has a stack of its own (see gdt.rs).
trap_common:
    push %rax
    push %rcx
    push %rdx
    push %rbx
    push %rbp
    push %rsi
    push %rdi
    push %r8
    push %r9
    push %r10
    push %r11
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, %rdi
    mov %rsp, %rbp
    sub $512, %rsp
    and $-16, %rsp
    fxsave64 (%rsp)
    cld
    call trap_entry
    fxrstor64 (%rsp)
    mov %rbp, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %r11
    pop %r10
    pop %r9
    pop %r8
    pop %rdi
    pop %rsi
    pop %rbp
    pop %rbx
    pop %rdx
    pop %rcx
    pop %rax
    add $16, %rsp
    iretq
.text
