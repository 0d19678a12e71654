//! Memory maps as firmware delivers them on a bad day, and which frames are in them.

use bitvec::vec::BitVec;
use pageblock_frame::PAGE_SIZE;

/// A raw piece of a memory map, in bytes. No promise of any kind.
///
/// ```
/// use pageblock_testkit::maps::{Piece, usable};
/// let map = [Piece::usable(0, 0x4000), Piece::reserved(0x1800, 0x10)];
/// assert_eq!(usable(&map, 4).iter_ones().collect::<Vec<_>>(), [0, 2, 3]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Physical address of the first byte.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// Its kind.
    pub kind: Kind,
}

/// Kind of a piece of a memory map.
///
/// ```
/// use pageblock_testkit::maps::{Kind, Piece};
/// assert_eq!(Piece::usable(0, 1).kind, Kind::Usable);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Memory for any use.
    Usable,
    /// Not to be touched.
    Reserved,
}

impl Piece {
    /// Usable memory.
    #[must_use]
    pub const fn usable(start: u64, len: u64) -> Self {
        Self { start, len, kind: Kind::Usable }
    }

    /// Reserved memory.
    #[must_use]
    pub const fn reserved(start: u64, len: u64) -> Self {
        Self { start, len, kind: Kind::Reserved }
    }

    fn end(self) -> u64 {
        self.start.saturating_add(self.len)
    }
}

/// A map with a name.
///
/// ```
/// use pageblock_testkit::maps::MAPS;
/// assert!(MAPS.iter().any(|map| map.name == "empty"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Map {
    /// Its fault.
    pub name: &'static str,
    /// The pieces, in the firmware's order.
    pub pieces: &'static [Piece],
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

const fn usable_piece(start: u64, len: u64) -> Piece {
    Piece::usable(start, len)
}

const fn reserved_piece(start: u64, len: u64) -> Piece {
    Piece::reserved(start, len)
}

use reserved_piece as r;
use usable_piece as u;

/// The maps that every boot path must survive.
pub const MAPS: &[Map] = &[
    Map { name: "empty", pieces: &[] },
    Map { name: "zero lengths only", pieces: &[u(0, 0), u(MIB, 0), r(4 * MIB, 0)] },
    Map { name: "less than a frame", pieces: &[u(1, 4095), u(MIB, 4095), u(2 * MIB + 1, 4096)] },
    Map { name: "one frame, frame 0", pieces: &[u(0, PAGE_SIZE)] },
    Map { name: "only reserved", pieces: &[r(0, 64 * MIB)] },
    Map { name: "unsorted", pieces: &[u(32 * MIB, 8 * MIB), u(MIB, 7 * MIB), u(16 * MIB, MIB)] },
    Map {
        name: "overlapping twice",
        pieces: &[u(0, 16 * MIB), u(8 * MIB, 16 * MIB), u(4 * MIB, 6 * MIB), u(0, 16 * MIB)],
    },
    Map { name: "touching", pieces: &[u(0, 4 * MIB), u(4 * MIB, 4 * MIB), u(8 * MIB, 3)] },
    Map { name: "two halves of one frame", pieces: &[u(0, MIB + 2048), u(MIB + 2048, 2048 + MIB)] },
    Map { name: "unaligned ends", pieces: &[u(0x9fc01, 0x3ff), u(MIB + 1, 6 * MIB), u(9 * MIB - 1, 4098)] },
    Map { name: "reserved byte inside", pieces: &[u(0, 16 * MIB), r(5 * MIB + 17, 1)] },
    Map { name: "reserved over the edge", pieces: &[u(2 * MIB, 2 * MIB), r(MIB, MIB + 1), r(4 * MIB - 1, 8)] },
    Map { name: "reserved covers all", pieces: &[u(MIB, 8 * MIB), r(0, GIB)] },
    Map { name: "reserved before usable in the list", pieces: &[r(3 * MIB, MIB), u(0, 8 * MIB)] },
    Map { name: "every second frame reserved", pieces: &ALTERNATING },
    Map {
        name: "a laptop's e820",
        pieces: &[
            u(0, 0x9_fc00),
            r(0x9_fc00, 0x400),
            r(0xf_0000, 0x1_0000),
            u(0x10_0000, 0xbfde_0000 - 0x10_0000),
            r(0xbfde_0000, 0x22_0000),
            r(0xfeff_c000, 0x4000),
            u(4 * GIB, GIB),
        ],
    },
    Map {
        name: "low hole, ragged zones",
        pieces: &[u(0, 640 * KIB), u(MIB, 15 * MIB + 4096), u(17 * MIB - 4096, 40 * MIB)],
    },
    Map { name: "memory islands", pieces: &[u(6 * MIB, PAGE_SIZE), u(512 * MIB, 2 * MIB), u(3 * GIB, 3 * PAGE_SIZE)] },
];

/// Maps with addresses that no frame number of ours reaches, or that wrap around: an error or a dropped piece, never a
/// panic and never a wrong frame.
pub const OUT_OF_REACH: &[Map] = &[
    Map { name: "above 2^32 frames", pieces: &[u(0, 16 * MIB), u(1 << 44, MIB)] },
    Map { name: "across 2^32 frames", pieces: &[u((1 << 44) - MIB, 2 * MIB)] },
    Map { name: "wraps around", pieces: &[u(0, 16 * MIB), u(u64::MAX - 100, 4096)] },
    Map { name: "the whole address space", pieces: &[u(0, u64::MAX)] },
];

const ALTERNATING: [Piece; 33] = {
    let mut pieces = [Piece::usable(MIB, 64 * PAGE_SIZE); 33];
    let mut i = 1;
    while i < 33 {
        pieces[i] = Piece::reserved(MIB + (2 * i as u64 - 1) * PAGE_SIZE, PAGE_SIZE);
        i += 1;
    }
    pieces
};

/// The frames below `frames` that a map makes usable: wholly inside the union of the usable pieces, touched by no
/// reserved byte. The slow and obvious way; meant for maps of a few hundred pieces.
#[must_use]
pub fn usable(pieces: &[Piece], frames: u64) -> BitVec {
    (0..frames).map(|pfn| is_usable_frame(pieces, pfn)).collect()
}

/// One frame of [`usable`]: frame `pfn`, below 2^51.
#[must_use]
pub fn is_usable_frame(pieces: &[Piece], pfn: u64) -> bool {
    is_usable(pieces, pfn * PAGE_SIZE, (pfn + 1) * PAGE_SIZE)
}

fn is_usable(pieces: &[Piece], start: u64, end: u64) -> bool {
    let overlaps = |piece: &&Piece| piece.len > 0 && piece.start < end && piece.end() > start;
    if pieces.iter().filter(overlaps).any(|piece| piece.kind == Kind::Reserved) {
        return false;
    }
    // Walk up from the first byte through whichever usable piece reaches furthest.
    let mut reached = start;
    while reached < end {
        let covers = |piece: &&Piece| piece.kind == Kind::Usable && piece.start <= reached && piece.end() > reached;
        match pieces.iter().filter(covers).map(|piece| piece.end()).max() {
            Some(further) => reached = further,
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(name: &str) -> usize {
        let map = MAPS.iter().find(|map| map.name == name).unwrap();
        usable(map.pieces, 0x1_0000).count_ones()
    }

    #[test]
    fn known_counts() {
        assert_eq!(count("empty"), 0);
        assert_eq!(count("less than a frame"), 0);
        assert_eq!(count("one frame, frame 0"), 1);
        assert_eq!(count("two halves of one frame"), 513);
        assert_eq!(count("overlapping twice"), 24 * 256);
        assert_eq!(count("reserved byte inside"), 16 * 256 - 1);
        assert_eq!(count("reserved over the edge"), 512 - 2);
        assert_eq!(count("reserved covers all"), 0);
        assert_eq!(count("every second frame reserved"), 32);
    }

    #[test]
    fn unaligned_ends_lose_their_frames() {
        let map = [Piece::usable(1, 3 * PAGE_SIZE)];
        assert_eq!(usable(&map, 8).iter_ones().collect::<Vec<_>>(), [1, 2]);
    }
}
