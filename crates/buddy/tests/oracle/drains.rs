//! What drains of per-CPU lists give back, and where they stop.

use core::mem::MaybeUninit;
use pageblock_testkit::simulated::SimulatedZone;

use pageblock_buddy::{Zone, ZoneConfig, ZoneStorage};
use pageblock_frame::{Carver, FrameState, MigrateType, NodeId, Order, Pfn, PfnRange, ZoneKind};
use pageblock_testkit::host::Quiet;

/// Pageblocks of three regions.
const PAGEBLOCKS: u64 = 2 * 256 + 64;

fn zone() -> Zone<'static> {
    let span = PfnRange::new(Pfn::new(0), Pfn::new(PAGEBLOCKS * 512));
    let raw = vec![MaybeUninit::uninit(); ZoneStorage::bytes(span, Order::MAX)].leak();
    let storage = ZoneStorage::carve(span, Order::MAX, &mut Carver::new(raw)).unwrap();
    let zone = Zone::new::<Quiet>(ZoneConfig::new(ZoneKind::Normal, NodeId::new(0), span), storage).unwrap();
    zone.release_simulated::<Quiet>(span).unwrap();
    zone
}

/// All blocks of an order, listed, in an order in which neighbours are far from one another.
fn scattered(zone: &Zone<'_>, order: Order) -> Vec<u32> {
    let count = ((PAGEBLOCKS * 512) >> order.as_u8()) as usize;
    let mut blocks = vec![0; count];
    assert_eq!(zone.alloc_bulk::<Quiet>(order, MigrateType::Movable, &mut blocks), count);
    blocks.sort_unstable();
    (0..count).map(|i| blocks[i * 100_003 % count]).collect()
}

/// Whatever a call stops at: what is left is the end of the slice, still listed, each block once; what is done with is
/// free.
#[test]
fn what_a_bounded_drain_leaves_is_at_the_end() {
    for (order, blocks_a_call) in [(0, 48), (1, 48), (3, 48), (4, 48), (0, 130), (3, 130)] {
        let zone = zone();
        let order = Order::new(order).unwrap();
        let mut blocks = scattered(&zone, order);
        let mut at = 0;
        let mut stopped = 0;
        while at < blocks.len() {
            let end = (at + blocks_a_call).min(blocks.len());
            let mut before = blocks[at..end].to_vec();
            // SAFETY: the blocks are those that were handed out above.
            let given = unsafe { zone.free_some::<Quiet>(order, &mut blocks[at..end]) };
            assert!(given.done > 0 && given.refused == 0);
            stopped += u32::from(given.done < end - at);
            let (mut after, done) = (blocks[at..end].to_vec(), given.done);
            let is_listed = |&index: &u32| matches!(zone.states().get(index).decode(), FrameState::Listed(..));
            assert!(after[done..].iter().all(is_listed), "what is left is listed");
            before.retain(|index| !after[done..].contains(index));
            assert!(before.len() == done && !before.iter().any(is_listed), "what is done with is not");
            // The rest is what was not done with: no block twice, none lost.
            after[..done].copy_from_slice(&before);
            blocks[at..end].copy_from_slice(&after);
            at += done;
        }
        assert!(stopped > 0, "no call of order {order} has stopped before its end");
        assert_eq!((zone.free_frames(), zone.check()), (PAGEBLOCKS * 512, Ok(())));
    }
}

/// What is not listed is refused, in every region, and a block that is named twice in one call is freed once.
#[test]
fn wrong_blocks_are_refused_in_every_region() {
    let zone = zone();
    let blocks = scattered(&zone, Order::ZERO);
    let some: Vec<u32> = blocks[..60].iter().chain(&blocks[..4]).copied().collect();
    assert!(some.iter().any(|index| index >> 17 != some[0] >> 17), "of several regions");
    assert_eq!(zone.free_bulk_simulated::<Quiet>(Order::ZERO, &some), 4);
    assert_eq!(zone.free_bulk_simulated::<Quiet>(Order::ZERO, &some), some.len());
    assert_eq!((zone.free_frames(), zone.check()), (60, Ok(())));
}
