//! A zone beside the oracle: every operation, right and wrong, in every shape of zone, with both compared and the
//! zone's own checker run after each.

use crate::subject::{SHAPES, assert_restored, crowd};
use pageblock_testkit::strategy;
use proptest::prelude::*;
use proptest::sample::select;

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, max_shrink_iters: 4000, ..ProptestConfig::default() })]

    /// The truth is the driver's oracle alone, because which frames an allocation returns is the allocator's free
    /// choice.
    #[test]
    fn a_zone_does_what_the_oracle_says(
        shape in select(SHAPES),
        crowded_percent in select(&[0, 50, 90, 100][..]),
        ops in strategy::sequence(strategy::nasty(), 120),
    ) {
        let mut driver = shape.driver();
        crowd(&mut driver, crowded_percent);
        driver.verify().unwrap();
        for op in &ops {
            driver.apply(op).unwrap();
            driver.verify().unwrap();
        }
        assert_restored(&mut driver);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

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
