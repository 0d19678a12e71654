//! Orders that a zone does not serve and numbers that it does not have: refused, and nothing changes.

use core::mem::MaybeUninit;
use pageblock_testkit::simulated::SimulatedZone;

use pageblock_buddy::{Held, Patience, Refill, Unreserve, Watermarks, Zone, ZoneConfig, ZoneError, ZoneStorage};
use pageblock_frame::{
    AllocFlags, Carver, CpuId, MAX_PFN, MigrateType, NodeId, Order, PAGEBLOCK_ORDER, Pfn, PfnRange, StateByte, ZoneKind,
};
use pageblock_testkit::host::Quiet;

const MOVABLE: MigrateType = MigrateType::Movable;
const FRAMES: u64 = 4 << 10;

/// A zone whose largest order is that of a pageblock.
fn zone() -> Zone<'static> {
    let span = PfnRange::new(Pfn::new(0), Pfn::new(FRAMES));
    let raw = vec![MaybeUninit::uninit(); ZoneStorage::bytes(span, PAGEBLOCK_ORDER)].leak();
    let storage = ZoneStorage::carve(span, PAGEBLOCK_ORDER, &mut Carver::new(raw)).unwrap();
    let config = ZoneConfig { max_order: PAGEBLOCK_ORDER, ..ZoneConfig::new(ZoneKind::Normal, NodeId::new(0), span) };
    let zone = Zone::new::<Quiet>(config, storage).unwrap();
    zone.release_simulated::<Quiet>(span).unwrap();
    zone
}

#[test]
fn blocks_above_the_largest_order_do_not_come() {
    let zone = zone();
    let mut out = [7; 4];
    for order in (10..=15).filter_map(Order::new) {
        for migrate_type in MigrateType::ALL {
            assert_eq!(zone.alloc_bulk::<Quiet>(order, migrate_type, &mut out), 0);
            let refill = Refill { order, migrate_type, cpu: CpuId::new(0), least: 2 };
            assert_eq!(zone.refill::<Quiet>(refill, &mut out), 0);
        }
    }
    assert_eq!(zone.alloc_bulk::<Quiet>(Order::ZERO, MigrateType::Isolate, &mut out), 0);
    assert_eq!((out, zone.free_frames(), zone.check()), ([7; 4], FRAMES, Ok(())));
    assert_eq!(zone.alloc_bulk::<Quiet>(PAGEBLOCK_ORDER, MOVABLE, &mut out), 4);
}

#[test]
fn numbers_near_two_to_the_32nd_are_nobodys() {
    let zone = zone();
    let (before, scan) = (zone.check(), zone.scan::<Quiet>(Patience::Note));
    for number in [u32::MAX, u32::MAX - 1, u32::MAX - 511, 1 << 31, (1 << 23) - 1, 1 << 23, 1 << 22, FRAMES as u32] {
        for order in Order::LIMIT.up_to() {
            assert_eq!(zone.free_bulk_simulated::<Quiet>(order, &[number, 3, number]), 3);
            // SAFETY: there is no such block.
            unsafe {
                assert_eq!(scan.give_free(&[number], order), 1);
                assert!(!scan.reclaim_target(number, order));
            }
            assert!(
                scan.capture(number, order, MOVABLE).is_none() && scan.take_whole(number, order, MOVABLE).is_none()
            );
            assert_eq!(scan.take(number, order, &mut [0; 3]), 0);
        }
        assert!(scan.view(number).is_none() && scan.withhold(number).is_none());
        assert!(!scan.set_skip(number) && !scan.is_skipped(number));
        assert_eq!(scan.listed(MOVABLE, Order::ZERO, number, &mut [0; 3]), 0);
        let held = Held { index: number, state: StateByte::allocated(Order::ZERO, MOVABLE) };
        // SAFETY: there is no such block.
        assert_eq!(unsafe { scan.mark(&[held]) }, 0);
        scan.note_free(number, u64::MAX, |_| None);
        scan.forget_notes(number, u64::MAX);
        scan.note_part(number);
        scan.restore(number);
        scan.survey(number..u32::MAX, |_, _| panic!("there is no such pageblock"));
        assert_eq!((scan.map(number), scan.obstacle(number)), ([0; 8], None));
        let _ = zone.wrong_free(number);
    }
    for pfn in [u64::MAX, u64::MAX - 1, 1 << 63, 1 << 32, (1 << 32) - 1, FRAMES].map(Pfn::new) {
        assert!(zone.free_simulated::<Quiet>(pfn, Order::ZERO).is_err());
        assert!(zone.split_simulated::<Quiet>(pfn, Order::LIMIT, Order::ZERO).is_err());
        assert!(zone.alloc_at::<Quiet>(pfn, Order::ZERO).is_err());
    }
    assert_eq!((zone.check(), zone.free_frames()), (before, FRAMES));
}

/// The end of the last block of such a zone would have a number of 33 bits.
#[test]
fn a_zone_of_all_numbers_is_refused() {
    let span = PfnRange::new(Pfn::new(0), Pfn::new(FRAMES));
    let raw = vec![MaybeUninit::uninit(); ZoneStorage::bytes(span, Order::MAX)].leak();
    let storage = ZoneStorage::carve(span, Order::MAX, &mut Carver::new(raw)).unwrap();
    let all = PfnRange::new(Pfn::new(0), Pfn::new(MAX_PFN));
    let config = ZoneConfig::new(ZoneKind::Normal, NodeId::new(0), all);
    assert_eq!(Zone::new::<Quiet>(config, storage).unwrap_err(), ZoneError::TooHigh);
}

#[test]
fn a_reserve_shrinks_into_types_of_requests_only() {
    let zone = zone();
    let first = zone.span().start;
    assert!(zone.reserve_highatomic::<Quiet>(first));
    for migrate_type in [MigrateType::Isolate, MigrateType::HighAtomic, MigrateType::Cma] {
        assert!(!zone.unreserve_highatomic::<Quiet>(Unreserve::Last, migrate_type));
        assert_eq!((zone.highatomic(), zone.check()), (512, Ok(())), "{migrate_type:?}");
    }
    assert!(zone.unreserve_highatomic::<Quiet>(Unreserve::Last, MigrateType::Movable));
    zone.check().unwrap();
}

#[test]
fn marks_beyond_all_numbers_can_be_shown() {
    let zone = zone();
    zone.set_watermarks(Watermarks { min: u64::MAX, low: u64::MAX, high: u64::MAX });
    zone.set_boost(u64::MAX);
    assert!(zone.zoneinfo().to_string().contains(&u64::MAX.to_string()));
    assert!(!zone.frames_ok(Order::ZERO, u64::MAX, ZoneKind::Normal, AllocFlags::empty()));
}
