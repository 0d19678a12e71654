//! A kernel in twenty lines of its own: from the device tree to a checked frame. Boots on QEMU's riscv64 and aarch64
//! `virt` boards. The modules are the board's: the way in, the serial port, the way out; a kernel has its own.

#![no_std]
#![no_main]
#![expect(dead_code, unused_imports, reason = "the board's modules serve a larger kernel as well")]

mod console;
#[cfg(target_arch = "aarch64")]
#[path = "aarch64/mod.rs"]
mod machine;
#[cfg(any(target_arch = "riscv32", target_arch = "riscv64"))]
#[path = "riscv/mod.rs"]
mod machine;
mod stack;

// Parts of the larger kernel that the board's modules need.
const CPUS: usize = 1;
mod work {
    pub fn tick() {}
}
extern "C" fn other_main() -> ! {
    machine::sleep()
}

// ANCHOR: kernel
use core::ptr::{self, NonNull};
use pageblock::prelude::*;
use pageblock::{DeviceTree, Loaded, PhysRange};

struct Kernel;
// SAFETY: one CPU without interrupts; memory is mapped where it is.
unsafe impl Platform for Kernel {
    const MAX_CPUS: usize = 1;
    fn phys_to_virt(pa: u64) -> NonNull<u8> {
        NonNull::new(ptr::with_exposed_provenance_mut(pa as usize)).unwrap_or(NonNull::dangling())
    }
}
static FRAMES: PageAllocator<Kernel> = PageAllocator::new();

fn kernel_main(tree: DeviceTree<'static>, loaded: Loaded) -> Result<(), AllocError> {
    // SAFETY: nothing but this kernel uses memory that the tree does not reserve, and that nothing was loaded into.
    unsafe { FRAMES.init(tree.regions(loaded), &Config::new()) }.expect("memory map");
    let page_table = FRAMES.alloc(Gfp::KERNEL | Gfp::ZERO)?;
    let huge = FRAMES.alloc_order(Order::HUGE, Gfp::USER)?;
    println!("a frame at {:#x}, a huge page at {:#x}: {}", page_table.phys(), huge.phys(), FRAMES.stats());
    drop((page_table, huge)); // freed, merged
    FRAMES.check().expect("every count is what the bits say");
    Ok(())
}
// ANCHOR_END: kernel

unsafe extern "C" {
    static image_start: u8;
    static image_end: u8;
}

/// The way in arrives here, with the firmware's arguments.
extern "C" fn boot_main(_hardware: usize, blob: usize) -> ! {
    let start = ptr::with_exposed_provenance::<u8>(blob);
    // SAFETY: the firmware has put a device tree there, which nothing overwrites.
    let bytes = unsafe {
        let len = DeviceTree::blob_len(&start.cast::<[u8; 8]>().read()).expect("device tree");
        core::slice::from_raw_parts(start, len)
    };
    let kernel = (&raw const image_start).addr() as u64..(&raw const image_end).addr() as u64;
    let loaded = Loaded { blob: (blob as u64).into(), kernel: PhysRange::from(kernel) };
    let outcome = kernel_main(DeviceTree::new(bytes).expect("device tree"), loaded);
    machine::exit(if outcome.is_ok() { 33 } else { 35 })
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    println!("PANIC: {info}");
    machine::exit(35)
}
