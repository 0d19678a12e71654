//! Boosted watermarks: reclaim without writing, and taking the boost back.

use pageblock_frame::reclaim::Shrunk;
use pageblock_frame::{Order, PAGEBLOCK_ORDER, ZoneKind};
use pageblock_reclaim::{Kswapd, KswapdNext, ReclaimConfig, Wake};

use crate::mock::{Host, NODE, Owner, Zone, drive, eight_gib, told};

const NORMAL: ZoneKind = ZoneKind::Normal;

/// A node with plenty free, and a boost.
fn boosted() -> [Zone; 3] {
    let zones = eight_gib();
    zones.iter().for_each(|zone| zone.free.set(zone.managed / 2));
    zones[2].boost.set(1024);
    zones
}

#[test]
fn a_boost_wakes_the_thread_of_a_balanced_node() {
    let zones = boosted();
    let owner = Owner::faithful(&zones);
    let thread = Kswapd::new(NODE, ReclaimConfig::linux_6_1());
    assert_eq!(thread.wake_if_short::<Host, _>(&zones, &owner, Order::ZERO, NORMAL), Wake::Woken);
    let answers = drive(&thread, &zones, &owner);
    assert!(owner.rounds.borrow().iter().all(|round| !round.may_write));
    assert_eq!(owner.count(), 1);
    assert_eq!(zones[2].boost.get(), 0);
    assert!(answers.contains(&KswapdNext::WakeKcompactd { order: PAGEBLOCK_ORDER, limit: NORMAL }));
    assert!(told(|t| t.waiters.get()) > 0);
}

#[test]
fn before_5_0_a_boost_is_nothing() {
    let zones = boosted();
    let owner = Owner::faithful(&zones);
    let thread = Kswapd::new(NODE, ReclaimConfig { boost: false, ..ReclaimConfig::linux_6_1() });
    assert_eq!(thread.wake_if_short::<Host, _>(&zones, &owner, Order::ZERO, NORMAL), Wake::Balanced);
}

#[test]
fn only_what_the_run_saw_is_taken_back() {
    let zones = boosted();
    let owner = Owner::new(|round| {
        zones[2].boost.set(zones[2].boost.get() + 512); // somebody fragments meanwhile
        zones[2].free.set(zones[2].free.get() + round.frames);
        Shrunk { scanned: round.frames, freed: round.frames }
    });
    let thread = Kswapd::new(NODE, ReclaimConfig::linux_6_1());
    thread.wake::<Host>(Order::ZERO, NORMAL);
    let mut next = KswapdNext::Again;
    while next == KswapdNext::Again {
        next = thread.step::<Host, _>(&zones, &owner, 1);
    }
    assert_eq!(next, KswapdNext::WakeKcompactd { order: PAGEBLOCK_ORDER, limit: NORMAL });
    assert_eq!(zones[2].boost.get(), 512 * owner.count() as u64);
}

#[test]
fn a_boost_that_cannot_be_served_is_taken_back_all_the_same() {
    let zones = boosted();
    let owner = Owner::new(|round| Shrunk { scanned: round.frames, freed: 0 });
    let thread = Kswapd::new(NODE, ReclaimConfig::linux_6_1());
    thread.wake::<Host>(Order::ZERO, NORMAL);
    drive(&thread, &zones, &owner);
    assert_eq!((owner.count(), zones[2].boost.get()), (1, 0));
    assert!(!thread.is_hopeless());
}

#[test]
fn while_boosts_are_the_reason_the_priority_stays_mild() {
    let zones = boosted();
    zones[2].boost.set(20_000);
    // A little each time, and few are looked at: the priority would fall.
    let owner = Owner::new(|_| {
        zones[2].free.set(zones[2].free.get() + 100);
        Shrunk { scanned: 200, freed: 100 }
    });
    let thread = Kswapd::new(NODE, ReclaimConfig::linux_6_1());
    thread.wake::<Host>(Order::ZERO, NORMAL);
    drive(&thread, &zones, &owner);
    let priorities: Vec<_> = owner.rounds.borrow().iter().map(|round| round.priority).collect();
    assert_eq!(priorities.len(), 200);
    assert_eq!((priorities[0], priorities[1], *priorities.iter().min().unwrap()), (12, 11, 10));
}

#[test]
fn a_real_shortage_takes_precedence() {
    let zones = boosted();
    for zone in &zones {
        zone.free.set(zone.marks.high); // one frame short
    }
    let owner = Owner::faithful(&zones);
    let thread = Kswapd::new(NODE, ReclaimConfig::linux_6_1());
    thread.wake::<Host>(Order::ZERO, NORMAL);
    drive(&thread, &zones, &owner);
    assert!(owner.rounds.borrow().iter().all(|round| round.may_write && round.priority == 12));
    assert_eq!(zones[2].boost.get(), 0);
}
