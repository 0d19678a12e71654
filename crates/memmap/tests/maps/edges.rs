//! Numbers at the edge of what a structure of firmware, or a map, can say.

use pageblock_frame::{NodeId, Pfn, PhysAddr};
use pageblock_memmap::{MapOptions, PhysRange, PvhError, PvhInfo, Region, RegionMap, Slit};

use crate::acpi::SLIT;

#[test]
fn a_start_info_is_read_whole_or_not() {
    let mut bytes = [0u8; PvhInfo::BYTES + 8];
    bytes[..4].copy_from_slice(&0x336e_c578u32.to_le_bytes());
    bytes[4] = 1;
    bytes[40..48].copy_from_slice(&0x9000u64.to_le_bytes());
    bytes[48] = 2;
    for given in [0, 1, PvhInfo::BYTES - 1] {
        assert_eq!(PvhInfo::read(&bytes[..given]), Err(PvhError::TooShort { given }));
    }
    for length in [PvhInfo::BYTES, PvhInfo::BYTES + 8] {
        assert_eq!(PvhInfo::read(&bytes[..length]).unwrap().memory_map, PhysRange::from(0x9000..0x9030));
    }
}

#[test]
fn nodes_beyond_the_table_have_no_distance() {
    let slit = Slit::new(SLIT).unwrap();
    let of = |from, to| slit.distance(NodeId::new(from), NodeId::new(to));
    assert!(of(0, 0).is_some() && of(1, 1).is_some());
    assert_eq!([of(0, 2), of(2, 0), of(1, 255), of(2, 2)], [None; 4]);
}

#[test]
fn a_map_that_is_made_anew_forgets_the_one_before() {
    let low = [Region::usable(0..8 << 20), Region::reserved(1 << 20..2 << 20)];
    let mut map: RegionMap = RegionMap::build(low, &[], MapOptions::new()).unwrap();
    map.rebuild([Region::usable(16 << 20..20 << 20)], &[], MapOptions::new()).unwrap();
    assert_eq!((map.usable_frames(), map.usable().count()), (1024, 1));
    assert_eq!(map.usable().next().unwrap().range.start, Pfn::new(4096));
    assert_eq!(map.check(), Ok(()));
}

#[test]
fn ranges_that_share_a_frame_are_kept_back_once() {
    let reserved = [0x1100..0x1200, 0x1800..0x1900, 0x2000..0x2001, 0x4fff..0x5001].map(PhysRange::from);
    for wanted in [&reserved[..], &[reserved[3], reserved[1], reserved[2], reserved[0]]] {
        let map: RegionMap = RegionMap::build([Region::usable(0..0x10_000)], wanted, MapOptions::new()).unwrap();
        let usable: Vec<_> = map.usable().map(|run| run.range.start.as_u64()..run.range.end.as_u64()).collect();
        assert_eq!(usable, [0..1, 3..4, 6..16]);
        assert_eq!((map.usable_frames(), map.check()), (12, Ok(())));
    }
    // Of memory that is reserved in the map itself, too.
    let parts = [0x1100..0x1200, 0x1800..0x1900].map(Region::reserved);
    let map: RegionMap =
        RegionMap::build([Region::usable(0..0x10_000)].into_iter().chain(parts), &[], MapOptions::new()).unwrap();
    assert_eq!((map.usable_frames(), map.check()), (15, Ok(())));
}

#[test]
fn a_range_is_empty_without_a_byte() {
    let inverted = PhysRange::new(PhysAddr::new(8), PhysAddr::new(7));
    assert!(PhysRange::from(7..7).is_empty() && inverted.is_empty());
    assert!(!PhysRange::from(7..8).is_empty());
    assert!(inverted.is_inverted() && !PhysRange::from(7..7).is_inverted());
}
