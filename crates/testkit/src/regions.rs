//! Memory maps out of a fuzzer's bytes, through the normaliser and against the rule.

use arbitrary::{Result, Unstructured};
use pageblock_frame::{MAX_PFN, NodeId, PAGE_SIZE, Pfn};
use pageblock_memmap::{
    FrameClass, MapOptions, PhysRange, Region, RegionError, RegionKind, RegionMap, ZoneLimitError, ZoneLimits,
};

/// Runs that the map under test can hold: few, so that it overflows.
const RUNS: usize = 6;
/// Regions in a map: more than it can hold.
const REGIONS: usize = 24;

/// Builds a map from the bytes and checks it: frames out are usable frames minus everything else, or the error names
/// the region that is at fault. The whole of a fuzz target.
///
/// ```
/// pageblock_testkit::regions::check(b"any bytes make a map of some kind");
/// ```
///
/// # Panics
/// If the normaliser is wrong.
pub fn check(bytes: &[u8]) {
    let mut input = Unstructured::new(bytes);
    let regions: Vec<_> = (0..REGIONS).map_while(|_| region(&mut input).ok()).collect();
    let reserve = if regions.len() % 3 == 0 { reservation(&regions) } else { Vec::new() };
    match RegionMap::<RUNS>::build(regions.iter().copied(), &reserve, MapOptions::new()) {
        Ok(map) => accepted(map, &regions, &reserve),
        Err(error) => refused(error, &regions),
    }
}

/// A region: mostly near frame edges in a small space, so that regions meet.
fn region(input: &mut Unstructured<'_>) -> Result<Region> {
    if input.is_empty() {
        return Err(arbitrary::Error::NotEnoughData);
    }
    let shape: u8 = input.arbitrary()?;
    let (start, end) = if shape < 0xf0 {
        let start = u64::from(input.arbitrary::<u16>()?) * PAGE_SIZE / 8;
        (start, start.saturating_add_signed(i64::from(input.arbitrary::<i16>()?) * 512))
    } else {
        let shift = 18 + u32::from(input.arbitrary::<u8>()? & 31);
        (input.arbitrary::<u64>()? >> shift, input.arbitrary::<u64>()? >> shift)
    };
    let kinds = [
        RegionKind::Usable,
        RegionKind::Usable,
        RegionKind::Usable,
        RegionKind::Reserved,
        RegionKind::Reclaimable,
        RegionKind::Kernel,
        RegionKind::Affinity,
    ];
    let kind = *input.choose(&kinds)?;
    Ok(Region::new(start, end, kind).with_node(NodeId::new(shape & 3)))
}

/// The middle half of the first region, which must not be inverted.
fn reservation(regions: &[Region]) -> Vec<PhysRange> {
    let first = regions.first().filter(|region| !region.is_empty());
    let middle = |region: &Region| {
        let quarter = region.len() / 4;
        PhysRange::from(region.start.as_u64() + quarter..region.end.as_u64() - quarter)
    };
    first.map(middle).into_iter().collect()
}

/// Between two edges of regions all frames are alike: looking at the frames at the edges and beside them sees
/// everything.
fn accepted(mut map: RegionMap<RUNS>, regions: &[Region], reserve: &[PhysRange]) {
    assert_eq!(map.check(), Ok(()), "{regions:?}");
    let ranges = regions.iter().map(Region::range).chain(reserve.iter().copied());
    for edge in ranges.flat_map(|range| [range.start.as_u64(), range.end.as_u64()]) {
        let frame = edge / PAGE_SIZE;
        for frame in [frame.saturating_sub(1), frame, frame + 1].into_iter().filter(|frame| *frame < MAX_PFN) {
            let is_usable = map.class(Pfn::new(frame)) == FrameClass::Usable;
            assert_eq!(is_usable, usable(frame, regions, reserve), "frame {frame:#x} of {regions:?} less {reserve:?}");
        }
    }
    let limits = ZoneLimits::default().movable_frames(map.present_frames() / 4);
    match map.zones(&limits) {
        Ok(zones) => {
            assert_eq!(zones.iter().map(|zone| zone.usable).sum::<u64>(), map.usable_frames(), "{regions:?}");
            assert_eq!(zones.iter().map(|zone| zone.present).sum::<u64>(), map.present_frames(), "{regions:?}");
        }
        Err(ZoneLimitError::MovableTooLarge { .. }) => assert!(map.present_frames() <= 1024),
        Err(error) => panic!("{error}: {regions:?}"),
    }
    let before = map.usable_frames();
    if let Some(place) = map.carve(before * PAGE_SIZE / 8, PAGE_SIZE, &limits) {
        assert_eq!(map.usable_frames(), before - place.len());
        assert_eq!(map.check(), Ok(()), "{regions:?} after carving {place}");
    }
}

/// The rule: usable regions cover all bytes of the frame, and nothing else touches it.
fn usable(frame: u64, regions: &[Region], reserve: &[PhysRange]) -> bool {
    let (start, end) = (frame * PAGE_SIZE, (frame + 1) * PAGE_SIZE);
    let touches = |range: PhysRange| !range.is_empty() && range.start.as_u64() < end && start < range.end.as_u64();
    let takes = |region: &&Region| !matches!(region.kind, RegionKind::Usable | RegionKind::Affinity);
    if regions.iter().filter(takes).map(Region::range).chain(reserve.iter().copied()).any(touches) {
        return false;
    }
    let usable = || regions.iter().filter(|region| region.kind == RegionKind::Usable);
    let mut covered = start;
    while covered < end {
        let next = usable().filter(|region| region.start.as_u64() <= covered && covered < region.end.as_u64());
        let Some(furthest) = next.map(|region| region.end.as_u64()).max() else { return false };
        covered = furthest;
    }
    true
}

fn refused(error: RegionError, regions: &[Region]) {
    match error {
        RegionError::AboveLimit { index } => {
            let region = regions[index];
            assert!(region.kind.is_ram() && region.end.as_u64() > MAX_PFN * PAGE_SIZE, "{error}: {region:?}");
        }
        RegionError::TooManyRegions { index, capacity } => assert!(index >= capacity, "{error}: {regions:?}"),
        RegionError::TooManyRuns { capacity } | RegionError::TooManyReservations { capacity, .. } => {
            // Each region has two edges, and each run starts at one.
            assert!(2 * regions.len() + 2 > capacity, "{error}: {regions:?}");
        }
        error => panic!("{error}: {regions:?}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..320)) {
            super::check(&bytes);
        }
    }
}
