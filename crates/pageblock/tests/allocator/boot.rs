//! Initialisation: what it makes of a map, and every way in which it fails.

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use pageblock::{
    AddError, AllocError, BoostRule, Config, ConfigError, Experiment, FreeError, Gfp, InitError, NodeId, Order,
    PageAllocator, Pfn, Platform, Region, RegionKind, ZoneKind, ZoneLimits,
};
use pageblock_memmap::{RegionError, ZoneLimitError};
use pageblock_testkit::host::Quiet;
use pageblock_testkit::maps::{self, MAPS, OUT_OF_REACH};

use crate::machine::{ALL_OF_IT, GIB, MIB, Machine, boot, boot_on, exhaust, free_all, memory, order, zone};

fn storage(bytes: usize) -> &'static mut [MaybeUninit<u8>] {
    vec![MaybeUninit::uninit(); bytes].leak()
}

fn error(regions: &[Region], config: &Config) -> InitError {
    boot_on::<Machine>(regions, config).unwrap_err()
}

#[test]
fn nothing_works_before_init() {
    let frames = PageAllocator::<Machine>::new();
    assert_eq!(frames.alloc(Gfp::KERNEL).unwrap_err(), AllocError::NotInitialised);
    assert_eq!(frames.alloc_exact(3, Gfp::KERNEL).unwrap_err(), AllocError::NotInitialised);
    assert_eq!(frames.alloc_at(Pfn::new(0), Order::ZERO).unwrap_err(), AllocError::NotInitialised);
    assert_eq!(frames.alloc_bulk(Gfp::KERNEL, &mut [Pfn::new(0)]), Err(AllocError::NotInitialised));
    // SAFETY: there is nothing that could be freed or added.
    unsafe {
        assert_eq!(frames.free(Pfn::new(0), Order::ZERO), Err(FreeError::OutOfRange));
        assert_eq!(frames.add_memory(memory(MIB)[0]), Err(AddError::NotInitialised));
    }
    assert!(frames.zones().len() == 0 && frames.zone_of(Pfn::new(0)).is_none() && frames.boot_report().is_none());
    assert_eq!(frames.buddyinfo().to_string(), "");
}

#[test]
fn a_second_init_is_refused_and_changes_nothing() {
    let frames = PageAllocator::<Machine>::new();
    let first = frames.init_simulated(memory(64 * MIB), &Config::new(), storage(1 << 20)).unwrap();
    let held = frames.alloc(Gfp::KERNEL).unwrap();
    let again = frames.init_simulated(memory(32 * MIB), &Config::new(), storage(1 << 20));
    assert_eq!(again, Err(InitError::AlreadyInitialised));
    assert_eq!(frames.stats().managed, first.managed);
    assert_eq!(frames.stats().free, first.free - 1);
    drop(held);
    frames.check().unwrap();
}

#[test]
fn a_failed_init_can_be_repeated() {
    let frames = PageAllocator::<Machine>::new();
    let failed = frames.init_simulated(memory(64 * MIB), &Config::new(), storage(100));
    let required = PageAllocator::<Machine>::metadata_bytes(memory(64 * MIB), &Config::new()).unwrap();
    assert_eq!(failed, Err(InitError::StorageTooSmall { required, given: 100 }));
    assert!(frames.zones().len() == 0);
    assert!(frames.init_simulated(memory(64 * MIB), &Config::new(), storage(required)).is_ok());
}

#[test]
fn every_bad_value_is_refused_by_name() {
    let plain = Config::new();
    let cases = [
        (plain.cpus(0), ConfigError::Cpus { given: 0 }),
        (plain.cpus(65), ConfigError::Cpus { given: 65 }),
        (plain.max_order(order(8)), ConfigError::MaxOrder { given: order(8) }),
        (plain.watermark_scale_factor(0), ConfigError::WatermarkScaleFactor { given: 0 }),
        (plain.watermark_scale_factor(3001), ConfigError::WatermarkScaleFactor { given: 3001 }),
        (plain.min_free_kbytes(Some(1 << 31)), ConfigError::MinFreeKbytes { given: 1 << 31 }),
        (
            plain.lowmem_reserve_ratio([256, 1 << 31, 32, 0]),
            ConfigError::LowmemReserveRatio { zone: ZoneKind::Dma32, given: 1 << 31 },
        ),
        (
            plain.experiment(Experiment::Boost(BoostRule { factor: 1 << 31, ..BoostRule::new() })),
            ConfigError::WatermarkBoostFactor { given: 1 << 31 },
        ),
        (plain.experiment(Experiment::StallOrder(12)), ConfigError::FragmentStallOrder { given: 12, most: 11 }),
        (Config::linux_4_20(5), ConfigError::Patches { given: 5 }),
        (plain.movable_share(100), ConfigError::MovableShare { given: 100 }),
        (plain.distances(&[10, 20, 20]), ConfigError::Distances),
    ];
    for (config, expected) in cases {
        assert_eq!(error(&memory(64 * MIB), &config), InitError::Config(expected));
    }
    let crossed = ZoneLimits { dma_end: Some(Pfn::new(1 << 21)), ..ZoneLimits::x86_64() };
    assert!(matches!(
        error(&memory(64 * MIB), &plain.zones(crossed)),
        InitError::Config(ConfigError::Zones(ZoneLimitError::Crossed { .. }))
    ));
    let many = (0..40).fold(plain, |config, i| config.reserve(i * MIB..i * MIB + 1));
    assert_eq!(error(&memory(64 * MIB), &many), ConfigError::TooManyReservations { given: 40 }.into());
}

#[test]
fn a_bad_map_is_refused_with_the_region_at_fault() {
    let plain = Config::new();
    assert_eq!(error(&[], &plain), InitError::NoMemory);
    let far = [memory(64 * MIB)[0], Region::from((1 << 44, 1 << 20, true))];
    assert_eq!(error(&far, &plain), RegionError::AboveLimit { index: 1 }.into());
    let node = [memory(64 * MIB)[0].with_node(NodeId::new(99))];
    assert_eq!(error(&node, &plain), RegionError::NodeOutOfRange { index: 0, node: NodeId::new(99) }.into());
    let backwards = std::ops::Range { start: 2 * MIB, end: MIB };
    let reserved = plain.reserve(0..MIB).reserve(backwards);
    assert_eq!(error(&memory(64 * MIB), &reserved), RegionError::InvertedReservation { index: 1 }.into());
    let all = plain.reserve(0..64 * MIB);
    assert_eq!(error(&memory(64 * MIB), &all), InitError::NoMemory);
}

fn regions(map: &maps::Map) -> Vec<Region> {
    let region = |piece: &maps::Piece| Region::from((piece.start, piece.len, piece.kind == maps::Kind::Usable));
    map.pieces.iter().map(region).collect()
}

#[test]
fn every_usable_frame_of_a_nasty_map_is_managed_once() {
    for map in MAPS {
        let usable = maps::usable(map.pieces, 0x15_0000);
        match boot_on::<Machine>(&regions(map), &Config::new()) {
            Ok(frames) => {
                assert_eq!(frames.stats().managed, usable.count_ones() as u64, "{}", map.name);
                for zone in frames.zones() {
                    zone.check().unwrap_or_else(|violation| panic!("{}: {violation}", map.name));
                }
            }
            Err(error) => {
                assert_eq!((error, usable.count_ones()), (InitError::NoMemory, 0), "{}", map.name);
            }
        }
    }
    for map in OUT_OF_REACH {
        match boot_on::<Machine>(&regions(map), &Config::new()) {
            Ok(frames) => frames.check().unwrap(),
            Err(error) => assert!(matches!(error, InitError::Map(_)), "{}: {error}", map.name),
        }
    }
}

#[test]
fn every_frame_of_a_messy_map_can_be_had_once() {
    let map = [
        Region::new(0x1000, 20 * MIB, RegionKind::Usable),
        Region::new(6 * MIB + 5, 7 * MIB - 5, RegionKind::Reserved),
        Region::new(40 * MIB, 40 * MIB + 0x3000, RegionKind::Usable),
        Region::new(30 * MIB, 31 * MIB, RegionKind::Reclaimable),
    ];
    let frames = boot(&map, &ALL_OF_IT.reserve(0x10_0000..0x18_0001).reserve_low(0x2000));
    let managed = frames.stats().managed;
    assert_eq!(managed, (20 << 8) - 2 - 256 - 129 + 3);
    let mut all = exhaust(&frames, Gfp::KERNEL);
    all.sort();
    all.dedup();
    assert_eq!(all.len() as u64, managed);
    let usable = |pfn: u64| {
        (2..20 << 8).contains(&pfn) && !(6 << 8..7 << 8).contains(&pfn) && !(0x100..0x181).contains(&pfn)
            || (40 << 8..(40 << 8) + 3).contains(&pfn)
    };
    assert!(all.iter().all(|pfn| usable(pfn.as_u64())));
    assert_eq!(frames.stats().free, 0);
    free_all(&frames, all);
    frames.check().unwrap();
    assert_eq!(frames.stats().free, managed);
}

/// A machine with memory: 32 MiB at physical address 0.
struct WithMemory;

fn ram() -> NonNull<u8> {
    static RAM: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    let address = *RAM.get_or_init(|| vec![0xa5_a5_a5_a5u32; 8 << 20].leak().as_ptr().expose_provenance());
    NonNull::new(std::ptr::with_exposed_provenance_mut(address)).unwrap()
}

// SAFETY: one thread a test, no interrupts; all addresses below 32 MiB are in the leaked vector.
unsafe impl Platform for WithMemory {
    const MAX_CPUS: usize = 2;

    fn phys_to_virt(pa: u64) -> NonNull<u8> {
        assert!(pa < 32 * MIB);
        // SAFETY: inside the vector.
        unsafe { ram().add(pa as usize) }
    }
}

fn contents(pfn: Pfn, frames: u64) -> &'static [u8] {
    // SAFETY: inside the vector, and nobody writes there meanwhile.
    unsafe { std::slice::from_raw_parts(WithMemory::phys_to_virt(pfn.phys()).as_ptr(), (frames * 4096) as usize) }
}

#[test]
fn metadata_is_carved_out_of_the_map_and_frames_are_zeroed() {
    static FRAMES: PageAllocator<WithMemory> = PageAllocator::new();
    // SAFETY: the memory is the leaked vector's, which nobody else uses.
    let stats = unsafe { FRAMES.init(memory(32 * MIB), &Config::new()) }.unwrap();
    let carved = (stats.metadata_bytes as u64) / 4096;
    assert_eq!(stats.present, 8192);
    assert_eq!(stats.managed + carved, 8192, "each frame is either managed or holds metadata");
    assert!(stats.metadata_bytes as u64 <= 8192 * 3 / 2 + 3 * 4096, "{stats}");

    let dirty = FRAMES.alloc_order(order(2), Gfp::KERNEL).unwrap();
    assert!(contents(dirty.pfn(), 4).iter().all(|byte| *byte == 0xa5), "content is not touched unasked");
    let zeroed = FRAMES.alloc_order(order(2), Gfp::KERNEL | Gfp::ZERO).unwrap();
    assert!(contents(zeroed.pfn(), 4).iter().all(|byte| *byte == 0));
    let beside = if zeroed.pfn() == dirty.pfn().add(4) { zeroed.pfn().add(4) } else { dirty.pfn() };
    assert!(contents(beside, 1).iter().all(|byte| *byte == 0xa5), "and no more than what was asked for");
    drop((dirty, zeroed));
    FRAMES.check().unwrap();
    assert_eq!(FRAMES.stats().free, stats.managed);
}

#[test]
fn metadata_that_fits_nowhere_is_an_error() {
    let frames = PageAllocator::<WithMemory>::new();
    let crumbs: Vec<Region> = (0..64).map(|i| Region::from((i * 0x10_0000, 0x1000, true))).collect();
    // SAFETY: nothing is touched: no run of one frame can hold the metadata.
    let failed = unsafe { frames.init(crumbs.iter().copied(), &Config::new()) };
    let required = PageAllocator::<WithMemory>::metadata_bytes(crumbs, &Config::new()).unwrap();
    assert_eq!(failed, Err(InitError::MetadataWontFit { required }));
}

#[test]
fn memory_can_be_added_inside_the_zones() {
    let map = [
        Region::new(0u64, 64 * MIB, RegionKind::Usable),
        Region::new(20 * MIB, 24 * MIB, RegionKind::Reclaimable),
        Region::new(15 * MIB, 17 * MIB, RegionKind::Reclaimable),
    ];
    let frames = boot(&map, &Config::new());
    let before = frames.stats();
    let marks = zone(&frames, 0, ZoneKind::Dma32).watermarks();
    let add = |start: u64, end: u64| {
        // SAFETY: hosted frames have nothing behind them.
        unsafe { frames.add_memory(Region::new(start, end, RegionKind::Usable)) }
    };
    assert_eq!(add(20 * MIB + 1, 20 * MIB + 4096), Err(AddError::Empty));
    assert!(matches!(add(63 * MIB, 65 * MIB), Err(AddError::OutsideZones(_))));
    assert_eq!(add(19 * MIB, 24 * MIB), Err(AddError::Overlap(Pfn::new(19 << 8))));
    assert_eq!(frames.stats(), before);
    assert_eq!(add(20 * MIB, 24 * MIB), Ok(1024));
    assert_eq!(add(15 * MIB, 17 * MIB), Ok(512), "across the border of two zones");
    assert_eq!(add(20 * MIB, 24 * MIB), Err(AddError::Overlap(Pfn::new(20 << 8))));
    let after = frames.stats();
    assert_eq!((after.managed, after.free), (before.managed + 1536, before.free + 1536));
    assert_eq!(after.present, before.present);
    assert!(zone(&frames, 0, ZoneKind::Dma32).watermarks().min > marks.min);
    frames.check().unwrap();
}

/// A region's frames may be another node's, where the spans of nodes interleave.
#[test]
fn memory_of_another_node_is_not_added() {
    let node =
        |number: u64| Region::from((number * 64 * MIB, 64 * MIB, true)).with_node(NodeId::new((number % 2) as u8));
    let frames = boot(&[0, 1, 2, 3].map(node), &Config::new().zones(ZoneLimits::single()));
    let before = frames.stats();
    // SAFETY: hosted frames have nothing behind them.
    let added = unsafe { frames.add_memory(Region::new(64 * MIB, 128 * MIB, RegionKind::Usable)) };
    assert_eq!(added, Err(AddError::Overlap(Pfn::new(64 << 8))), "node 1 has it, inside node 0's span");
    assert_eq!(frames.stats(), before);
    frames.check().unwrap();
}

#[test]
fn a_large_machine_needs_little_metadata() {
    let map = [Region::from((0, 3 * GIB, true)), Region::from((4 * GIB, 61 * GIB, true))];
    let bytes = PageAllocator::<Quiet>::metadata_bytes(map, &Config::new()).unwrap();
    let frames = (64 * GIB) >> 12;
    assert!(bytes as u64 * 2 <= frames * 3, "{bytes} bytes for {frames} frames");
}
