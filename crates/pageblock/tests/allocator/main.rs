//! The facade: boot, limits, fallback, errors, and everything beside the oracle.

mod boot;
mod conformance;
mod faults;
mod machine;
mod oracle;
mod report;
mod slowpath;
mod zones;
