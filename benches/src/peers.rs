//! Allocators of others that need more of an adapter, and the check that all of them pass before they are measured.

use core::num::NonZeroUsize;
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::collections::HashMap;

use buddy_slab_allocator::BuddyAllocator;
use frame_alloc::{PageSize, PhysRange, PhysicalAllocator, RegionedAllocator, SummaryBuddyAllocator};
use pageblock_testkit::conformance::peers::Exposed;

use crate::Frames;
use crate::machine::become_cpu;
use crate::two::ThreadCpu;

const PAGE: usize = 4096;
const BASE: PageSize = PageSize::from_log2(12);

/// Zeroed bytes that stay for ever, aligned to the largest block.
#[expect(unsafe_code, reason = "peers keep their metadata in the memory that they manage")]
fn memory(bytes: usize) -> &'static mut [u8] {
    // Aligned by hand: zeroed memory without large alignment comes untouched from the system.
    let align = PAGE << 10;
    let Ok(layout) = Layout::from_size_align(bytes + align, 16) else { panic!("{bytes} bytes are too many") };
    // SAFETY: the size is not 0.
    let start = unsafe { alloc_zeroed(layout) };
    if start.is_null() {
        handle_alloc_error(layout);
    }
    let offset = start.align_offset(align);
    start.expose_provenance();
    // SAFETY: `bytes` bytes from there on are inside the allocation, initialised, and never freed.
    unsafe { core::slice::from_raw_parts_mut(start.add(offset), bytes) }
}

/// `frame-alloc`'s regions: one core for each CPU, the next one's when its own is empty.
pub struct Regioned<const REGIONS: usize>(RegionedAllocator<REGIONS, SummaryBuddyAllocator<11, Exposed>, ThreadCpu>);

impl<const REGIONS: usize> core::fmt::Debug for Regioned<REGIONS> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("frame-alloc regioned")
    }
}

impl<const REGIONS: usize> Frames for Regioned<REGIONS> {
    #[expect(unsafe_code, reason = "the peer's seam")]
    fn new(frames: u64) -> Self {
        let allocator = RegionedAllocator::new(BASE, [const { SummaryBuddyAllocator::new(BASE) }; REGIONS]);
        let memory = memory(frames as usize * PAGE);
        let part = memory.len() / REGIONS;
        for (index, part) in memory.chunks_mut(part).enumerate() {
            let range = PhysRange { base: part.as_mut_ptr().expose_provenance(), len: part.len() };
            // SAFETY: the memory is this allocator's alone, for ever.
            unsafe { allocator.init_at(index, range.base, range.len, &[range]) };
        }
        Self(allocator)
    }

    #[inline(always)]
    fn alloc(&mut self, order: u8) -> Option<u64> {
        let frames = NonZeroUsize::new(1 << order)?;
        self.0.allocate_physical(BASE, frames).ok().map(|phys| phys as u64)
    }

    #[inline(always)]
    #[expect(unsafe_code, reason = "the peer's seam")]
    fn free(&mut self, block: u64, order: u8) {
        let Some(frames) = NonZeroUsize::new(1 << order) else { return };
        // SAFETY: the block was allocated with this size, and is used by nothing.
        unsafe { self.0.deallocate_physical(BASE, frames, block as usize) };
    }
}

/// The page allocator of `buddy-slab-allocator`. It has no lock.
pub struct BuddySlab(BuddyAllocator<PAGE>);

impl core::fmt::Debug for BuddySlab {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("buddy-slab-allocator")
    }
}

/// Platform of `buddy-slab-allocator`.
struct Identity;

#[ax_crate_interface::impl_interface]
impl buddy_slab_allocator::interface::BuddySlabIf for Identity {
    fn virt_to_phys(vaddr: usize) -> usize {
        vaddr
    }

    fn slab_pool() -> &'static dyn buddy_slab_allocator::SlabPoolTrait {
        unreachable!("only pages are allocated")
    }
}

impl Frames for BuddySlab {
    #[expect(unsafe_code, reason = "the peer's seam")]
    fn new(frames: u64) -> Self {
        let bytes = frames as usize * PAGE;
        // Its metadata precede its frames, which shall be all of the pool and aligned.
        let metadata = BuddyAllocator::<PAGE>::required_meta_size(bytes) + PAGE;
        let room = metadata.next_multiple_of(PAGE << 10);
        let memory = memory(room + bytes);
        let mut allocator = BuddyAllocator::new();
        let Some(region) = memory.get_mut(room - metadata..) else { panic!("{frames} frames") };
        // SAFETY: the memory is this allocator's alone, for ever.
        if let Err(error) = unsafe { allocator.init(region) } {
            panic!("{frames} frames: {error:?}");
        }
        Self(allocator)
    }

    #[inline(always)]
    fn alloc(&mut self, order: u8) -> Option<u64> {
        self.0.alloc_pages(1 << order, PAGE << order).ok().map(|address| address as u64)
    }

    #[inline(always)]
    fn free(&mut self, block: u64, order: u8) {
        self.0.dealloc_pages(block as usize, 1 << order);
    }
}

/// Allocates blocks of all orders until none is left, on two CPUs in turn: no frame twice, every block aligned to its
/// size, and all frames can be had again when all were freed. `unit` is the allocator's unit: frames or bytes.
/// Returns how many frames it gave.
///
/// # Panics
/// If it is otherwise.
pub fn check<A: Frames>(frames: u64, unit: u64) -> u64 {
    let mut allocator = A::new(frames);
    let mut given = [0, 0];
    for given in &mut given {
        let mut owners: HashMap<u64, u8> = HashMap::new();
        let mut blocks = Vec::new();
        let mut order = 9_u8;
        for turn in 0_u32.. {
            become_cpu(turn / 16 % 2);
            match allocator.alloc(order) {
                Some(block) => {
                    assert!(block.is_multiple_of(unit << order), "{block:#x} of order {order} is not aligned");
                    for frame in 0..1 << order {
                        assert_eq!(owners.insert(block / unit + frame, order), None, "{block:#x} was given twice");
                    }
                    blocks.push((block, order));
                    order = if blocks.len().is_multiple_of(3) { (blocks.len() % 10) as u8 } else { 0 };
                }
                None if order == 0 => break,
                None => order -= 1,
            }
        }
        *given = owners.len() as u64;
        for (turn, (block, order)) in blocks.into_iter().enumerate() {
            become_cpu((turn / 16 % 2) as u32);
            allocator.free(block, order);
        }
    }
    become_cpu(0);
    assert!(given[1] * 64 >= given[0] * 63, "of {} frames {} came back", given[0], given[1]);
    given[0]
}
