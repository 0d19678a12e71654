//! Marks on memory: the holder of a frame writes its own pattern into it and finds it again, or the frame had two
//! owners.

use pageblock_frame::{Order, PAGE_SIZE, Pfn};

use crate::arch::paging::phys_ptr;

/// One word in every cache line of every frame is written.
const LINE: u64 = 64;
/// An odd constant with well mixed bits: neighbouring words differ in many places.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The word at physical address `phys` in a block with this serial number: no other holder writes the same.
const fn pattern(phys: u64, serial: u32) -> u64 {
    phys.wrapping_mul(STEP) ^ (serial as u64) << 32
}

fn range(pfn: Pfn, order: Order) -> (u64, u64) {
    let start = pfn.as_u64() * PAGE_SIZE;
    (start, start + order.frames() * PAGE_SIZE)
}

/// Writes the pattern of `serial` into every frame of a block.
///
/// # Safety
/// The caller holds the block, and no code reads it.
pub unsafe fn write(pfn: Pfn, order: Order, serial: u32) {
    let (mut phys, end) = range(pfn, order);
    while phys < end {
        // SAFETY: the word lies in a frame that the caller holds.
        unsafe { phys_ptr::<u64>(phys).write_volatile(pattern(phys, serial)) };
        phys += LINE;
    }
}

/// Finds the pattern again.
///
/// # Panics
/// A word is not the one written: another owner has the frame too.
///
/// # Safety
/// The caller holds the block, and no other code writes to it.
pub unsafe fn verify(pfn: Pfn, order: Order, serial: u32) {
    let (mut phys, end) = range(pfn, order);
    while phys < end {
        // SAFETY: the word lies in a frame that the caller holds.
        let found = unsafe { phys_ptr::<u64>(phys).read_volatile() };
        let want = pattern(phys, serial);
        assert!(found == want, "{phys:#x} in a block of order {order} is held twice: {found:#x} instead of {want:#x}");
        phys += LINE;
    }
}
