//! The smallest program around the allocator: no standard library, no heap, no start files. It runs on x86_64 Linux
//! only so that it can be run at all: its one call to the system is to exit.
//!
//! It uses the allocator as a kernel does, down to a page cache that gives pages up, and exits with 0, or with
//! the number of the first step that went wrong. Built with `--release` it must contain no panic; the test `link` of
//! the facade looks for one.

#![no_std]
#![no_main]

mod cache;
mod system;

use core::cell::UnsafeCell;
use core::ptr::NonNull;

use pageblock::{AllocError, Config, FreeError, Gfp, InitError, NodeId, Order, PageAllocator, Pfn, Platform, Region};
use pageblock_frame::Hooks;
use pageblock_frame::reclaim::Reclaim;

const RAM_BYTES: u64 = 32 << 20;
const RAM_FRAMES: usize = RAM_BYTES as usize >> 12;

/// This machine's memory, from physical address 0.
#[repr(align(4096))]
struct Ram(UnsafeCell<[u8; RAM_BYTES as usize]>);

// SAFETY: there is one thread.
unsafe impl Sync for Ram {}

static RAM: Ram = Ram(UnsafeCell::new([0; RAM_BYTES as usize]));

struct Machine;

// SAFETY: one CPU, no interrupts; every address that the memory map names is in `RAM`, for ever.
unsafe impl Platform for Machine {
    const MAX_CPUS: usize = 1;

    fn phys_to_virt(pa: u64) -> NonNull<u8> {
        NonNull::new(RAM.0.get().cast::<u8>().wrapping_add(pa as usize)).unwrap_or(NonNull::dangling())
    }

    fn hooks() -> impl Hooks {
        Self
    }
}

impl Hooks for Machine {
    fn reclaimer(&self) -> Option<&'static (dyn Reclaim + Sync)> {
        Some(&cache::RECLAIMER)
    }
}

static FRAMES: PageAllocator<Machine> = PageAllocator::new();

/// Step `number` went wrong unless this is so.
fn expect(is_so: bool, number: i32) -> Result<(), i32> {
    if is_so { Ok(()) } else { Err(number) }
}

fn boot() -> Result<u64, i32> {
    let map = [Region::from((0, RAM_BYTES, true)), Region::from((0x9_fc00, 0x400, false))];
    let config = Config::new().reserve(0x10_0000..0x20_0000).reserve_low(0x1000);
    // SAFETY: the map describes `RAM`, which is otherwise unused.
    let stats = unsafe { FRAMES.init(map, &config) }.map_err(|_| 1)?;
    // SAFETY: as above; it is refused anyway.
    let again = unsafe { FRAMES.init(map, &config) };
    expect(matches!(again, Err(InitError::AlreadyInitialised)), 2)?;
    Ok(stats.free)
}

fn work() -> Result<(), AllocError> {
    let page_table = FRAMES.alloc(Gfp::KERNEL | Gfp::ZERO)?;
    let ring = FRAMES.alloc_order(Order::saturating(4), Gfp::KERNEL | Gfp::DMA)?;
    let huge = FRAMES.alloc_order(Order::saturating(9), Gfp::USER | Gfp::MOVABLE)?;
    let exact = FRAMES.alloc_exact(700, Gfp::KERNEL)?;
    let there = FRAMES.alloc_at(Pfn::new(0x1800), Order::saturating(3))?;
    let here = FRAMES.alloc_on(NodeId::new(0), Order::ZERO, Gfp::ATOMIC)?;
    drop((page_table, ring, exact, there, here));
    if let Ok(parts) = huge.split(Order::ZERO) {
        parts.for_each(drop);
    }
    Ok(())
}

/// Takes all there is; the cache is given up for it, in part by the background thread.
fn use_up() -> Result<(), i32> {
    expect(cache::fill(4000) == 4000 && cache::pages() == 4000, 20)?;
    let mut batch = [Pfn::new(0); 64];
    let mut taken = 0;
    while let Ok(got) = FRAMES.alloc_bulk(Gfp::KERNEL, &mut batch) {
        taken += got;
        for _ in 0..8 {
            FRAMES.reclaim().step(NodeId::new(0));
        }
    }
    expect(taken > 6000, 21)?;
    expect(cache::pages() == 0, 22)?;
    expect(matches!(FRAMES.alloc(Gfp::KERNEL), Err(AllocError::OutOfMemory)), 23)
}

fn wrong_frees() -> Result<(), i32> {
    let raw = FRAMES.alloc(Gfp::KERNEL).map_err(|_| 10)?.into_raw();
    let (pfn, order) = (raw.pfn, raw.order);
    // SAFETY: the frame is ours, and the wrong frees are refused.
    unsafe {
        expect(FRAMES.free(pfn, Order::saturating(1)) == Err(FreeError::OrderMismatch { allocated: order }), 11)?;
        expect(FRAMES.free(pfn, order) == Ok(()), 12)?;
        expect(FRAMES.free(pfn, order) == Err(FreeError::OnList), 13)?;
        expect(FRAMES.free(Pfn::new(1 << 40), order) == Err(FreeError::OutOfRange), 14)?;
        expect(FRAMES.free(Pfn::new(0x180), order) == Err(FreeError::Reserved), 15)?;
    }
    expect(FRAMES.stats().bad_frees == 4, 16)
}

fn run() -> Result<(), i32> {
    let free = boot()?;
    work().map_err(|_| 3)?;
    expect(FRAMES.stats().free == free, 4)?;
    wrong_frees()?;
    expect(FRAMES.stats().free == free, 5)?;
    use_up()
}

/// Where the program begins, on an aligned stack.
#[unsafe(no_mangle)]
extern "C" fn program() -> ! {
    system::exit(run().err().unwrap_or(0))
}
