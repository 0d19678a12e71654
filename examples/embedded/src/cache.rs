//! A page cache that gives its pages up when memory runs out: frames with data that could be read again.

use pageblock::{Gfp, NodeId, Order, Pfn, PfnRange, PhysAddr, ZoneKind};
use pageblock_frame::reclaim::Shrink;
use pageblock_frame::{DescFlags, Descriptor};
use pageblock_lru::{Lru, LruList};
use pageblock_reclaim::{Area, AreaSpan, PageOwner, ShrinkConfig, Shrinker, Victim};

use crate::{FRAMES, Machine, RAM_FRAMES};

/// A descriptor for each frame there is.
static TABLE: [Descriptor; RAM_FRAMES] = [const { Descriptor::new() }; RAM_FRAMES];
static LISTS: Lru<'static> = Lru::new(Pfn::new(0), &TABLE);
const DMA_END: Pfn = PhysAddr::new(16 << 20).pfn_floor();
static ZONES: [AreaSpan; 2] = [
    AreaSpan { kind: ZoneKind::Dma, frames: PfnRange::new(Pfn::new(0), DMA_END) },
    AreaSpan { kind: ZoneKind::Dma32, frames: PfnRange::new(DMA_END, Pfn::new(RAM_FRAMES as u64)) },
];
static AREAS: [Area<'static, 'static>; 1] = [Area::new(NodeId::new(0), &LISTS, &ZONES)];

/// The reclaimer that the platform names.
pub(crate) static RECLAIMER: Shrinker<'static, 'static, Cache, Machine> =
    Shrinker::new(&AREAS, Cache, ShrinkConfig::linux_6_1());

/// The owner of the pages. A real one would find them by file and offset.
pub(crate) struct Cache;

impl PageOwner for Cache {
    fn look(&self, _: &mut [Victim<'_, '_>]) {} // nobody maps them

    fn give_up(&self, pages: &mut [Victim<'_, '_>], _: &Shrink) {
        for page in pages {
            if let Some(desc) = LISTS.page(page.pfn()) {
                desc.put(); // the cache's own reference
                page.evict();
            }
        }
    }

    fn free(&self, blocks: &[(Pfn, Order)]) {
        for (pfn, order) in blocks {
            // SAFETY: the last reference to the page was just given back.
            let freed = unsafe { FRAMES.free(*pfn, *order) };
            debug_assert!(freed.is_ok());
        }
    }
}

/// Puts new pages into the cache; how many fitted.
pub(crate) fn fill(pages: usize) -> usize {
    (0..pages).map_while(|_| FRAMES.alloc(Gfp::HIGHUSER_MOVABLE).ok()).map(|frames| add(frames.into_raw().pfn)).count()
}

fn add(pfn: Pfn) {
    if let Some(desc) = LISTS.page(pfn) {
        desc.store_refs(1);
        desc.store_flags(DescFlags::FILE);
        LISTS.add(pfn);
    }
}

/// Pages in the cache.
pub(crate) fn pages() -> u64 {
    LISTS.frames(LruList::InactiveFile) + LISTS.frames(LruList::ActiveFile)
}
