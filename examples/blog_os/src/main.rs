//! The frame allocator of "Writing an OS in Rust" replaced by pageblock: frames that can be freed, blocks, huge pages.
//! `ci.sh cross` builds it; `bootimage run` boots it where that tool and its nightly compiler are installed.

#![no_std]
#![no_main]

use bootloader::{BootInfo, entry_point};
use x86_64::structures::paging::{FrameAllocator, Mapper, OffsetPageTable, Page, PageTable, PageTableFlags, Size4KiB};
use x86_64::{VirtAddr, registers::control::Cr3};

entry_point!(kernel_main);

// ANCHOR: kernel
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU64, Ordering};
use pageblock::prelude::*;

static OFFSET: AtomicU64 = AtomicU64::new(0);

struct Kernel;
// SAFETY: one CPU without interrupts; the boot loader maps all memory at this distance, for good.
unsafe impl Platform for Kernel {
    const MAX_CPUS: usize = 1;
    fn phys_to_virt(pa: u64) -> NonNull<u8> {
        let address = pa.wrapping_add(OFFSET.load(Ordering::Relaxed)) as usize;
        NonNull::new(ptr::with_exposed_provenance_mut(address)).unwrap_or(NonNull::dangling())
    }
}
static FRAMES: PageAllocator<Kernel> = PageAllocator::new();

fn kernel_main(boot_info: &'static BootInfo) -> ! {
    OFFSET.store(boot_info.physical_memory_offset, Ordering::Relaxed);
    // SAFETY: nothing uses the memory that the boot loader calls usable.
    unsafe { FRAMES.init(boot_info.memory_map.iter().map(Region::from), &Config::new()) }.expect("memory map");
    let mut mapper = page_tables();
    let page = Page::<Size4KiB>::containing_address(VirtAddr::new(0x4444_4444_0000));
    let frame = (&FRAMES).allocate_frame().expect("a frame");
    let flags = PageTableFlags::PRESENT | PageTableFlags::WRITABLE;
    // SAFETY: the frame has just been allocated, and the page is not in use.
    unsafe { mapper.map_to(page, frame, flags, &mut &FRAMES) }.expect("page tables").flush();
    halt()
}
// ANCHOR_END: kernel

/// The page tables that the boot loader has made.
fn page_tables() -> OffsetPageTable<'static> {
    let (level_4, _) = Cr3::read();
    let table = Kernel::phys_to_virt(level_4.start_address().as_u64()).cast::<PageTable>();
    let offset = VirtAddr::new(OFFSET.load(Ordering::Relaxed));
    // SAFETY: the active table, of which this is the only reference; all memory is mapped at the offset.
    unsafe { OffsetPageTable::new(&mut *table.as_ptr(), offset) }
}

fn halt() -> ! {
    loop {
        x86_64::instructions::hlt();
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    halt()
}
