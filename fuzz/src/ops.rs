//! Sequences of operations on a zone, right and wrong ones, beside the oracle.

use arbitrary::{Arbitrary, Unstructured};
use pageblock_testkit::Op;

#[path = "../../crates/buddy/tests/oracle/subject.rs"]
mod subject;

use subject::{SHAPES, assert_restored, crowd};

/// First the shape of the zone, how crowded it is and how often the states are compared, then operations.
///
/// # Panics
/// At the first difference between the zone and the oracle.
pub fn run(data: &[u8]) {
    let mut source = Unstructured::new(data);
    let Ok([shape, crowded, pace]) = <[u8; 3]>::arbitrary(&mut source) else { return };
    let mut driver = SHAPES[usize::from(shape) % SHAPES.len()].driver();
    crowd(&mut driver, u64::from(crowded % 128));
    let pace = usize::from(pace % 16) + 1;
    let mut step = 0;
    while !source.is_empty() {
        let Ok(op) = Op::arbitrary(&mut source) else { break };
        if let Err(breach) = driver.apply(&op) {
            panic!("step {step}, {op:?}: {breach}");
        }
        step += 1;
        if step % pace == 0
            && let Err(breach) = driver.verify()
        {
            panic!("after step {step}, {op:?}: {breach}");
        }
    }
    assert_restored(&mut driver);
}
