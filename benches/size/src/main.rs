//! Initialises an allocator from a memory map, allocates a block and frees it. It is never run: its size is
//! measured.

#![no_std]
#![no_main]

use core::ptr::NonNull;

use pageblock::{Config, Gfp, Order, PageAllocator, Pfn, Platform, Region};

#[cfg(target_arch = "riscv64")]
mod riscv64;
#[cfg(target_arch = "x86_64")]
#[path = "../../../examples/embedded/src/system.rs"]
mod system;
#[cfg(target_arch = "riscv64")]
use riscv64 as system;

struct Machine;

// SAFETY: the program is not run. As a kernel's: CPUs are numbered by a register, there are no interrupts, memory is
// mapped at 0.
unsafe impl Platform for Machine {
    const MAX_CPUS: usize = if cfg!(feature = "lists") { 8 } else { 1 };
    const PER_CPU_LISTS: bool = cfg!(feature = "lists");
    const SMALL_CODE: bool = true;

    fn phys_to_virt(pa: u64) -> NonNull<u8> {
        NonNull::new(pa as *mut u8).unwrap_or(NonNull::dangling())
    }
}

static FRAMES: PageAllocator<Machine> = PageAllocator::new();

/// Everything comes from registers that the program does not know, so that nothing can be left out.
#[unsafe(no_mangle)]
extern "C" fn program(start: u64, bytes: u64, order: u8, gfp: u32) -> ! {
    let map = [Region::from((start, bytes, true))];
    // SAFETY: the program is not run.
    let booted = unsafe { FRAMES.init(map, &Config::new()) }.is_ok();
    let order = Order::saturating(order);
    let block = FRAMES.alloc_order(order, Gfp::from_bits_truncate(gfp)).map(|frames| frames.into_raw().pfn);
    // SAFETY: the program is not run.
    let freed = unsafe { FRAMES.free(block.unwrap_or(Pfn::new(0)), order) }.is_ok();
    system::exit(i32::from(booted && freed))
}
