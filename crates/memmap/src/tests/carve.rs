//! Placing the metadata.

use std::vec::Vec;

use proptest::prelude::*;

use super::{build, runs};
use pageblock_frame::Pfn;

use crate::{DropReason, Region, ZoneLimits};

const LIMITS: ZoneLimits = ZoneLimits::x86_64();

fn ram(start: u64, frames: u64) -> Region {
    Region::from((start * 4096, frames * 4096, true))
}

#[test]
fn high_memory_is_taken_first_and_dma_last() {
    let mut map = build(&[ram(0, 0x2000), ram(0x10_0000, 0x400)]);
    let high = map.carve(4096 * 8, 128, &LIMITS).unwrap();
    assert_eq!((high.start.as_u64(), high.len()), (0x10_03f8, 8), "the top end: both ends spoil one pageblock");
    let below = map.carve(0x800 * 4096, 4096, &LIMITS).unwrap();
    assert_eq!(below.start.as_u64(), 0x1800, "too large for what is above 4 GiB");
    let dma = map.carve(0xff0 * 4096, 4096, &LIMITS).unwrap();
    assert_eq!(dma.start.as_u64(), 0x810, "too large for what is left of DMA32, so from the top of the low run");
    assert_eq!(runs(&map), [(0, 0x810), (0x10_0000, 0x10_03f8)]);
    let carved = map.report().dropped(DropReason::Carved);
    assert_eq!((carved.regions, carved.frames()), (3, 8 + 0x800 + 0xff0));
    assert_eq!(map.check(), Ok(()));
    assert_eq!(map.present_frames(), 0x2400, "carved frames are still memory");
}

#[test]
fn broken_ends_are_used_before_whole_pageblocks() {
    // The lower run's start is a leftover of 100 frames, the upper run is two whole pageblocks.
    let mut map = build(&[ram(0x10_0000 + 412, 612), ram(0x10_1000, 1024)]);
    assert_eq!(map.carve(90 * 4096, 4096, &LIMITS).unwrap().start.as_u64(), 0x10_0000 + 412);
}

#[test]
fn alignment_is_kept_and_nothing_else_is_lost() {
    let mut map = build(&[ram(0x10_0003, 5000)]);
    let place = map.carve(3 * 4096 + 1, 2 << 20, &LIMITS).unwrap();
    assert_eq!((place.start.as_u64() % 512, place.len()), (0, 4));
    assert_eq!(map.usable_frames(), 5000 - 4);
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let mut map = build(&[ram(1, 10)]);
    let before = runs(&map);
    for (bytes, align) in [(11 * 4096, 1), (4096, 1 << 20), (4096, 3), (4096, 0), (0, 1), (u64::MAX, 1 << 63)] {
        assert_eq!(map.carve(bytes, align, &LIMITS), None, "{bytes} {align}");
    }
    assert_eq!(runs(&map), before);
    assert_eq!(map.report().dropped(DropReason::Carved).regions, 0);
}

#[test]
fn the_zones_of_the_configuration_count_and_movable_ones_come_last() {
    // A board whose devices reach 1 GiB: memory above it, below the end of a PC's DMA32.
    let board = ZoneLimits { dma_end: Some(Pfn::new(0x4_0000)), ..ZoneLimits::single() };
    let raw = [ram(0, 0x4_0000), ram(0x4_0000, 0x1000)];
    assert!(build(&raw).carve(4096, 4096, &board).unwrap().start.as_u64() >= 0x4_0000);
    // One zone whose upper part is Movable, as large as there is room for beside the kernel's.
    let movable = ZoneLimits::single().movable_frames(0x2000);
    let start = build(&raw).zones(&movable).unwrap()[1].span.start.as_u64();
    assert_eq!(build(&raw).carve(4096, 4096, &movable).unwrap().end.as_u64(), start, "the top of what is the kernel's");
    let large = build(&raw).carve(0x4_0000 * 4096, 4096, &movable).unwrap();
    assert!(large.end.as_u64() > start, "where nothing else has room");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn carved_frames_were_usable_and_only_they_are_gone(
        regions in prop::collection::vec((0..4096u64, 1..2000u64, any::<bool>()), 1..8),
        wanted in prop::collection::vec((1..3_000_000u64, 0..24u32), 1..6),
    ) {
        let raw = regions.iter().map(|(start, frames, high)| ram(start + if *high { 0x10_0000 } else { 0 }, *frames));
        let mut map = build(&raw.collect::<Vec<_>>());
        for (bytes, shift) in wanted {
            let before: Vec<_> = runs(&map).iter().flat_map(|(start, end)| *start..*end).collect();
            let Some(place) = map.carve(bytes, 1 << shift, &LIMITS) else {
                let fits = |(start, end): &(u64, u64)| {
                    let step = (1u64 << shift).div_ceil(4096);
                    start.div_ceil(step) * step + bytes.div_ceil(4096) <= *end
                };
                prop_assert!(!runs(&map).iter().any(fits), "there was room");
                continue;
            };
            prop_assert_eq!(place.start.phys() % (1 << shift), 0);
            prop_assert_eq!(place.len(), bytes.div_ceil(4096));
            let mut after: Vec<_> = runs(&map).iter().flat_map(|(start, end)| *start..*end).collect();
            after.extend(place.start.as_u64()..place.end.as_u64());
            after.sort_unstable();
            prop_assert_eq!(after, before);
            prop_assert_eq!(map.check(), Ok(()));
        }
    }
}
