//! Page tables by the `x86_64` crate, their frames from the allocator. The "physical" memory is 16 MiB of this
//! program's.
//!
//! `cargo run -p pageblock --example x86_64_mapper --features x86_64`

use std::alloc::{Layout, alloc_zeroed};
use std::ptr::NonNull;
use std::sync::OnceLock;

use pageblock::{Config, PageAllocator, Platform, Region};
use x86_64::VirtAddr;
use x86_64::structures::paging::mapper::CleanUp;
use x86_64::structures::paging::{
    FrameAllocator, FrameDeallocator, Mapper, OffsetPageTable, Page, PageTable, PageTableFlags, PhysFrame, Size2MiB,
    Size4KiB, Translate,
};

const BYTES: usize = 16 << 20;

/// Address of the memory that plays physical memory: the "direct map".
fn offset() -> u64 {
    static START: OnceLock<u64> = OnceLock::new();
    let layout = Layout::from_size_align(BYTES, 4096).expect("a layout");
    // SAFETY: not of size 0; never freed.
    *START.get_or_init(|| unsafe { alloc_zeroed(layout) } as u64)
}

struct Machine;

// SAFETY: one thread and no interrupts; the memory is there for ever.
unsafe impl Platform for Machine {
    const MAX_CPUS: usize = 1;

    fn phys_to_virt(pa: u64) -> NonNull<u8> {
        NonNull::new((offset() + pa) as *mut u8).expect("not at 0")
    }
}

static FRAMES: PageAllocator<Machine> = PageAllocator::new();

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // SAFETY: nothing else uses the memory.
    let stats = unsafe { FRAMES.init([Region::from((0, BYTES as u64, true))], &Config::new())? };
    println!("{stats}");
    let root: PhysFrame<Size4KiB> = (&FRAMES).allocate_frame().ok_or("no memory")?;
    let table = (offset() + root.start_address().as_u64()) as *mut PageTable;
    // SAFETY: the frame is ours and mapped; an empty table is all zeroes. Nobody else uses it.
    let mut mapper = unsafe {
        table.write(PageTable::new());
        OffsetPageTable::new(&mut *table, VirtAddr::new(offset()))
    };

    let flags = PageTableFlags::PRESENT | PageTableFlags::WRITABLE;
    let small: Page<Size4KiB> = Page::containing_address(VirtAddr::new(0x4444_0000_1000));
    let large: Page<Size2MiB> = Page::containing_address(VirtAddr::new(0x4444_4000_0000));
    let frame: PhysFrame<Size4KiB> = (&FRAMES).allocate_frame().ok_or("no memory")?;
    let huge: PhysFrame<Size2MiB> = (&FRAMES).allocate_frame().ok_or("no memory")?;
    // SAFETY: the frames are ours; no processor uses this table, so there is nothing to flush either.
    unsafe {
        mapper.map_to(small, frame, flags, &mut &FRAMES).map_err(|error| format!("{error:?}"))?.ignore();
        mapper.map_to(large, huge, flags, &mut &FRAMES).map_err(|error| format!("{error:?}"))?.ignore();
    }
    assert_eq!(mapper.translate_addr(small.start_address()), Some(frame.start_address()));
    assert_eq!(mapper.translate_addr(large.start_address() + 5), Some(huge.start_address() + 5));
    println!("mapped: {}", FRAMES.stats());

    let (frame, _) = mapper.unmap(small).map_err(|error| format!("{error:?}"))?;
    let (huge, _) = mapper.unmap(large).map_err(|error| format!("{error:?}"))?;
    // SAFETY: nothing refers to the frames any more, and the table goes last.
    unsafe {
        (&FRAMES).deallocate_frame(frame);
        (&FRAMES).deallocate_frame(huge);
        mapper.clean_up(&mut &FRAMES);
        (&FRAMES).deallocate_frame(root);
    }
    println!("taken down: {}", FRAMES.stats());
    assert_eq!((FRAMES.stats().free, FRAMES.stats().bad_frees), (stats.free, 0));
    Ok(())
}
