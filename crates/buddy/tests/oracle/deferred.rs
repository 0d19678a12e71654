//! Metadata of pageblocks that were never allocated does not exist: what was in its memory before means nothing.

use core::mem::MaybeUninit;
use core::ptr::NonNull;
use pageblock_testkit::simulated::SimulatedZone;

use pageblock_buddy::{Absent, FreeError, Zone, ZoneConfig, ZoneStorage};
use pageblock_frame::{
    AllocFlags, Carver, FrameState, MigrateType, NodeId, Order, PAGEBLOCK_ORDER, Pfn, PfnRange, Platform, StateByte,
    ZoneKind,
};
use pageblock_testkit::host::Quiet;

const FRAMES: u64 = 40 * 512 + 100;
const NONE: AllocFlags = AllocFlags::empty();
const MOVABLE: MigrateType = MigrateType::Movable;

/// A zone in memory in which each byte looks like a single frame that a caller holds.
fn zone() -> Zone<'static> {
    let span = PfnRange::new(Pfn::new(0), Pfn::new(FRAMES));
    let held = StateByte::allocated(Order::ZERO, MOVABLE).raw();
    let raw = vec![MaybeUninit::new(held); ZoneStorage::bytes(span, Order::MAX)].leak();
    let storage = ZoneStorage::carve(span, Order::MAX, &mut Carver::new(raw)).unwrap();
    Zone::new::<Quiet>(ZoneConfig::new(ZoneKind::Normal, NodeId::new(0), span), storage).unwrap()
}

fn frames(start: u64, end: u64) -> PfnRange {
    PfnRange::new(Pfn::new(start), Pfn::new(end))
}

#[test]
fn a_frame_that_was_never_allocated_is_not_freed() {
    let zone = zone();
    zone.release_simulated::<Quiet>(frames(0, FRAMES)).unwrap();
    for pfn in (0..FRAMES).step_by(37).map(Pfn::new) {
        assert_eq!(zone.free_simulated::<Quiet>(pfn, Order::ZERO), Err(FreeError::NotAllocated));
        assert!(zone.free_range_simulated::<Quiet>(PfnRange::from_len(pfn, 1)).is_err());
    }
    assert_eq!(zone.free_bulk_simulated::<Quiet>(Order::ZERO, &[5, 7000, 20_000]), 3);
    let huge = zone.alloc::<Quiet>(PAGEBLOCK_ORDER, MOVABLE, NONE).unwrap();
    assert_eq!(zone.free_simulated::<Quiet>(huge.add(1), Order::ZERO), Err(FreeError::NotHead { head: huge }));
    assert_eq!(zone.free_simulated::<Quiet>(huge, PAGEBLOCK_ORDER), Ok(()));
    assert_eq!((zone.free_frames(), zone.check()), (FRAMES, Ok(())));
}

#[test]
fn what_is_absent_is_named_and_can_be_given_later() {
    let zone = zone();
    zone.release_simulated::<Quiet>(frames(700, 3000)).unwrap();
    zone.mark_absent(frames(0, 700), Absent::Reserved);
    zone.mark_absent(frames(3000, FRAMES), Absent::Hole);
    let state = |pfn: u64| zone.states().get(pfn as u32).decode();
    assert_eq!(
        [state(5), state(699), state(700), state(2999)],
        [FrameState::Reserved, FrameState::Reserved, FrameState::Inside, FrameState::Inside]
    );
    assert_eq!([state(3000), state(9000), state(FRAMES - 1)], [FrameState::Hole; 3]);
    assert_eq!(zone.free_simulated::<Quiet>(Pfn::new(100), Order::ZERO), Err(FreeError::Reserved));
    assert_eq!(zone.present(), 3000);
    assert!(zone.release_simulated::<Quiet>(frames(2000, 9000)).is_err(), "some belong to the allocator");
    assert_eq!(zone.check(), Ok(()));
    assert_eq!(zone.release_simulated::<Quiet>(frames(0, 700)), Ok(700));
    assert_eq!(zone.release_simulated::<Quiet>(frames(3000, FRAMES)), Ok(FRAMES - 3000));
    assert_eq!((zone.free_frames(), zone.present(), zone.check()), (FRAMES, FRAMES, Ok(())));
}

/// Each pageblock that was opened is below the number of frames that lists may look at, after a few calls.
#[test]
fn the_number_of_opened_frames_follows() {
    let zone = zone();
    zone.release_simulated::<Quiet>(frames(0, 40 * 512)).unwrap();
    assert_eq!(zone.opened_frames::<Quiet>(), 0);
    zone.alloc_at::<Quiet>(Pfn::new(21 * 512), Order::ZERO).unwrap();
    let mut calls = 0;
    while zone.opened_frames::<Quiet>() < 22 * 512 {
        calls += 1;
        assert!(calls < 22, "it does not grow");
    }
    let now = zone.opened_frames::<Quiet>();
    assert_eq!(zone.opened_frames::<Quiet>(), now, "nothing above has been opened");
    assert!(u64::from(now) < FRAMES && (0..now).all(|index| zone.states().is_opened(index / 512)));
    // The last pageblock is opened by its frames' coming.
    zone.release_simulated::<Quiet>(frames(40 * 512, FRAMES)).unwrap();
    for _ in 0..40 {
        let _ = zone.opened_frames::<Quiet>();
    }
    assert_eq!((u64::from(zone.opened_frames::<Quiet>()), zone.check()), (FRAMES, Ok(())));
}

/// As [`Quiet`], where a simultaneous free is told.
struct Hardened;

// SAFETY: one CPU, no interrupts, no memory behind the frames.
unsafe impl Platform for Hardened {
    const MAX_CPUS: usize = 1;
    const HAS_MEMORY: bool = false;
    const HARDENED: bool = true;

    fn phys_to_virt(_: u64) -> NonNull<u8> {
        NonNull::dangling()
    }
}

#[test]
fn blocks_of_a_refused_range_can_still_be_freed() {
    let zone = zone();
    zone.release_simulated::<Hardened>(frames(0, FRAMES)).unwrap();
    let [first, second] = [(); 2].map(|()| zone.alloc::<Hardened>(PAGEBLOCK_ORDER, MOVABLE, NONE).unwrap());
    assert_eq!(second, first.add(512));
    let range = PfnRange::new(first, second.add(513));
    assert_eq!(zone.free_range_simulated::<Hardened>(range), Err(FreeError::NotAllocated), "its last frame is free");
    for block in [first, second] {
        assert_eq!(zone.free_simulated::<Hardened>(block, PAGEBLOCK_ORDER), Ok(()));
    }
    assert_eq!((zone.free_frames(), zone.check()), (FRAMES, Ok(())));
}
