//! Page tables: a direct map of all memory, and the mapper over it.
//!
//! The boot code mapped the first 4 GiB. The range above is added here, with tables taken from the memory behind the
//! kernel image, because there is no allocator yet.

use core::ops::Range;

use x86_64::registers::control::{Cr3, Cr3Flags};
use x86_64::structures::paging::{OffsetPageTable, PageTable, PageTableFlags, PhysFrame};
use x86_64::{PhysAddr, VirtAddr};

use crate::boot::pvh::BootInfo;

/// Virtual address of physical address 0.
pub const DIRECT_MAP: u64 = 0xffff_8000_0000_0000;
/// Where the kernel is linked, less its physical address; the same number is in linker.ld.
const KERNEL_BASE: u64 = 0xffff_ffff_8000_0000;
/// Physical address at which the image begins; the same number is in linker.ld.
const IMAGE_START: u64 = 0x10_0000;
/// Range that the boot code mapped.
const BOOT_MAPPED: u64 = 4 << 30;
const GIB: u64 = 1 << 30;
const HUGE: u64 = 2 << 20;

unsafe extern "C" {
    /// First byte behind the image.
    static image_end: u8;
}

/// A pointer to the byte at physical address `phys`.
#[inline(always)]
pub const fn phys_ptr<T>(phys: u64) -> *mut T {
    core::ptr::with_exposed_provenance_mut((DIRECT_MAP + phys) as usize)
}

/// The physical addresses that the kernel's image covers.
pub fn image() -> Range<u64> {
    let end = &raw const image_end as u64;
    IMAGE_START..end - KERNEL_BASE
}

/// The table that the processor uses.
///
/// # Safety
/// No other reference to the table is in use.
unsafe fn root() -> &'static mut PageTable {
    let (frame, _) = Cr3::read();
    // SAFETY: the table is in the direct map; the caller promises that it is not borrowed.
    unsafe { &mut *phys_ptr(frame.start_address().as_u64()) }
}

/// Extends the direct map to all of `boot`'s memory; returns the physical memory that the kernel now occupies: the
/// image and the tables behind it.
///
/// # Panics
/// The memory behind the image cannot hold the tables.
pub fn map_all_memory(boot: &BootInfo) -> Range<u64> {
    let image = image();
    let gibs = boot.ram_end().max(BOOT_MAPPED).div_ceil(GIB);
    let tables = gibs - BOOT_MAPPED / GIB;
    let end = image.end + 4096 * tables;
    let fits = boot.map().iter().any(|entry| entry.is_ram() && entry.base <= image.start && end <= entry.end());
    assert!(fits && gibs <= 512, "no room for the page tables of {gibs} GiB behind the kernel");
    // SAFETY: the boot code's tables are not known to other CPUs yet.
    let pml4 = unsafe { root() };
    let pdpt_phys = pml4[256].addr().as_u64();
    // SAFETY: entry 256 is the direct map's, made by the boot code.
    let pdpt: &mut PageTable = unsafe { &mut *phys_ptr(pdpt_phys) };
    for gib in BOOT_MAPPED / GIB..gibs {
        let phys = image.end + 4096 * (gib - BOOT_MAPPED / GIB);
        // SAFETY: this frame is memory behind the image without users.
        let table: &mut PageTable = unsafe { &mut *phys_ptr(phys) };
        table.zero();
        for (entry, address) in table.iter_mut().zip((gib * GIB..).step_by(HUGE as usize)) {
            let flags = PageTableFlags::PRESENT | PageTableFlags::WRITABLE | PageTableFlags::HUGE_PAGE;
            entry.set_addr(PhysAddr::new(address), flags | PageTableFlags::NO_EXECUTE);
        }
        pdpt[gib as usize].set_addr(PhysAddr::new(phys), PageTableFlags::PRESENT | PageTableFlags::WRITABLE);
    }
    image.start..end
}

/// Takes the identity map away, once nothing starts at low addresses any more.
pub fn drop_identity() {
    // SAFETY: called by the only CPU that changes the table; nothing below the direct map is in use.
    unsafe {
        root()[0].set_unused();
    }
    reload();
}

/// Throws away this CPU's cached translations.
pub fn reload() {
    let (frame, flags): (PhysFrame, Cr3Flags) = Cr3::read();
    // SAFETY: the same table as before.
    unsafe { Cr3::write(frame, flags) };
}

/// Physical address of the table that the processor uses.
pub fn root_phys() -> u64 {
    Cr3::read().0.start_address().as_u64()
}

/// The mapper over the kernel's table.
///
/// # Safety
/// One mapper at a time.
pub unsafe fn mapper() -> OffsetPageTable<'static> {
    // SAFETY: all physical memory is mapped at the offset; the caller promises that the mapper is the only one.
    unsafe { OffsetPageTable::new(root(), VirtAddr::new(DIRECT_MAP)) }
}
