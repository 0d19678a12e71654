//! Four CPUs that do everything at once, beside an owner map: the bytes decide which operations, and which CPU goes on
//! when.

use pageblock_testkit::schedule::Machine;

#[path = "../../crates/pageblock/tests/schedule/machine.rs"]
mod machine;
#[path = "../../crates/pageblock/tests/schedule/world.rs"]
mod world;

/// Steps of a run.
const STEPS: u64 = 300;

/// First the machine's shape, then choices.
///
/// # Panics
/// Where a frame has two owners, or is lost.
pub fn run(data: &[u8]) {
    let Some((&[shape, words], choices)) = data.split_first_chunk() else { return };
    let (seed, choices) = (u64::from(shape), choices.to_vec());
    if words & 1 == 0 {
        machine::schedule::<Machine<false, true>>(seed, STEPS, choices);
    } else {
        machine::schedule::<Machine<true, false>>(seed, STEPS, choices);
    }
}
