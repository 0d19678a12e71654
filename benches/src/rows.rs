//! Each loop by name, as `benches/instructions` counts it: one line a row.

use pageblock_mlock::{Placement, SoftArea, Steps};
use pageblock_testkit::conformance::peers::{Depot, FrameAlloc, Summary};

use crate::allocators::{Bitmap, BuddySystem, Nothing, OurZone};
use crate::floor::Floor;
use crate::loops::{self, Mix};
use crate::machine::Machine;
use crate::{Frames, POOL, compaction, worst};

/// A loop with a name.
///
/// Instructions a unit are `(count(long) - count(short)) / (long - short)`, less the same of the control, whose
/// loop is the same with no allocator in it. Whatever comes before the loop does not depend on the length.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Name, `room.loop` or `peer.name.loop`.
    pub name: &'static str,
    /// Runs the loop with a length.
    pub run: fn(u64),
    /// The two lengths.
    pub lengths: (u64, u64),
    /// Units (pairs, operations) in one of length.
    pub units: u64,
    /// The row to subtract; none if the loop has next to nothing of its own.
    pub control: Option<&'static str>,
}

/// All rows.
pub const ROWS: &[Row] = &[
    row("harness.pair", pair::<Nothing, 0>, PAIR, None),
    row("harness.mix", mix::<Nothing>, MIX, None),
    row("harness.pair_of", pair_of::<Nothing, 0>, PAIR, None),
    row("harness.step", mix::<Nothing>, STEP, None),
    row("harness.bulk_alloc", bulk_alloc::<Nothing>, PASS, None),
    row("harness.bulk_free", bulk_free::<Nothing, IN_ORDER>, PASS, None),
    row("pcp.order0", pair_of::<Machine, 0>, PAIR, Some("harness.pair_of")),
    row("pcp.order3", pair_of::<Machine, 3>, PAIR, Some("harness.pair_of")),
    row("pcp.order9", pair_of::<Machine, 9>, PAIR, Some("harness.pair_of")),
    row("pcp.order0_no_word", pair_of::<Machine<false, false>, 0>, PAIR, Some("harness.pair_of")),
    row("pcp.any_order", pair::<Machine, 0>, PAIR, Some("harness.pair")),
    row("pcp.hardened", pair_of::<Machine<true>, 0>, PAIR, Some("harness.pair_of")),
    row("pcp.bulk_alloc", bulk_alloc::<Machine>, PASS, Some("harness.bulk_alloc")),
    row("pcp.bulk_free", bulk_free::<Machine, IN_ORDER>, PASS, Some("harness.bulk_free")),
    row("pcp.bulk_free_random", bulk_free::<Machine, RANDOM>, PASS, Some("harness.bulk_free")),
    row("pcp.mix", mix::<Machine>, STEP, Some("harness.step")),
    row("pcp.worst", worst::worst, WORST, None),
    row("zone.bulk_alloc", bulk_alloc::<OurZone>, PASS, Some("harness.bulk_alloc")),
    row("zone.bulk_free", bulk_free::<OurZone, IN_ORDER>, PASS, Some("harness.bulk_free")),
    row("zone.bulk_free_random", bulk_free::<OurZone, RANDOM>, PASS, Some("harness.bulk_free")),
    row("peer.frame-alloc.bulk_alloc", bulk_alloc::<FrameAlloc<Summary>>, PASS, Some("harness.bulk_alloc")),
    row("peer.frame-alloc.bulk_free", bulk_free::<FrameAlloc<Summary>, IN_ORDER>, PASS, Some("harness.bulk_free")),
    row("peer.frame-alloc.bulk_free_random", bulk_free::<FrameAlloc<Summary>, RANDOM>, PASS, Some("harness.bulk_free")),
    row("peer.frame-alloc-depot.bulk_alloc", bulk_alloc::<FrameAlloc<Depot>>, PASS, Some("harness.bulk_alloc")),
    row("peer.frame-alloc-depot.bulk_free", bulk_free::<FrameAlloc<Depot>, IN_ORDER>, PASS, Some("harness.bulk_free")),
    row("peer.frame-alloc-depot.order3", pair::<FrameAlloc<Depot>, 3>, PAIR, Some("harness.pair")),
    row("peer.bitmap-allocator.bulk_alloc", bulk_alloc::<Bitmap>, PASS, Some("harness.bulk_alloc")),
    row("peer.bitmap-allocator.bulk_free", bulk_free::<Bitmap, IN_ORDER>, PASS, Some("harness.bulk_free")),
    row("peer.bitmap-allocator.bulk_free_random", bulk_free::<Bitmap, RANDOM>, PASS, Some("harness.bulk_free")),
    row("peer.buddy_system_allocator.bulk_alloc", bulk_alloc::<BuddySystem>, PASS, Some("harness.bulk_alloc")),
    row("peer.buddy_system_allocator.bulk_free", bulk_free::<BuddySystem, IN_ORDER>, PASS, Some("harness.bulk_free")),
    row("floor.stack", pair_of::<Floor<false>, 0>, PAIR, Some("harness.pair_of")),
    row("floor.state", pair_of::<Floor<true>, 0>, PAIR, Some("harness.pair_of")),
    row("floor.state_word", pair_of::<Floor<true, true>, 0>, PAIR, Some("harness.pair_of")),
    row("zone.order0", pair::<OurZone, 0>, PAIR, Some("harness.pair")),
    row("zone.order3", pair::<OurZone, 3>, PAIR, Some("harness.pair")),
    row("zone.order9", pair::<OurZone, 9>, PAIR, Some("harness.pair")),
    row("zone.mix", mix::<OurZone>, MIX, Some("harness.mix")),
    row("zone.bulk", zone_bulk, BULK, None),
    row("compaction.scan_migrate", compaction::scan_migrate, BLOCKS, Some("compaction.scan_free")),
    row("compaction.scan_free", compaction::scan_free, BLOCKS, None),
    row("compaction.isolate", compaction::isolate, ISOLATE, None),
    row("mlock.step0", munlock::<0>, PAGES, None),
    row("mlock.step1", munlock::<1>, PAGES, None),
    row("mlock.step2", munlock::<2>, PAGES, None),
    row("mlock.step3", munlock::<3>, PAGES, None),
    row("mlock.step4", munlock::<4>, PAGES, None),
    row("mlock.step5", munlock::<5>, PAGES, None),
    row("mlock.step6", munlock::<6>, PAGES, None),
    row("mlock.step7", munlock::<7>, PAGES, None),
    row("mlock.default", munlock::<OURS>, PAGES, None),
    row("peer.frame-alloc.order0", pair::<FrameAlloc<Summary>, 0>, PAIR, Some("harness.pair")),
    row("peer.frame-alloc.order3", pair::<FrameAlloc<Summary>, 3>, PAIR, Some("harness.pair")),
    row("peer.frame-alloc.order9", pair::<FrameAlloc<Summary>, 9>, PAIR, Some("harness.pair")),
    row("peer.frame-alloc.mix", mix::<FrameAlloc<Summary>>, MIX, Some("harness.mix")),
    row("peer.frame-alloc-depot.order0", pair::<FrameAlloc<Depot>, 0>, PAIR, Some("harness.pair")),
    row("peer.frame-alloc-depot.mix", mix::<FrameAlloc<Depot>>, MIX, Some("harness.mix")),
    row("peer.buddy_system_allocator.order0", pair::<BuddySystem, 0>, PAIR, Some("harness.pair")),
    row("peer.buddy_system_allocator.order9", pair::<BuddySystem, 9>, PAIR, Some("harness.pair")),
    row("peer.buddy_system_allocator.mix", mix::<BuddySystem>, MIX, Some("harness.mix")),
    row("peer.bitmap-allocator.order0", pair::<Bitmap, 0>, PAIR, Some("harness.pair")),
    row("peer.bitmap-allocator.order3", pair::<Bitmap, 3>, PAIR, Some("harness.pair")),
];

/// Lengths, and units in one of length.
type Size = ((u64, u64), u64);

/// One of length is a pair.
const PAIR: Size = ((5_000, 25_000), 1);
/// One of length is two steps of the mix, a pair on average. What comes before the short length is ageing.
const MIX: Size = ((150_000, 200_000), 1);
/// One of length is a page of a locked area: base pages of one node, on the unevictable list in address order.
const PAGES: Size = ((16_384, 65_536), 1);
/// The form of munlock that is not one of the seed's.
const OURS: u8 = u8::MAX;
/// One of length is a run over so many full pageblocks that cannot be emptied.
const BLOCKS: Size = ((4, 24), compaction::BLOCKS);
/// One of length is a half-free pageblock.
const ISOLATE: Size = ((32, 224), 1);
/// The same a step.
const STEP: Size = (MIX.0, 2);
/// One of length is an operation; the loop runs over so many frames of the pool. What comes before and after it, whatever
/// its length, are all the frames: so the difference between the lengths is that of the loop alone.
const PASS: Size = ((POOL / 4, POOL), 1);
/// The dearest history that `benches/worst` has found, without and with its last call.
const WORST: Size = ((2 * DEAREST, 2 * DEAREST + 1), 1);
const DEAREST: u64 = 89;
/// Whether frames are freed in the order in which they were allocated.
const IN_ORDER: bool = false;
const RANDOM: bool = true;
/// One of length is all frames of the pool, each once up and down.
const BULK: Size = ((1, 3), POOL);

const fn row(name: &'static str, run: fn(u64), (lengths, units): Size, control: Option<&'static str>) -> Row {
    Row { name, run, lengths, units, control }
}

/// The row with this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}

fn pair<A: Frames, const ORDER: u8>(pairs: u64) {
    loops::pairs(&mut A::new(POOL), core::hint::black_box(ORDER), pairs);
}

fn pair_of<A: Frames, const ORDER: u8>(pairs: u64) {
    loops::pairs_of::<A, ORDER>(&mut A::new(POOL), pairs);
}

fn mix<A: Frames>(pairs: u64) {
    let mut allocator = A::new(POOL);
    let mut mix = Mix::new(POOL, 1);
    let mut live = Vec::with_capacity(POOL as usize);
    loops::mix(&mut allocator, &mut live, &mix.fill());
    let steps = mix.steps(2 * MIX.0.1 as usize);
    let steps = steps.get(..2 * pairs as usize).unwrap_or(&steps);
    loops::mix(&mut allocator, &mut live, steps);
}

/// Unlocks the first `pages` pages of a locked area.
fn munlock<const PATCHES: u8>(pages: u64) {
    let steps = if PATCHES == OURS { Steps::default() } else { Steps::seed(PATCHES) };
    let tables = SoftArea::descriptors(Placement::OneNode, PAGES.0.1);
    let area = SoftArea::new(Placement::OneNode, PAGES.0.1, &tables);
    area.lock();
    area.unlock_first(pages, core::hint::black_box(steps));
    assert_eq!(area.nr_mlock(), (PAGES.0.1 - pages) as i64);
}

fn bulk_alloc<A: Frames>(frames: u64) {
    // Twice as much memory as is taken: some keep their metadata in it.
    let mut allocator = A::new(2 * POOL);
    let mut buffer = loops::frame_buffer();
    loops::fill(&mut allocator, buffer.get_mut(..frames as usize).unwrap_or_default());
    std::hint::black_box(&buffer);
}

fn bulk_free<A: Frames, const RANDOMLY: bool>(frames: u64) {
    let mut allocator = A::new(2 * POOL);
    let mut buffer = loops::frame_buffer();
    loops::fill(&mut allocator, &mut buffer);
    if RANDOMLY {
        loops::shuffle(&mut buffer);
    }
    loops::empty(&mut allocator, buffer.get(..frames as usize).unwrap_or_default());
}

fn zone_bulk(passes: u64) {
    let mut zone = OurZone::new(POOL);
    let mut frames = loops::frame_buffer();
    for _ in 0..passes {
        loops::bulk(&mut zone, &mut frames);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_names_of_their_own_and_controls_that_exist() {
        for (place, row) in ROWS.iter().enumerate() {
            assert_eq!(ROWS.iter().position(|other| other.name == row.name), Some(place), "{}", row.name);
            assert!(row.control.is_none_or(|control| find(control).is_some_and(|c| c.lengths == row.lengths)));
            assert!(row.lengths.0 < row.lengths.1);
        }
    }

    #[test]
    fn the_mix_stays_at_half_and_the_zone_agrees() {
        let mut zone = OurZone::new(POOL);
        let mut mix = Mix::new(POOL, 3);
        let mut live = Vec::new();
        loops::mix(&mut zone, &mut live, &mix.fill());
        loops::mix(&mut zone, &mut live, &mix.steps(100_000));
        let held: u64 = live.iter().map(|&(_, order)| 1 << order).sum();
        assert!(held.abs_diff(POOL / 2) < POOL / 256);
        assert_eq!(zone.zone().free_frames(), POOL - held);
        assert_eq!(zone.zone().check(), Ok(()));
    }
}
