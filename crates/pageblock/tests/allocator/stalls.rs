//! The stall of 2018 (*Fragmentation avoidance and stalls*, patch 4): who waits, for what, how long, and that nothing
//! is lost by it.

use pageblock::{
    Config, Experiment, Gfp, MigrateType, NodeId, STALL_LIMIT, Watermarks, Zone, ZoneKind, ZoneLimits, ZoneSpreading,
};
use pageblock_frame::Hooks as _;
use pageblock_frame::trace::Event;
use pageblock_testkit::host::record;
use pageblock_testkit::simulated::SimulatedZone;

use crate::machine::{Booted, MIB, boot_on, memory, order, zone};
use crate::pressed::{self, Pressed};

const SINGLE: Config = Config::new()
    .zones(ZoneLimits::single())
    .spreading(ZoneSpreading::On)
    .min_free_kbytes(Some(0))
    .per_cpu_lists(None)
    .experiment(Experiment::StallOrder(4));

/// A machine whose pageblocks are all unmovable, in use but for free blocks of `1 << hole` frames, one in sixteen;
/// between min and low, so that the slow path has to serve.
fn unmovable(config: &Config, hole: u8) -> (Booted<Pressed>, &'static Zone<'static>) {
    let frames = boot_on::<Pressed>(&memory(512 * MIB), config).unwrap();
    let normal = zone(&frames, 0, ZoneKind::Normal);
    let start = normal.span().start;
    for at in (0..normal.managed()).filter(|at| !(at >> hole).is_multiple_of(16)) {
        let _ = frames.alloc_at(start.add(at), order(0)).unwrap().into_raw();
    }
    for block in 0..normal.managed() / 512 {
        normal.set_block_type::<Pressed>(start.add(block * 512), MigrateType::Unmovable).unwrap();
    }
    normal.set_watermarks(Watermarks { min: 0, low: 1 << 40, high: 1 << 40 });
    pressed::waits();
    pressed::wakes();
    (frames, normal)
}

fn take(frames: &Booted<Pressed>, gfp: Gfp) {
    let _ = frames.alloc(gfp).unwrap().into_raw();
}

#[test]
fn a_movable_request_waits_once_and_then_mixes() {
    let (frames, normal) = unmovable(&SINGLE, 0);
    let ((), events) = record(|| take(&frames, Gfp::HIGHUSER_MOVABLE));
    assert_eq!(pressed::waits(), [(NodeId::new(0), 20_000_000)]);
    let stalls: Vec<_> = events.iter().filter(|event| matches!(event, Event::FragmentStall { .. })).collect();
    assert_eq!(stalls, [&Event::FragmentStall { node: NodeId::new(0), duration: STALL_LIMIT }]);
    let (stalls, counted) = (frames.stalls(), frames.events());
    assert_eq!((stalls.count, stalls.total, stalls.longest), (1, STALL_LIMIT, STALL_LIMIT));
    assert_eq!(stalls.durations, [0, 0, 0, 0, 1, 0]);
    assert_eq!((counted.refused, counted.fragmenting()), (1, 1), "refused first, then served");
    // A refusal, seven pageblocks for the stall, a mixing.
    assert_eq!(normal.boost(), (1 + 7 + 1) * 512);
    // That pageblock serves on, and nobody waits for it.
    take(&frames, Gfp::HIGHUSER_MOVABLE);
    assert_eq!(pressed::waits(), []);
}

#[test]
fn a_request_that_reclaim_helps_does_not_mix() {
    let (frames, normal) = unmovable(&SINGLE, 0);
    let start = normal.span().start;
    pressed::meanwhile(move || {
        // One pageblock comes back, and is movable from now on.
        normal.set_block_type::<Pressed>(start, MigrateType::Movable).unwrap();
        (1..16).for_each(|at| normal.free_simulated::<Pressed>(start.add(at), order(0)).unwrap());
        3_000_000
    });
    take(&frames, Gfp::HIGHUSER_MOVABLE);
    let counted = frames.events();
    assert_eq!((counted.refused, counted.fragmenting()), (1, 0));
    // It began with a tick and ended before the next.
    assert_eq!((frames.stalls().total, frames.stalls().durations), (3_000_000, [0; 6]));
}

#[test]
fn only_movable_requests_that_may_wait_stall() {
    let movable = Gfp::HIGHUSER_MOVABLE;
    let others = [
        (movable.difference(Gfp::DIRECT_RECLAIM), "cannot wait"),
        (movable | Gfp::MEMALLOC, "frees memory by using it"),
    ];
    for (gfp, why) in others {
        let (frames, _) = unmovable(&SINGLE, 0);
        take(&frames, gfp);
        assert_eq!((pressed::waits().len(), frames.stalls().count), (0, 0), "{why}");
    }
    // The types that cannot be moved away again find their own here; in movable pageblocks they mix without waiting.
    for gfp in [Gfp::KERNEL, Gfp::KERNEL | Gfp::RECLAIMABLE] {
        let (frames, normal) = unmovable(&SINGLE, 0);
        for block in 0..normal.managed() / 512 {
            let at = normal.span().start.add(block * 512);
            normal.set_block_type::<Pressed>(at, MigrateType::Movable).unwrap();
        }
        take(&frames, gfp);
        assert_eq!((pressed::waits().len(), frames.events().fragmenting()), (0, 1), "{gfp:?}");
    }
}

#[test]
fn a_task_that_reclaims_does_not_wait_for_itself() {
    use pageblock::Platform;
    let (frames, _) = unmovable(&SINGLE, 0);
    assert!(Pressed::hooks().enter_reclaim());
    let _ = frames.alloc(Gfp::HIGHUSER_MOVABLE).map(pageblock::Frames::into_raw);
    Pressed::hooks().leave_reclaim();
    assert_eq!(pressed::waits(), []);
}

#[test]
fn the_victim_must_be_strictly_smaller() {
    for (stall_order, hole, waits) in [(4, 3, 1), (4, 4, 0), (3, 3, 0), (5, 4, 1), (1, 0, 1), (0, 0, 0), (11, 8, 1)] {
        let (frames, _) = unmovable(&SINGLE.experiment(Experiment::StallOrder(stall_order)), hole);
        take(&frames, Gfp::HIGHUSER_MOVABLE);
        assert_eq!(pressed::waits().len(), waits, "stall order {stall_order}, victim of order {hole}");
    }
}

#[test]
fn whole_pageblocks_are_taken_without_waiting() {
    let (frames, normal) = unmovable(&SINGLE.experiment(Experiment::StallOrder(11)), 9);
    take(&frames, Gfp::HIGHUSER_MOVABLE);
    assert_eq!((pressed::waits().len(), normal.boost()), (0, 0));
    let events = frames.events();
    assert_eq!((events.fragmenting(), events.claims), (0, 1));
}

/// The fallback names one victim, the smallest; where that is refused, larger ones are not looked for.
#[test]
fn a_refused_victim_ends_the_zone() {
    let (frames, normal) = unmovable(&SINGLE.experiment(Experiment::StallOrder(1)), 3);
    // One pageblock has single frames only; all others have free blocks of eight.
    let block = normal.span().start.add(20 * 512);
    for at in (0..512).filter(|at| (at >> 3) % 16 == 0 && at % 8 != 0) {
        let _ = frames.alloc_at(block.add(at), order(0)).unwrap().into_raw();
    }
    take(&frames, Gfp::HIGHUSER_MOVABLE);
    assert_eq!((pressed::waits().len(), frames.events().refused), (1, 1));
    assert_eq!(frames.events().fallbacks[0], 1, "and then it is taken from all the same");
}

#[test]
fn the_series_of_2018_stalls_from_its_fourth_patch_on() {
    for patches in 0..=4 {
        let config = Config::linux_4_20(patches).zones(ZoneLimits::single()).min_free_kbytes(Some(0));
        let (frames, normal) = unmovable(&config.per_cpu_lists(None), 0);
        take(&frames, Gfp::HIGHUSER_MOVABLE);
        let boost = [0, 0, 0, 512, 9 * 512][usize::from(patches)];
        assert_eq!((pressed::waits().len(), normal.boost()), (usize::from(patches == 4), boost), "{patches} patches");
        let _ = pressed::wakes();
    }
}

/// A kernel without a scheduler: nothing waits, nothing is counted, and every request is served.
#[test]
fn where_nothing_can_wait_nothing_is_lost() {
    let scene = |stall_order| {
        let frames = boot_on::<pageblock_testkit::host::Quiet>(
            &memory(16 * MIB),
            &SINGLE.experiment(Experiment::StallOrder(stall_order)),
        );
        let frames = frames.unwrap();
        let types = [Gfp::HIGHUSER_MOVABLE, Gfp::KERNEL];
        let served = (0..).map_while(|i| frames.alloc(types[i % 2]).ok().map(pageblock::Frames::into_raw)).count();
        (served, frames.stalls().count)
    };
    assert_eq!(scene(11), (4096, 0));
    assert_eq!(scene(0), (4096, 0));
}
