use core::mem::MaybeUninit;
use std::vec::Vec;

use super::*;

fn with_depot(capacity: Capacity, test: impl FnOnce(&Depot<'_>)) {
    let mut raw = std::vec![MaybeUninit::uninit(); Depot::bytes(&capacity)];
    test(&Depot::carve(capacity, &mut Carver::new(&mut raw)).unwrap());
}

fn list(order: u8) -> List {
    List::places().find(|list| list.order().as_u8() == order).unwrap()
}

fn pop(depot: &Depot<'_>, list: List, spare: &mut Spare) -> Option<Vec<u32>> {
    let mut found = None;
    depot.pop(list, spare, |blocks| found = Some(blocks.to_vec()));
    found
}

fn batch(first: u32, order: u8) -> Vec<u32> {
    (0..blocks_of(Order::saturating(order))).map(|i| first + i).collect()
}

#[test]
fn batches_come_back_as_they_went() {
    for cpus in [1, 8] {
        with_depot(Capacity::new(1 << 18, cpus), |depot| {
            let mut spare = Spare::NONE;
            for order in 0..=10 {
                assert!(!depot.push(list(order), &mut spare, &[]), "no batch");
                assert!(depot.push(list(order), &mut spare, &batch(1000, order)), "{order}");
                assert_eq!(
                    (depot.depth(list(order)), depot.blocks(list(order))),
                    (1, blocks_of(Order::saturating(order)))
                );
            }
            assert!(depot.push(list(0), &mut spare, &batch(2000, 0)));
            let mut seen = Vec::new();
            let look = depot.look(list(0), |blocks| {
                seen.push(blocks.to_vec());
                Ok::<(), ()>(())
            });
            assert_eq!((look, seen), (Ok(()), std::vec![batch(2000, 0), batch(1000, 0)]));
            assert_eq!(pop(depot, list(0), &mut spare), Some(batch(2000, 0)));
            for order in 0..=10 {
                assert_eq!(pop(depot, list(order), &mut spare), Some(batch(1000, order)));
                assert_eq!(pop(depot, list(order), &mut spare), None);
            }
        });
    }
}

/// A list takes no more than its share, all of them no more than there are batches; nothing is lost on the way.
#[test]
fn a_full_depot_says_so() {
    with_depot(Capacity::new(1 << 18, 1), |depot| {
        let mut spares = [Spare::NONE; 2];
        let mut taken = [0; 2];
        for (which, order) in [(0, 0), (1, 9), (0, 0), (1, 5), (0, 1), (0, 2), (1, 3)] {
            while depot.has_room(list(order)) && depot.push(list(order), &mut spares[which], &batch(0, order)) {
                taken[which] += 1;
            }
            assert!(depot.blocks(list(order)) << order <= 1 << 10);
        }
        assert_eq!(taken[0] + taken[1], depot.batches.len(), "every batch is in use");
        for order in [0, 9, 5, 1, 2, 3] {
            while pop(depot, list(order), &mut spares[0]).is_some() {}
        }
        let empties = depot.empties() + spares.iter().filter(|&&spare| spare != Spare::NONE).count();
        assert_eq!(empties, depot.batches.len());
    });
}

/// A machine of 16 MiB spends nothing on it.
#[test]
fn a_small_zone_has_none() {
    for frames in [0, 1 << 12, 1 << 13] {
        let capacity = Capacity::new(frames, 8);
        assert_eq!(Depot::bytes(&capacity), 0);
        with_depot(capacity, |depot| {
            let mut spare = Spare::NONE;
            assert!(!depot.has_room(list(0)) && !depot.push(list(0), &mut spare, &batch(0, 0)));
            assert_eq!((pop(depot, list(0), &mut spare), depot.depth(list(0))), (None, 0));
        });
    }
}

/// All lists' batches together hold less than a twentieth of the zone, whatever its size.
#[test]
fn a_depot_holds_less_than_a_twentieth() {
    for frames in [1 << 14, 1 << 16, 1 << 18, 1 << 22, 1 << 28] {
        for cpus in [1, 2, 8, 64, 4096] {
            let capacity = Capacity::new(frames, cpus);
            let mut left = u64::from(capacity.batches);
            let mut held = 0;
            // The worst case: the batches with most frames first.
            for list in List::all(crate::ListSet::Every).collect::<Vec<_>>().into_iter().rev() {
                let batches = u64::from(capacity.limit(list.order())).min(left);
                left -= batches;
                held += batches * u64::from(blocks_of(list.order()) << list.order().as_u8());
            }
            assert!(held * 20 < frames, "{frames} frames, {cpus} CPUs: {held}");
        }
    }
}
