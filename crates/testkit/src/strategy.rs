//! Sequences of operations for proptest: those of kernels, and those that kernels must not make.
//!
//! ```
//! use proptest::strategy::{Strategy, ValueTree};
//! use proptest::test_runner::TestRunner;
//! use pageblock_testkit::strategy;
//! let mut runner = TestRunner::deterministic();
//! let ops = strategy::sequence(strategy::realistic(), 40).new_tree(&mut runner).unwrap().current();
//! assert!(ops.len() <= 40);
//! ```

use pageblock_frame::{AllocFlags, MigrateType, Order};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::Op;

/// Orders as requests have them: 80 % 0, then 1 to 3, a few up to 10.
pub fn usual_order() -> impl Strategy<Value = Order> + Clone {
    prop_oneof![80 => Just(0u8), 10 => Just(1), 5 => Just(2), 5 => Just(3), 2 => 4u8..=10].prop_map(Order::saturating)
}

/// Every order that can be written down.
pub fn any_order() -> impl Strategy<Value = Order> + Clone {
    (0u8..=15).prop_map(Order::saturating)
}

/// The three ordinary migrate types.
pub fn ordinary_type() -> impl Strategy<Value = MigrateType> + Clone {
    select(&MigrateType::ALL[..MigrateType::PCP_COUNT])
}

/// Any of the flags that a zone looks at, one at a time.
pub fn any_flags() -> impl Strategy<Value = AllocFlags> + Clone {
    select(&Op::FLAGS[..])
}

/// A kernel's operations: allocations and frees in balance, some bulk, no faults.
pub fn realistic() -> impl Strategy<Value = Op> + Clone {
    prop_oneof![
        10 => (usual_order(), ordinary_type())
            .prop_map(|(order, migrate_type)| Op::Alloc { order, migrate_type, flags: AllocFlags::empty() }),
        8 => any::<u32>().prop_map(|victim| Op::Free { victim }),
        2 => (usual_order(), 1u8..=63, ordinary_type())
            .prop_map(|(order, count, migrate_type)| Op::BulkAlloc { order, count, migrate_type }),
        2 => (any::<u32>(), 1u8..=63).prop_map(|(victim, count)| Op::BulkFree { victim, count }),
        1 => (1u32..=70, ordinary_type()).prop_map(|(frames, migrate_type)| Op::AllocExact { frames, migrate_type }),
    ]
}

/// Frees that are wrong.
pub fn faulty() -> impl Strategy<Value = Op> + Clone {
    prop_oneof![
        (any::<u32>(), any_order()).prop_map(|(victim, order)| Op::FreeWrongOrder { victim, order }),
        any::<u32>().prop_map(|victim| Op::DoubleFree { victim }),
        (any::<u32>(), any_order()).prop_map(|(frame, order)| Op::FreeForeign { frame, order }),
        (any::<u32>(), any_order()).prop_map(|(distance, order)| Op::FreeOutOfRange { distance, order }),
        (any::<u32>(), any::<u32>()).prop_map(|(victim, offset)| Op::FreeTail { victim, offset }),
    ]
}

/// The calls that only compaction, hotplug and drivers use.
pub fn rare() -> impl Strategy<Value = Op> + Clone {
    prop_oneof![
        (any::<u32>(), any_order()).prop_map(|(frame, order)| Op::AllocAt { frame, order }),
        (any::<u32>(), any_order()).prop_map(|(victim, order)| Op::Split { victim, order }),
        (any::<u32>(), any::<u32>(), any::<u32>()).prop_map(|(victim, offset, frames)| Op::FreePart {
            victim,
            offset,
            frames
        }),
        any::<u32>().prop_map(|block| Op::Isolate { block }),
        any::<u32>().prop_map(|block| Op::Unisolate { block }),
        (any::<u32>(), select(&MigrateType::ALL[..5]))
            .prop_map(|(block, migrate_type)| Op::Retype { block, migrate_type }),
        any::<u32>().prop_map(|block| Op::Reserve { block }),
        ordinary_type().prop_map(|migrate_type| Op::Unreserve { migrate_type }),
        any::<u8>().prop_map(|piece| Op::AddMemory { piece }),
        (any_order(), ordinary_type(), any_flags()).prop_map(|(order, migrate_type, flags)| Op::Alloc {
            order,
            migrate_type,
            flags
        }),
        (0u32..=2100, ordinary_type()).prop_map(|(frames, migrate_type)| Op::AllocExact { frames, migrate_type }),
    ]
}

/// Everything, wrong frees included.
pub fn nasty() -> impl Strategy<Value = Op> + Clone {
    prop_oneof![5 => realistic(), 2 => faulty(), 3 => rare()]
}

/// Up to `longest` operations of a kind.
pub fn sequence(op: impl Strategy<Value = Op>, longest: usize) -> impl Strategy<Value = Vec<Op>> {
    vec(op, 0..=longest)
}
