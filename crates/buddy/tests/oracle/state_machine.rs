//! A zone beside the oracle: every operation, right and wrong, in every shape of zone, with both compared and the zone's
//! own checker run after each.

use crate::subject::{SHAPES, Shape, ZoneSubject, assert_restored, crowd};
use pageblock_testkit::{Driver, Op, strategy};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::Config;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};

/// Chooses a shape, how crowded the zone is at the start (in percent), and operations. The truth itself is the driver's oracle, because which frames an allocation returns is the
/// allocator's free choice.
struct Sequence;

impl ReferenceStateMachine for Sequence {
    type State = (Shape, u64);
    type Transition = Op;

    fn init_state() -> BoxedStrategy<(Shape, u64)> {
        (select(SHAPES), select(&[0, 50, 90, 100][..])).boxed()
    }

    fn transitions(_start: &(Shape, u64)) -> BoxedStrategy<Op> {
        strategy::nasty().boxed()
    }

    fn apply(start: (Shape, u64), _op: &Op) -> (Shape, u64) {
        start
    }
}

struct ZoneMachine;

impl StateMachineTest for ZoneMachine {
    type SystemUnderTest = Driver<ZoneSubject>;
    type Reference = Sequence;

    fn init_test((shape, percent): &(Shape, u64)) -> Driver<ZoneSubject> {
        let mut driver = shape.driver();
        crowd(&mut driver, *percent);
        driver.verify().unwrap();
        driver
    }

    fn apply(mut driver: Driver<ZoneSubject>, _start: &(Shape, u64), op: Op) -> Driver<ZoneSubject> {
        driver.apply(&op).unwrap();
        driver
    }

    fn check_invariants(driver: &Driver<ZoneSubject>, _start: &(Shape, u64)) {
        driver.verify().unwrap();
    }

    fn teardown(mut driver: Driver<ZoneSubject>, _start: (Shape, u64)) {
        assert_restored(&mut driver);
    }
}

prop_state_machine! {
    #![proptest_config(Config { cases: 128, max_shrink_iters: 4000, ..Config::default() })]

    #[test]
    fn a_zone_does_what_the_oracle_says(sequential 1..120 => ZoneMachine);
}

proptest! {
    #![proptest_config(Config { cases: 40, ..Config::default() })]

    /// Long runs of ordinary use, compared at the end: fragmentation that short sequences do not reach.
    #[test]
    fn long_use_leaves_no_trace(
        shape in select(SHAPES),
        ops in strategy::sequence(strategy::realistic(), 2000),
    ) {
        let mut driver = shape.driver();
        for (step, op) in ops.iter().enumerate() {
            driver.apply(op).unwrap();
            if step % 200 == 0 {
                driver.verify().unwrap();
            }
        }
        driver.verify().unwrap();
        assert_restored(&mut driver);
    }
}
