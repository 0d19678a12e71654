//! The local interrupt controller (xAPIC mode, through the direct map), and the old one switched off.

use core::sync::atomic::Ordering;

use x86_64::instructions::port::Port;

use super::idt::vector;
use super::paging::phys_ptr;
use super::{clock, cpu};

const BASE: u64 = 0xfee0_0000;

/// Register offsets.
mod reg {
    pub(super) const ID: u64 = 0x20;
    pub(super) const EOI: u64 = 0xb0;
    pub(super) const SPURIOUS: u64 = 0xf0;
    pub(super) const COMMAND_LOW: u64 = 0x300;
    pub(super) const COMMAND_HIGH: u64 = 0x310;
    pub(super) const TIMER: u64 = 0x320;
    pub(super) const INITIAL_COUNT: u64 = 0x380;
    pub(super) const DIVIDE: u64 = 0x3e0;
}

const ENABLE: u32 = 1 << 8;
const PERIODIC: u32 = 1 << 17;
const MASKED: u32 = 1 << 16;
const PENDING: u32 = 1 << 12;
const LEVEL_ASSERT: u32 = 1 << 14;
const INIT: u32 = 5 << 8;
const STARTUP: u32 = 6 << 8;

fn read(register: u64) -> u32 {
    // SAFETY: the local interrupt controller is there on every x86_64 processor, at this address until moved; reading
    // these registers has no effect.
    unsafe { phys_ptr::<u32>(BASE + register).read_volatile() }
}

fn write(register: u64, value: u32) {
    // SAFETY: as in `read`; the callers write values that the register takes.
    unsafe { phys_ptr::<u32>(BASE + register).write_volatile(value) }
}

/// Masks the pair of 8259 controllers: the firmware leaves them open, and their vectors are those of exceptions.
pub fn mask_legacy() {
    for port in [0x21, 0xa1] {
        // SAFETY: the mask registers of the 8259 pair, or no device.
        unsafe { Port::<u8>::new(port).write(0xff) };
    }
}

/// Switches this CPU's controller on.
pub fn enable() {
    write(reg::SPURIOUS, ENABLE | u32::from(vector::SPURIOUS));
    write(reg::TIMER, MASKED);
}

/// This CPU's number among the controllers.
pub fn id() -> u32 {
    read(reg::ID) >> 24
}

/// The handler is done as far as the controller is concerned.
pub fn end_of_interrupt() {
    write(reg::EOI, 0);
}

/// Starts this CPU's timer with a period of `ns` nanoseconds.
///
/// The count assumes the 1 GHz that QEMU's controller counts with; nothing depends on the exact rate.
pub fn start_timer(ns: u32) {
    write(reg::DIVIDE, 0b1011); // by 1
    write(reg::TIMER, PERIODIC | u32::from(vector::TIMER));
    write(reg::INITIAL_COUNT, ns);
}

/// Stops this CPU's timer.
pub fn stop_timer() {
    write(reg::TIMER, MASKED);
    write(reg::INITIAL_COUNT, 0);
}

fn command(apic_id: u32, low: u32) {
    x86_64::instructions::interrupts::without_interrupts(|| {
        while read(reg::COMMAND_LOW) & PENDING != 0 {
            core::hint::spin_loop();
        }
        write(reg::COMMAND_HIGH, apic_id << 24);
        write(reg::COMMAND_LOW, low);
    });
}

/// Sends interrupt `vector` to `cpu`.
pub fn send(cpu: &cpu::Cpu, vector: u8) {
    command(cpu.apic_id.load(Ordering::Relaxed), LEVEL_ASSERT | u32::from(vector));
}

/// INIT, then start-up at the 4 KiB page `page`: how a processor is started since the first multiprocessors.
pub fn start_cpu(apic_id: u32, page: u8) {
    command(apic_id, INIT | LEVEL_ASSERT);
    clock::delay_us(10_000);
    command(apic_id, STARTUP | LEVEL_ASSERT | u32::from(page));
}

/// The second start-up interrupt, for a processor that did not take the first.
pub fn start_cpu_again(apic_id: u32, page: u8) {
    command(apic_id, STARTUP | LEVEL_ASSERT | u32::from(page));
}
