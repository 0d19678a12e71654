//! Zones against what knows nothing of buddies: the testkit's oracle, and the conformance suite.

mod conformance;
mod fallback;
mod regressions;
mod state_machine;
mod subject;
mod vectors;
