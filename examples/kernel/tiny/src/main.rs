//! The smallest kernel on `pageblock`: one node, one CPU, 16 MiB, interrupts off.
//!
//! It takes the firmware's memory map, gives the memory to the allocator, allocates, frees, frees wrongly, and prints
//! how large its code and its metadata are. Nothing here formats text: `core::fmt` would be larger than the allocator.

#![no_std]
#![no_main]

use core::arch::asm;
use core::ptr::NonNull;

use pageblock::{Config, FreeError, Gfp, Order, PageAllocator, Platform, Region, Stats, ZoneLimits};

#[path = "../../image/src/boot/mem.rs"]
mod mem;

core::arch::global_asm!(include_str!("../../image/src/boot/boot.s"), options(att_syntax));

/// Initialising the allocator takes at most 8 KiB of stack.
const STACK_BYTES: usize = 16 << 10;

#[repr(C, align(4096))]
struct Stack(core::cell::UnsafeCell<[u8; STACK_BYTES]>);

// SAFETY: nothing but the stack pointer ever refers to the contents.
unsafe impl Sync for Stack {}

static STACK: Stack = Stack(core::cell::UnsafeCell::new([0; STACK_BYTES]));

core::arch::global_asm!(
    ".globl boot_stack_top",
    ".set boot_stack_top, {stack} + {bytes}",
    stack = sym STACK,
    bytes = const STACK_BYTES,
    options(att_syntax)
);

/// Where the boot code mapped physical memory.
const DIRECT_MAP: u64 = 0xffff_8000_0000_0000;
/// Where the kernel is linked, less its physical address; the same number is in linker.ld.
const KERNEL_BASE: u64 = 0xffff_ffff_8000_0000;
const IMAGE_START: u64 = 0x10_0000;

unsafe extern "C" {
    static text_start: u8;
    static text_end: u8;
    static image_end: u8;
}

/// One CPU, interrupts off for ever: the defaults fit.
struct Tiny;

// SAFETY: 1. there is one CPU; 2. there are no interrupts; 3. the boot code mapped the first 4 GiB for good.
unsafe impl Platform for Tiny {
    const MAX_CPUS: usize = 1;
    const PER_CPU_LISTS: bool = false;
    const SMALL_CODE: bool = true;

    fn phys_to_virt(pa: u64) -> NonNull<u8> {
        NonNull::new((DIRECT_MAP + pa) as *mut u8).unwrap_or(NonNull::dangling())
    }
}

static FRAMES: PageAllocator<Tiny> = PageAllocator::new();

/// The memory map that PVH passes: 24 bytes an entry.
///
/// # Safety
/// `start_info` is the loader's.
unsafe fn memory_map(start_info: u64) -> &'static [u8] {
    let info = Tiny::phys_to_virt(start_info).as_ptr();
    // SAFETY: the loader's structure has the table's address at 40 and its length at 48.
    unsafe {
        let table = info.add(40).cast::<u64>().read_unaligned();
        let entries = info.add(48).cast::<u32>().read_unaligned() as usize;
        core::slice::from_raw_parts(Tiny::phys_to_virt(table).as_ptr(), entries * 24)
    }
}

/// Boots, tries, ends the machine.
#[unsafe(no_mangle)]
extern "C" fn kmain(start_info: u64) -> ! {
    let text = &raw const text_end as usize - &raw const text_start as usize;
    let Some(stats) = boot(start_info) else { fail("no allocator") };
    print_number("text", text as u64);
    print_number("metadata", stats.metadata_bytes as u64);
    print_number("frames", stats.managed);
    let passed = try_it();
    print_number("free in the end", FRAMES.stats().free);
    if passed.is_none() || FRAMES.stats().free != stats.free {
        fail("something is wrong");
    }
    exit(16)
}

/// Gives the memory to the allocator. A function of its own, so that its size is seen apart.
#[inline(never)]
fn boot(start_info: u64) -> Option<Stats> {
    // SAFETY: the argument is the loader's.
    let regions = Region::e820_table(unsafe { memory_map(start_info) }, 24);
    let kernel = IMAGE_START..&raw const image_end as u64 - KERNEL_BASE;
    let config = Config::new().zones(ZoneLimits::single()).reserve_low(1 << 20).reserve(kernel);
    // SAFETY: the rest of the memory has no user; the map itself is below 1 MiB or in reserved memory.
    unsafe { FRAMES.init(regions, &config) }.ok()
}

/// Allocates, frees, frees wrongly. `None` if something is not as it should be.
fn try_it() -> Option<()> {
    let block = FRAMES.alloc_order(Order::new(3)?, Gfp::KERNEL | Gfp::ZERO).ok()?;
    let page = FRAMES.alloc(Gfp::KERNEL).ok()?;
    let raw = page.into_raw();
    let (pfn, order) = (raw.pfn, raw.order);
    // SAFETY: the page is ours and unused; the second free is refused.
    let (once, twice) = unsafe { (FRAMES.free(pfn, order), FRAMES.free(pfn, order)) };
    let mut held = 0;
    while let Ok(page) = FRAMES.alloc(Gfp::KERNEL) {
        let _ = page.into_raw();
        held += 1;
    }
    print_number("held at most", held);
    drop(block);
    let all = FRAMES.zones().next()?;
    // Everything that is held is a single frame: other frees are refused.
    for pfn in all.span().start.as_u64()..all.span().end.as_u64() {
        // SAFETY: no code uses the frames.
        let _ = unsafe { FRAMES.free(pageblock::Pfn::new(pfn), Order::ZERO) };
    }
    (once == Ok(()) && twice == Err(FreeError::NotAllocated)).then_some(())
}

fn fail(message: &str) -> ! {
    print(message);
    print("\n");
    exit(17)
}

fn print_number(name: &str, mut number: u64) {
    let mut digits = [0; 20];
    let mut first = digits.len();
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        first -= 1;
        if number == 0 {
            break;
        }
    }
    print(name);
    print(": ");
    digits.iter().skip(first).for_each(|digit| send(*digit));
    print("\n");
}

fn print(text: &str) {
    text.bytes().for_each(send);
}

/// Sends one byte through the first serial port.
fn send(byte: u8) {
    // SAFETY: the registers of the serial port, or of nothing.
    unsafe {
        loop {
            let status: u8;
            asm!("in al, dx", out("al") status, in("dx") 0x3fdu16, options(nomem, nostack));
            if status & 0x20 != 0 {
                break;
            }
        }
        asm!("out dx, al", in("al") byte, in("dx") 0x3f8u16, options(nomem, nostack));
    }
}

/// Ends QEMU with status `2 * code + 1`.
fn exit(code: u32) -> ! {
    // SAFETY: the port belongs to the exit device or has no owner.
    unsafe { asm!("out dx, eax", in("eax") code, in("dx") 0xf4u16, options(nomem, nostack)) };
    loop {
        // SAFETY: sleeps for ever.
        unsafe { asm!("hlt", options(nomem, nostack)) };
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    fail("panic")
}
