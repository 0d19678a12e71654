//! The allocator, the descriptors and the LRU lists of one machine, in storage that goes away with it.

use pageblock::{Config, InitError, PageAllocator, Region};
use pageblock_frame::{Carver, Descriptor, NodeId, Order, Pfn, PfnRange};
use pageblock_lru::Lru;
use pageblock_reclaim::{Area, AreaSpan};
use pageblock_testkit::host::Stored;

use super::memory::LruScope;
use super::sim::Sim;

/// Content of the storage, or the reason why it could not be built.
pub(super) struct Tables {
    allocator: PageAllocator<Sim>,
    lrus: &'static [Lru<'static>],
    areas: &'static [Area<'static, 'static>],
}

/// The tables and their storage.
pub(super) struct Storage {
    tables: Stored<Option<Tables>>,
}

impl Storage {
    /// Builds them. The table has a descriptor for every frame of the machine's zones.
    pub(super) fn build(regions: &[Region], config: &Config, scope: LruScope) -> Result<Self, InitError> {
        let metadata = PageAllocator::<Sim>::metadata_bytes(regions.iter().copied(), config)?;
        let frames = regions.iter().map(|region| region.end.pfn_ceil().as_u64()).max().unwrap_or(0) as usize;
        let bytes = metadata + (frames + 1) * size_of::<Descriptor>();
        let mut failure = None;
        let build = |storage: &'static mut [core::mem::MaybeUninit<u8>]| {
            let (first, rest) = storage.split_at_mut(metadata);
            let allocator = PageAllocator::new();
            let made = allocator.init_simulated(regions.iter().copied(), config, first);
            failure = made.err();
            let table = &*Carver::new(rest).take::<Descriptor>(frames)?;
            let lrus = spans(&allocator, scope).into_iter().filter_map(|span| {
                let part = table.get(span.start.as_u64() as usize..span.end.as_u64() as usize)?;
                Some(Lru::new(span.start, part))
            });
            // Scanning wants lists that live for ever. A machine leaves these few hundred bytes behind, and never looks
            // at them again.
            let lrus: &'static [Lru<'static>] = Vec::leak(lrus.collect());
            let areas = Vec::leak(lrus.iter().map(|lru| area(&allocator, lru)).collect());
            Some(Tables { allocator, lrus, areas })
        };
        // SAFETY: the borrowers of the storage are the allocator and the lists, and references to zones and descriptors
        // that they give out. `Memory` owns them all, and the crate keeps none of these beyond a use of the `Memory`.
        #[expect(unsafe_code, reason = "a machine and its metadata end together")]
        let tables = unsafe { Stored::new(bytes, build) };
        failure.map_or(Ok(Self { tables }), Err)
    }

    fn tables(&self) -> &Tables {
        match &*self.tables {
            Some(tables) => tables,
            None => unreachable!("the storage has room for a descriptor a frame"),
        }
    }

    pub(super) fn allocator(&self) -> &PageAllocator<Sim> {
        &self.tables().allocator
    }

    pub(super) fn lrus(&self) -> &[Lru<'static>] {
        self.tables().lrus
    }

    pub(super) fn areas(&self) -> &'static [Area<'static, 'static>] {
        self.tables().areas
    }

    /// Frees a block of which no holder remains.
    pub(super) fn give_back(&self, pfn: Pfn, order: Order) {
        // SAFETY: there is no memory behind simulated frames that any code could use, and the owner's table has no
        // holder.
        #[expect(unsafe_code, reason = "the owner's word that a block has no holder")]
        let freed = unsafe { self.allocator().free(pfn, order) };
        assert_eq!(freed, Ok(()), "{pfn}, order {order}: held by nobody and yet not to be freed");
    }
}

/// The frames of each list set.
fn spans(allocator: &PageAllocator<Sim>, scope: LruScope) -> Vec<PfnRange> {
    let mut spans: Vec<(NodeId, PfnRange)> = Vec::new();
    for zone in allocator.zones() {
        match spans.last_mut().filter(|(node, _)| scope == LruScope::Node && *node == zone.node()) {
            Some((_, span)) => {
                *span = PfnRange::new(span.start.min(zone.span().start), span.end.max(zone.span().end));
            }
            None => spans.push((zone.node(), zone.span())),
        }
    }
    spans.into_iter().map(|(_, span)| span).collect()
}

/// Lists as scanning sees them: with the zones that they hold pages of.
fn area(allocator: &PageAllocator<Sim>, lru: &'static Lru<'static>) -> Area<'static, 'static> {
    let covered = allocator.zones().filter(|zone| !zone.span().intersect(lru.span()).is_empty());
    let node = covered.clone().next().map(|zone| zone.node()).unwrap_or_default();
    let zones =
        covered.filter(|zone| zone.node() == node).map(|zone| AreaSpan { kind: zone.kind(), frames: zone.span() });
    Area::new(node, lru, Vec::leak(zones.collect()))
}
