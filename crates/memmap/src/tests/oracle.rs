//! The rule, byte by byte: a frame is usable if all its bytes are usable and none is anything else.

use std::vec::Vec;

use bitvec::prelude::*;
use proptest::prelude::*;

use crate::{DropReason, FrameClass, MapOptions, PhysRange, Region, RegionError, RegionKind, RegionMap};
use pageblock_frame::{NodeId, PAGE_SIZE, Pfn};

const FRAMES: usize = 24;
const BYTES: usize = FRAMES * PAGE_SIZE as usize;
type Bytes = BitArr!(for BYTES);

struct Oracle {
    usable: Bytes,
    ram: Bytes,
    other: Bytes,
    reclaimable: Bytes,
    taken: Bytes,
    node: [u8; FRAMES],
}

impl Oracle {
    fn new(regions: &[Region], reserve: &[PhysRange], low: u64) -> Self {
        let none = Bytes::ZERO;
        let mut oracle =
            Self { usable: none, ram: none, other: none, reclaimable: none, taken: none, node: [0; FRAMES] };
        for region in regions.iter().filter(|region| !region.is_empty()) {
            let bytes = region.start.as_u64() as usize..(region.end.as_u64() as usize).min(BYTES);
            let (first, last) = (bytes.start / 4096, (bytes.end - 1) / 4096);
            match region.kind {
                RegionKind::Usable => oracle.usable[bytes.clone()].fill(true),
                RegionKind::Reclaimable => {
                    oracle.other[bytes.clone()].fill(true);
                    oracle.reclaimable[bytes.clone()].fill(true);
                }
                RegionKind::Kernel | RegionKind::Reserved => {
                    oracle.other[bytes.clone()].fill(true);
                    oracle.taken[bytes.clone()].fill(true);
                }
                RegionKind::Affinity => {}
            }
            if region.kind.is_ram() {
                oracle.ram[bytes].fill(true);
            }
            if region.kind != RegionKind::Reserved {
                for node in &mut oracle.node[first..=last] {
                    *node = (*node).max(region.node.index() as u8);
                }
            }
        }
        for range in reserve.iter().chain([&PhysRange::from(0..low)]) {
            let bytes = range.start.as_u64() as usize..range.end.as_u64() as usize;
            oracle.other[bytes.clone()].fill(true);
            oracle.taken[bytes].fill(true);
        }
        oracle
    }

    fn usable(&self, frame: usize) -> bool {
        self.usable[bytes(frame)].all() && self.other[bytes(frame)].not_any()
    }

    fn reclaimable(&self, frame: usize) -> bool {
        self.reclaimable[bytes(frame)].all() && self.taken[bytes(frame)].not_any()
    }

    fn class(&self, frame: usize) -> FrameClass {
        if self.usable(frame) {
            FrameClass::Usable
        } else if self.ram[bytes(frame)].all() || self.taken[bytes(frame)].any() {
            FrameClass::Reserved
        } else {
            FrameClass::Hole
        }
    }
}

fn bytes(frame: usize) -> core::ops::Range<usize> {
    frame * 4096..(frame + 1) * 4096
}

/// An address: on a frame's edge, beside one, or anywhere.
fn address() -> impl Strategy<Value = u64> {
    let bytes = BYTES as u64;
    prop_oneof![
        4 => (0..=FRAMES as u64).prop_map(|frame| frame * PAGE_SIZE),
        2 => (0..=FRAMES as u64, -1i64..=1).prop_map(move |(frame, off)| (frame * PAGE_SIZE).saturating_add_signed(off).min(bytes)),
        2 => 0..=bytes,
    ]
}

fn kind() -> impl Strategy<Value = RegionKind> {
    prop_oneof![
        6 => Just(RegionKind::Usable),
        2 => Just(RegionKind::Reserved),
        1 => Just(RegionKind::Reclaimable),
        1 => Just(RegionKind::Kernel),
        1 => Just(RegionKind::Affinity),
    ]
}

/// Any two addresses, in any order: one region in three is inverted or empty before `sort` swaps most of them.
fn region() -> impl Strategy<Value = Region> {
    (address(), address(), kind(), 0..4u8, 0..8u8).prop_map(|(a, b, kind, node, keep)| {
        let (start, end) = if keep == 0 { (a, b) } else { (a.min(b), a.max(b)) };
        Region::new(start, end, kind).with_node(NodeId::new(node))
    })
}

fn reservations() -> impl Strategy<Value = Vec<PhysRange>> {
    let range = (address(), address()).prop_map(|(a, b)| PhysRange::from(a.min(b)..a.max(b)));
    prop::collection::vec(range, 0..4)
}

fn agrees(map: &RegionMap, oracle: &Oracle) -> Result<(), TestCaseError> {
    let list = |set: &mut dyn Iterator<Item = crate::MapRun>| -> Vec<u64> {
        set.flat_map(|run| run.range.start.as_u64()..run.range.end.as_u64()).collect()
    };
    let expect = |test: &dyn Fn(usize) -> bool| -> Vec<u64> {
        (0..FRAMES).filter(|frame| test(*frame)).map(|frame| frame as u64).collect()
    };
    prop_assert_eq!(list(&mut map.usable()), expect(&|frame| oracle.usable(frame)));
    prop_assert_eq!(list(&mut map.present()), expect(&|frame| oracle.ram[bytes(frame)].all()));
    prop_assert_eq!(list(&mut map.reclaimable()), expect(&|frame| oracle.reclaimable(frame)));
    for frame in 0..FRAMES {
        prop_assert_eq!(map.class(Pfn::new(frame as u64)), oracle.class(frame), "frame {}", frame);
    }
    for run in map.usable().chain(map.present()) {
        for frame in run.range.start.as_u64()..run.range.end.as_u64() {
            prop_assert_eq!(run.node.index() as u8, oracle.node[frame as usize], "frame {}", frame);
        }
    }
    let runs: Vec<_> = map.usable().collect();
    for pair in runs.windows(2) {
        let touches = pair[0].range.end == pair[1].range.start;
        prop_assert!(pair[0].range.end <= pair[1].range.start, "{:?} out of order", pair);
        prop_assert!(!touches || pair[0].node != pair[1].node, "{:?} could be one run", pair);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8192))]

    #[test]
    fn frames_out_are_usable_minus_everything_else(
        regions in prop::collection::vec(region(), 0..12),
        reserve in reservations(),
        low in prop_oneof![3 => Just(0), 1 => address()],
    ) {
        let options = MapOptions::new().reserve_low(low);
        let map: RegionMap = RegionMap::build(regions.iter().copied(), &reserve, options).unwrap();
        agrees(&map, &Oracle::new(&regions, &reserve, low))?;
        prop_assert_eq!(map.check(), Ok(()));
        for (reason, count) in map.report().iter() {
            prop_assert!(count.bytes == 0 || count.regions > 0, "{}: bytes but no region", reason);
            let named = count.regions == 0 || count.first.is_some() || reason == DropReason::LowMemory;
            prop_assert!(named, "{}: regions but no first", reason);
        }
    }

    #[test]
    fn the_order_of_the_input_does_not_matter(
        (regions, shuffled) in prop::collection::vec(region(), 0..12)
            .prop_flat_map(|regions| (Just(regions.clone()), Just(regions).prop_shuffle())),
    ) {
        let first: RegionMap = RegionMap::build(regions, &[], MapOptions::new()).unwrap();
        let second: RegionMap = RegionMap::build(shuffled, &[], MapOptions::new()).unwrap();
        prop_assert!(first.usable().eq(second.usable()));
        prop_assert!(first.present().eq(second.present()));
        prop_assert!(first.reclaimable().eq(second.reclaimable()));
        for ((reason, a), (_, b)) in first.report().iter().zip(second.report().iter()) {
            prop_assert_eq!(a.bytes, b.bytes, "{}", reason);
        }
    }

    /// Any 64-bit addresses, and room for next to nothing: an error or a sound map, never a panic.
    #[test]
    fn any_map_is_refused_or_sound(
        raw in prop::collection::vec((any::<u64>(), 0..64u32, any::<u64>(), 0..64u32, 0..9u32, any::<u8>()), 0..24),
        reserve in prop::collection::vec((any::<u64>(), any::<u64>()), 0..4),
    ) {
        let regions: Vec<_> = raw.iter().map(|(start, s, end, e, kind, node)| {
            Region::new(start >> s, end >> e, RegionKind::from_e820(*kind)).with_node(NodeId::new(node % 20))
        }).collect();
        let reserve: Vec<_> = reserve.iter().map(|(start, end)| PhysRange::from(*start..*end)).collect();
        match RegionMap::<6>::build(regions.iter().copied(), &reserve, MapOptions::new()) {
            Ok(map) => prop_assert_eq!(map.check(), Ok(())),
            Err(RegionError::AboveLimit { index }) => {
                prop_assert!(regions[index].kind.is_ram() && regions[index].end.as_u64() > 1 << 44);
            }
            Err(RegionError::NodeOutOfRange { index, node }) => prop_assert_eq!(regions[index].node, node),
            Err(RegionError::InvertedReservation { index }) => prop_assert!(reserve[index].is_inverted()),
            Err(_) => prop_assert!(regions.len() + reserve.len() > 3, "six runs hold three regions whatever they are"),
        }
    }
}
