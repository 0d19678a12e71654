//! The limit on dirty pages: a page that will be written goes to a zone above its watermark and reserve, whose turn it
//! is, and which has room for more that is dirty; where no zone has all three, kswapd is woken and the limit ignored
//! (claim C13 of *Fair zone policy*).

use pageblock::{
    Config, ConfigError, DirtyLimit, Experiment, FairPolicy, Gfp, PcpConfig, Pfn, Region, Watermarks, ZoneKind,
    ZoneView,
};
use pageblock_frame::reclaim::{FilePages, Shrunk};

use crate::machine::{Booted, GIB, MIB, boot_on, zone};
use crate::pressed::{self, OwnThread, Pressed};

const PAGE: Gfp = Gfp::HIGHUSER_MOVABLE;
const WRITTEN: Gfp = PAGE.union(Gfp::WRITE);
const ZONES: DirtyLimit = DirtyLimit::Zones { percent: 20 };
const FAIR: Config = Config::linux_3_16().per_cpu_lists(None);

/// 512 MiB of DMA32 and as much of Normal.
fn two_zones() -> [Region; 2] {
    [16 * MIB, 4 * GIB].map(|start| Region::from((start, 512 * MIB, true)))
}

fn boot(config: &Config) -> Booted<Pressed> {
    pressed::nothing_meanwhile();
    let frames = boot_on::<Pressed>(&two_zones(), config).unwrap();
    pressed::wakes();
    frames
}

/// So many requests; how many DMA32 and Normal served.
fn spread<P: pageblock::Platform>(frames: &Booted<P>, gfp: Gfp, count: usize) -> (usize, usize) {
    let mut served = (0, 0);
    for _ in 0..count {
        let pfn = frames.alloc(gfp).unwrap().into_raw().pfn;
        match frames.zone_of(pfn).map(ZoneView::kind) {
            Some(ZoneKind::Dma32) => served.0 += 1,
            Some(ZoneKind::Normal) => served.1 += 1,
            other => panic!("{pfn} is in {other:?}"),
        }
    }
    served
}

/// So many pages of files in each of these kinds of zones are dirty, of as many in all; elsewhere none.
fn dirty(in_zones: &'static [(ZoneKind, u64)]) {
    pressed::files(move |_, zone| {
        let pages = in_zones.iter().find(|(kind, _)| *kind == zone).map_or(0, |(_, pages)| *pages);
        FilePages { all: pages, dirty: pages }
    });
}

#[test]
fn what_will_be_written_goes_where_less_is_dirty() {
    let frames = boot(&FAIR);
    let fair = spread(&frames, WRITTEN, 2000);
    assert!(fair.0.abs_diff(fair.1) < 300, "nothing is dirty, zones take turns: {fair:?}");
    for (full, expected) in [(ZoneKind::Normal, (2000, 0)), (ZoneKind::Dma32, (0, 2000))] {
        pressed::files(move |_, zone| FilePages { all: 60_000, dirty: if zone == full { 60_000 } else { 0 } });
        assert_eq!(spread(&frames, WRITTEN, 2000), expected, "{full} has its share");
        let others = spread(&frames, PAGE, 2000);
        assert!(others.0.abs_diff(others.1) < 300, "who does not write takes turns: {others:?}");
    }
    let off = boot(&FAIR.dirty_limit(DirtyLimit::Off));
    dirty(&[(ZoneKind::Normal, 60_000)]);
    assert!(spread(&off, WRITTEN, 2000).1 > 800, "without the limit nobody asks");
}

/// The last page of the share is served, the first beyond it is not.
#[test]
fn the_share_is_of_free_frames_and_files_less_what_the_zone_keeps() {
    for percent in [1, 20, 100] {
        let frames =
            boot(&FAIR.experiment(Experiment::FairZones(FairPolicy::Off)).dirty_limit(DirtyLimit::Zones { percent }));
        let normal = zone(&*frames, 0, ZoneKind::Normal);
        let all = 5_000;
        let reserve = normal.lowmem_reserve().into_iter().max().unwrap();
        let room = normal.free_frames() - normal.watermarks().high - reserve + all;
        let share = room * u64::from(percent) / 100;
        for (dirty, expected) in [(share, (0, 1)), (share + 1, (1, 0))] {
            let of_normal = move |zone| if zone == ZoneKind::Normal { dirty } else { 0 };
            pressed::files(move |_, zone| FilePages { all, dirty: of_normal(zone) });
            let raw = frames.alloc(WRITTEN).unwrap().into_raw();
            let (pfn, order) = (raw.pfn, raw.order);
            let kind = frames.zone_of(pfn).unwrap().kind();
            assert_eq!((usize::from(kind == ZoneKind::Dma32), usize::from(kind == ZoneKind::Normal)), expected);
            // SAFETY: hosted frames have nothing behind them.
            unsafe { frames.free(pfn, order) }.unwrap();
        }
    }
}

/// A zone that lacks one of the three does not serve, whatever else it has.
#[test]
fn watermark_turn_and_limit_are_all_needed() {
    let dma32 = ZoneKind::Dma32;
    let to_dma32 = |frames: &Booted<Pressed>| spread(frames, WRITTEN, 1).0 == 1;
    let prepare = || {
        let frames = boot(&FAIR.lowmem_reserve_ratio([256, 32, 32, 32]));
        // Normal is out for good.
        dirty(&[(ZoneKind::Normal, 100_000)]);
        frames
    };
    assert!(to_dma32(&prepare()), "it has all three");
    let frames = prepare();
    let reserve = zone(&*frames, 0, dma32).lowmem_reserve()[ZoneKind::Normal.index()];
    let high = zone(&*frames, 0, dma32).free_frames();
    assert!(reserve > 0);
    zone(&*frames, 0, dma32).set_watermarks(Watermarks { min: 0, low: high - reserve, high });
    assert!(!to_dma32(&frames), "low and reserve are all it has free");
    let frames = prepare();
    zone(&*frames, 0, dma32).charge_fair(1 << 20, FairPolicy::Linux3_15);
    zone(&*frames, 0, ZoneKind::Normal).set_watermarks(Watermarks { min: 0, low: 0, high: 1 << 30 });
    zone(&*frames, 0, ZoneKind::Normal).reset_fair();
    dirty(&[]);
    assert!(!to_dma32(&frames), "its turn is over");
    let frames = prepare();
    dirty(&[(ZoneKind::Normal, 100_000), (ZoneKind::Dma32, 100_000)]);
    assert!(!to_dma32(&frames), "it is as dirty as the other, which comes first");
}

#[test]
fn where_all_are_dirty_kswapd_is_woken_and_the_limit_ignored() {
    for (limit, woken) in [(DirtyLimit::Off, 0), (ZONES, 1), (DirtyLimit::new(), 1)] {
        let frames = boot(&FAIR.dirty_limit(limit));
        dirty(&[(ZoneKind::Normal, 100_000), (ZoneKind::Dma32, 100_000)]);
        pressed::owner(|_| Shrunk::default());
        // Above low, below high: a request is served at once, and kswapd would have something to do.
        for kind in [ZoneKind::Normal, ZoneKind::Dma32] {
            let zone = zone(&*frames, 0, kind);
            zone.set_watermarks(Watermarks { min: 10, low: 20, high: zone.managed() });
        }
        assert_eq!(spread(&frames, PAGE, 1), (0, 1));
        assert_eq!(pressed::wakes(), 0, "who does not write is served");
        assert_eq!(spread(&frames, WRITTEN, 1), (0, 1), "{limit:?}: nobody fails for the sake of the limit");
        assert_eq!(pressed::wakes(), woken, "{limit:?}");
    }
}

/// Since 4.8 a node has one limit: a zone may be dirtier than its own share.
#[test]
fn a_node_shares_its_limit_and_another_node_serves() {
    let normal_is_full = |limit| {
        let frames = boot(&Config::new().dirty_limit(limit).per_cpu_lists(None));
        pressed::files(|_, zone| FilePages { all: 40_000, dirty: if zone == ZoneKind::Normal { 40_000 } else { 0 } });
        spread(&frames, WRITTEN, 100)
    };
    assert_eq!(normal_is_full(ZONES), (100, 0));
    assert_eq!(normal_is_full(DirtyLimit::new()), (0, 100), "40,000 of some 350,000 are no fifth");
    let node = |number: u8, start| Region::from((start, 256 * MIB, true)).with_node(pageblock::NodeId::new(number));
    let map = [node(0, 4 * GIB), node(1, 5 * GIB)];
    let frames = boot_on::<Pressed>(&map, &Config::new()).unwrap();
    let node_of = |gfp| {
        let pfn = frames.alloc(gfp).unwrap().into_raw().pfn;
        frames.zone_of(pfn).unwrap().node().index()
    };
    pressed::files(|node, _| FilePages { all: 40_000, dirty: if node.index() == 0 { 40_000 } else { 0 } });
    assert_eq!((node_of(PAGE), node_of(WRITTEN)), (0, 1));
}

/// Lists of a zone with its share do not serve either, and neither do bulk requests; others are as fast as ever.
#[test]
fn lists_and_bulk_requests_look_too() {
    let config = Config::new().dirty_limit(ZONES).per_cpu_lists(Some(PcpConfig::new()));
    let frames = boot(&config);
    assert_eq!(spread(&frames, PAGE, 100), (0, 100));
    assert!(frames.stats().listed > 0, "Normal's list has frames");
    dirty(&[(ZoneKind::Normal, 100_000)]);
    assert_eq!(spread(&frames, WRITTEN, 10), (10, 0));
    assert_eq!(spread(&frames, PAGE, 10), (0, 10));
    let mut many = [Pfn::new(0); 50];
    assert_eq!(frames.alloc_bulk(WRITTEN, &mut many), Ok(50));
    assert!(many.iter().all(|pfn| frames.zone_of(*pfn).unwrap().kind() == ZoneKind::Dma32));
}

#[test]
fn nobody_to_ask_is_no_limit_and_a_share_of_nothing_is_refused() {
    let frames = boot_on::<OwnThread>(&two_zones(), &Config::new().dirty_limit(ZONES)).unwrap();
    assert_eq!(spread(&frames, WRITTEN, 100), (0, 100));
    for given in [0, 101, 255] {
        for limit in [DirtyLimit::Zones { percent: given }, DirtyLimit::Nodes { percent: given }] {
            assert_eq!(Config::new().dirty_limit(limit).check(), Err(ConfigError::DirtyLimit { given }));
        }
    }
}
