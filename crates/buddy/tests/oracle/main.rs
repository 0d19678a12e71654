//! Zones against what knows nothing of buddies: the testkit's oracle, and the conformance suite; and zones at their
//! ends.

mod conformance;
mod deferred;
mod drains;
mod extremes;
mod fallback;
mod random;
mod refills;
mod regressions;
mod state_machine;
mod subject;
mod vectors;
