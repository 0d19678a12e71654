//! ArceOS's traits: memory arrives region by region, by address, and pages are counted.
//!
//! ArceOS calls `init` with the first free region and `add_memory` with the others, at any time. pageblock wants to
//! know the span of memory at boot, so this adapter declares all of RAM but the first region as memory that comes
//! later.

use axallocator::{AllocError, AllocResult, BaseAllocator, PageAllocator as PageAllocatorTrait};
use pageblock::{Config, Gfp, Order, PageAllocator, Pfn, PfnRange, Platform, Region};

/// ArceOS's page allocator: addresses are those of the mapping that begins `offset` above physical memory.
#[derive(Debug)]
pub struct Pages<P: Platform> {
    frames: &'static PageAllocator<P>,
    /// All memory that may come, by physical address.
    ram: core::ops::Range<u64>,
    /// Address of physical address 0 in the mapping.
    offset: usize,
}

impl<P: Platform> Pages<P> {
    /// An allocator without memory. `ram` is all that may ever come.
    pub const fn new(frames: &'static PageAllocator<P>, ram: core::ops::Range<u64>, offset: usize) -> Self {
        Self { frames, ram, offset }
    }

    fn phys(&self, address: usize) -> u64 {
        (address - self.offset) as u64
    }

    fn address(&self, pfn: Pfn) -> usize {
        pfn.phys() as usize + self.offset
    }
}

impl<P: Platform> BaseAllocator for Pages<P> {
    fn init(&mut self, start: usize, size: usize) {
        let first = self.phys(start)..self.phys(start) + size as u64;
        let map = [
            Region::later(self.ram.start..first.start),
            Region::usable(first.clone()),
            Region::later(first.end..self.ram.end),
        ];
        // SAFETY: the kernel says that the region is free memory.
        let booted = unsafe { self.frames.init(map, &Config::new()) };
        assert!(booted.is_ok(), "{booted:?}");
    }

    fn add_memory(&mut self, start: usize, size: usize) -> AllocResult {
        let region = Region::usable(self.phys(start)..self.phys(start) + size as u64);
        // SAFETY: the kernel says that the region is free memory.
        match unsafe { self.frames.add_memory(region) } {
            Ok(_) => Ok(()),
            Err(pageblock::AddError::Overlap(_)) => Err(AllocError::MemoryOverlap),
            Err(_) => Err(AllocError::InvalidParam),
        }
    }
}

impl<P: Platform> PageAllocatorTrait for Pages<P> {
    const PAGE_SIZE: usize = 4096;

    fn alloc_pages(&mut self, num_pages: usize, align_pow2: usize) -> AllocResult<usize> {
        let align = Order::fitting((align_pow2 / Self::PAGE_SIZE) as u64).ok_or(AllocError::InvalidParam)?;
        let run = self.frames.request().gfp(Gfp::KERNEL).align(align).contiguous(num_pages as u64);
        Ok(self.address(run.map_err(|_| AllocError::NoMemory)?.into_raw().start))
    }

    fn dealloc_pages(&mut self, pos: usize, num_pages: usize) {
        let range = PfnRange::from_len(pageblock::Pfn::from_phys(self.phys(pos)), num_pages as u64);
        // SAFETY: the caller frees the frames it was given. A refused free is counted in the statistics.
        let _ = unsafe { self.frames.free_range(range) };
    }

    fn alloc_pages_at(&mut self, base: usize, num_pages: usize, align_pow2: usize) -> AllocResult<usize> {
        if !base.is_multiple_of(align_pow2) {
            return Err(AllocError::InvalidParam);
        }
        let first = pageblock::Pfn::from_phys(self.phys(base));
        for taken in 0..num_pages as u64 {
            if let Ok(frame) = self.frames.alloc_at(first.add(taken), Order::ZERO) {
                let _ = frame.into_raw();
            } else {
                self.dealloc_pages(base, taken as usize);
                return Err(AllocError::NoMemory);
            }
        }
        Ok(base)
    }

    fn total_pages(&self) -> usize {
        self.frames.stats().managed as usize
    }

    fn used_pages(&self) -> usize {
        self.total_pages() - self.available_pages()
    }

    fn available_pages(&self) -> usize {
        self.frames.stats().free as usize
    }
}

#[test]
fn regions_come_one_after_the_other() {
    use crate::machine::Machine;
    let _cpu = crate::machine::boot();
    static OWN: PageAllocator<Machine> = PageAllocator::new();
    // A machine of its own in the upper half of memory, which the shared one lends as a block of frames.
    let lent = crate::machine::FRAMES.request().contiguous(8192).unwrap().into_raw();
    let offset = Machine::phys_to_virt(0).as_ptr().expose_provenance();
    let start = lent.start.phys() as usize + offset;
    let mut pages = Pages::new(&OWN, lent.start.phys()..lent.end.phys(), offset);
    pages.init(start, 8 << 20);
    let first = pages.total_pages();
    assert!(first > 1900);
    pages.add_memory(start + (16 << 20), 8 << 20).unwrap();
    assert_eq!(pages.total_pages(), first + 2048);
    assert!(matches!(pages.add_memory(start + (16 << 20), 4096), Err(AllocError::MemoryOverlap)));
    let taken = pages.alloc_pages(5, 0x8000).unwrap();
    assert_eq!((taken - offset) % 0x8000, 0);
    assert!(matches!(pages.alloc_pages_at(taken, 1, 4096), Err(AllocError::NoMemory)));
    pages.dealloc_pages(taken, 5);
    assert!(matches!(pages.alloc_pages_at(taken, 5, 4096), Ok(at) if at == taken));
    pages.dealloc_pages(taken, 5);
    assert_eq!((pages.used_pages(), OWN.stats().bad_frees), (0, 0));
}
