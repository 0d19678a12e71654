//! Zones: boundaries, nodes, the Movable zone.

use std::vec::Vec;

use proptest::prelude::*;

use super::build;
use crate::{MapOptions, Region, RegionKind, RegionMap, SpanRule, ZoneLimitError, ZoneLimits, ZoneSpan};
use pageblock_frame::{NodeId, Pfn, ZoneKind};

fn ram(start: u64, end: u64, node: u8) -> Region {
    Region::new(start << 12, end << 12, RegionKind::Usable).with_node(NodeId::new(node))
}

type Row = (usize, ZoneKind, u64, u64, u64);

/// Node, kind, first frame, end, usable frames.
fn rows(map: &RegionMap, limits: &ZoneLimits) -> Vec<Row> {
    let row =
        |zone: &ZoneSpan| (zone.node.index(), zone.kind, zone.span.start.as_u64(), zone.span.end.as_u64(), zone.usable);
    map.zones(limits).unwrap().iter().map(row).collect()
}

/// The memory map of a virtual machine of 24 GiB with a known `/proc/zoneinfo`.
fn recorded() -> RegionMap {
    let regions = [
        Region::new(0x0000_0000, 0x0000_1000, RegionKind::Reserved),
        Region::new(0x0000_1000, 0x0009_fc00, RegionKind::Usable),
        Region::new(0x0009_fc00, 0x0010_0000, RegionKind::Reserved),
        Region::new(0x0010_0000, 0xc000_0000, RegionKind::Usable),
        Region::new(0xeec0_0000, 0xfec0_0000, RegionKind::Reserved),
        Region::new(0x1_0000_0000u64, 0x6_4000_0000, RegionKind::Usable),
    ];
    RegionMap::build(regions, &[], MapOptions::new().reserve_low(0x10_0000)).unwrap()
}

#[test]
fn spans_and_present_frames_are_those_that_linux_showed_for_the_map() {
    let zones = recorded().zones(&ZoneLimits::default().spans(SpanRule::Node)).unwrap();
    let seen: Vec<_> = zones.iter().map(|zone| (zone.kind, zone.span.len(), zone.present)).collect();
    assert_eq!(
        seen,
        [(ZoneKind::Dma, 4095, 3998), (ZoneKind::Dma32, 1_044_480, 782_336), (ZoneKind::Normal, 5_505_024, 5_505_024)]
    );
    assert_eq!(zones[0].usable, 3840, "Linux manages 3840 frames of DMA");
}

#[test]
fn spans_without_holes_at_the_ends_are_the_default() {
    let expected = [
        (0, ZoneKind::Dma, 1, 0x1000, 3840),
        (0, ZoneKind::Dma32, 0x1000, 0xc_0000, 782_336),
        (0, ZoneKind::Normal, 0x10_0000, 0x64_0000, 5_505_024),
    ];
    assert_eq!(rows(&recorded(), &ZoneLimits::default()), expected);
}

#[test]
fn limits_that_make_no_sense_are_named() {
    let map = build(&[ram(0, 0x2000, 0)]);
    let limits = |dma, dma32| ZoneLimits { dma_end: dma, dma32_end: dma32, ..ZoneLimits::single() };
    let (low, high) = (Pfn::new(0x800), Pfn::new(0x1000));
    let crossed = ZoneLimitError::Crossed { dma_end: high, dma32_end: low };
    assert_eq!(map.zones(&limits(Some(high), Some(low))).unwrap_err(), crossed);
    let end = Pfn::new(0x801);
    let unaligned = ZoneLimitError::Unaligned { kind: ZoneKind::Dma32, end };
    assert_eq!(map.zones(&limits(None, Some(end))).unwrap_err(), unaligned);
    let expected = [(0, ZoneKind::Dma, 0, 0x1000, 0x1000), (0, ZoneKind::Normal, 0x1000, 0x2000, 0x1000)];
    assert_eq!(rows(&map, &limits(Some(high), Some(high))), expected, "an empty DMA32 zone is no mistake");
    assert_eq!(
        map.zones(&ZoneLimits::single().movable_frames(0x1c01)).unwrap_err(),
        ZoneLimitError::MovableTooLarge { wanted: 0x2000, present: 0x2000 }
    );
}

#[test]
fn movable_frames_are_rounded_up_and_cut_from_the_top() {
    let map = build(&[ram(0, 0x8000, 0)]);
    let expected = [
        (0, ZoneKind::Dma, 0, 0x1000, 0x1000),
        (0, ZoneKind::Dma32, 0x1000, 0x7800, 0x6800),
        (0, ZoneKind::Movable, 0x7800, 0x8000, 0x800),
    ];
    assert_eq!(rows(&map, &ZoneLimits::default().movable_frames(0x401)), expected);
    assert_eq!(rows(&map, &ZoneLimits::default().kernel_frames(0x7401)), expected, "the start is rounded up");
}

#[test]
fn the_kernel_keeps_everything_below_the_highest_zone() {
    let map = build(&[ram(0, 0x10_0000, 0), ram(0x10_0000, 0x12_0000, 0)]);
    let zones = rows(&map, &ZoneLimits::default().kernel_frames(0x1000));
    let expected = (0, ZoneKind::Movable, 0x10_0000, 0x12_0000, 0x2_0000);
    assert_eq!(zones.last(), Some(&expected), "the kernel has its share below 4 GiB, so Normal is Movable as a whole");
    assert_eq!(zones.len(), 3);
}

#[test]
fn the_kernels_share_is_even_and_small_nodes_pass_theirs_on() {
    let map = build(&[ram(0, 0x1000, 0), ram(0x1000, 0x5000, 1), ram(0x5000, 0x9000, 2)]);
    // 0x6000 frames over three nodes: 0x2000 each, but node 0 has 0x1000 only, and the others get 0x800 more.
    let expected = [
        (0, ZoneKind::Normal, 0, 0x1000, 0x1000),
        (1, ZoneKind::Normal, 0x1000, 0x3800, 0x2800),
        (1, ZoneKind::Movable, 0x3800, 0x5000, 0x1800),
        (2, ZoneKind::Normal, 0x5000, 0x7800, 0x2800),
        (2, ZoneKind::Movable, 0x7800, 0x9000, 0x1800),
    ];
    assert_eq!(rows(&map, &ZoneLimits::single().kernel_frames(0x6000)), expected);
}

#[test]
fn interleaved_nodes_count_only_their_own_frames() {
    let map = build(&[ram(0, 0x400, 0), ram(0x400, 0x800, 1), ram(0x800, 0xc00, 0)]);
    let zones = map.zones(&ZoneLimits::single()).unwrap();
    assert_eq!((zones[0].span.len(), zones[0].present, zones[1].present), (0xc00, 0x800, 0x400));
    let own: Vec<_> = map.usable_of(&zones[0]).map(|run| run.range.start.as_u64()).collect();
    assert_eq!(own, [0, 0x800]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    /// Every frame of memory is in exactly one zone, of its own node, inside the zone's limits.
    #[test]
    fn zones_partition_the_map(
        regions in prop::collection::vec((0..0x4000u64, 1..0x1000u64, 0..5u8, any::<bool>()), 1..16),
        (dma, dma32) in (prop::option::of(0..12u64), prop::option::of(12..30u64)),
        (movable, kernel) in (prop_oneof![Just(0), 1..0x1000u64], prop_oneof![Just(0), 1..0x4000u64]),
        rule in prop_oneof![Just(SpanRule::Memory), Just(SpanRule::Node)],
    ) {
        let raw: Vec<_> = regions.iter().map(|(start, frames, node, usable)| {
            let kind = if *usable { RegionKind::Usable } else { RegionKind::Kernel };
            Region { kind, ..ram(*start, start + frames, *node) }
        }).collect();
        let map = build(&raw);
        let end = |blocks: Option<u64>| blocks.map(|blocks| Pfn::new(blocks * 512));
        let limits = ZoneLimits { dma_end: end(dma), dma32_end: end(dma32), movable, kernel, span_rule: rule };
        let zones = match map.zones(&limits) {
            Ok(zones) => zones,
            Err(ZoneLimitError::MovableTooLarge { wanted, present }) => {
                prop_assert!(wanted >= movable && wanted >= present && present == map.present_frames());
                return Ok(());
            }
            Err(error) => return Err(TestCaseError::fail(std::format!("{error}"))),
        };
        prop_assert_eq!(zones.iter().map(|zone| zone.present).sum::<u64>(), map.present_frames());
        prop_assert_eq!(zones.iter().map(|zone| zone.usable).sum::<u64>(), map.usable_frames());
        for (number, zone) in zones.iter().enumerate() {
            prop_assert_eq!(map.usable_of(zone).map(|run| run.range.len()).sum::<u64>(), zone.usable);
            prop_assert!(zone.present > 0 && zone.usable <= zone.present && zone.present <= zone.span.len());
            let others = zones.iter().skip(number + 1);
            let same = others.filter(|other| other.node == zone.node).all(|other| other.kind > zone.kind && other.span.start >= zone.span.end);
            prop_assert!(same, "zones of a node ascend without overlap: {:?}", zones);
            if zone.kind == ZoneKind::Movable && rule == SpanRule::Node {
                prop_assert!(zone.span.start.as_u64() % 1024 == 0 || zone.span.start == map.present().find(|run| run.node == zone.node).unwrap().range.start);
            }
        }
        if movable == 0 && kernel == 0 {
            prop_assert!(zones.iter().all(|zone| zone.kind != ZoneKind::Movable));
        } else if kernel > 0 && zones.iter().any(|zone| zone.kind == ZoneKind::Movable) {
            let kept = zones.iter().filter(|zone| zone.kind != ZoneKind::Movable).map(|zone| zone.present).sum::<u64>();
            prop_assert!(kept >= kernel, "the kernel wanted {} and kept {}", kernel, kept);
        }
    }
}
