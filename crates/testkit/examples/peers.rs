//! Prints what the peers do with every point of the conformance suite.

use pageblock_testkit::conformance::{peers, table};

fn main() {
    print!("{}", table(&peers::examine_all()));
}
