//! The whole stack with per-CPU lists in use, on machines of several CPUs, for every preset: beside the oracle, with
//! drains, CPUs that go and come back, and kicks that are answered at once or late.

mod machine;
mod offline;
mod oracle;
mod refused;
mod subject;
