//! The fair-zone policy (*Fair zone policy*): zones serve in proportion to their sizes, and what its versions differ
//! in.

use pageblock::{Config, Experiment, FairPolicy, Gfp, PcpConfig, Region, Watermarks, ZoneKind, ZoneLimits, ZoneView};
use pageblock_frame::Pfn;
use proptest::prelude::*;

use crate::machine::{Booted, GIB, MIB, boot_on, memory, order, zone};
use crate::pressed::{self, OwnThread};

const FORMS: [FairPolicy; 6] = [
    FairPolicy::Linux3_12,
    FairPolicy::Linux3_13,
    FairPolicy::Linux3_15,
    FairPolicy::SeriesV4R8,
    FairPolicy::Linux3_17AsReleased,
    FairPolicy::Linux3_17,
];

/// Memory below and from 4 GiB on.
fn two_zones(below: u64, above: u64) -> [Region; 2] {
    [memory(below)[0], Region::from((4 * GIB, above, true))]
}

/// Allocates and returns how many frames of each kind of zone are held now.
fn fill(frames: &Booted<OwnThread>, count: u64, log2: impl Fn(u64) -> u8) -> [u64; 4] {
    for i in 0..count {
        let _ = frames.alloc_order(order(log2(i)), Gfp::HIGHUSER_MOVABLE).unwrap().into_raw();
    }
    ZoneKind::ALL.map(|kind| held(frames, 0, kind))
}

fn held(frames: &Booted<OwnThread>, node: usize, kind: ZoneKind) -> u64 {
    let mut zones = frames.zones().filter(|zone| zone.node().index() == node && zone.kind() == kind);
    zones.next().map_or(0, |zone| zone.managed() - zone.free_frames())
}

/// Percent that DMA32 holds of what it and Normal hold.
fn share(held: [u64; 4]) -> f64 {
    held[1] as f64 * 100.0 / (held[1] + held[2]) as f64
}

/// The machine of *Fair zone policy*'s in-memory run: 37 % of the allocations went to DMA32, 63 % to Normal.
#[test]
fn a_machine_of_8_gib_splits_37_to_63() {
    let config = Config::linux_3_13().per_cpu_lists(None);
    let map = two_zones(3 * GIB, 5 * GIB);
    for form in FORMS {
        let frames = boot_on::<OwnThread>(&map, &config.experiment(Experiment::FairZones(form))).unwrap();
        let batches = [ZoneKind::Dma32, ZoneKind::Normal].map(|kind| zone(&*frames, 0, kind).fair_batch() as f64);
        let expected = batches[0] * 100.0 / (batches[0] + batches[1]);
        assert!((expected - 37.5).abs() < 1.0, "{expected}");
        let split = share(fill(&frames, 300_000, |_| 0));
        assert!((split - expected).abs() <= 2.0, "{form:?}: {split}, expected {expected}");
    }
    let frames = boot_on::<OwnThread>(&map, &config.experiment(Experiment::FairZones(FairPolicy::Off))).unwrap();
    assert_eq!(fill(&frames, 300_000, |_| 0)[1], 0, "without it Normal serves first");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever the sizes of the zones, of the blocks, and with or without lists: in proportion, within two points.
    #[test]
    fn zones_serve_in_proportion(
        (below, above) in (256u64..1024, 256u64..1024),
        form in prop::sample::select(FORMS.map(|form| (form, form != FairPolicy::Linux3_17AsReleased)).to_vec()),
        lists in any::<bool>(),
        largest in 0u8..3,
    ) {
        let (form, any_order) = form;
        let largest = if any_order { largest } else { 0 };
        let lists = lists.then(PcpConfig::order_zero);
        let config = Config::linux_3_13().experiment(Experiment::FairZones(form)).per_cpu_lists(lists).min_free_kbytes(Some(4096));
        let frames = boot_on::<OwnThread>(&two_zones(below * MIB, above * MIB), &config).unwrap();
        let batch = |kind| zone(&*frames, 0, kind).fair_batch() as f64;
        let expected = batch(ZoneKind::Dma32) * 100.0 / (batch(ZoneKind::Dma32) + batch(ZoneKind::Normal));
        let split = share(fill(&frames, 16_000, |i| (i % (u64::from(largest) + 1)) as u8));
        prop_assert!((split - expected).abs() <= 2.0, "{:?}: {}, expected {}", form, split, expected);
    }
}

/// Each allocation is charged, also one that the CPU's list serves.
#[test]
fn what_a_list_serves_is_charged_too() {
    let config =
        Config::linux_3_13().experiment(Experiment::FairZones(FairPolicy::Linux3_17)).zones(ZoneLimits::single());
    let frames = boot_on::<OwnThread>(&memory(GIB), &config).unwrap();
    let normal = zone(&*frames, 0, ZoneKind::Normal);
    let full = normal.fair_batch();
    for _ in 0..100 {
        drop(frames.alloc(Gfp::KERNEL).unwrap());
    }
    assert!(frames.stats().listed > 0, "lists are in use");
    assert_eq!(normal.fair_batch(), full - 100);
    drop(frames.alloc_order(order(5), Gfp::KERNEL).unwrap());
    assert_eq!(normal.fair_batch(), full - 132);
    let mut many = [Pfn::new(0); 50];
    assert_eq!(frames.alloc_bulk(Gfp::KERNEL, &mut many), Ok(50));
    assert_eq!(normal.fair_batch(), full - 182);
}

/// Of 3.17: blocks that are larger than what is left jump over 0, and the zone stays first for ever.
#[test]
fn as_released_a_zone_that_jumps_over_nothing_left_is_never_depleted() {
    let split = |form| {
        let config = Config::linux_3_13().experiment(Experiment::FairZones(form)).per_cpu_lists(None);
        let frames = boot_on::<OwnThread>(&two_zones(512 * MIB, 512 * MIB), &config).unwrap();
        // Odd batches, over whose end blocks of two jump.
        let marks = Watermarks { min: 400, low: 500, high: 601 };
        for kind in [ZoneKind::Dma32, ZoneKind::Normal] {
            zone(&*frames, 0, kind).set_watermarks(marks);
        }
        share(fill(&frames, 10_000, |_| 1))
    };
    assert_eq!(split(FairPolicy::Linux3_17AsReleased), 0.0);
    assert!((split(FairPolicy::Linux3_17) - 50.0).abs() < 5.0);
}

/// Two nodes of 512 MiB, both Normal.
fn two_nodes(form: FairPolicy) -> Booted<OwnThread> {
    let node = |number: u8, start| Region::from((start, 512 * MIB, true)).with_node(pageblock::NodeId::new(number));
    let config =
        Config::linux_3_13().zones(ZoneLimits::single()).per_cpu_lists(None).experiment(Experiment::FairZones(form));
    let frames = boot_on::<OwnThread>(&[node(0, 0), node(1, GIB)], &config).unwrap();
    pressed::wakes();
    frames
}

/// 3.12 took the other node's turn for as good as any: nodes were interleaved.
#[test]
fn remote_zones_take_their_turn_in_3_12_only() {
    for form in FORMS {
        let frames = two_nodes(form);
        let here = fill(&frames, 20_000, |_| 0)[2];
        let there = held(&frames, 1, ZoneKind::Normal);
        assert_eq!(here + there, 20_000);
        assert_eq!(there > 0, form == FairPolicy::Linux3_12, "{form:?}: {there} frames from the other node");
    }
}

/// Up to 3.14 every new turn went through the slow path, and with it through a wake of kswapd.
#[test]
fn turns_begin_anew_with_kswapd_asleep_since_3_15() {
    for form in FORMS {
        let frames = two_nodes(form);
        fill(&frames, 20_000, |_| 0);
        let woken = matches!(form, FairPolicy::Linux3_12 | FairPolicy::Linux3_13);
        assert_eq!(pressed::wakes() > 0, woken, "{form:?}");
    }
}

/// When the node is down to its low watermarks: since 3.15 other nodes come before kswapd, in 3.13 after it.
#[test]
fn other_nodes_serve_before_kswapd_is_woken_since_3_15() {
    for (form, asleep) in [(FairPolicy::Linux3_13, false), (FairPolicy::Linux3_15, true), (FairPolicy::Linux3_17, true)]
    {
        let frames = two_nodes(form);
        let normal = zone(&*frames, 0, ZoneKind::Normal);
        while normal.free_frames() > normal.watermarks().low {
            let _ = frames.alloc(Gfp::HIGHUSER_MOVABLE).unwrap().into_raw();
        }
        pressed::wakes();
        let remote = |frames: &Booted<OwnThread>| held(frames, 1, ZoneKind::Normal);
        let before = remote(&frames);
        let _ = frames.alloc(Gfp::HIGHUSER_MOVABLE).unwrap().into_raw();
        let moved_on = remote(&frames) > before;
        assert_eq!((moved_on, pressed::wakes() == 0), (asleep, asleep), "{form:?}");
    }
}

/// *Fair zone policy*: "it still respects the chunks reserved for non-user allocations, the lowmem reserves". Fair or
/// not, the same is placed in all; fair, the zones reach their limits together.
#[test]
fn reserves_are_respected_and_only_the_rate_of_filling_changes() {
    let map = two_zones(256 * MIB, 512 * MIB);
    let fill_up = |form: FairPolicy| {
        let config = Config::linux_3_13()
            .experiment(Experiment::FairZones(form))
            .per_cpu_lists(None)
            .lowmem_reserve_ratio([16, 16, 32, 32]);
        let frames = boot_on::<OwnThread>(&map, &config).unwrap();
        let floor = |zone: ZoneView| zone.watermarks().low + zone.lowmem_reserve()[ZoneKind::Movable.index()];
        pressed::wakes();
        let mut first_full = None;
        // The fast path stops where the low watermarks and reserves begin.
        let nowait = Gfp::HIGHUSER_MOVABLE.difference(Gfp::DIRECT_RECLAIM);
        while frames.zones().any(|zone| zone.free_frames() > floor(zone)) {
            let before: Vec<u64> = frames.zones().map(ZoneView::free_frames).collect();
            let _ = frames.alloc(nowait).unwrap().into_raw();
            for (zone, before) in frames.zones().zip(before) {
                let taken = zone.free_frames() < before;
                assert!(
                    !taken || before > floor(zone) || zone.kind() == ZoneKind::Normal,
                    "{:?} gave its reserve",
                    zone.kind()
                );
            }
            let normal = frames.zones().find(|zone| zone.kind() == ZoneKind::Normal).unwrap();
            if first_full.is_none() && normal.free_frames() <= floor(normal) {
                first_full = Some(held(&frames, 0, ZoneKind::Dma32));
            }
        }
        let total: u64 = ZoneKind::ALL.iter().map(|kind| held(&frames, 0, *kind)).sum();
        (first_full.unwrap(), total, zone(&*frames, 0, ZoneKind::Dma32).managed())
    };
    let (off, total_off, _) = fill_up(FairPolicy::Off);
    assert_eq!(off, 0, "Normal first, then the others");
    for form in [FairPolicy::Linux3_15, FairPolicy::Linux3_17] {
        let (on, total_on, all) = fill_up(form);
        assert!(on > all / 2, "{form:?}: when Normal was full, DMA32 had given {on} of {all}");
        assert!(total_on.abs_diff(total_off) <= 64, "{form:?}: {total_on} against {total_off}");
    }
}
