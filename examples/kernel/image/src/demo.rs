//! A kernel's use of frames: page tables, and a heap.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use pageblock::{Gfp, Order};
use x86_64::structures::paging::mapper::CleanUp;
use x86_64::structures::paging::page::PageRangeInclusive;
use x86_64::structures::paging::{
    FrameAllocator, FrameDeallocator, Mapper, OffsetPageTable, Page, PageTableFlags, PhysFrame, Size2MiB, Size4KiB,
};
use x86_64::{PhysAddr, VirtAddr};

use crate::arch::{ipi, paging};
use crate::mm::{self, FRAMES};
use crate::println;

/// Where the lower half's test mappings begin: in two page tables at once.
const BASE: u64 = 0x40_0000_0000 - 32 * 4096;
/// Small pages to map.
const PAGES: u64 = 64;
/// Where a 2 MiB page is mapped.
const HUGE_BASE: u64 = 0x60_0000_0000;

/// Maps frames in the lower half through new page tables, uses them, and takes everything down again.
///
/// # Panics
/// A mapping does not work, or frames are missing in the end.
pub fn page_tables() {
    let before = mm::free_frames();
    // SAFETY: only this CPU changes page tables here.
    let mut mapper = unsafe { paging::mapper() };
    let pages: PageRangeInclusive<Size4KiB> = Page::range_inclusive(
        Page::containing_address(VirtAddr::new(BASE)),
        Page::containing_address(VirtAddr::new(BASE + (PAGES - 1) * 4096)),
    );
    pages.for_each(|page| map_small(&mut mapper, page));
    let huge = map_huge(&mut mapper);
    let used = before - mm::free_frames();
    pages.for_each(|page| unmap_small(&mut mapper, page));
    unmap_huge(&mut mapper, huge);
    clean_up(VirtAddr::zero(), pages.end.start_address());
    clean_up(VirtAddr::new(HUGE_BASE), VirtAddr::new(HUGE_BASE));
    let after = mm::free_frames();
    assert!(before == after, "{before} frames were free before the page tables, {after} are now");
    println!("page tables: {} pages mapped, {used} frames in use then, all back", PAGES + 1);
}

/// Frees the page tables from `start` to `end` that have become empty.
pub fn clean_up(start: VirtAddr, end: VirtAddr) {
    let range: PageRangeInclusive<Size4KiB> =
        Page::range_inclusive(Page::containing_address(start), Page::containing_address(end));
    // SAFETY: only this CPU changes the structure of the tables; empty tables translate nothing that a CPU could use.
    unsafe { paging::mapper().clean_up_addr_range(range, &mut &FRAMES) };
}

fn map_small(mapper: &mut OffsetPageTable<'_>, page: Page<Size4KiB>) {
    let pfn = mm::alloc(Order::ZERO, Gfp::HIGHUSER_MOVABLE).expect("memory for a page");
    let frame = PhysFrame::containing_address(PhysAddr::new(pfn.phys()));
    let flags = PageTableFlags::PRESENT | PageTableFlags::WRITABLE | PageTableFlags::NO_EXECUTE;
    // SAFETY: the frame was just allocated, and no code uses the address.
    unsafe { mapper.map_to(page, frame, flags, &mut &FRAMES) }.expect("a free address").flush();
    let here = page.start_address().as_mut_ptr::<u64>();
    // SAFETY: mapped a moment ago; the direct map shows the same frame.
    unsafe {
        here.write_volatile(pfn.as_u64() ^ 0x55);
        let direct = paging::phys_ptr::<u64>(pfn.phys()).read_volatile();
        assert!(direct == pfn.as_u64() ^ 0x55, "frame {pfn:?} is not behind its page");
    }
}

fn unmap_small(mapper: &mut OffsetPageTable<'_>, page: Page<Size4KiB>) {
    let (frame, flush) = mapper.unmap(page).expect("mapped before");
    flush.ignore();
    ipi::shootdown(page.start_address());
    // SAFETY: no page refers to the frame any more.
    unsafe { (&FRAMES).deallocate_frame(frame) };
}

fn map_huge(mapper: &mut OffsetPageTable<'_>) -> Page<Size2MiB> {
    let frame: PhysFrame<Size2MiB> = (&FRAMES).allocate_frame().expect("memory for a 2 MiB page");
    let page = Page::containing_address(VirtAddr::new(HUGE_BASE));
    let flags = PageTableFlags::PRESENT | PageTableFlags::WRITABLE | PageTableFlags::NO_EXECUTE;
    // SAFETY: the block was just allocated, and no code uses the address.
    unsafe { mapper.map_to(page, frame, flags, &mut &FRAMES) }.expect("a free address").flush();
    // SAFETY: mapped a moment ago, 2 MiB long.
    unsafe { core::ptr::write_bytes(page.start_address().as_mut_ptr::<u8>(), 0x5a, 2 << 20) };
    page
}

fn unmap_huge(mapper: &mut OffsetPageTable<'_>, page: Page<Size2MiB>) {
    let (frame, flush) = mapper.unmap(page).expect("mapped before");
    flush.ignore();
    ipi::shootdown(page.start_address());
    // SAFETY: no page refers to the frame any more.
    unsafe { (&FRAMES).deallocate_frame(frame) };
}

/// Uses the heap as any Rust program does.
///
/// # Panics
/// The collections do not hold their elements, or frames are missing in the end.
pub fn heap() {
    let before = mm::free_frames();
    let mut names: BTreeMap<u64, String> = BTreeMap::new();
    for number in 0..2000 {
        names.insert(number * 7919 % 2000, alloc::format!("frame {number}"));
    }
    let large: Box<[u8]> = alloc::vec![7; 3 << 20].into_boxed_slice();
    let sorted: Vec<u64> = names.keys().copied().collect();
    assert!(sorted.is_sorted() && sorted.len() == 2000 && large.iter().all(|byte| *byte == 7));
    let used = before - mm::free_frames();
    drop((names, large, sorted));
    let after = mm::free_frames();
    assert!(before == after, "{before} frames were free before the heap, {after} are now");
    println!("heap: {used} frames in use, all back");
}
