//! aarch64 at EL1: MMU on, PSCI, interrupt controller of version 2.

mod vectors;

use core::arch::{asm, global_asm};

pub use pageblock::arch::{irq_restore, irq_save};

use crate::stack::{BOOT_BYTES, BOOT_STACK, BYTES, STACKS};
use crate::{boot_main, other_main, work};

/// The name of the machine.
pub const NAME: &str = "aarch64";

/// Where the board puts its device tree: at the start of RAM.
const DEVICE_TREE: usize = 0x4000_0000;
/// The serial port (PL011), and the interrupt controller's two parts.
const UART: usize = 0x0900_0000;
const DISTRIBUTOR: usize = 0x0800_0000;
const INTERFACE: usize = 0x0801_0000;
/// The virtual timer's interrupt, and numbers from which on there is none.
const TIMER: u32 = 27;
const SPURIOUS: u32 = 1020;
/// Timer interrupts in a second.
const RATE: u64 = 1000;
/// PSCI's function that starts a CPU.
const CPU_ON: u64 = 0xc400_0003;
/// Semihosting's call that ends the machine, and its reason for a program that has ended itself.
const SYS_EXIT: u64 = 0x18;
const APPLICATION_EXIT: u64 = 0x2_0026;

/// A table of 512 entries of 1 GiB: devices in the first, RAM in the next eight. Inner shareable, so that CPUs see each
/// other's writes.
#[repr(C, align(4096))]
struct Table([u64; 512]);

static TABLE: Table = Table({
    // A block that has been accessed, in which nothing faults.
    const BLOCK: u64 = 1 << 10 | 1;
    const INNER_SHAREABLE: u64 = 3 << 8;
    const WRITE_BACK: u64 = 1 << 2;
    let mut entries = [0; 512];
    entries[0] = BLOCK;
    let mut gib = 1;
    while gib < 9 {
        entries[gib] = (gib as u64) << 30 | BLOCK | INNER_SHAREABLE | WRITE_BACK;
        gib += 1;
    }
    entries
});

/// Kinds of memory: 0 devices, 1 cached.
const MAIR: u64 = 0xff00;
/// 39 bits of addresses in TTBR0, tables cached and inner shareable, none in TTBR1, 40 bits of physical addresses.
const TCR: u64 = 25 | 1 << 8 | 1 << 10 | 3 << 12 | 1 << 23 | 2 << 32;
/// MMU, data cache, instruction cache.
const SCTLR: u64 = 1 | 1 << 2 | 1 << 12;

global_asm!(
    ".pushsection .text.boot, \"ax\"",
    ".globl start",
    "start:",
    "mov x0, #0",
    // The others arrive with our number in x0.
    ".globl start_other",
    "start_other:",
    "msr tpidr_el1, x0",
    "add x1, x0, #1",
    "ldr x2, ={bytes}",
    "ldr x3, ={stacks}",
    "madd x1, x1, x2, x3",
    "ldr x4, ={boot_stack}",
    "ldr x5, ={boot_bytes}",
    "add x4, x4, x5",
    "cmp x0, #0",
    "csel x1, x4, x1, eq",
    "mov sp, x1",
    "ldr x1, ={mair}",
    "msr mair_el1, x1",
    "ldr x1, ={tcr}",
    "msr tcr_el1, x1",
    "ldr x1, ={table}",
    "msr ttbr0_el1, x1",
    "ldr x1, =vectors",
    "msr vbar_el1, x1",
    "isb",
    "mrs x1, sctlr_el1",
    "ldr x2, ={sctlr}",
    "orr x1, x1, x2",
    "msr sctlr_el1, x1",
    "isb",
    "cbnz x0, {other_main}",
    // The first CPU's number is 0, and its device tree is always there.
    "ldr x1, ={device_tree}",
    "b {boot_main}",
    ".ltorg",
    ".popsection",
    boot_stack = sym BOOT_STACK,
    boot_bytes = const BOOT_BYTES,
    bytes = const BYTES,
    stacks = sym STACKS,
    mair = const MAIR,
    tcr = const TCR,
    table = sym TABLE,
    sctlr = const SCTLR,
    device_tree = const DEVICE_TREE,
    boot_main = sym boot_main,
    other_main = sym other_main,
);

unsafe extern "C" {
    fn start_other();
}

fn write(address: usize, value: u32) {
    // SAFETY: a register of a device, mapped as such.
    unsafe { core::ptr::with_exposed_provenance_mut::<u32>(address).write_volatile(value) };
}

fn read(address: usize) -> u32 {
    // SAFETY: a register of a device, mapped as such.
    unsafe { core::ptr::with_exposed_provenance::<u32>(address).read_volatile() }
}

/// An interrupt, interrupts being off.
extern "C" fn on_interrupt() {
    let number = read(INTERFACE + 0xc);
    if number & 0x3ff >= SPURIOUS {
        return;
    }
    assert!(number & 0x3ff == TIMER, "interrupt {number}");
    rearm();
    work::tick();
    write(INTERFACE + 0x10, number);
}

/// A fault, which ends the machine.
extern "C" fn on_fault(syndrome: u64, place: u64, address: u64) -> ! {
    panic!("fault {syndrome:#x} at {place:#x}, address {address:#x}")
}

fn rearm() {
    // SAFETY: the virtual timer of this CPU.
    unsafe {
        let frequency: u64;
        asm!("mrs {}, cntfrq_el0", out(reg) frequency);
        asm!("msr cntv_tval_el0, {}", in(reg) frequency / RATE);
    }
}

/// Goes on with `then` on the stack that ends at `top`.
pub fn on_stack(top: usize, then: extern "C" fn(usize, usize) -> !, arguments: [usize; 2]) -> ! {
    let [first, second] = arguments;
    // SAFETY: the stack is this CPU's and nothing is on it; nothing comes back to the one before.
    unsafe {
        asm!("mov sp, {}", "br {}", in(reg) top, in(reg) then, in("x0") first, in("x1") second, options(noreturn))
    }
}

/// Turns timer interrupts on for this CPU.
pub fn start_timer() {
    write(DISTRIBUTOR, 1);
    write(DISTRIBUTOR + 0x100, 1 << TIMER);
    write(INTERFACE + 4, 0xff);
    write(INTERFACE, 1);
    rearm();
    // SAFETY: the vectors are in place, and this CPU has its stack and number.
    unsafe { asm!("msr cntv_ctl_el0, {}", "msr daifclr, #2", in(reg) 1u64) };
}

/// Turns all interrupts off for this CPU.
pub fn stop_timer() {
    // SAFETY: off is always allowed.
    unsafe { asm!("msr daifset, #2", "msr cntv_ctl_el0, xzr") };
}

/// Starts the CPU with this hardware number as CPU `number`. False if the firmware refuses.
pub fn start_cpu(hardware: u64, number: usize) -> bool {
    let error: i64;
    // SAFETY: the firmware starts the CPU, which has a stack of its own.
    unsafe {
        asm!("hvc #0", inlateout("x0") CPU_ON => error, in("x1") hardware,
            in("x2") start_other as *const () as usize, in("x3") number, clobber_abi("C"));
    }
    error == 0
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
    write(UART, u32::from(byte));
}

/// Ends the machine, and QEMU with this status.
pub fn exit(status: u32) -> ! {
    let block = [APPLICATION_EXIT, u64::from(status)];
    // SAFETY: QEMU reads the block, and ends.
    unsafe { asm!("hlt #0xf000", in("x0") SYS_EXIT, in("x1") &raw const block) };
    sleep()
}
