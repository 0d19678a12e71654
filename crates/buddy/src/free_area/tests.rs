//! The sets against a map of each pageblock's largest order.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::vec;

fn members(tops: &BTreeMap<u32, i32>, order: i32) -> BTreeSet<u32> {
    tops.iter().filter(|&(_, &top)| top == order).map(|(&block, _)| block).collect()
}

proptest! {
    #[test]
    fn sets_follow_the_largest_orders(blocks in prop_oneof![1usize..70, 4000usize..4200, 262_000usize..262_300],
                      ops in prop::collection::vec((-1..10i32, any::<u32>()), 1..120)) {
        let mut rows = vec![[0; ROW]; rows_needed(blocks)];
        let mut sets = FreeArea::new(&mut rows, blocks);
        let t = MigrateType::Reclaimable;
        let mut tops = BTreeMap::new();
        for (to, at) in ops {
            let block = at % blocks as u32;
            let from = tops.insert(block, to).unwrap_or(-1);
            if from != to {
                sets.change(t, block, TopChange { from, to });
            }
            let probe = at.rotate_left(7) % blocks as u32;
            for order in 0..10u32 {
                let (set, model) = (FreeAreaId::new(t, order), members(&tops, order as i32));
                prop_assert_eq!(sets.lowest(set), model.first().copied());
                prop_assert_eq!(sets.recount(set), Some(model.len() as u64));
                prop_assert_eq!(sets.contains(set, probe), model.contains(&probe));
                prop_assert_eq!(sets.first_from(set, probe), model.range(probe..).next().copied());
                if blocks < 5000 {
                    prop_assert_eq!(sets.last_below(set, probe), model.range(..probe).next_back().copied());
                }
                let partial = |least: u32| tops.iter().filter(move |&(_, &top)| top >= least as i32 && top < 9);
                let fragmented = partial(order).min_by_key(|&(&block, &top)| (top, block)).map(|(&block, _)| block);
                prop_assert_eq!(sets.most_fragmented(t, order), fragmented);
            }
            prop_assert_eq!(sets.lowest(FreeAreaId::new(MigrateType::Movable, 0)), None);
        }
    }
}
