//! The loops that are measured, on our allocators and on those of others.
//!
//! * [`Frames`]: an allocator as the loops see it; [`allocators`] has the adapters, [`machine`] the whole allocator's
//! * [`loops`]: alloc+free pairs, a random mix at half occupancy, bulk
//! * [`compaction`]: zones in which its scanners find nothing; [`moves`]: what it costs where they find something
//! * [`floor`]: the least that a per-CPU list could cost; [`two`]: two threads; [`ratios`]: times against both
//! * [`worst`]: histories that make one call dear
//! * [`rows`]: each loop by name, as `benches/instructions` counts it
//!
//! `unsafe` is where a zone or an allocator owns its storage through the testkit, and where frames without anything
//! behind them are freed.

#![deny(unsafe_code)]

pub mod allocators;
pub mod compaction;
pub mod floor;
pub mod loops;
pub mod machine;
pub mod moves;
pub mod ratios;
pub mod rows;
pub mod two;
pub mod worst;

pub use allocators::Frames;

/// Frames of the pool that every loop works on: 1 GiB.
pub const POOL: u64 = 1 << 18;
