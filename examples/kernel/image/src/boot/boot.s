# Entry by PVH: 32-bit protected mode, paging off, flat segments, %ebx = physical address of struct hvm_start_info.
# Everything here is linked at its physical address. Three windows onto the first 4 GiB are made of 2 MiB pages:
# the identity (until the other processors run), the direct map, and the top 2 GiB where the kernel is linked.

.section .note.pvh, "a", @note
    .balign 4
    .long 4, 4, 18              # name and descriptor size, XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .long pvh_start

.section .boot_tables, "aw", @nobits
    .balign 4096
boot_pml4:        .skip 4096
boot_pdpt_direct: .skip 4096
boot_pdpt_kernel: .skip 4096
boot_pds:         .skip 4096 * 4

.section .boot, "awx", @progbits
.code32
.globl pvh_start
pvh_start:
    cli
    cld
    mov $boot_pds, %edi         # 2048 entries of 2 MiB: present, writable, huge
    mov $0x83, %eax
    mov $2048, %ecx
1:  mov %eax, (%edi)
    movl $0, 4(%edi)
    add $0x200000, %eax
    add $8, %edi
    loop 1b

    movl $boot_pds + 0x0003, boot_pdpt_direct
    movl $boot_pds + 0x1003, boot_pdpt_direct + 8
    movl $boot_pds + 0x2003, boot_pdpt_direct + 16
    movl $boot_pds + 0x3003, boot_pdpt_direct + 24
    movl $boot_pds + 0x0003, boot_pdpt_kernel + 510 * 8
    movl $boot_pds + 0x1003, boot_pdpt_kernel + 511 * 8
    movl $boot_pdpt_direct + 3, boot_pml4
    movl $boot_pdpt_direct + 3, boot_pml4 + 256 * 8
    movl $boot_pdpt_kernel + 3, boot_pml4 + 511 * 8

    mov $0x6a0, %eax            # PAE, PGE, OSFXSR, OSXMMEXCPT
    mov %eax, %cr4
    mov $boot_pml4, %eax
    mov %eax, %cr3
    mov $0xc0000080, %ecx       # EFER: SCE, LME, NXE
    rdmsr
    or $0x901, %eax
    wrmsr
    mov $0x80010033, %eax       # PG, WP, NE, ET, MP, PE
    mov %eax, %cr0
    lgdt boot_gdt_pointer
    ljmp $8, $boot64

.code64
boot64:
    xor %eax, %eax
    mov %eax, %ds
    mov %eax, %es
    mov %eax, %ss
    mov %eax, %fs
    mov %eax, %gs
    movabs $boot_stack_top, %rsp
    mov %ebx, %edi
    xor %ebp, %ebp
    movabs $kmain, %rax
    call *%rax
2:  hlt
    jmp 2b

    .balign 8
boot_gdt:
    .quad 0
    .quad 0x00af9b000000ffff    # 64-bit code
boot_gdt_pointer:
    .word boot_gdt_pointer - boot_gdt - 1
    .long boot_gdt
