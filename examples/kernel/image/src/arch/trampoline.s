# Where another processor starts: real mode, at the 4 KiB page whose number the start-up interrupt carried. Copied to
# physical 0x8000; all addresses below are relative to that. The four words at the end are filled in per processor.

.section .rodata.trampoline, "a", @progbits
.set BASE, 0x8000
.code16
.globl trampoline_start
trampoline_start:
    cli
    cld
    xor %ax, %ax
    mov %ax, %ds
    lgdtl BASE + trampoline_gdt_pointer - trampoline_start
    mov $0x6a0, %eax
    mov %eax, %cr4
    mov BASE + trampoline_cr3 - trampoline_start, %eax
    mov %eax, %cr3
    mov $0xc0000080, %ecx
    rdmsr
    or $0x901, %eax
    wrmsr
    mov $0x80010033, %eax
    mov %eax, %cr0
    ljmpl $8, $(BASE + trampoline_64 - trampoline_start)

.code64
trampoline_64:
    xor %eax, %eax
    mov %eax, %ds
    mov %eax, %es
    mov %eax, %ss
    mov BASE + trampoline_stack - trampoline_start, %rsp
    mov BASE + trampoline_cpu - trampoline_start, %rdi
    xor %ebp, %ebp
    mov BASE + trampoline_entry - trampoline_start, %rax
    call *%rax

    .balign 8
trampoline_gdt:
    .quad 0
    .quad 0x00af9b000000ffff
trampoline_gdt_pointer:
    .word trampoline_gdt_pointer - trampoline_gdt - 1
    .long BASE + trampoline_gdt - trampoline_start
    .balign 8
.globl trampoline_words
trampoline_words:
trampoline_cr3:   .quad 0
trampoline_stack: .quad 0
trampoline_cpu:   .quad 0
trampoline_entry: .quad 0
.globl trampoline_end
trampoline_end:
.text
