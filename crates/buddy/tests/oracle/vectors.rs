//! Worked vectors: figures that Linux's formulas give for machines that exist, and what they mean for a live zone.

use pageblock_buddy::{
    LOWMEM_RESERVE_RATIO, WatermarkTest, Watermarks, ZoneConfig, fragmentation_index, lowmem_reserves, min_free_kbytes,
    unusable_free_index,
};
use pageblock_frame::{AllocFlags, MigrateType, NodeId, Order, Pfn, ZoneKind};
use pageblock_testkit::simulated::SimulatedZone;

use crate::subject::{self, Machine, range};

fn order(log2: u8) -> Order {
    Order::new(log2).unwrap()
}

#[test]
fn min_free_follows_the_square_root() {
    for (mib, kbytes) in [
        (16, 512),
        (32, 724),
        (64, 1024),
        (128, 1448),
        (256, 2048),
        (512, 2896),
        (1024, 4096),
        (2048, 5792),
        (4096, 8192),
        (8192, 11_585),
        (16_384, 16_384),
    ] {
        assert_eq!(min_free_kbytes(mib * 1024), kbytes, "{mib} MiB");
    }
    assert_eq!(min_free_kbytes(8_155_360), 11_423, "a machine of 8 GiB");
    assert_eq!((min_free_kbytes(0), min_free_kbytes(u64::MAX / 16)), (128, 262_144), "clamped");
}

#[test]
fn watermarks_of_an_8_gib_machine() {
    let managed = [3_840, 765_000, 1_270_000];
    let total = managed.iter().sum();
    let marks = |zone: u64| Watermarks::compute(zone, total, 11_423, 10);
    let triple = |marks: Watermarks| (marks.min, marks.low, marks.high);
    assert_eq!(managed.map(|zone| triple(marks(zone))), [(5, 8, 11), (1071, 1836, 2601), (1778, 3048, 4318)]);
    let old = |zone: u64| Watermarks::compute_3_13(zone, total, 11_423);
    assert_eq!(managed.map(|zone| triple(old(zone))), [(5, 6, 7), (1071, 1338, 1606), (1778, 2222, 2667)]);
    let reserve = lowmem_reserves([3_840, 765_000, 1_270_000, 0], LOWMEM_RESERVE_RATIO);
    assert_eq!(reserve, [[0, 2988, 7949, 7949], [0, 0, 4960, 4960], [0; 4], [0; 4]]);
}

#[test]
fn watermarks_of_a_4_gib_machine_with_the_old_formulas() {
    let managed = [3_977, 742_000, 262_144];
    let total = managed.iter().sum();
    let old = |zone: u64| Watermarks::compute_3_13(zone, total, 8_032);
    let triple = |marks: Watermarks| (marks.min, marks.low, marks.high);
    assert_eq!([managed[1], managed[2]].map(|zone| triple(old(zone))), [(1477, 1846, 2215), (522, 652, 783)]);
}

/// The mark that a request really stops at, found by trying every number of free frames.
fn floor(flags: AllocFlags) -> u64 {
    let zone = subject::zone(ZoneConfig::new(ZoneKind::Dma32, NodeId::new(0), range((0, 512))));
    let test = WatermarkTest { order: Order::ZERO, mark: 1071, limit: ZoneKind::Dma32, flags };
    let ok = |free: &u64| zone.watermark_ok_with(*free, &test);
    (0..4000).find(ok).unwrap() - 1
}

#[test]
fn reserves_lower_the_mark() {
    let (min, non_block, oom) = (AllocFlags::MIN_RESERVE, AllocFlags::NON_BLOCK, AllocFlags::OOM);
    assert_eq!(floor(AllocFlags::empty()), 1071);
    assert_eq!(floor(min), 536);
    assert_eq!(floor(min | non_block), 402);
    assert_eq!(floor(oom), 536);
    assert_eq!(floor(min | non_block | oom), 201);
    assert_eq!(floor(non_block), 1071, "alone it lowers nothing");
    assert_eq!(floor(AllocFlags::HIGHATOMIC), 1071, "nor does this");
}

#[test]
fn a_frame_more_than_the_mark_must_stay() {
    let zone = subject::zone(ZoneConfig::new(ZoneKind::Normal, NodeId::new(0), range((0, 4096))));
    assert_eq!(zone.release_simulated::<Machine>(range((0, 4096))), Ok(4096));
    zone.set_lowmem_reserve([0, 0, 0, 96]);
    let ok = |log2, mark, limit| zone.watermark_ok(order(log2), mark, limit, AllocFlags::empty());
    assert!(ok(0, 4095, ZoneKind::Normal) && !ok(0, 4096, ZoneKind::Normal));
    assert!(ok(0, 3999, ZoneKind::Movable) && !ok(0, 4000, ZoneKind::Movable), "the reserve is added to the mark");
    assert!(ok(4, 4080, ZoneKind::Normal) && !ok(4, 4081, ZoneKind::Normal), "the block but one frame is subtracted");
    // Every second frame taken: plenty is free, but there is no block.
    for pfn in (0..4096).step_by(2) {
        assert_eq!(zone.alloc_at::<Machine>(Pfn::new(pfn), Order::ZERO), Ok(()));
    }
    assert!(ok(0, 2047, ZoneKind::Normal) && !ok(1, 0, ZoneKind::Normal));
}

#[test]
fn indices_of_fragmentation() {
    let index = |blocks: &[u64], log2| {
        let frames: u64 = blocks.iter().zip(0..).map(|(n, o)| n << o).sum();
        (frames, blocks.iter().sum::<u64>(), fragmentation_index(blocks, order(log2)))
    };
    assert_eq!(index(&[20, 40], 3), (100, 60, 775));
    assert_eq!(index(&[0, 0, 6], 3), (24, 6, 334));
    assert_eq!(index(&[511], 9), (511, 511, 997));
    assert_eq!(index(&[0, 4, 16, 0, 0, 0, 1, 0, 19], 9), (5000, 40, 731));
    assert_eq!(index(&[0, 0, 1], 3), (4, 1, -500));
    assert_eq!(unusable_free_index(&[100], order(3)), 1000);
    assert_eq!(unusable_free_index(&[92, 0, 0, 1], order(3)), 920);
}

#[test]
fn a_single_frame_out_of_the_largest_block_leaves_one_block_of_each_order() {
    let zone = subject::zone(ZoneConfig::new(ZoneKind::Normal, NodeId::new(0), range((0, 1024))));
    assert_eq!(zone.release_simulated::<Machine>(range((0, 1024))), Ok(1024));
    let pfn = zone.alloc::<Machine>(Order::ZERO, MigrateType::Movable, AllocFlags::empty());
    assert_eq!(pfn, Some(Pfn::new(0)));
    let mut expected = [0; Order::COUNT];
    expected[..10].fill(1);
    assert_eq!(zone.free_blocks(), expected);
    // Each of those blocks is where the arithmetic of buddies has it.
    for (log2, pfn) in [(9, 512), (8, 256), (7, 128), (6, 64), (5, 32), (4, 16), (3, 8), (2, 4), (1, 2), (0, 1)] {
        assert_eq!(zone.alloc_at::<Machine>(Pfn::new(pfn), order(log2)), Ok(()), "order {log2}");
    }
    assert_eq!(zone.free_frames(), 0);
}
