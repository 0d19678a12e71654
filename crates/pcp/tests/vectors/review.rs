//! The review of *High-order per-CPU lists*, point by point. The number of lists and the way from an index to an order
//! and back are tested beside the mapping itself (`list.rs`), the scaled refill beside the configuration.

use pageblock_frame::{MigrateType, Order};
use pageblock_pcp::PcpConfig;

use crate::machine::{order, sized};

use MigrateType::{Movable, Reclaimable, Unmovable};

/// "Should pindex be initialized to migratetype to match the list below?" The bulk free began with the list of one
/// index and decoded its order from another: blocks of order 3 would have been taken for single frames. Told a list, it
/// gives back blocks of the list that overflowed, as what they are.
#[test]
fn an_overflow_begins_with_its_own_list_and_knows_its_order() {
    let machine = sized(PcpConfig::seed_2016(), (31, 341));
    let three = machine.zone_blocks(order(3), Unmovable, 60);
    let singles = machine.zone_blocks(Order::ZERO, Movable, 100);
    assert_eq!(machine.overflows(singles, Order::ZERO), []);
    let given = machine.overflows(three, order(3));
    // 31 frames, and the last block makes it 32: whole blocks of order 3, and the single frames stay.
    assert!(given.len() > 3 && given.iter().all(|&frames| frames == 32), "{given:?}");
    assert_eq!(machine.lists.counts().by_order[0], 100);
    machine.conserved(0);
}

/// What the list of the overflow cannot give, the others do.
#[test]
fn an_overflow_goes_on_with_the_other_lists() {
    let machine = sized(PcpConfig::seed_2016(), (31, 186));
    let one = machine.zone_blocks(order(1), Movable, 1)[0];
    let singles = machine.zone_blocks(Order::ZERO, Reclaimable, 184);
    assert_eq!(machine.overflows(singles, Order::ZERO), []);
    assert_eq!(machine.free(one, order(1)), 31, "the pair, and 29 single frames");
    assert_eq!(machine.lists.counts().by_order[..2], [155, 0]);
    machine.conserved(0);
}

/// The count is of frames, not of blocks: a list of order 3 overflows after an eighth as many.
#[test]
fn frames_are_counted_not_blocks() {
    for config in [PcpConfig::seed_2016(), PcpConfig::linux_5_14(), PcpConfig::linux_6_1(), PcpConfig::linux_6_7()] {
        let machine = sized(config, (31, 341));
        let blocks = machine.zone_blocks(order(3), Movable, 100);
        let given: Vec<u64> = blocks.into_iter().map(|pfn| machine.free(pfn, order(3))).collect();
        // 43 blocks are 344 frames. The self-tuned lists may take it for a burst before that.
        let first = given.iter().position(|&frames| frames > 0);
        assert!(first <= Some(42) && first >= Some(3), "{:?}: {first:?}", config.tuning);
        machine.conserved(0);
    }
}

/// Types share the lists of orders 1 to 3, as the posted patch's own comment admits: a block of one type may serve another.
#[test]
fn shared_lists_hand_blocks_from_type_to_type_and_typed_ones_do_not() {
    for (config, shared) in [(PcpConfig::seed_2016(), true), (PcpConfig::linux_6_1(), false)] {
        let machine = sized(config, (31, 341));
        let block = machine.alloc(order(2), Movable);
        machine.free(block, order(2));
        assert_eq!(machine.alloc(order(2), Unmovable) == block, shared);
        let frame = machine.alloc(Order::ZERO, Movable);
        machine.free(frame, Order::ZERO);
        assert_ne!(machine.alloc(Order::ZERO, Unmovable), frame, "single frames have a list a type");
    }
}

/// One refill of order 3 is 248 frames in the posted form: it must not overflow the lists by itself.
#[test]
fn an_unscaled_refill_fits_below_the_raised_high_mark() {
    let machine = sized(PcpConfig::seed_2016(), (31, 341));
    assert_eq!(machine.refill(order(3), Movable), 31 * 8);
    let pfn = machine.alloc(order(3), Movable);
    assert_eq!(machine.free(pfn, order(3)), 0);
    // With the mark of six batches the first free gives back.
    let machine = sized(PcpConfig::seed_2016(), (31, 186));
    let pfn = machine.alloc(order(3), Movable);
    assert!(machine.free(pfn, order(3)) > 0);
}
