//! The ladder of measures, rung by rung, as the platform sees it.

use pageblock::{AllocError, Config, Gfp, MigrateType, ZoneLimits};
use pageblock_frame::trace::Event;
use pageblock_testkit::host::record;

use crate::machine::{ALL_OF_IT, Booted, MIB, boot, exhaust, free_all, memory, order, zone};
use pageblock::ZoneKind;

fn one_zone() -> Booted {
    boot(&memory(64 * MIB), &Config::new().zones(ZoneLimits::single()).min_free_kbytes(Some(4096)))
}

fn wakes(events: &[Event]) -> usize {
    events.iter().filter(|event| matches!(event, Event::WakeKswapd { .. })).count()
}

#[test]
fn kswapd_is_woken_below_the_low_watermark_and_only_then() {
    let frames = one_zone();
    let low = zone(&frames, 0, ZoneKind::Normal).watermarks().low;
    let ((), events) = record(|| {
        while frames.stats().free > low {
            let _ = frames.alloc(Gfp::KERNEL).unwrap().into_raw();
        }
    });
    assert_eq!(wakes(&events), 0);
    let (_, events) = record(|| frames.alloc(Gfp::KERNEL).unwrap().into_raw());
    assert_eq!(wakes(&events), 1);
    let (_, events) = record(|| frames.alloc(Gfp::HIGHUSER.difference(Gfp::RECLAIM)).unwrap().into_raw());
    assert_eq!(wakes(&events), 0, "who forbids it does not wake it");
}

#[test]
fn allocations_and_frees_are_traced_once() {
    let frames = one_zone();
    let (pfn, events) = record(|| frames.alloc_order(order(3), Gfp::KERNEL | Gfp::RECLAIMABLE).unwrap().pfn());
    let gfp = Gfp::KERNEL | Gfp::RECLAIMABLE;
    let expected = [
        Event::Alloc { pfn, order: order(3), gfp, migrate_type: MigrateType::Reclaimable },
        Event::Free { pfn, order: order(3) },
    ];
    let seen: Vec<Event> = events.into_iter().filter(|event| !matches!(event, Event::Fallback(_))).collect();
    assert_eq!(seen, expected);
}

#[test]
fn the_high_order_reserve_is_filled_by_atomic_requests_and_given_up_at_last() {
    let frames = boot(&memory(64 * MIB), &ALL_OF_IT.zones(ZoneLimits::single()));
    let normal = zone(&frames, 0, ZoneKind::Normal);
    // The flags that fill the reserve are those of the slow path: make the first attempt fail.
    let mut held = Vec::new();
    while normal.free_frames() > normal.watermarks().low {
        held.push(frames.alloc(Gfp::KERNEL).unwrap().into_raw().pfn);
    }
    let (first, two) = (held.split_off(held.len() - 1024), order(2));
    free_all(&frames, first);
    normal.set_watermarks(pageblock::Watermarks { min: 0, low: u64::MAX / 2, high: u64::MAX / 2 });
    let block = frames.alloc_order(two, Gfp::ATOMIC).unwrap();
    assert_eq!(normal.highatomic(), 512);
    let counts = normal.counts();
    assert_eq!(counts.pageblocks[MigrateType::HighAtomic.index()], 1);
    drop(block);
    held.extend(exhaust(&frames, Gfp::NOWAIT | Gfp::NOMEMALLOC));
    assert!(normal.free_frames() >= 508, "who cannot wait may not have it taken down");
    held.extend(exhaust(&frames, Gfp::KERNEL));
    assert_eq!((normal.highatomic(), normal.free_frames()), (0, 0), "given up before out of memory");
    assert_eq!(frames.alloc(Gfp::KERNEL).unwrap_err(), AllocError::OutOfMemory);
    free_all(&frames, held);
    frames.check().unwrap();
}

#[test]
fn spreading_takes_a_lower_zone_rather_than_mix() {
    use pageblock::{Region, ZoneSpreading};
    let map = [memory(64 * MIB)[0], Region::from((4 << 30, 64 * MIB, true))];
    for (spreading, expected) in [(ZoneSpreading::On, ZoneKind::Dma32), (ZoneSpreading::Off, ZoneKind::Normal)] {
        let frames = boot(&map, &ALL_OF_IT.spreading(spreading));
        let normal = zone(&frames, 0, ZoneKind::Normal);
        // Every pageblock of Normal gets a movable resident, and single frames are all that is left free in it.
        let held: Vec<_> = (0..normal.managed() / 2)
            .map(|i| frames.alloc_at(normal.span().start.add(i * 2), order(0)).unwrap())
            .collect();
        let ((), events) = record(|| drop(frames.alloc(Gfp::KERNEL).unwrap()));
        let Some(Event::Alloc { pfn, .. }) = events.iter().find(|event| matches!(event, Event::Alloc { .. })) else {
            panic!("{events:?}");
        };
        assert_eq!(frames.zone_of(*pfn).unwrap().kind(), expected);
        drop(held);
    }
}
