//! The other CPUs: started one by one through a page below 1 MiB.

use core::cell::UnsafeCell;
use core::sync::atomic::Ordering;

use super::paging::{self, phys_ptr};
use super::{acpi, apic, clock, cpu, gdt, idt};
use crate::boot::pvh::BootInfo;
use crate::println;

core::arch::global_asm!(include_str!("trampoline.s"), options(att_syntax));

unsafe extern "C" {
    static trampoline_start: u8;
    static trampoline_words: u8;
    static trampoline_end: u8;
}

/// The page that the trampoline is copied to; the same number is in trampoline.s.
pub const TRAMPOLINE: u64 = 0x8000;
/// Initialising the allocator takes about 64 KiB.
const STACK_BYTES: usize = 128 << 10;
/// How long a CPU may take to come up.
const PATIENCE_US: u64 = 1_000_000;

/// A CPU's own stack.
#[repr(C, align(4096))]
struct Stack(UnsafeCell<[u8; STACK_BYTES]>);

// SAFETY: nothing but one CPU's stack pointer ever refers to the contents.
unsafe impl Sync for Stack {}

static STACKS: [Stack; cpu::MAX_CPUS] = [const { Stack(UnsafeCell::new([0; STACK_BYTES])) }; cpu::MAX_CPUS];

core::arch::global_asm!(
    ".globl boot_stack_top",
    ".set boot_stack_top, {stacks} + {bytes}",
    stacks = sym STACKS,
    bytes = const STACK_BYTES,
    options(att_syntax)
);

/// Sets up the boot CPU: number 0.
pub fn init_boot_cpu() {
    cpu::adopt(0);
    gdt::load(0);
    idt::load();
}

/// Makes the boot CPU one of those that interrupts may go to.
pub fn boot_cpu_online() {
    let cpu = cpu::this();
    cpu.apic_id.store(apic::id(), Ordering::Relaxed);
    cpu.online.store(true, Ordering::Release);
}

/// How many CPUs [`start_others`] would have run, at most `limit`.
pub fn count(boot: &BootInfo, limit: usize) -> usize {
    let mut listed = 0;
    // Without a list there is the boot CPU; `start_others` says so.
    let _ = acpi::for_each_cpu(boot.rsdp, |_| listed += 1);
    listed.clamp(1, limit.clamp(1, cpu::MAX_CPUS))
}

/// Starts every CPU that the firmware lists, at most `limit` in all; returns how many run.
pub fn start_others(boot: &BootInfo, limit: usize) -> usize {
    let own = apic::id();
    let mut running = 1;
    copy_trampoline();
    let listed = acpi::for_each_cpu(boot.rsdp, |apic_id| {
        if apic_id != own && running < limit.min(cpu::MAX_CPUS) && start(running, apic_id) {
            running += 1;
        }
    });
    if let Err(error) = listed {
        println!("smp: no list of CPUs: {error:?}");
    }
    running
}

fn copy_trampoline() {
    let source = &raw const trampoline_start;
    // SAFETY: the page below 1 MiB is memory on every PC and is kept from the allocator; the symbols bound the code.
    unsafe {
        let bytes = (&raw const trampoline_end).offset_from_unsigned(source);
        core::ptr::copy_nonoverlapping(source, phys_ptr::<u8>(TRAMPOLINE), bytes);
    }
}

fn start(index: usize, apic_id: u32) -> bool {
    let cpu = &cpu::all()[index];
    cpu.apic_id.store(apic_id, Ordering::Relaxed);
    let stack = STACKS[index].0.get() as u64 + STACK_BYTES as u64;
    let words = [paging::root_phys(), stack, index as u64, ap_entry as *const () as u64];
    // SAFETY: within the copied trampoline: its previous user, if any, is past it.
    unsafe {
        let offset = (&raw const trampoline_words).offset_from_unsigned(&raw const trampoline_start) as u64;
        phys_ptr::<[u64; 4]>(TRAMPOLINE + offset).write_volatile(words);
    }
    apic::start_cpu(apic_id, (TRAMPOLINE >> 12) as u8);
    if came_up(cpu, 200) {
        return true;
    }
    apic::start_cpu_again(apic_id, (TRAMPOLINE >> 12) as u8);
    let up = came_up(cpu, PATIENCE_US);
    if !up {
        println!("smp: CPU {index} (controller {apic_id}) does not answer");
    }
    up
}

fn came_up(cpu: &cpu::Cpu, us: u64) -> bool {
    let deadline = clock::ticks() + us * clock::ticks_per_us();
    while clock::ticks() < deadline {
        if cpu.online.load(Ordering::Acquire) {
            return true;
        }
        core::hint::spin_loop();
    }
    false
}

/// Where another CPU arrives, on its own stack.
extern "C" fn ap_entry(index: usize) -> ! {
    cpu::adopt(index);
    gdt::load(index);
    idt::load();
    apic::enable();
    cpu::this().online.store(true, Ordering::Release);
    crate::work::ap_main()
}
