//! A task that reclaims for itself.

use pageblock_frame::reclaim::{Actor, Shrunk};
use pageblock_frame::trace::CompactResult;
use pageblock_frame::{AllocFlags, COSTLY_ORDER, Gfp, NodeId, Order, ZoneKind};
use pageblock_reclaim::{Attempt, Direct, Kswapd, Progress, ReclaimConfig, Retries};

use crate::mock::{Host, NINE, NODE, Owner, Zone, eight_gib, told};

const NORMAL: ZoneKind = ZoneKind::Normal;

fn task<'a>(zones: &'a [Zone], nodes: &'a [Kswapd], owner: &'a Owner<'_>, order: Order) -> Direct<'a, Zone> {
    Direct { zones, nodes, owner, order, limit: NORMAL, gfp: Gfp::KERNEL }
}

/// As a zonelist: the highest first.
fn zonelist() -> [Zone; 3] {
    let [dma, dma32, normal] = eight_gib();
    [normal, dma32, dma]
}

#[test]
fn a_cluster_is_enough() {
    let zones = zonelist();
    let owner = Owner::faithful(&zones);
    let nodes = [Kswapd::new(NODE, ReclaimConfig::linux_6_1())];
    let progress = task(&zones, &nodes, &owner, Order::ZERO).run::<Host>(&ReclaimConfig::linux_6_1());
    assert_eq!((progress.reclaimed, progress.rounds, progress.confirmed), (32, 1, true));
    let rounds = owner.rounds.borrow();
    assert_eq!((rounds[0].actor, rounds[0].zone, rounds[0].priority), (Actor::Direct, None, 12));
    let stat = nodes[0].vmstat();
    assert_eq!((stat.allocstall, stat.scan_direct, stat.steal_direct), (1, 32, 32));
    let expected = format!("mm_vmscan_direct_reclaim_begin: order=0 gfp_flags={:#x}", Gfp::KERNEL.bits());
    assert_eq!(told(|t| t.events.take()), [expected, "mm_vmscan_direct_reclaim_end: nr_reclaimed=32".into()]);
}

#[test]
fn lists_of_zones_are_all_looked_at() {
    let zones = zonelist();
    let owner = Owner::faithful(&zones);
    let progress = task(&zones, &[], &owner, Order::ZERO).run::<Host>(&ReclaimConfig::linux_3_16());
    assert_eq!((progress.reclaimed, progress.rounds), (96, 3));
    let kinds: Vec<_> = owner.rounds.borrow().iter().map(|round| round.zone.unwrap()).collect();
    assert_eq!(kinds, [NORMAL, ZoneKind::Dma32, ZoneKind::Dma]);
}

#[test]
fn each_node_is_looked_at_once_a_pass() {
    let mut zones = [zonelist(), zonelist()].concat();
    zones[3..].iter_mut().for_each(|zone| zone.node = NodeId::new(1));
    let owner = Owner::new(|_| Shrunk::default());
    let progress = task(&zones, &[], &owner, Order::ZERO).run::<Host>(&ReclaimConfig::linux_6_1());
    assert_eq!(progress, Progress { rounds: 26, ..Progress::default() });
    let priorities: Vec<_> = owner.rounds.borrow().iter().map(|round| round.priority).collect();
    assert_eq!(priorities, (0..=12).rev().flat_map(|p| [p, p]).collect::<Vec<_>>());
}

#[test]
fn reclaim_stops_for_compaction() {
    let zones = zonelist();
    let owner = Owner::faithful(&zones);
    let run = |config| task(&zones, &[], &owner, NINE).run::<Host>(&config);
    // Nothing known of compaction: as many frames as it would need.
    let progress = run(ReclaimConfig::linux_6_1());
    assert!(!progress.compaction_ready && progress.reclaimed >= 1024);
    // There is a block.
    zones.iter().for_each(|zone| zone.suits.set(Some(CompactResult::Success)));
    let before = owner.count();
    assert!(run(ReclaimConfig::linux_6_1()).compaction_ready && run(ReclaimConfig::linux_3_16()).compaction_ready);
    assert_eq!(owner.count(), before);
    // There could be one: if high and twice the block are free.
    zones.iter().for_each(|zone| zone.suits.set(Some(CompactResult::Continue)));
    zones.iter().for_each(|zone| zone.free.set(zone.marks.high + 1024));
    let progress = run(ReclaimConfig::linux_6_1());
    assert!(!progress.compaction_ready && progress.reclaimed == 32, "one cluster, and compaction may try");
    zones.iter().for_each(|zone| zone.free.set(zone.marks.high + 1025 + zone.reserve[2]));
    let progress = run(ReclaimConfig::linux_6_1());
    assert!(progress.compaction_ready && progress.reclaimed == 0);
}

#[test]
fn a_task_that_is_killed_stops() {
    let zones = zonelist();
    let owner = Owner::new(|_| Shrunk::default());
    owner.dying.set(true);
    let progress = task(&zones, &[], &owner, Order::ZERO).run::<Host>(&ReclaimConfig::linux_6_1());
    assert!(progress.dying && progress.rounds == 1);
}

#[test]
fn a_zone_given_up_is_left_alone_after_the_first_look() {
    let zones = zonelist();
    let mut owner = Owner::new(|_| Shrunk { scanned: 100, freed: 0 });
    owner.reclaimable = 50;
    let nodes = [Kswapd::new(NODE, ReclaimConfig::linux_3_16())];
    let config = ReclaimConfig::linux_3_16();
    let progress = task(&zones, &nodes, &owner, Order::ZERO).run::<Host>(&config);
    assert!(!progress.reclaimable_left && progress.rounds == 9, "three looks at each of three zones: {progress:?}");
    let progress = task(&zones, &nodes, &owner, Order::ZERO).run::<Host>(&config);
    assert_eq!((progress.rounds, progress.is_some()), (3, false));
    owner.reclaimable = 1_000_000;
    assert!(task(&zones, &nodes, &owner, Order::ZERO).run::<Host>(&config).reclaimable_left);
}

#[test]
fn who_nears_the_end_of_the_reserve_waits_for_the_thread() {
    let zones = eight_gib();
    let owner = Owner::faithful(&zones);
    let thread = Kswapd::new(NODE, ReclaimConfig::linux_6_1());
    assert!(!thread.throttle::<Host, _>(&zones, &owner, NORMAL, Gfp::KERNEL));
    zones.iter().for_each(|zone| zone.free.set(zone.marks.min / 2));
    assert!(thread.throttle::<Host, _>(&zones, &owner, ZoneKind::Movable, Gfp::NOFS));
    assert_eq!(told(|t| (t.waits.get(), t.wakes.get(), t.now.get())), (1, 1, 1_000_000_000));
    assert!(thread.throttle::<Host, _>(&zones, &owner, NORMAL, Gfp::KERNEL));
    assert_eq!(told(|t| t.waits.get()), 17, "a platform that does not wait must not hang the task");
    assert_eq!(thread.vmstat().throttled, 2);
}

#[test]
fn retries_end_where_nothing_is_reclaimable() {
    let zones = zonelist();
    zones.iter().for_each(|zone| zone.free.set(0));
    let mut owner = Owner::new(|_| Shrunk::default());
    let attempt = Attempt {
        order: Order::ZERO,
        limit: NORMAL,
        flags: AllocFlags::empty(),
        progress: Progress { reclaimed: 32, confirmed: true, ..Progress::default() },
    };
    let config = ReclaimConfig::linux_6_1();
    assert!(Retries::new().again(&config, &zones, &owner, &attempt));
    owner.reclaimable = 1_778; // no more than Normal's min watermark
    assert!(!Retries::new().again(&config, &zones, &owner, &attempt));
    owner.reclaimable = 1_779;
    assert!(Retries::new().again(&config, &zones, &owner, &attempt));
    // A costly order makes no progress that counts.
    let costly = Attempt { order: Order::new(4).unwrap(), ..attempt };
    owner.reclaimable = 100_000;
    let mut retries = Retries::new();
    let passes = (0..100).take_while(|_| retries.again(&config, &zones, &owner, &costly)).count();
    assert_eq!(passes, 16);
}

#[test]
fn the_costliest_order_that_is_not_costly_makes_progress_that_counts() {
    let some = Progress { reclaimed: 32, confirmed: true, ..Progress::default() };
    let passes = |order| {
        let mut retries = Retries::new();
        (0..100).take_while(|_| retries.count(order, &some)).count()
    };
    assert_eq!((passes(COSTLY_ORDER), passes(Order::saturating(4))), (100, 16));
}
