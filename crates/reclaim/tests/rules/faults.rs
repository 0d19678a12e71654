//! Owners that break the contract: whatever they answer, everything ends, and nothing is believed for long.

use pageblock_frame::reclaim::{Reclaim, Shrink, Shrunk};
use pageblock_frame::{AllocFlags, Gfp, NodeId, Order, ZoneKind};
use pageblock_reclaim::{
    Attempt, BalanceGap, BalancedRule, ClassZone, Direct, Kswapd, KswapdNext, ListsBy, Progress, ReclaimConfig, Retries,
};
use proptest::prelude::*;

use crate::mock::{Host, NINE, NODE, Owner, Zone, drive, eight_gib, told};

/// What a faulty owner does in a round.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Nothing,
    /// Claims what it did not do.
    Lie(u64),
    /// Frees without saying so.
    Secret(u64),
    /// Frees far more than was asked for.
    Flood(u64),
    /// Takes memory rather than giving any, and says otherwise.
    Thief(u64),
    /// Scans for ever without success.
    Scan(u64),
    Honest,
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        Just(Fault::Nothing),
        prop_oneof![1..100u64, Just(u64::MAX)].prop_map(Fault::Lie),
        (1..100u64).prop_map(Fault::Secret),
        (1..1u64 << 40).prop_map(Fault::Flood),
        prop_oneof![1..100_000u64, Just(u64::MAX)].prop_map(Fault::Scan),
        Just(Fault::Honest),
    ]
}

/// What an owner does in turn. A thief steals every time: one that also gives is no fault, but a machine whose tasks
/// allocate while the thread works, and then the thread has work for as long as they do.
fn faults() -> impl Strategy<Value = Vec<Fault>> {
    let thief = (1..5000u64).prop_map(|frames| vec![Fault::Thief(frames)]);
    prop_oneof![8 => proptest::collection::vec(fault(), 1..8), 1 => thief]
}

fn act(zones: &[Zone], fault: Fault, round: &Shrink) -> Shrunk {
    let zone = zones.iter().find(|zone| round.zone.is_none_or(|kind| kind == zone.kind)).unwrap();
    let give = |frames: u64| zone.free.set(zone.free.get().saturating_add(frames).min(zone.managed));
    match fault {
        Fault::Nothing => Shrunk::default(),
        Fault::Lie(freed) => Shrunk { scanned: freed, freed },
        Fault::Secret(frames) => {
            give(frames);
            Shrunk::default()
        }
        Fault::Flood(frames) => {
            give(frames);
            Shrunk { scanned: frames, freed: frames }
        }
        Fault::Thief(frames) => {
            zone.free.set(zone.free.get().saturating_sub(frames));
            Shrunk { scanned: frames, freed: frames }
        }
        Fault::Scan(scanned) => Shrunk { scanned, freed: 0 },
        Fault::Honest => {
            give(round.frames);
            Shrunk { scanned: round.frames, freed: round.frames }
        }
    }
}

fn config() -> impl Strategy<Value = ReclaimConfig> {
    let class = prop_oneof![Just(ClassZone::Ignored), Just(ClassZone::EndZone), Just(ClassZone::Requested)];
    let rule = prop_oneof![Just(BalancedRule::AllZones), Just(BalancedRule::Quarter), Just(BalancedRule::AnyZone)];
    (class, rule, any::<[bool; 6]>(), prop_oneof![Just(0), Just(16)]).prop_map(
        |(class_zone, balanced, on, hopeless)| ReclaimConfig {
            lists: if on[0] { ListsBy::Zone } else { ListsBy::Node },
            class_zone,
            balanced,
            balance_gap: if on[1] { BalanceGap::LowOrOnePercent } else { BalanceGap::None },
            boost: on[2],
            max_kswapd_failures: hopeless,
            tracks_unreclaimable: on[3],
            compacts: on[4],
            retries_for_ever: on[5],
            retries_until_all_unreclaimable: on[5],
        },
    )
}

proptest! {
    /// Whatever the owner does, in every era and between them, the thread comes to rest, and boosts are not left
    /// behind.
    #[test]
    fn the_thread_always_sleeps(
        config in config(),
        faults in faults(),
        free in proptest::array::uniform3(0..5000u64),
        boost in proptest::array::uniform3(0..5000u64),
        order in 0..=10u8,
    ) {
        let zones = eight_gib();
        for (zone, (free, boost)) in zones.iter().zip(free.into_iter().zip(boost)) {
            zone.free.set(free);
            zone.boost.set(boost);
        }
        let turn = std::cell::Cell::new(0);
        let owner = Owner::new(|round| {
            turn.set(turn.get() + 1);
            act(&zones, faults[turn.get() % faults.len()], round)
        });
        let thread = Kswapd::new(NODE, config);
        thread.wake::<Host>(Order::new(order).unwrap(), ZoneKind::Normal);
        drive(&thread, &zones, &owner);
        prop_assert!(thread.may_sleep() && !thread.is_awake());
        prop_assert!(!thread.is_reclaiming(ZoneKind::Dma));
        if config.boost {
            prop_assert!(zones.iter().all(|zone| zone.boost.get() == 0));
        }
    }

    /// A direct pass makes a bounded number of rounds, and leaves the reclaim context.
    #[test]
    fn a_pass_always_ends(
        config in config(),
        faults in faults(),
        order in 0..=10u8,
        known in any::<bool>(),
    ) {
        let zones = eight_gib();
        zones.iter().for_each(|zone| zone.free.set(0));
        let turn = std::cell::Cell::new(0);
        let owner = Owner::new(|round| {
            turn.set(turn.get() + 1);
            act(&zones, faults[turn.get() % faults.len()], round)
        });
        let threads = [Kswapd::new(NODE, config)];
        let task = Direct {
            zones: &zones,
            nodes: if known { &threads } else { &[] },
            owner: &owner,
            order: Order::new(order).unwrap(),
            limit: ZoneKind::Normal,
            gfp: Gfp::KERNEL,
        };
        let progress = task.run::<Host>(&config);
        prop_assert!(!progress.refused);
        prop_assert_eq!(progress.rounds as usize, owner.count());
        prop_assert!(!told(|t| t.inside.get()));
        // At most twice the block, a frame at a time, over three zones; with no progress, thirteen looks at each.
        prop_assert!(progress.rounds <= 3 * (13 + 2048), "{}", progress.rounds);
    }
}

#[test]
fn a_liar_makes_the_node_hopeless() {
    let zones = eight_gib();
    zones.iter().for_each(|zone| zone.free.set(0));
    let owner = Owner::new(|round| Shrunk { scanned: round.frames, freed: round.frames });
    let thread = Kswapd::new(NODE, ReclaimConfig::linux_6_1());
    thread.wake::<Host>(Order::ZERO, ZoneKind::Normal);
    drive(&thread, &zones, &owner);
    assert!(thread.is_hopeless());
    assert!(owner.count() <= 16 + 17 * 12, "{}", owner.count());
}

#[test]
fn zones_given_up_do_not_keep_the_thread_awake() {
    // A mixture of eras in which such zones are no work, and do not count as balanced either.
    let config = ReclaimConfig {
        max_kswapd_failures: 0,
        tracks_unreclaimable: true,
        lists: ListsBy::Zone,
        ..ReclaimConfig::linux_6_1()
    };
    let zones = eight_gib();
    zones.iter().for_each(|zone| zone.free.set(0));
    let owner = Owner::new(|_| Shrunk { scanned: u64::MAX, freed: u64::MAX });
    let thread = Kswapd::new(NODE, config);
    thread.wake::<Host>(Order::ZERO, ZoneKind::Normal);
    drive(&thread, &zones, &owner);
    assert!(thread.is_unreclaimable(ZoneKind::Normal, 100_000));
    assert!(owner.count() < 300, "{}", owner.count());
}

#[test]
fn a_liar_does_not_keep_a_request_for_ever() {
    let zones = eight_gib();
    zones.iter().for_each(|zone| zone.free.set(0));
    let owner = Owner::new(|round| Shrunk { scanned: round.frames, freed: round.frames });
    let mut retries = Retries::new();
    let mut passes = 0;
    loop {
        let task = Direct {
            zones: &zones,
            nodes: &[],
            owner: &owner,
            order: Order::ZERO,
            limit: ZoneKind::Normal,
            gfp: Gfp::KERNEL,
        };
        let progress = task.run::<Host>(&ReclaimConfig::linux_6_1());
        assert!(progress.is_some() && !progress.confirmed);
        let attempt = Attempt { order: Order::ZERO, limit: ZoneKind::Normal, flags: AllocFlags::empty(), progress };
        passes += 1;
        if !retries.again(&ReclaimConfig::linux_6_1(), &zones, &owner, &attempt) {
            break;
        }
    }
    assert_eq!(passes, 64 + 17);
}

/// Reclaims again from within reclaim, in both ways.
struct Reentrant<'a> {
    zones: &'a [Zone],
    thread: &'a Kswapd,
    refused: std::cell::Cell<u32>,
}

impl Reclaim for Reentrant<'_> {
    fn shrink(&self, round: &Shrink) -> Shrunk {
        let task = Direct {
            zones: self.zones,
            nodes: &[],
            owner: self,
            order: NINE,
            limit: ZoneKind::Normal,
            gfp: Gfp::KERNEL,
        };
        let inner = task.run::<Host>(&ReclaimConfig::linux_6_1());
        self.refused.set(self.refused.get() + u32::from(inner == Progress { refused: true, ..Progress::default() }));
        self.thread.wake::<Host>(Order::ZERO, ZoneKind::Normal);
        let step = self.thread.step::<Host, _>(self.zones, self, 1);
        if round.actor == pageblock_frame::reclaim::Actor::Kswapd {
            assert_eq!(step, KswapdNext::Sleep { until: None });
        }
        Shrunk { scanned: 1, freed: 0 }
    }

    fn reclaimable(&self, _: NodeId, _: ZoneKind) -> u64 {
        1000
    }
}

#[test]
fn reclaim_from_within_reclaim_is_refused() {
    let zones = eight_gib();
    zones.iter().for_each(|zone| zone.free.set(0));
    let thread = Kswapd::new(NODE, ReclaimConfig::linux_6_1());
    let owner = Reentrant { zones: &zones, thread: &thread, refused: Default::default() };
    let task = Direct {
        zones: &zones,
        nodes: &[],
        owner: &owner,
        order: Order::ZERO,
        limit: ZoneKind::Normal,
        gfp: Gfp::KERNEL,
    };
    let progress = task.run::<Host>(&ReclaimConfig::linux_6_1());
    assert_eq!(progress.reclaimed, 0);
    assert!(owner.refused.get() >= 13, "each round asked again: {}", owner.refused.get());
    assert!(!told(|t| t.inside.get()));
}

/// Unwinds in its call number `at`; otherwise it frees all that is asked for.
struct Unwinding<'a> {
    inner: Owner<'a>,
    /// `None`: in no call.
    at: std::cell::Cell<Option<u32>>,
    calls: std::cell::Cell<u32>,
}

impl Unwinding<'_> {
    fn enter(&self) {
        let call = self.calls.replace(self.calls.get() + 1);
        if Some(call) == self.at.get() {
            // Without the message that a panic would print.
            std::panic::resume_unwind(Box::new("injected"));
        }
    }
}

impl Reclaim for Unwinding<'_> {
    fn shrink(&self, round: &Shrink) -> Shrunk {
        self.enter();
        self.inner.shrink(round)
    }

    fn reclaimable(&self, node: NodeId, zone: ZoneKind) -> u64 {
        self.enter();
        self.inner.reclaimable(node, zone)
    }

    fn is_dying(&self) -> bool {
        self.enter();
        false
    }
}

fn unwinds(work: impl FnOnce()) -> bool {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err()
}

#[test]
fn the_thread_goes_on_after_a_reclaimer_that_unwinds() {
    for config in [ReclaimConfig::linux_6_1(), ReclaimConfig::linux_3_16()] {
        for at in 0u32.. {
            let zones = eight_gib();
            zones.iter().for_each(|zone| zone.free.set(0));
            let thread = Kswapd::new(NODE, config);
            let owner = Unwinding { inner: Owner::faithful(&zones), at: Some(at).into(), calls: Default::default() };
            thread.wake::<Host>(Order::ZERO, ZoneKind::Normal);
            let unwound = unwinds(|| drop(drive(&thread, &zones, &owner)));
            assert_eq!(unwound, owner.calls.get() > at);
            owner.at.set(None);
            // The piece is done again, and the run ends as it would have.
            drive(&thread, &zones, &owner);
            assert!(thread.is_balanced(&zones, &owner, Order::ZERO, ZoneKind::Normal), "call {at}");
            assert!(thread.may_sleep() && !thread.is_awake() && !thread.is_reclaiming(ZoneKind::Normal), "call {at}");
            if !unwound {
                assert!(at > 3, "{at} calls show nothing");
                break;
            }
        }
    }
}

#[test]
fn a_task_may_reclaim_again_after_a_reclaimer_that_unwinds() {
    for config in [ReclaimConfig::linux_6_1(), ReclaimConfig::linux_3_16()] {
        for at in 0u32.. {
            let zones = eight_gib();
            zones.iter().for_each(|zone| zone.free.set(0));
            let threads = [Kswapd::new(NODE, config)];
            let owner = Unwinding { inner: Owner::faithful(&zones), at: Some(at).into(), calls: Default::default() };
            let (order, limit, gfp) = (Order::ZERO, ZoneKind::Normal, Gfp::KERNEL);
            let task = Direct { zones: &zones, nodes: &threads, owner: &owner, order, limit, gfp };
            let unwound = unwinds(|| _ = task.run::<Host>(&config));
            assert_eq!(unwound, owner.calls.get() > at);
            owner.at.set(None);
            assert!(!told(|t| t.inside.get()), "call {at}: the task still counts as reclaiming");
            assert!(task.run::<Host>(&config).is_some(), "call {at}");
            if !unwound {
                assert!(at > 1, "{at} calls show nothing");
                break;
            }
        }
    }
}
