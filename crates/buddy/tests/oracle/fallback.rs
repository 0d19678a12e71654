//! How migrate types fall back on one another: the choice of the victim, when a pageblock changes hands, and the
//! high-order atomic reserve, rule by rule as Linux 6.1 (and 3.13) have them.

use pageblock_testkit::simulated::SimulatedZone;
use std::ops::Range;

use pageblock_buddy::{Policy, Unreserve, Zone, ZoneConfig};
use pageblock_frame::MigrateType::{Cma, HighAtomic, Isolate, Movable, Reclaimable, Unmovable};
use pageblock_frame::trace::{Event, Fallback};
use pageblock_frame::{AllocFlags, MigrateType, NodeId, Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, Pfn, ZoneKind};
use pageblock_testkit::host::{Stored, record};

use crate::subject::{self, Machine, range};

/// A zone whose pageblocks do not merge with one another, so that each is set up on its own.
struct Scene(Stored<Zone<'static>>);

impl Scene {
    fn new(types: &[MigrateType], policy: Policy) -> Self {
        Self::with_order(types, policy, PAGEBLOCK_ORDER)
    }

    fn with_order(types: &[MigrateType], policy: Policy, max_order: Order) -> Self {
        let span = range((0, types.len() as u64 * PAGEBLOCK_FRAMES));
        let mut config = ZoneConfig::new(ZoneKind::Normal, NodeId::new(0), span);
        (config.policy, config.max_order) = (policy, max_order);
        let scene = Self(subject::zone(config));
        assert_eq!(scene.0.release_simulated::<Machine>(span), Ok(span.len()));
        for (block, &migrate_type) in types.iter().enumerate() {
            scene.retype(block as u64, migrate_type);
        }
        scene
    }

    fn start(block: u64) -> Pfn {
        Pfn::new(block * PAGEBLOCK_FRAMES)
    }

    fn retype(&self, block: u64, migrate_type: MigrateType) {
        match migrate_type {
            Isolate => assert_eq!(self.0.isolate_block::<Machine>(Self::start(block)), Ok(())),
            HighAtomic => assert!(self.0.reserve_highatomic::<Machine>(Self::start(block))),
            _ => assert_eq!(self.0.set_block_type::<Machine>(Self::start(block), migrate_type), Ok(())),
        }
    }

    /// Single frames of a pageblock, taken by holders of a type. The pageblock's own type stays what it is.
    fn take(&self, block: u64, frames: Range<u64>, holder: MigrateType) -> &Self {
        let own = self.type_of(block);
        self.retype(block, holder);
        for frame in frames {
            assert_eq!(self.0.alloc_at::<Machine>(Self::start(block).add(frame), Order::ZERO), Ok(()));
        }
        self.retype(block, own);
        self
    }

    /// Leaves nothing free in a pageblock but `frames`.
    fn leave(&self, block: u64, frames: Range<u64>) -> &Self {
        let own = self.type_of(block);
        self.take(block, 0..frames.start, own).take(block, frames.end..PAGEBLOCK_FRAMES, own)
    }

    fn type_of(&self, block: u64) -> MigrateType {
        self.0.block_type(self.0.base().add(block * 512)).unwrap()
    }

    /// Allocates, and returns what came with which event.
    fn alloc(&self, order: u8, wanted: MigrateType, flags: AllocFlags) -> (Option<u64>, Option<Fallback>) {
        let order = Order::new(order).unwrap();
        let (pfn, events) = record(|| self.0.alloc::<Machine>(order, wanted, flags));
        assert_eq!(self.0.check(), Ok(()));
        let fallbacks: Vec<Fallback> =
            events.iter().filter_map(|event| if let Event::Fallback(f) = event { Some(*f) } else { None }).collect();
        assert!(fallbacks.len() <= 1, "{fallbacks:?}");
        (pfn.map(|pfn| pfn.as_u64() / PAGEBLOCK_FRAMES), fallbacks.first().copied())
    }

    fn plain(&self, wanted: MigrateType) -> (Option<u64>, Option<Fallback>) {
        self.alloc(0, wanted, AllocFlags::empty())
    }
}

/// A fallback from a pageblock of a type and a free block of an order, and whether the pageblock changed hands.
fn of(event: Option<Fallback>) -> Option<(MigrateType, u8, bool)> {
    event.map(|event| (event.from, event.fallback_order.as_u8(), event.change_ownership))
}

#[test]
fn no_event_where_the_own_type_serves() {
    let scene = Scene::new(&[Movable, Unmovable], Policy::linux_6_1());
    assert_eq!(scene.plain(Unmovable), (Some(1), None));
}

#[test]
fn each_type_turns_to_the_others_in_order() {
    for (wanted, first, second) in
        [(Unmovable, Reclaimable, Movable), (Reclaimable, Unmovable, Movable), (Movable, Reclaimable, Unmovable)]
    {
        for policy in [Policy::linux_6_1(), Policy::linux_3_13(), Policy::new()] {
            let scene = Scene::new(&[second, first], policy);
            let (block, event) = scene.plain(wanted);
            assert_eq!((block, of(event)), (Some(1), Some((first, 9, true))), "{wanted:?}");
            assert_eq!(event.map(|e| (e.wanted, e.alloc_order)), Some((wanted, Order::ZERO)));
            // What is left of the claimed pageblock serves before the other is touched.
            assert_eq!(scene.alloc(8, wanted, AllocFlags::empty()), (Some(1), None));
            let (block, event) = scene.alloc(9, wanted, AllocFlags::empty());
            assert_eq!((block, of(event)), (Some(0), Some((second, 9, true))));
        }
    }
}

#[test]
fn the_reserve_cma_and_isolated_pageblocks_are_never_victims() {
    let scene = Scene::new(&[HighAtomic, Cma, Isolate], Policy::linux_6_1());
    for wanted in [Unmovable, Movable, Reclaimable] {
        assert_eq!(scene.plain(wanted), (None, None));
    }
}

#[test]
fn unmovable_takes_the_largest_victim_of_any_type() {
    let scene = Scene::new(&[Reclaimable, Movable], Policy::linux_6_1());
    scene.leave(0, 8..16).leave(1, 32..64);
    let (block, event) = scene.plain(Unmovable);
    assert_eq!((block, of(event).map(|(from, order, _)| (from, order))), (Some(1), Some((Movable, 5))));
}

#[test]
fn movable_takes_the_smallest_victim_where_the_largest_is_small() {
    let scene = |policy| {
        let scene = Scene::new(&[Reclaimable, Unmovable], policy);
        scene.leave(0, 8..16).leave(1, 4..6);
        scene
    };
    let smallest = scene(Policy::linux_6_1());
    let (block, event) = smallest.plain(Movable);
    assert_eq!((block, of(event)), (Some(1), Some((Unmovable, 1, false))));
    assert!(event.unwrap().is_fragmenting());
    assert_eq!((smallest.type_of(0), smallest.type_of(1)), (Reclaimable, Unmovable), "pollution changes no type");
    let largest = scene(Policy::linux_3_13());
    assert_eq!(of(largest.plain(Movable).1), Some((Reclaimable, 3, false)));
}

#[test]
fn movable_takes_the_largest_victim_from_order_4_on() {
    let scene = Scene::new(&[Unmovable, Reclaimable], Policy::linux_6_1());
    scene.leave(0, 4..6).leave(1, 16..32);
    let (block, event) = scene.plain(Movable);
    assert_eq!((block, of(event)), (Some(1), Some((Reclaimable, 4, false))));
}

#[test]
fn movable_takes_a_victim_of_exactly_its_order() {
    let scene = Scene::new(&[Reclaimable, Unmovable], Policy::linux_6_1());
    scene.leave(0, 8..16).leave(1, 4..6);
    let (block, event) = scene.alloc(3, Movable, AllocFlags::empty());
    assert_eq!((block, of(event)), (Some(0), Some((Reclaimable, 3, false))));
}

#[test]
fn without_mixing_only_whole_pageblocks_are_victims() {
    let scene = Scene::new(&[Movable, Reclaimable], Policy::linux_6_1());
    scene.leave(0, 0..256).leave(1, 0..256);
    assert_eq!(scene.alloc(0, Unmovable, AllocFlags::NOFRAGMENT), (None, None));
    let scene = Scene::new(&[Movable, Reclaimable], Policy::linux_6_1());
    scene.leave(1, 0..256);
    let (block, event) = scene.alloc(0, Unmovable, AllocFlags::NOFRAGMENT);
    assert_eq!((block, of(event)), (Some(0), Some((Movable, 9, true))));
    assert!(!event.unwrap().is_fragmenting());
}

/// A pageblock of type `from` with so many free and movable frames, the rest held by `from`; then a request.
fn claims(from: MigrateType, free: u64, movable: u64, wanted: MigrateType, policy: Policy) -> bool {
    let scene = Scene::new(&[from], policy);
    let other = if from == Movable { Unmovable } else { from };
    scene.take(0, free..free + movable, Movable).take(0, free + movable..PAGEBLOCK_FRAMES, other);
    let (block, event) = scene.plain(wanted);
    let (event_from, _, claimed) = of(event).unwrap();
    assert_eq!((block, event_from), (Some(0), from));
    assert_eq!(scene.type_of(0), if claimed { wanted } else { from });
    claimed
}

#[test]
fn half_free_or_compatible_claims_the_pageblock() {
    let linux = Policy::linux_6_1();
    assert!(claims(Reclaimable, 200, 60, Movable, linux), "260 of 512");
    assert!(claims(Reclaimable, 200, 56, Movable, linux), "exactly half");
    assert!(!claims(Reclaimable, 200, 55, Movable, linux), "one less than half");
    assert!(claims(Movable, 100, 150, Unmovable, linux), "100 free, 262 held and not movable");
    assert!(!claims(Movable, 100, 300, Unmovable, linux), "100 free, 112 held and not movable");
    assert!(claims(Movable, 100, 156 + 100, Reclaimable, linux), "exactly half: 100 and 156");
    assert!(!claims(Movable, 100, 156 + 101, Reclaimable, linux));
    assert!(claims(Reclaimable, 256, 0, Unmovable, linux), "free alone");
    assert!(!claims(Reclaimable, 255, 257, Unmovable, linux), "between the two, only free counts");
}

#[test]
fn in_3_13_only_free_frames_claim() {
    let linux = Policy::linux_3_13();
    assert!(!claims(Reclaimable, 200, 60, Movable, linux));
    assert!(!claims(Movable, 255, 0, Unmovable, linux));
    assert!(claims(Movable, 256, 0, Unmovable, linux));
}

#[test]
fn small_victims_claim_for_some_types_only() {
    // Half of the pageblock is free, in blocks of order 3.
    let scene = |policy| {
        let scene = Scene::new(&[Movable], policy);
        for i in 0..32 {
            scene.take(0, 16 * i..16 * i + 8, Unmovable);
        }
        scene
    };
    assert_eq!(of(scene(Policy::linux_6_1()).plain(Unmovable).1), Some((Movable, 3, true)));
    assert_eq!(of(scene(Policy::linux_3_13()).plain(Unmovable).1), Some((Movable, 3, false)));
    assert_eq!(of(scene(Policy::linux_3_13()).plain(Reclaimable).1), Some((Movable, 3, true)));
}

#[test]
fn a_larger_victim_changes_hands_as_a_whole_or_as_far_as_needed() {
    let types = [Movable; 4];
    let of_policy = |policy| Scene::with_order(&types, policy, Order::MAX);
    let claimed = |scene: &Scene| (0..4).filter(|&block| scene.type_of(block) == Unmovable).count();
    let whole = of_policy(Policy::linux_6_1());
    assert_eq!(of(whole.plain(Unmovable).1), Some((Movable, 10, true)));
    assert_eq!(claimed(&whole), 2);
    let mut policy = Policy::new();
    policy.claim_whole_run = false;
    let needed = of_policy(policy);
    let event = needed.plain(Unmovable).1.unwrap();
    assert!(event.change_ownership && !event.is_fragmenting());
    assert_eq!(claimed(&needed), 1);
}

#[test]
fn a_change_of_type_is_one_pageblocks_own_matter() {
    let scene = Scene::with_order(&[Movable; 4], Policy::new(), Order::MAX);
    scene.retype(2, Unmovable);
    assert_eq!([0, 1, 2, 3].map(|block| scene.type_of(block)), [Movable, Movable, Unmovable, Movable]);
    assert_eq!(scene.0.free_blocks()[9..=10], [2, 1]);
    // A free that completes both takes the free neighbour along, as in Linux 6.10.
    let order = PAGEBLOCK_ORDER;
    assert_eq!(scene.0.alloc_at::<Machine>(Scene::start(2), order), Ok(()));
    assert_eq!(scene.0.free_simulated::<Machine>(Scene::start(2), order), Ok(()));
    assert_eq!([2, 3].map(|block| scene.type_of(block)), [Unmovable; 2]);
    assert_eq!(scene.0.free_blocks()[9..=10], [0, 2]);
    assert_eq!(scene.0.check(), Ok(()));
}

#[test]
fn the_reserve_has_a_limit() {
    let frames = 1_270_000;
    let zone = subject::zone(ZoneConfig::new(ZoneKind::Normal, NodeId::new(0), range((0, frames))));
    assert_eq!(zone.release_simulated::<Machine>(range((0, frames))), Ok(frames));
    let blocks = (0..frames / PAGEBLOCK_FRAMES).map(Scene::start);
    assert_eq!(blocks.filter(|&pfn| zone.reserve_highatomic::<Machine>(pfn)).count(), 26);
    assert_eq!(zone.highatomic(), 13_312); // the last is added below the limit of 13,212
    assert_eq!(zone.check(), Ok(()));
}

#[test]
fn the_reserve_does_not_exist_in_3_13() {
    let scene = Scene::new(&[Movable], Policy::linux_3_13());
    assert!(!scene.0.reserve_highatomic::<Machine>(Pfn::new(0)));
}

#[test]
fn only_ordinary_pageblocks_join_the_reserve() {
    let scene = Scene::new(&[Cma, HighAtomic, Isolate, Reclaimable], Policy::linux_6_1());
    let joined = |block| scene.0.reserve_highatomic::<Machine>(Scene::start(block));
    assert_eq!([0, 1, 2].map(joined), [false; 3]);
}

#[test]
fn the_reserve_serves_whom_it_is_for_first_and_the_desperate_last() {
    let scene = || Scene::new(&[HighAtomic, Unmovable], Policy::linux_6_1());
    // First for high-order atomic requests, even where others could serve.
    assert_eq!(scene().alloc(1, Unmovable, AllocFlags::HIGHATOMIC), (Some(0), None));
    for (flags, served) in [(AllocFlags::empty(), None), (AllocFlags::OOM, Some(0)), (AllocFlags::NON_BLOCK, Some(0))] {
        let scene = scene();
        assert_eq!(scene.alloc(0, Unmovable, flags), (Some(1), None), "not before it is needed");
        scene.take(1, 1..PAGEBLOCK_FRAMES, Unmovable);
        assert_eq!(scene.alloc(0, Unmovable, flags), (served, None), "{flags:?}");
    }
}

#[test]
fn the_reserve_is_given_back_pageblock_by_pageblock() {
    let scene = Scene::new(&[Movable; 300], Policy::linux_6_1());
    scene.retype(7, HighAtomic);
    assert!(!scene.0.unreserve_highatomic::<Machine>(Unreserve::ButOne, Unmovable), "the last one stays");
    scene.retype(8, HighAtomic);
    assert!(scene.0.unreserve_highatomic::<Machine>(Unreserve::ButOne, Unmovable));
    assert!(scene.0.unreserve_highatomic::<Machine>(Unreserve::Last, Reclaimable));
    assert!(!scene.0.unreserve_highatomic::<Machine>(Unreserve::Last, Reclaimable), "nothing left");
    let mut types = [scene.type_of(7), scene.type_of(8)];
    types.sort_unstable();
    assert_eq!((types, scene.0.highatomic()), ([Unmovable, Reclaimable], 0));
    assert_eq!(scene.0.check(), Ok(()));
}

#[test]
fn cma_serves_movable_requests_that_may_use_it() {
    let scene = Scene::new(&[Cma, Movable], Policy::linux_6_1());
    // Half of what is free is CMA: not more than half, so the ordinary pageblock serves, then they take turns.
    assert_eq!(scene.alloc(0, Movable, AllocFlags::CMA), (Some(1), None));
    assert_eq!(scene.alloc(0, Movable, AllocFlags::CMA), (Some(0), None));
    assert_eq!(scene.alloc(8, Movable, AllocFlags::empty()), (Some(1), None));
    scene.0.alloc::<Machine>(Order::new(7).unwrap(), Movable, AllocFlags::empty()).unwrap();
    let left = (0..512).map_while(|_| scene.0.alloc::<Machine>(Order::ZERO, Movable, AllocFlags::empty())).count();
    assert_eq!(left, 512 - 256 - 128 - 1, "nothing of the CMA pageblock");
    assert_eq!(scene.alloc(3, Movable, AllocFlags::CMA), (Some(0), None));
    assert_eq!(scene.alloc(0, Unmovable, AllocFlags::empty()), (None, None));
}

#[test]
fn two_types_that_share_a_pageblock_do_not_take_it_from_each_other_in_turn() {
    let scene = Scene::new(&[Reclaimable], Policy::new());
    scene.take(0, 0..8, Reclaimable);
    let mixings = (0..20).filter(|i| scene.plain(if i % 2 == 0 { Unmovable } else { Reclaimable }).1.is_some());
    assert_eq!(mixings.collect::<Vec<_>>(), [0]);
    assert_eq!(scene.type_of(0), Unmovable);
}

#[test]
fn a_type_keeps_to_the_pageblock_that_it_mixed_into() {
    // Two movable pageblocks with too little free to be claimed, in separate frames.
    let scene = Scene::new(&[Movable, Movable], Policy::new());
    for block in 0..2 {
        scene.take(block, 0..400, Movable);
    }
    let served: Vec<_> = (0..50).map(|_| scene.plain(Unmovable)).collect();
    assert_eq!(served.iter().filter(|(_, event)| event.is_some()).count(), 1);
    let blocks: Vec<u64> = served.iter().map(|(pfn, _)| pfn.unwrap() / 512).collect();
    assert!(blocks.iter().all(|block| *block == blocks[0]), "{blocks:?}");
}

#[test]
fn a_type_that_cannot_move_prefers_a_whole_pageblock_to_the_one_that_it_mixed_into() {
    for (policy, expected) in [(Policy::new(), 1), (Policy::linux_6_1(), 0)] {
        let scene = Scene::new(&[Movable, Movable, Movable], policy);
        scene.leave(0, 0..8).take(1, 0..512, Movable).take(2, 0..512, Movable);
        assert_eq!(of(scene.plain(Unmovable).1), Some((Movable, 3, false)));
        assert_eq!(scene.0.take_short(), policy.keep_whole, "there is no whole pageblock");
        assert!(!scene.0.is_short());
        for frame in 0..512 {
            assert_eq!(scene.0.free_simulated::<Machine>(Scene::start(1).add(frame), Order::ZERO), Ok(()));
        }
        assert_eq!(scene.plain(Unmovable).0, Some(expected));
        assert_eq!(scene.type_of(1) == Unmovable, policy.keep_whole);
        assert_eq!(scene.0.take_short(), policy.keep_whole, "that was the last");
        // Movable requests do not ask: they are what makes room.
        assert!(scene.plain(Movable).0.is_some() && !scene.0.is_short());
    }
}

/// Every second frame of the first half of a pageblock is free: 128 of them, none beside another.
fn crumbs(scene: &Scene, block: u64) {
    let own = scene.type_of(block);
    scene.take(block, 256..512, own);
    (0..128).for_each(|i| _ = scene.take(block, 2 * i..2 * i + 1, own));
}

#[test]
fn in_linux_each_frame_that_movable_requests_take_of_others_is_a_mixing() {
    for (policy, mixings) in [(Policy::linux_6_1(), 128), (Policy::new(), 1)] {
        let scene = Scene::new(&[Reclaimable], policy);
        crumbs(&scene, 0);
        let found = (0..128).filter(|_| scene.plain(Movable).1.is_some_and(|event| event.is_fragmenting())).count();
        assert_eq!((found, scene.0.free_frames()), (mixings, 0), "{policy:?}");
    }
}

#[test]
fn in_linux_what_was_free_in_an_unclaimed_pageblock_is_lent_and_what_is_freed_later_is_not() {
    let scene = Scene::new(&[Movable], Policy::linux_6_1());
    scene.take(0, 100..512, Movable);
    let mixings = |times: u64| (0..times).filter(|_| scene.plain(Unmovable).1.is_some()).count();
    assert_eq!(mixings(50), 1, "the first moves all 100");
    for frame in 200..210 {
        assert_eq!(scene.0.free_simulated::<Machine>(Scene::start(0).add(frame), Order::ZERO), Ok(()));
    }
    assert_eq!((mixings(50), mixings(1)), (0, 1), "the others were freed to the pageblock's own type");
    // The rest of a block that a movable request takes from is its, too.
    let scene = Scene::new(&[Unmovable], Policy::linux_6_1());
    scene.leave(0, 0..8);
    let seen: Vec<bool> = (0..8).map(|_| scene.plain(Movable).1.is_some()).collect();
    assert_eq!(seen, [true, false, false, false, false, false, false, false]);
}

/// Since Linux 6.15: the pageblock with the largest free block is claimed if that pays, else the next; where none is,
/// the smallest block serves, and what is left of a larger one stays with its type.
#[test]
fn newer_rules_claim_or_take_the_smallest() {
    let scene = Scene::new(&[Movable, Reclaimable, Reclaimable], Policy::linux_6_18());
    // Too little of the first two is free; half of the third is, in smaller blocks.
    scene.leave(0, 64..128).leave(1, 4..8).leave(2, 16..288);
    let (block, event) = scene.plain(Unmovable);
    assert_eq!((block, of(event)), (Some(2), Some((Reclaimable, 7, true))));
    let scene = Scene::new(&[Movable, Reclaimable], Policy::linux_6_18());
    scene.leave(0, 64..128).leave(1, 4..8);
    let steals = |wanted, order| scene.alloc(order, wanted, AllocFlags::empty());
    for _ in 0..4 {
        let (block, event) = steals(Unmovable, 0);
        assert_eq!((block, of(event).map(|(from, _, claimed)| (from, claimed))), (Some(1), Some((Reclaimable, false))));
    }
    let (block, event) = steals(Unmovable, 3);
    assert_eq!((block, of(event)), (Some(0), Some((Movable, 6, false))));
    assert_eq!((steals(Movable, 3).1, scene.type_of(0)), (None, Movable), "the rest stays where it was");
    assert_eq!(scene.alloc(0, Unmovable, AllocFlags::NOFRAGMENT), (None, None));
}

/// A refill that falls back takes its whole batch, claimed or stolen, and stops where nothing serves.
#[test]
fn a_refill_falls_back_for_its_whole_batch() {
    for (policy, fallbacks) in [(Policy::linux_6_18(), 24), (Policy::linux_6_1(), 1)] {
        let scene = Scene::new(&[Movable, Reclaimable], policy);
        scene.leave(0, 0..0).leave(1, 8..32);
        let refill = |flags, slots: &mut [u32]| {
            record(|| scene.0.alloc_bulk_by_rules::<Machine>(Order::ZERO, Unmovable, flags, slots))
        };
        assert_eq!(refill(AllocFlags::NOFRAGMENT, &mut [0; 30]).0, 0);
        let mut slots = [u32::MAX; 30];
        let (got, events) = refill(AllocFlags::empty(), &mut slots);
        let events = events.iter().filter(|event| matches!(event, Event::Fallback(_))).count();
        assert_eq!((got, events, scene.0.check()), (24, fallbacks, Ok(())), "{policy:?}");
        slots[..24].sort_unstable();
        assert!(slots[..24].iter().copied().eq(512 + 8..512 + 32));
        assert_eq!(scene.0.free_bulk_simulated::<Machine>(Order::ZERO, &slots[..24]), 0);
        assert_eq!((scene.0.free_frames(), scene.0.check()), (24, Ok(())));
    }
}
