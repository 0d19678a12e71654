//! Fuzz targets. Each is a function of bytes that panics if something is wrong. `./ci.sh fuzz` runs them under
//! libFuzzer, guided by coverage, with the stable compiler.

pub mod compaction;
pub mod config;
pub mod cpus;
pub mod ops;
pub mod regions;
pub mod tables;
pub mod trace;
