//! The facade: boot, limits, fallback, errors, and everything beside the oracle.

mod beyond;
mod boot;
mod callbacks;
mod compaction;
mod conformance;
#[cfg(all(feature = "page_owner", feature = "poison"))]
mod diagnosis;
mod dirty;
mod fair;
mod faults;
mod faulty_owners;
mod last_resort;
mod machine;
mod oracle;
mod page_cache;
mod pressed;
mod pressure;
mod reclaim;
mod report;
mod series;
mod slowpath;
mod stack;
mod stalls;
mod unwinding;
mod vmstat;
mod zones;
