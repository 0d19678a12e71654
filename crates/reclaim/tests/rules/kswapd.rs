//! The thread: when it wakes, what it asks of the owner, how it comes to rest.

use pageblock_frame::reclaim::{Actor, Shrunk};
use pageblock_frame::trace::CompactResult;
use pageblock_frame::{Order, ZoneKind};
use pageblock_reclaim::{Kswapd, KswapdNext, NAP, ReclaimConfig, Wake};

use crate::mock::{Host, NINE, NODE, Owner, drive, eight_gib, told};

const NORMAL: ZoneKind = ZoneKind::Normal;

#[test]
fn a_balanced_node_wakes_nobody() {
    let zones = eight_gib();
    let owner = Owner::faithful(&zones);
    for config in [ReclaimConfig::linux_3_16(), ReclaimConfig::linux_6_1()] {
        let thread = Kswapd::new(NODE, config);
        assert_eq!(thread.wake_if_short::<Host, _>(&zones, &owner, Order::ZERO, NORMAL), Wake::Balanced);
        assert_eq!(told(|t| t.wakes.get()), 0);
    }
    assert_eq!(owner.count(), 0);
}

#[test]
fn a_short_node_is_brought_to_high() {
    let zones = eight_gib();
    zones.iter().for_each(|zone| zone.free.set(zone.marks.min));
    let owner = Owner::faithful(&zones);
    let thread = Kswapd::new(NODE, ReclaimConfig::linux_6_1());
    assert_eq!(thread.wake_if_short::<Host, _>(&zones, &owner, Order::ZERO, NORMAL), Wake::Woken);
    assert_eq!(thread.wake_if_short::<Host, _>(&zones, &owner, Order::ZERO, NORMAL), Wake::Awake);
    let answers = drive(&thread, &zones, &owner);
    assert!(zones[2].free.get() > zones[2].marks.high);
    let rounds = owner.rounds.borrow();
    assert_eq!(rounds.len(), 1);
    // Of each zone its high watermark, 32 at least.
    assert_eq!(rounds[0].frames, 32 + 1606 + 2667);
    assert_eq!((rounds[0].actor, rounds[0].zone, rounds[0].limit), (Actor::Kswapd, None, NORMAL));
    assert!(answers.contains(&KswapdNext::ResetSkipBits));
    assert!(!answers.iter().any(|next| matches!(next, KswapdNext::WakeKcompactd { .. })));
    assert!(told(|t| t.waiters.get()) >= 2);
    let stat = thread.vmstat();
    assert_eq!((stat.pageoutrun, stat.steal_kswapd, stat.scan_direct), (1, 4305, 0));
    let events = told(|t| t.events.take());
    assert_eq!(events, ["mm_vmscan_kswapd_wake: nid=0 order=0", "mm_vmscan_kswapd_sleep: nid=0"]);
}

#[test]
fn lists_of_zones_are_reclaimed_from_the_lowest_up() {
    let zones = eight_gib();
    zones[2].free.set(2000);
    let owner = Owner::faithful(&zones);
    let thread = Kswapd::new(NODE, ReclaimConfig::linux_3_16());
    thread.wake::<Host>(Order::ZERO, NORMAL);
    drive(&thread, &zones, &owner);
    let kinds: Vec<_> = owner.rounds.borrow().iter().filter_map(|round| round.zone).collect();
    // The lower zones are not short themselves, but below high + gap + what they keep from requests for Normal.
    assert_eq!(&kinds[..3], [ZoneKind::Dma, ZoneKind::Dma32, NORMAL]);
}

#[test]
fn without_a_class_zone_only_the_short_zone_is_reclaimed() {
    let zones = eight_gib();
    zones[2].free.set(2000);
    let owner = Owner::faithful(&zones);
    let thread = Kswapd::new(NODE, ReclaimConfig::draft_2014_v4r8());
    thread.wake::<Host>(Order::ZERO, NORMAL);
    drive(&thread, &zones, &owner);
    assert!(owner.rounds.borrow().iter().all(|round| round.zone == Some(NORMAL)));
    assert_eq!(owner.count(), 1);
}

#[test]
fn a_block_becomes_compactions_business_once_enough_is_freed() {
    for (config, expected) in [
        (ReclaimConfig::linux_6_1(), KswapdNext::WakeKcompactd { order: NINE, limit: NORMAL }),
        (ReclaimConfig::linux_3_16(), KswapdNext::ResetSkipBits),
    ] {
        let zones = eight_gib();
        for zone in &zones {
            zone.free.set(zone.marks.min);
            zone.largest.set(Order::ZERO);
            zone.suits.set(Some(CompactResult::Skipped));
        }
        let owner = Owner::faithful(&zones);
        let thread = Kswapd::new(NODE, config);
        thread.wake::<Host>(NINE, NORMAL);
        let answers = drive(&thread, &zones, &owner);
        assert!(answers.contains(&expected), "{answers:?}");
        let rounds = owner.rounds.borrow();
        assert_eq!(rounds[0].order, NINE);
        // 1024 frames are enough for compaction: then single frames are what is pursued.
        let freed: u64 = rounds.iter().map(|round| round.frames).sum();
        assert!(freed < 20_000, "over-reclaimed: {freed}");
    }
}

#[test]
fn before_4_6_the_thread_compacts_when_rounds_free_more_than_they_are_after() {
    let zones = eight_gib();
    zones[2].free.set(zones[2].marks.min);
    for zone in &zones {
        zone.largest.set(Order::new(2).unwrap());
    }
    let order = Order::new(3).unwrap();
    // Little at first, so that the order is still pursued; and more than was asked for.
    let owner = Owner::new(|round| {
        let zone = zones.iter().find(|zone| Some(zone.kind) == round.zone).unwrap();
        zone.free.set(zone.free.get() + 1);
        Shrunk { scanned: round.frames, freed: 1 }
    });
    let thread = Kswapd::new(NODE, ReclaimConfig::linux_3_16());
    thread.wake::<Host>(order, NORMAL);
    let answers: Vec<_> = (0..20).map(|_| thread.step::<Host, _>(&zones, &owner, 1)).collect();
    assert!(!answers.iter().any(|next| matches!(next, KswapdNext::Compact { .. })));
    let generous = Owner::new(|round| {
        let zone = zones.iter().find(|zone| Some(zone.kind) == round.zone).unwrap();
        zone.free.set(zone.free.get() + 1);
        Shrunk { scanned: round.frames, freed: round.frames + 1 }
    });
    let thread = Kswapd::new(NODE, ReclaimConfig::linux_3_16());
    thread.wake::<Host>(NINE, NORMAL);
    let answers: Vec<_> = (0..20).map(|_| thread.step::<Host, _>(&zones, &generous, 1)).collect();
    let huge_goal = answers.iter().any(|next| matches!(next, KswapdNext::Compact { order, .. } if *order == NINE));
    // The first round of Normal alone frees more than compaction's gap of 1024: the order falls to 0 before that.
    assert!(!huge_goal, "{answers:?}");
}

#[test]
fn a_request_in_the_nap_is_served_and_counted() {
    let zones = eight_gib();
    let owner = Owner::faithful(&zones);
    let thread = Kswapd::new(NODE, ReclaimConfig::linux_6_1());
    thread.wake::<Host>(Order::ZERO, NORMAL);
    let mut next = KswapdNext::Again;
    while !matches!(next, KswapdNext::Sleep { .. }) {
        next = thread.step::<Host, _>(&zones, &owner, 5);
    }
    assert_eq!(next, KswapdNext::Sleep { until: Some(5 + NAP) });
    // A step too early goes on sleeping.
    assert_eq!(thread.step::<Host, _>(&zones, &owner, 6), next);
    zones.iter().for_each(|zone| zone.free.set(0));
    assert!(thread.wake::<Host>(Order::ZERO, NORMAL), "a napping thread is woken");
    drive(&thread, &zones, &owner);
    assert_eq!(owner.count(), 1);
    assert_eq!(thread.vmstat().low_hit_quickly, 1);
    assert_eq!(thread.vmstat().high_hit_quickly, 0);
}

#[test]
fn a_nap_after_which_the_node_is_short_ends_in_another_run() {
    let zones = eight_gib();
    let owner = Owner::faithful(&zones);
    let thread = Kswapd::new(NODE, ReclaimConfig::linux_6_1());
    thread.wake::<Host>(Order::ZERO, NORMAL);
    while !matches!(thread.step::<Host, _>(&zones, &owner, 5), KswapdNext::Sleep { .. }) {}
    zones.iter().for_each(|zone| zone.free.set(0));
    assert_eq!(thread.step::<Host, _>(&zones, &owner, 5 + NAP), KswapdNext::Again);
    assert_eq!(thread.vmstat().high_hit_quickly, 1);
    drive(&thread, &zones, &owner);
    assert_eq!(owner.count(), 1);
}

#[test]
fn a_node_without_hope_is_left_alone_until_somebody_frees_something() {
    let zones = eight_gib();
    zones.iter().for_each(|zone| zone.free.set(0));
    let owner = Owner::new(|round| Shrunk { scanned: round.frames / 8, freed: 0 });
    let thread = Kswapd::new(NODE, ReclaimConfig::linux_6_1());
    thread.wake::<Host>(Order::ZERO, NORMAL);
    drive(&thread, &zones, &owner);
    assert!(thread.is_hopeless());
    // Sixteen runs of twelve rounds.
    assert_eq!(owner.count(), 16 * 12);
    assert_eq!(thread.wake_if_short::<Host, _>(&zones, &owner, Order::ZERO, NORMAL), Wake::Hopeless);
    assert!(thread.allows_direct(&zones, &owner), "nobody waits for a thread without hope");
    let task = pageblock_reclaim::Direct {
        zones: &zones,
        nodes: std::slice::from_ref(&thread),
        owner: &Owner::faithful(&zones),
        order: Order::ZERO,
        limit: NORMAL,
        gfp: pageblock_frame::Gfp::KERNEL,
    };
    assert!(task.run::<Host>(thread.config()).is_some());
    assert!(!thread.is_hopeless());
}

#[test]
fn before_4_12_a_zone_scanned_six_times_in_vain_counts_as_balanced() {
    let zones = eight_gib();
    zones.iter().for_each(|zone| zone.free.set(0));
    let mut owner = Owner::new(|_| Shrunk { scanned: 1000, freed: 0 });
    owner.reclaimable = 5000;
    let thread = Kswapd::new(NODE, ReclaimConfig::linux_3_16());
    thread.wake::<Host>(Order::ZERO, NORMAL);
    drive(&thread, &zones, &owner);
    assert!(!thread.is_hopeless() && thread.is_unreclaimable(NORMAL, 5000));
    for kind in [ZoneKind::Dma, ZoneKind::Dma32, NORMAL] {
        let rounds = owner.rounds.borrow().iter().filter(|round| round.zone == Some(kind)).count();
        assert!((30..=32).contains(&rounds), "{kind}: {rounds}");
    }
}

#[test]
fn pcp_lists_stay_short_while_a_run_is_under_way() {
    let zones = eight_gib();
    zones.iter().for_each(|zone| zone.free.set(0));
    let owner = Owner::faithful(&zones);
    let thread = Kswapd::new(NODE, ReclaimConfig::linux_6_1());
    thread.wake::<Host>(Order::ZERO, ZoneKind::Dma32);
    thread.step::<Host, _>(&zones, &owner, 1);
    assert!(thread.is_reclaiming(ZoneKind::Dma32) && !thread.is_reclaiming(NORMAL));
    drive(&thread, &zones, &owner);
    assert!(!thread.is_reclaiming(ZoneKind::Dma));
}

#[test]
fn without_a_clock_there_is_no_nap() {
    let zones = eight_gib();
    let owner = Owner::faithful(&zones);
    let thread = Kswapd::new(NODE, ReclaimConfig::linux_6_1());
    thread.wake::<Host>(Order::ZERO, NORMAL);
    let answers: Vec<_> = (0..10).map(|_| thread.step::<Host, _>(&zones, &owner, 0)).collect();
    assert!(answers.contains(&KswapdNext::Sleep { until: None }));
    assert!(!answers.iter().any(|next| matches!(next, KswapdNext::Sleep { until: Some(_) })));
}

/// At whatever step a request comes, also at the one at which the thread was to fall asleep.
#[test]
fn no_request_is_slept_over() {
    for config in [ReclaimConfig::linux_3_16(), ReclaimConfig::linux_6_1()] {
        for steps in 0..40 {
            let zones = eight_gib();
            let owner = Owner::faithful(&zones);
            let thread = Kswapd::new(NODE, config);
            thread.wake::<Host>(Order::ZERO, NORMAL);
            for now in 1..=steps {
                thread.step::<Host, _>(&zones, &owner, now * NAP);
            }
            thread.wake::<Host>(NINE, NORMAL);
            assert!(thread.is_awake() && !thread.may_sleep(), "after {steps} steps");
            told(|t| t.now.set(100 * NAP));
            drive(&thread, &zones, &owner);
            assert!(thread.may_sleep() && !thread.is_awake(), "after {steps} steps");
        }
    }
    told(|t| t.now.set(0));
}

#[test]
fn zones_above_the_limit_are_left_alone() {
    let zones = eight_gib();
    zones.iter().for_each(|zone| zone.free.set(zone.marks.min));
    zones[2].boost.set(1024);
    let owner = Owner::faithful(&zones);
    let thread = Kswapd::new(NODE, ReclaimConfig::linux_6_1());
    thread.wake::<Host>(Order::ZERO, ZoneKind::Dma32);
    drive(&thread, &zones, &owner);
    let first = owner.rounds.borrow()[0];
    assert_eq!((first.frames, first.limit, first.may_write), (32 + 1606, ZoneKind::Dma32, true));
    assert_eq!((zones[2].boost.get(), zones[2].free.get()), (1024, zones[2].marks.min));
}

#[test]
fn a_zone_that_compaction_cannot_use_is_reclaimed_for_the_block_itself() {
    let zones = eight_gib();
    for zone in &zones {
        zone.free.set(zone.managed / 2);
        zone.suits.set(Some(CompactResult::Skipped));
    }
    let owner = Owner::faithful(&zones);
    let thread = Kswapd::new(NODE, ReclaimConfig::linux_3_16());
    // Blocks of the order are there, but 3.16 asks compaction as well.
    assert_eq!(thread.wake_if_short::<Host, _>(&zones, &owner, NINE, NORMAL), Wake::Woken);
    let reclaimed = |suits, largest: u8| {
        zones.iter().for_each(|zone| {
            zone.suits.set(Some(suits));
            zone.largest.set(Order::saturating(largest));
        });
        let (owner, thread) = (Owner::faithful(&zones), Kswapd::new(NODE, ReclaimConfig::linux_3_16()));
        thread.wake::<Host>(NINE, NORMAL);
        (1..20).for_each(|now| _ = thread.step::<Host, _>(&zones, &owner, now));
        owner.rounds.borrow().iter().any(|round| round.zone == Some(NORMAL))
    };
    assert!(reclaimed(CompactResult::Skipped, 3), "single frames are no help where compaction has not enough");
    assert!(!reclaimed(CompactResult::Continue, 3), "compaction makes the block out of what is free");
}
