//! Faults that the state machine found, each as the few operations that showed it.

use pageblock_frame::{MigrateType, Order};
use pageblock_testkit::Op;

use crate::subject::{SHAPES, assert_restored};

fn replay(ops: &[Op]) {
    let mut driver = SHAPES[0].driver();
    for op in ops {
        driver.apply(op).unwrap();
        driver.verify().unwrap();
    }
    assert_restored(&mut driver);
}

/// The last step of a bulk free shifted by the size of the block, which for these orders is a word or more.
#[test]
fn a_bulk_free_of_blocks_larger_than_a_word() {
    for order in (6..=10).map(Order::saturating) {
        let migrate_type = MigrateType::Movable;
        replay(&[Op::BulkAlloc { order, count: 2, migrate_type }, Op::BulkFree { victim: 0, count: 2 }]);
    }
}

/// The reserve's count stayed behind when one of its pageblocks was isolated.
#[test]
fn an_isolated_pageblock_leaves_the_high_order_atomic_reserve() {
    replay(&[Op::Reserve { block: 0 }, Op::Isolate { block: 0 }, Op::Unisolate { block: 0 }]);
    replay(&[Op::Retype { block: 0, migrate_type: MigrateType::HighAtomic }, Op::Isolate { block: 0 }]);
}
