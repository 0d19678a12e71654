//! Which zone serves: address limits, watermarks, lowmem reserves, nodes.

use pageblock::{AllocError, Config, CpuId, Gfp, NodeId, Order, Pfn, Platform, Region, ZoneKind, ZoneLimits};
use pageblock_testkit::host::Host;

use crate::machine::{ALL_OF_IT, GIB, MIB, boot, boot_on, exhaust, free_all, memory, order, zone};

const DMA_END: Pfn = Pfn::new(16 << 8);
const DMA32_END: Pfn = Pfn::new(4 << 18);

/// 64 MiB below 4 GiB, of them 16 for DMA, and 64 MiB above.
fn three_zones() -> [Region; 2] {
    [memory(64 * MIB)[0], Region::from((4 * GIB, 64 * MIB, true))]
}

#[test]
fn requests_stay_below_their_limit() {
    let frames = boot(&three_zones(), &ALL_OF_IT);
    let dma = exhaust(&frames, Gfp::KERNEL | Gfp::DMA);
    assert_eq!(dma.len(), 16 << 8);
    assert!(dma.iter().all(|pfn| *pfn < DMA_END));
    assert_eq!(frames.alloc(Gfp::KERNEL | Gfp::DMA).unwrap_err(), AllocError::OutOfMemory);
    let dma32 = exhaust(&frames, Gfp::KERNEL | Gfp::DMA32);
    assert_eq!(dma32.len(), 48 << 8);
    assert!(dma32.iter().all(|pfn| (DMA_END..DMA32_END).contains(pfn)));
    free_all(&frames, dma);
    let again = exhaust(&frames, Gfp::KERNEL | Gfp::DMA32);
    assert_eq!(again.len(), 16 << 8, "DMA32 falls back on DMA");
    let normal = exhaust(&frames, Gfp::KERNEL);
    assert!(normal.len() == 64 << 8 && normal.iter().all(|pfn| *pfn >= DMA32_END));
    frames.check().unwrap();
}

#[test]
fn zones_are_used_from_the_highest_down() {
    let frames = boot(&three_zones(), &ALL_OF_IT);
    let order_of_use: Vec<ZoneKind> =
        exhaust(&frames, Gfp::KERNEL).into_iter().map(|pfn| frames.zone_of(pfn).unwrap().kind()).collect();
    let mut kinds = order_of_use.clone();
    kinds.dedup();
    // The first pass stops at each zone's low watermark, the second uses the rest.
    assert_eq!(kinds[..3], [ZoneKind::Normal, ZoneKind::Dma32, ZoneKind::Dma]);
    assert_eq!(order_of_use.len() as u64, frames.stats().managed);
}

#[test]
fn movable_memory_serves_movable_requests_only() {
    let limits = ZoneLimits::single();
    let frames = boot(&memory(64 * MIB), &ALL_OF_IT.zones(limits).movable_share(25));
    assert_eq!(zone(&frames, 0, ZoneKind::Movable).managed(), 16 << 8);
    let unmovable = exhaust(&frames, Gfp::KERNEL);
    assert_eq!(unmovable.len(), 48 << 8);
    let movable = exhaust(&frames, Gfp::HIGHUSER_MOVABLE);
    assert_eq!(movable.len(), 16 << 8);
    free_all(&frames, unmovable);
    assert!(frames.alloc(Gfp::HIGHUSER_MOVABLE).unwrap().pfn() < Pfn::new(48 << 8), "and may go elsewhere");
}

#[test]
fn watermarks_hold_ordinary_requests_back() {
    let config = Config::new().zones(ZoneLimits::single()).min_free_kbytes(Some(4096));
    let frames = boot(&memory(64 * MIB), &config);
    let marks = zone(&frames, 0, ZoneKind::Normal).watermarks();
    assert_eq!((marks.min, marks.low, marks.high), (1024, 1280, 1536));
    let mut held = exhaust(&frames, Gfp::KERNEL);
    assert_eq!(frames.stats().free, 1024, "<= min fails");
    held.extend(exhaust(&frames, Gfp::NOWAIT));
    assert_eq!(frames.stats().free, 1024, "who cannot wait has no reserve by that alone");
    held.extend(exhaust(&frames, Gfp::KERNEL | Gfp::HIGH));
    assert_eq!(frames.stats().free, 512);
    held.extend(exhaust(&frames, Gfp::ATOMIC));
    assert_eq!(frames.stats().free, 384);
    held.extend(exhaust(&frames, Gfp::KERNEL | Gfp::MEMALLOC));
    assert_eq!(frames.stats().free, 0);
    assert_eq!(frames.alloc(Gfp::KERNEL | Gfp::NOFAIL).unwrap_err(), AllocError::OutOfMemory);
    free_all(&frames, held);
    frames.check().unwrap();
    assert_eq!(frames.stats().free, frames.stats().managed);
}

#[test]
fn lower_zones_keep_frames_for_those_who_need_them() {
    let config = Config::new().min_free_kbytes(Some(0)).lowmem_reserve_ratio([16, 32, 32, 0]);
    let frames = boot(&three_zones(), &config);
    let (dma, dma32) = (zone(&frames, 0, ZoneKind::Dma), zone(&frames, 0, ZoneKind::Dma32));
    assert_eq!(dma.lowmem_reserve(), [0, (48 << 8) / 16, (112 << 8) / 16, (112 << 8) / 16]);
    assert_eq!(dma32.lowmem_reserve(), [0, 0, (64 << 8) / 32, (64 << 8) / 32]);
    let _ordinary = exhaust(&frames, Gfp::KERNEL);
    assert_eq!(dma.free_frames(), dma.lowmem_reserve()[2]);
    assert_eq!(dma32.free_frames(), dma32.lowmem_reserve()[2]);
    let _limited = exhaust(&frames, Gfp::KERNEL | Gfp::DMA32);
    assert_eq!((dma.free_frames(), dma32.free_frames()), (dma.lowmem_reserve()[1], 0));
    let _dma = exhaust(&frames, Gfp::KERNEL | Gfp::DMA);
    assert_eq!(dma.free_frames(), 0);
}

/// CPUs 0 and 1 are on node 0, the others on node 1.
struct TwoNodes;

// SAFETY: as the hosted machine that it hands everything to; `node_of` is a constant function.
unsafe impl Platform for TwoNodes {
    const MAX_CPUS: usize = 4;
    const HAS_MEMORY: bool = false;

    fn phys_to_virt(pa: u64) -> std::ptr::NonNull<u8> {
        Host::<3>::phys_to_virt(pa)
    }

    fn node_of(cpu: CpuId) -> NodeId {
        NodeId::new(u8::from(cpu.index() >= 2))
    }

    fn pin() -> CpuId {
        Host::<3>::pin()
    }

    unsafe fn unpin() {
        // SAFETY: the caller's promise is passed on.
        unsafe { Host::<3>::unpin() };
    }
}

fn two_nodes() -> [Region; 3] {
    let [low, high] = three_zones();
    [low, high, Region::from((8 * GIB, 32 * MIB, true)).with_node(NodeId::new(1))]
}

#[test]
fn the_local_node_serves_first_and_then_the_next() {
    let frames = boot_on::<TwoNodes>(&two_nodes(), &ALL_OF_IT.per_cpu_lists(None)).unwrap();
    let place = |gfp: Gfp, cpu: u32| {
        let frame = Host::<3>::on_cpu(cpu, || frames.alloc(gfp).map(|frame| frame.pfn())).unwrap().unwrap();
        let zone = frames.zone_of(frame).unwrap();
        (zone.node().index(), zone.kind())
    };
    assert_eq!(place(Gfp::KERNEL, 0), (0, ZoneKind::Normal));
    assert_eq!(place(Gfp::KERNEL, 3), (1, ZoneKind::Normal));
    assert_eq!(place(Gfp::KERNEL | Gfp::DMA, 3), (0, ZoneKind::Dma), "only node 0 has DMA");
    let (_all_of_1, used) = Host::<3>::on_cpu(2, || {
        let all = exhaust(&frames, Gfp::KERNEL | Gfp::THISNODE);
        (all.len(), place(Gfp::KERNEL, 2))
    })
    .map(|(all, used)| {
        assert_eq!(all, 32 << 8);
        (all, used)
    })
    .unwrap();
    assert_eq!(used, (0, ZoneKind::Normal), "node 1 is full");
}

#[test]
fn a_named_node_is_preferred_or_insisted_on() {
    let frames = boot_on::<TwoNodes>(&two_nodes(), &ALL_OF_IT).unwrap();
    let one = NodeId::new(1);
    let block = frames.alloc_on(one, order(5), Gfp::KERNEL).unwrap();
    assert_eq!(frames.zone_of(block.pfn()).unwrap().node(), one);
    let dma = Gfp::KERNEL | Gfp::DMA;
    assert!(frames.alloc_on(one, Order::ZERO, dma).is_ok());
    assert_eq!(frames.alloc_on(one, Order::ZERO, dma | Gfp::THISNODE).unwrap_err(), AllocError::OutOfMemory);
}

#[test]
fn interleaved_nodes_keep_their_frames_apart() {
    let piece = |i: u64| Region::from((i * 16 * MIB, 16 * MIB, true)).with_node(NodeId::new((i % 2) as u8));
    let map: Vec<Region> = (0..6).map(piece).collect();
    let frames = boot_on::<TwoNodes>(&map, &ALL_OF_IT.zones(ZoneLimits::single())).unwrap();
    assert_eq!(frames.zones().len(), 2);
    assert!(frames.zones().all(|zone| zone.managed() == 48 << 8));
    let all = exhaust(&frames, Gfp::KERNEL);
    assert_eq!(all.len(), 96 << 8);
    for pfn in &all {
        assert_eq!(frames.zone_of(*pfn).unwrap().node().index() as u64, pfn.as_u64() / (16 << 8) % 2);
    }
    free_all(&frames, all);
    frames.check().unwrap();
    assert_eq!((frames.stats().free, frames.stats().bad_frees), (96 << 8, 0));
}

#[test]
fn what_is_broken_in_a_zone_is_told_by_its_view_and_by_the_allocator() {
    let frames = boot(&memory(16 * MIB), &Config::new());
    let zone = zone(&frames, 0, ZoneKind::Dma);
    let held = frames.alloc(Gfp::KERNEL | Gfp::DMA).unwrap();
    let index = zone.index_of(held.pfn()).unwrap();
    // SAFETY: the byte is written back below, and nothing is allocated or freed in between.
    let states = unsafe { zone.state_table() };
    let state = states.get(index);
    states.set(index, pageblock_frame::StateByte::INSIDE);
    assert!(frames.zone_of(held.pfn()).unwrap().check().is_err() && frames.check().is_err());
    states.set(index, state);
    frames.check().unwrap();
}

#[test]
fn the_largest_order_is_a_pageblock_at_least() {
    let with = |order| Config::new().max_order(order).check().is_ok();
    assert!(with(pageblock::PAGEBLOCK_ORDER) && !with(order(8)));
}
