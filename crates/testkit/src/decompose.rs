//! The maximal aligned blocks of a set of free frames, found the slow and obvious way.

use pageblock_frame::{Order, Pfn, PfnRange};

/// Number of maximal free blocks of each order.
pub type Counts = [u64; Order::COUNT];

/// Counts the maximal naturally aligned blocks of the free frames in `span`, up to `max` inclusive.
///
/// `class` says of a frame whether it is free (`Some`) and to which class it belongs: two buddies merge only if both
/// are free and of the same class. A frame is its own block of order 0; two free buddies of one class are a block of
/// the order above; a block without a partner is maximal. Nothing here is clever, on purpose.
///
/// ```
/// use pageblock_frame::{Order, Pfn, PfnRange};
/// use pageblock_testkit::decompose;
/// let span = PfnRange::new(Pfn::new(3), Pfn::new(11));
/// let counts = decompose(span, Order::MAX, |pfn| (pfn.as_u64() != 9).then_some(0));
/// assert_eq!(counts[..4], [3, 0, 1, 0]); // 3; 4 to 7; 8; 10
/// ```
pub fn decompose(span: PfnRange, max: Order, class: impl Fn(Pfn) -> Option<u8>) -> Counts {
    let mut counts = [0; Order::COUNT];
    let base = span.start.as_u64() & !(max.frames() - 1);
    let top = span.end.as_u64().next_multiple_of(max.frames());
    let mut level: Vec<Option<u8>> =
        (base..top).map(Pfn::new).map(|pfn| if span.contains(pfn) { class(pfn) } else { None }).collect();
    for order in max.up_to() {
        let free = level.iter().flatten().count() as u64;
        if order == max {
            counts[order.index()] = free;
            break;
        }
        level = level.chunks(2).map(|pair| if pair[0] == pair[1] { pair[0] } else { None }).collect();
        counts[order.index()] = free - 2 * level.iter().flatten().count() as u64;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: u64, end: u64) -> PfnRange {
        PfnRange::new(Pfn::new(start), Pfn::new(end))
    }

    #[test]
    fn everything_free_is_the_aligned_cover() {
        let counts = decompose(span(1, 4096), Order::MAX, |_| Some(0));
        let mut expected = [0; Order::COUNT];
        expected[..10].fill(1); // 1, 2..4, 4..8, … 512..1024
        expected[10] = 3;
        assert_eq!(counts, expected);
    }

    #[test]
    fn classes_do_not_merge() {
        let counts = decompose(span(0, 1024), Order::MAX, |pfn| Some((pfn.as_u64() / 512) as u8));
        assert_eq!((counts[9], counts[10]), (2, 0));
    }

    #[test]
    fn every_frame_is_in_exactly_one_block() {
        let free = |pfn: Pfn| (pfn.as_u64() % 7 != 3).then_some(0);
        let counts = decompose(span(5, 1300), Order::LIMIT, free);
        let frames: u64 = counts.iter().zip(Order::LIMIT.up_to()).map(|(n, order)| n * order.frames()).sum();
        assert_eq!(frames, (5..1300).map(Pfn::new).filter(|&pfn| free(pfn).is_some()).count() as u64);
    }
}
