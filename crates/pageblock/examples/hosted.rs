//! An allocator in an ordinary program: the frames are only numbers, the metadata is in a vector.
//!
//! `cargo run -p pageblock --example hosted`

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use pageblock::{Config, FreeError, Gfp, Order, PageAllocator, Platform, Region};

struct Hosted;

// SAFETY: one thread and no interrupts; no memory is behind the frames, and nothing asks for it.
unsafe impl Platform for Hosted {
    const MAX_CPUS: usize = 1;
    const HAS_MEMORY: bool = false;

    fn phys_to_virt(_: u64) -> NonNull<u8> {
        unreachable!("no frame is zeroed, no metadata carved")
    }
}

static FRAMES: PageAllocator<Hosted> = PageAllocator::new();

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let map = [Region::from((0, 256 << 20, true))]; // 256 MiB
    let storage = vec![MaybeUninit::uninit(); PageAllocator::<Hosted>::metadata_bytes(map, &Config::new())?];
    println!("{}", FRAMES.init_simulated(map, &Config::new(), storage.leak())?);

    let huge = FRAMES.alloc_order(Order::new(9).ok_or("no such order")?, Gfp::HIGHUSER_MOVABLE)?;
    let page = FRAMES.alloc(Gfp::KERNEL)?;
    println!("{huge:?}\n{page:?}");
    FRAMES.zones().for_each(|zone| print!("{}", zone.buddyinfo()));

    let raw = page.into_raw();
    let (pfn, order) = (raw.pfn, raw.order);
    // SAFETY: the page is ours, and unused; the second free of it is refused.
    let twice = unsafe { (FRAMES.free(pfn, order), FRAMES.free(pfn, order)) };
    assert_eq!(twice, (Ok(()), Err(FreeError::OnList))); // it waits on this CPU's list
    drop(huge);
    println!("{}", FRAMES.stats());
    assert_eq!(FRAMES.stats().free, FRAMES.stats().managed);
    Ok(())
}
