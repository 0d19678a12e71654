//! What the sets must do, one by one.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::vec;

fn model_of(tops: &BTreeMap<u32, i32>, order: i32) -> BTreeSet<u32> {
    tops.iter().filter(|&(_, &top)| top == order || (order < NESTED && top > order)).map(|(&block, _)| block).collect()
}

proptest! {
    #[test]
    fn sets_follow_the_largest_orders(blocks in prop_oneof![1usize..70, 4000usize..4200, 262_000usize..262_300],
                      ops in prop::collection::vec((-1..9i32, any::<u32>()), 1..120)) {
        let mut rows = vec![[0; ROW]; rows_needed(blocks)];
        let mut sets = Candidates::new(&mut rows, blocks);
        let t = MigrateType::Reclaimable;
        let mut tops = BTreeMap::new();
        for (to, at) in ops {
            let block = at % blocks as u32;
            let from = tops.insert(block, to).unwrap_or(-1);
            let mut row = sets.row_of(block).unwrap();
            if to > from { row.raise(t, block, (from, to)) } else if to < from { row.lower(t, block, (from, to)) }
            let probe = at.rotate_left(7) % blocks as u32;
            for order in 0..9u32 {
                let (set, model) = (Set::new(t, order), model_of(&tops, order as i32));
                prop_assert_eq!(sets.lowest(set), model.first().copied());
                prop_assert_eq!(sets.recount(set), Some(model.len() as u64));
                prop_assert_eq!(sets.contains(set, probe), model.contains(&probe));
                prop_assert_eq!(sets.first_from(set, probe), model.range(probe..).next().copied());
                prop_assert_eq!(sets.last_below(set, probe), model.range(..probe).next_back().copied());
                let serves = tops.iter().find(|&(_, &top)| top >= order as i32).map(|(&block, _)| block);
                prop_assert_eq!(sets.lowest_serving(t, order), serves);
                let exactly = tops.iter().find(|&(_, &top)| top == order as i32).map(|(&block, _)| block);
                prop_assert_eq!(sets.lowest_with_top(t, order), exactly);
            }
            prop_assert_eq!(sets.lowest(Set::new(MigrateType::Movable, 0)), None);
        }
    }
}
