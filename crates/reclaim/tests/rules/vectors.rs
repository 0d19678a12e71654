//! Numbers that are known of Linux.

use pageblock_frame::ZoneKind;
use pageblock_reclaim::{BalanceGap, ClassZone, ReclaimConfig, ReclaimZone};

use crate::mock::eight_gib;

#[test]
fn balance_gap() {
    let gaps = eight_gib().map(|zone| BalanceGap::LowOrOnePercent.frames(zone.marks(), zone.managed()));
    assert_eq!(gaps, [6, 1338, 2222]);
}

#[test]
fn what_the_allocator_leaves_and_what_kswapd_is_after() {
    let [_, dma32, _] = eight_gib();
    let reserve = |class: ClassZone| dma32.reserve[class.limit(ZoneKind::Normal, ZoneKind::Normal).index()];
    let goal = |config: ReclaimConfig| {
        dma32.marks.high + config.balance_gap.frames(dma32.marks, dma32.managed) + reserve(config.class_zone)
    };
    let floor = dma32.marks.low + dma32.reserve[ZoneKind::Normal.index()];
    assert_eq!(floor, 6298);
    assert_eq!(goal(ReclaimConfig::linux_3_16()), 7904);
    assert_eq!(goal(ReclaimConfig::draft_2014_v4r8()), 1606); // less than the floor: nobody ever takes enough to wake anyone
    assert_eq!(goal(ReclaimConfig { class_zone: ClassZone::EndZone, ..ReclaimConfig::draft_2014_v4r8() }), 6566);
    assert_eq!(
        goal(ReclaimConfig { balance_gap: BalanceGap::LowOrOnePercent, ..ReclaimConfig::draft_2014_v4r8() }),
        2944
    );
}
