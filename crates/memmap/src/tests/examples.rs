//! One example a fault that memory maps have.

use super::{build, runs};
use crate::{DropReason, FrameClass, MapOptions, PhysRange, Region, RegionError, RegionKind, RegionMap};
use pageblock_frame::{NodeId, Pfn};
use std::vec::Vec;

fn usable(start: u64, end: u64) -> Region {
    Region::new(start, end, RegionKind::Usable)
}

fn reserved(start: u64, end: u64) -> Region {
    Region::new(start, end, RegionKind::Reserved)
}

#[test]
fn regions_that_meet_inside_a_frame_lose_nothing() {
    let map = build(&[usable(0x1800, 0x3000), usable(0, 0x1800)]);
    assert_eq!(runs(&map), [(0, 3)]);
    assert_eq!(map.report().dropped(DropReason::Unaligned).bytes, 0);
    assert_eq!(map.report().dropped(DropReason::Unaligned).first, Some(0), "the edge is noted all the same");
}

#[test]
fn a_single_reserved_byte_costs_its_frame() {
    let map = build(&[reserved(0x2fff, 0x3000), usable(0, 0x8000)]);
    assert_eq!(runs(&map), [(0, 2), (3, 8)]);
    let dropped = map.report().dropped(DropReason::Reserved);
    assert_eq!((dropped.regions, dropped.frames(), dropped.first), (1, 1, Some(1)));
    assert_eq!(map.class(Pfn::new(2)), FrameClass::Reserved);
}

#[test]
fn nonsense_is_counted_with_its_first_index() {
    let map = build(&[usable(0, 0x2000), usable(5, 5), usable(0x9000, 0x8000), usable(7, 7), usable(0x1000, 0x3000)]);
    let report = map.report();
    let seen: Vec<_> = report.iter().map(|(reason, count)| (reason, count.regions, count.bytes, count.first)).collect();
    assert_eq!(
        seen,
        [
            (DropReason::Empty, 2, 0, Some(1)),
            (DropReason::Inverted, 1, 0, Some(2)),
            (DropReason::Duplicate, 1, 0x1000, Some(4)),
        ]
    );
    assert_eq!(map.usable_frames(), 3);
}

#[test]
fn memory_above_the_last_frame_is_an_error_and_other_kinds_are_not() {
    let limit = 1u64 << 44;
    let far = [usable(0, 0x1000), usable(limit - 0x1000, limit + 1)];
    assert_eq!(RegionMap::<8>::build(far, &[], MapOptions::new()).unwrap_err(), RegionError::AboveLimit { index: 1 });
    let map =
        build(&[usable(limit - 0x2000, limit), reserved(limit - 0x1000, u64::MAX), reserved(u64::MAX - 1, u64::MAX)]);
    assert_eq!(runs(&map), [((1 << 32) - 2, (1 << 32) - 1)]);
    let above = map.report().dropped(DropReason::AboveLimit);
    assert_eq!((above.regions, above.first), (2, Some(1)));
}

#[test]
fn an_e820_entry_never_wraps_around() {
    let entry = Region::from_e820(u64::MAX - 10, 100, 2);
    assert_eq!((entry.start.as_u64(), entry.end.as_u64()), (u64::MAX - 10, u64::MAX));
    assert_eq!(runs(&build(&[entry, usable(0, 0x1000)])), [(0, 1)]);
}

#[test]
fn reclaimable_memory_is_present_and_listed_but_not_usable() {
    let map =
        build(&[usable(0, 0x8000), Region::new(0x3800, 0x5800, RegionKind::Reclaimable), reserved(0x4fff, 0x5000)]);
    assert_eq!(runs(&map), [(0, 3), (6, 8)]);
    assert_eq!(map.reclaimable().count(), 0, "only part of frame 5 is reclaimable, and frame 4 is reserved");
    assert_eq!(map.present_frames(), 8);
    let map = build(&[Region::new(0x3800, 0x5800, RegionKind::Reclaimable)]);
    let listed: Vec<_> = map.reclaimable().map(|run| (run.range.start.as_u64(), run.range.len())).collect();
    assert_eq!(listed, [(4, 1)]);
}

#[test]
fn reservations_take_whole_frames_and_the_faulty_one_is_named() {
    let ram = [usable(0, 0x10_000)];
    let map = RegionMap::<8>::build(ram, &[(0x1fff..0x2001).into(), (0..0).into()], MapOptions::new()).unwrap();
    assert_eq!(runs(&map), [(0, 1), (3, 16)]);
    assert_eq!(map.report().dropped(DropReason::Requested).first, Some(0));
    assert_eq!(map.present_frames(), 16);
    let error = RegionMap::<8>::build(ram, &[(0..1).into(), PhysRange::new(2.into(), 1.into())], MapOptions::new())
        .unwrap_err();
    assert_eq!(error, RegionError::InvertedReservation { index: 1 });
    let beyond = RegionMap::<8>::build(ram, &[(0xf000..u64::MAX).into()], MapOptions::new()).unwrap();
    assert_eq!(runs(&beyond), [(0, 15)]);
}

#[test]
fn too_much_for_the_map_names_who_broke_it() {
    let islands: Vec<_> = (0..5).map(|n| usable(n * 0x2000, n * 0x2000 + 0x1000)).collect();
    assert!(RegionMap::<5>::build(islands.clone(), &[], MapOptions::new()).is_ok());
    let error = RegionMap::<4>::build(islands.clone(), &[], MapOptions::new()).unwrap_err();
    assert_eq!(error, RegionError::TooManyRegions { index: 4, capacity: 4 });
    let holes = [usable(0, 0x10_000), reserved(0x1000, 0x2000), reserved(0x4000, 0x5000)];
    assert_eq!(
        RegionMap::<2>::build(holes, &[], MapOptions::new()).unwrap_err(),
        RegionError::TooManyRuns { capacity: 2 }
    );
    let error =
        RegionMap::<1>::build([usable(0, 0x10_000)], &[(0x3000..0x4000).into()], MapOptions::new()).unwrap_err();
    assert_eq!(error, RegionError::TooManyReservations { index: 0, capacity: 1 });
}

#[test]
fn any_number_of_regions_fits_if_they_merge() {
    let pieces = (0..10_000u64).map(|n| usable(n * 0x800, (n + 1) * 0x800));
    let map = RegionMap::<1>::build(pieces, &[], MapOptions::new()).unwrap();
    assert_eq!(runs(&map), [(0, 5000)]);
    assert_eq!(map.report().regions(), 10_000);
}

#[test]
fn a_region_that_names_a_node_wins_over_one_that_does_not() {
    let one = Region::new(0x4000, 0x8000, RegionKind::Affinity).with_node(NodeId::new(1));
    let map = build(&[one, usable(0, 0x10_000), one]);
    let nodes: Vec<_> = map.usable().map(|run| (run.range.start.as_u64(), run.range.len(), run.node.index())).collect();
    assert_eq!(nodes, [(0, 4, 0), (4, 4, 1), (8, 8, 0)]);
    assert_eq!(map.node_of(Pfn::new(7)), NodeId::new(1));
    let error = RegionMap::<8>::build([usable(0, 1).with_node(NodeId::new(16))], &[], MapOptions::new()).unwrap_err();
    assert_eq!(error, RegionError::NodeOutOfRange { index: 0, node: NodeId::new(16) });
}

#[test]
fn the_report_reads_as_text() {
    let map = build(&[usable(0, 0x2000), reserved(0x1000, 0x1001)]);
    let text = std::format!("{}", map.report());
    assert_eq!(text, "2 regions, 8192 usable bytes\noverlapped by another kind: 4096 bytes, 1 regions, first 1\n");
}
