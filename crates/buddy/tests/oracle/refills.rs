//! What refills of per-CPU lists take, and where: bounded calls, whole words, a pageblock for each CPU.

use core::mem::MaybeUninit;
use pageblock_testkit::simulated::SimulatedZone;

use pageblock_buddy::{Patience, Refill, Zone, ZoneConfig, ZoneStorage};
use pageblock_frame::{AllocFlags, Carver, CpuId, MigrateType, NodeId, Order, Pfn, PfnRange, StateByte, ZoneKind};
use pageblock_testkit::host::Quiet;

const MOVABLE: MigrateType = MigrateType::Movable;

/// A zone of so many pageblocks, all free.
fn zone_of(pageblocks: u64) -> Zone<'static> {
    let span = PfnRange::new(Pfn::new(0), Pfn::new(pageblocks * 512));
    let raw = vec![MaybeUninit::uninit(); ZoneStorage::bytes(span, Order::MAX)].leak();
    let storage = ZoneStorage::carve(span, Order::MAX, &mut Carver::new(raw)).unwrap();
    let zone = Zone::new::<Quiet>(ZoneConfig::new(ZoneKind::Normal, NodeId::new(0), span), storage).unwrap();
    zone.release_simulated::<Quiet>(span).unwrap();
    zone
}

/// A refill for a CPU: what it gets.
fn refill(zone: &Zone<'_>, cpu: u32, order: u8, (least, room): (u32, usize)) -> Vec<u32> {
    let order = Order::new(order).unwrap();
    let refill = Refill { order, migrate_type: MOVABLE, cpu: CpuId::new(cpu), least };
    let mut out = vec![u32::MAX; room];
    let got = zone.refill::<Quiet>(refill, &mut out);
    out.truncate(got);
    zone.check().unwrap();
    out
}

fn blocks_of(frames: &[u32]) -> Vec<u32> {
    let mut blocks: Vec<u32> = frames.iter().map(|frame| frame / 512).collect();
    blocks.sort_unstable();
    blocks.dedup();
    blocks
}

/// All frames of the first pageblocks are taken, then one frame of each is given back.
fn one_frame_each(zone: &Zone<'_>, pageblocks: u64) {
    let huge = Order::new(9).unwrap();
    for block in 0..pageblocks {
        let pfn = Pfn::new(block * 512);
        zone.alloc_at::<Quiet>(pfn, huge).unwrap();
        zone.free_range_simulated::<Quiet>(PfnRange::new(pfn, pfn.add(1))).unwrap();
    }
}

/// Whatever a call's effort ends at, also at a pageblock that it has just opened.
#[test]
fn a_bounded_refill_leaves_no_opened_pageblock_whole() {
    for fragmented in 0..12 {
        for order in 0..4 {
            let zone = zone_of(32);
            one_frame_each(&zone, fragmented);
            let got = refill(&zone, 0, order, (200, 200));
            assert!(!got.is_empty());
            assert!(zone.alloc::<Quiet>(Order::new(order).unwrap(), MOVABLE, AllocFlags::empty()).is_some());
        }
    }
}

/// Two CPUs' single frames, and their blocks, lie in different pageblocks: no cache line of state bytes has both.
#[test]
fn each_cpu_takes_from_a_pageblock_of_its_own() {
    let zone = zone_of(32);
    for order in [0, 3, 0] {
        let (ours, theirs) = (refill(&zone, 0, order, (7, 128)), refill(&zone, 1, order, (7, 128)));
        assert_eq!((blocks_of(&ours), blocks_of(&theirs)), (vec![0], vec![1]));
    }
    // Until they are exhausted, and then others.
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..40 {
        ours.extend(refill(&zone, 0, 0, (64, 64)));
        theirs.extend(refill(&zone, 1, 0, (64, 64)));
    }
    let (ours, theirs) = (blocks_of(&ours), blocks_of(&theirs));
    assert!(ours.len() >= 5 && theirs.len() >= 5);
    assert!(ours.iter().all(|block| !theirs.contains(block)), "{ours:?} {theirs:?}");
}

/// The lowest pageblock that can serve is the choice, as long as no other CPU's is lower.
#[test]
fn one_cpu_alone_takes_the_lowest() {
    let zone = zone_of(32);
    one_frame_each(&zone, 3);
    assert_eq!(refill(&zone, 5, 0, (3, 3)), [0, 512], "one call looks at no more");
    assert_eq!(refill(&zone, 5, 0, (1, 1)), [1024]);
    // Given back, and taken by another: the last of them is the first CPU's.
    assert_eq!(zone.free_bulk_simulated::<Quiet>(Order::ZERO, &[0, 512, 1024]), 0);
    assert_eq!(refill(&zone, 6, 0, (2, 2)), [0, 512]);
}

/// Where whole pageblocks are few, two CPUs share one rather than break another.
#[test]
fn pageblocks_are_shared_where_few_are_whole() {
    let zone = zone_of(32);
    for block in 2..32 {
        zone.alloc_at::<Quiet>(Pfn::new(block * 512), Order::new(9).unwrap()).unwrap();
    }
    assert_eq!(blocks_of(&refill(&zone, 0, 0, (7, 128))), [0]);
    assert_eq!(blocks_of(&refill(&zone, 1, 0, (7, 128))), [0]);
    assert_eq!(zone.counts().wholly_free, 1);
}

/// Of a free word all frames come, if there is room: in ascending order when they are popped.
#[test]
fn whole_words_come_whole() {
    let zone = zone_of(4);
    assert_eq!(refill(&zone, 0, 0, (1, 128)), (0..64).rev().collect::<Vec<_>>());
    let zone = zone_of(4);
    assert_eq!(refill(&zone, 0, 0, (150, 256)), (0..192).rev().collect::<Vec<_>>());
    let zone = zone_of(4);
    assert_eq!(refill(&zone, 0, 0, (1, 128)).len(), 64);
    assert_eq!(refill(&zone, 0, 3, (1, 16)), (64..128).step_by(8).collect::<Vec<_>>());
    assert_eq!(refill(&zone, 0, 2, (1, 15)), [128], "no room for the word");
    assert_eq!(refill(&zone, 0, 0, (61, 128)).len(), 60, "the rest of a word");
    assert_eq!(refill(&zone, 0, 0, (61, 128)).len(), 64, "and the next");
}

#[test]
fn what_is_left_in_a_reserved_pageblock_counts_as_a_block() {
    let zone = zone_of(1);
    assert_eq!(refill(&zone, 0, 0, (1, 1)).len(), 1);
    for order in 0..9 {
        assert!(zone.has_block(Order::new(order).unwrap(), AllocFlags::empty()), "order {order}");
    }
    assert!(!zone.has_block(Order::HUGE, AllocFlags::empty()));
}

#[test]
fn a_view_tells_a_pageblock_as_it_is() {
    let zone = zone_of(2);
    let scan = zone.scan::<Quiet>(Patience::Wait);
    let whole = scan.view(1).unwrap();
    assert_eq!((whole.largest, whole.used(), whole.is_wholly_free()), (Some(Order::HUGE), 0, true));
    zone.alloc_at::<Quiet>(Pfn::new(512), Order::new(8).unwrap()).unwrap();
    let half = scan.view(1).unwrap();
    assert_eq!((half.largest, half.used(), half.free), (Order::new(8), 256, 256));
    zone.alloc_at::<Quiet>(Pfn::new(768), Order::new(8).unwrap()).unwrap();
    let full = scan.view(1).unwrap();
    assert_eq!((full.largest, full.used(), full.is_wholly_free()), (None, 512, false));
}

/// 64 neighbours go back as one word, unless one of them is not the caller's to give.
#[test]
fn a_word_with_a_stranger_in_it_goes_back_without_the_stranger() {
    for stranger in [0, 1, 31, 63] {
        let zone = zone_of(4);
        let mut frames = refill(&zone, 0, 0, (64, 64));
        frames.sort_unstable();
        assert_eq!((frames.len(), frames[0] % 64, frames[63] - frames[0]), (64, 0, 63));
        let index = frames[stranger];
        // SAFETY: the frame is this test's, which holds it from here on.
        let states = unsafe { zone.state_table() };
        states.set(index, StateByte::allocated(Order::ZERO, MOVABLE));
        let free = zone.free_frames();
        // SAFETY: 63 of them are listed, and nothing is behind them.
        assert_eq!(unsafe { zone.free_bulk::<Quiet>(Order::ZERO, &frames) }, 1);
        assert_eq!((zone.free_frames(), states.get(index).is_allocated()), (free + 63, true));
        zone.check().unwrap();
    }
}
