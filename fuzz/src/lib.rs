//! Fuzz targets. Each is a function of bytes that panics if something is wrong.
//!
//! With cargo-fuzz (nightly): `cargo fuzz run ops`. On stable Rust, here: `cargo run --release --bin ops -- --seconds 60`;
//! see [`drive`].

pub mod compaction;
pub mod drive;
pub mod ops;
pub mod regions;
pub mod tables;
pub mod trace;
