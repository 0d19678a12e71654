//! Allocators over storage of their own, on hosted machines.

use std::ops::Deref;

use pageblock::{Config, Gfp, InitError, Order, PageAllocator, Pfn, Region, Stats, Zone, ZoneKind};
use pageblock_testkit::{host::Stored, owners::Owned};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;

/// The platform of most tests: it counts saved interrupt states, records events, and has the owners that a test
/// installs. One type for all, because each platform is another copy of the allocator to compile.
pub(crate) type Machine = Owned<1>;

/// An allocator and what it lives in.
#[derive(Debug)]
pub(crate) struct Booted<P: pageblock::Platform = Machine>(Stored<PageAllocator<P>>);

impl<P: pageblock::Platform> Deref for Booted<P> {
    type Target = PageAllocator<P>;

    fn deref(&self) -> &PageAllocator<P> {
        &self.0
    }
}

/// Boots a machine with this map.
pub(crate) fn boot_on<P: pageblock::Platform>(regions: &[Region], config: &Config) -> Result<Booted<P>, InitError> {
    let bytes = PageAllocator::<P>::metadata_bytes(regions.iter().copied(), config)?;
    let mut result = Err(InitError::NoMemory);
    // SAFETY: nothing of the allocator is kept longer than it.
    let stored = unsafe {
        Stored::new(bytes, |raw| {
            let allocator = PageAllocator::new();
            result = allocator.init_simulated(regions.iter().copied(), config, raw);
            allocator
        })
    };
    result.map(|_: Stats| Booted(stored))
}

pub(crate) fn boot(regions: &[Region], config: &Config) -> Booted {
    boot_on(regions, config).unwrap()
}

/// Memory from address 0.
pub(crate) fn memory(bytes: u64) -> [Region; 1] {
    [Region::from((0, bytes, true))]
}

/// No watermarks but what the scale factor makes of low, no lowmem reserves: everything can be used up.
pub(crate) const ALL_OF_IT: Config = Config::new().min_free_kbytes(Some(0)).lowmem_reserve_ratio([0; 4]);

pub(crate) fn order(log2: u8) -> Order {
    Order::new(log2).unwrap()
}

pub(crate) fn zone<P: pageblock::Platform>(
    allocator: &PageAllocator<P>,
    node: usize,
    kind: ZoneKind,
) -> &'static Zone<'static> {
    // SAFETY: tests look at zones and set their watermarks; they free through the allocator.
    let zones = unsafe { allocator.raw_zones() };
    zones.iter().find(|zone| zone.node().index() == node && zone.kind() == kind).unwrap()
}

/// Allocates single frames until there are no more.
pub(crate) fn exhaust<P: pageblock::Platform>(allocator: &PageAllocator<P>, gfp: Gfp) -> Vec<Pfn> {
    std::iter::from_fn(|| allocator.alloc(gfp).ok().map(|frames| frames.into_raw().pfn)).collect()
}

/// Frees single frames.
pub(crate) fn free_all<P: pageblock::Platform>(allocator: &PageAllocator<P>, pfns: Vec<Pfn>) {
    for pfn in pfns {
        // SAFETY: hosted frames have nothing behind them.
        unsafe { allocator.free(pfn, Order::ZERO) }.unwrap();
    }
}
