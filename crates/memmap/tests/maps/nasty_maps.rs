//! The shared list of nasty memory maps through the normaliser.

use pageblock_memmap::{MapOptions, Region, RegionError, RegionKind, RegionMap};
use pageblock_testkit::maps::{Kind, MAPS, OUT_OF_REACH, Piece, usable};

fn region(piece: &Piece) -> Region {
    let kind = match piece.kind {
        Kind::Usable => RegionKind::Usable,
        Kind::Reserved => RegionKind::Reserved,
    };
    Region::new(piece.start, piece.start.saturating_add(piece.len), kind)
}

#[test]
fn every_map_gives_the_frames_that_the_oracle_says() {
    for map in MAPS {
        let top = map.pieces.iter().map(|piece| piece.start + piece.len).max().unwrap_or(0).div_ceil(4096);
        let regions: RegionMap = RegionMap::build(map.pieces.iter().map(region), &[], MapOptions::new()).unwrap();
        let expected: Vec<_> = usable(map.pieces, top).iter_ones().map(|frame| frame as u64).collect();
        let frames = |run: pageblock_memmap::MapRun| run.range.start.as_u64()..run.range.end.as_u64();
        assert_eq!(regions.usable().flat_map(frames).collect::<Vec<_>>(), expected, "{}", map.name);
        assert_eq!(regions.check(), Ok(()), "{}", map.name);
    }
}

#[test]
fn maps_beyond_the_last_frame_name_the_region() {
    for map in OUT_OF_REACH {
        let error = RegionMap::<8>::build(map.pieces.iter().map(region), &[], MapOptions::new()).unwrap_err();
        assert_eq!(error, RegionError::AboveLimit { index: map.pieces.len() - 1 }, "{}", map.name);
    }
}
