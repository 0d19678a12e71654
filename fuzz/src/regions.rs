//! Memory maps through the normaliser: the testkit's own check, which looks at the edges of all kinds of regions in a
//! map with little room, and here a look at every frame of a window, up to the last frame number, and at the report.

use arbitrary::{Arbitrary, Result, Unstructured};
use pageblock_frame::{MAX_PFN, PAGE_SIZE, Pfn, PhysAddr};
use pageblock_memmap::{DropReason, MapOptions, PhysRange, Region, RegionError, RegionKind, RegionMap};
use pageblock_testkit::maps::{Kind, Piece, is_usable_frame};

/// Frames around the origin that are looked at one by one.
const WINDOW: u64 = 96;

/// Where maps lie: at 0, across 16 MiB, across 4 GiB, and at the last frames of all.
const ORIGINS: [u64; 4] = [0, (16 << 20) / PAGE_SIZE - 40, (4 << 30) / PAGE_SIZE - 50, MAX_PFN - 60];

#[derive(Debug)]
struct Input {
    origin: u64,
    pieces: Vec<Piece>,
    reserve: Vec<(u64, u64)>,
}

impl<'a> Arbitrary<'a> for Input {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let origin = *u.choose(&ORIGINS)?;
        let mut input = Self { origin, pieces: Vec::new(), reserve: Vec::new() };
        for _ in 0..u.int_in_range(0..=4)? {
            let (start, end) = (byte(u, origin)?, byte(u, origin)?);
            input.reserve.push((start.min(end), start.max(end)));
        }
        while !u.is_empty() && input.pieces.len() < 40 {
            let (start, end) = (byte(u, origin)?, byte(u, origin)?);
            let kind = if u.ratio(2, 3)? { Kind::Usable } else { Kind::Reserved };
            input.pieces.push(Piece { start, len: end.saturating_sub(start), kind });
        }
        Ok(input)
    }
}

/// An address in the window; half of the time a frame's boundary, else next to one or anywhere. Rarely anything.
fn byte(u: &mut Unstructured<'_>, origin: u64) -> Result<u64> {
    let boundary = (origin + u.int_in_range(0..=WINDOW)?) * PAGE_SIZE;
    Ok(match u.int_in_range(0..=15u8)? {
        0..=7 => boundary,
        8..=10 => boundary.saturating_sub(1),
        11 => boundary + 1,
        12..=14 => boundary + u64::from(u.arbitrary::<u16>()? % PAGE_SIZE as u16),
        _ => u.arbitrary()?,
    })
}

fn region(piece: &Piece) -> Region {
    let kind = match piece.kind {
        Kind::Usable => RegionKind::Usable,
        Kind::Reserved => RegionKind::Reserved,
    };
    Region::new(piece.start, piece.start.saturating_add(piece.len), kind)
}

/// # Panics
/// If the normalised map has other frames than the naive look, or refuses a map without reason.
pub fn run(data: &[u8]) {
    pageblock_testkit::regions::check(data);
    let Ok(input) = Input::arbitrary(&mut Unstructured::new(data)) else { return };
    let reserve: Vec<PhysRange> =
        input.reserve.iter().map(|&(start, end)| PhysRange::new(PhysAddr::new(start), PhysAddr::new(end))).collect();
    let limit = MAX_PFN * PAGE_SIZE;
    let too_high = input
        .pieces
        .iter()
        .position(|piece| piece.kind == Kind::Usable && piece.len > 0 && piece.start.saturating_add(piece.len) > limit);
    match RegionMap::<128>::build(input.pieces.iter().map(region), &reserve, MapOptions::new()) {
        Ok(map) => {
            assert_eq!(too_high, None, "{input:?}");
            compare(&input, &map);
        }
        Err(RegionError::AboveLimit { index }) => assert_eq!(Some(index), too_high, "{input:?}"),
        Err(error) => panic!("{error}: {input:?}"),
    }
}

fn compare(input: &Input, map: &RegionMap<128>) {
    assert_eq!(map.check(), Ok(()), "{input:?}");
    let reserved = input.reserve.iter().map(|&(start, end)| Piece::reserved(start, end - start));
    let pieces: Vec<Piece> = input.pieces.iter().copied().chain(reserved).collect();
    let runs: Vec<_> = map.usable().map(|run| run.range).collect();
    let first = input.origin.saturating_sub(2);
    for pfn in first..(first + WINDOW + 4).min(MAX_PFN) {
        let found = runs.iter().any(|run| run.contains(Pfn::new(pfn)));
        assert_eq!(found, is_usable_frame(&pieces, pfn), "frame {pfn:#x} of {input:?}");
    }
    assert_eq!(map.usable_frames(), runs.iter().map(|run| run.len()).sum::<u64>());
    account(input, map);
}

/// Every byte that was described as usable is usable now or was dropped for a reason.
fn account(input: &Input, map: &RegionMap<128>) {
    let described: u64 =
        input.pieces.iter().filter(|piece| piece.kind == Kind::Usable).map(|piece| region(piece).len()).sum();
    let report = map.report();
    assert_eq!(report.usable_bytes(), described, "{input:?}");
    let dropped: u64 = DropReason::ALL.iter().map(|&reason| report.dropped(reason).bytes).sum();
    assert_eq!(described, map.usable_frames() * PAGE_SIZE + dropped, "{input:?}");
}
