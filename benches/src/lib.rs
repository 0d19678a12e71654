//! The loops that are measured, on our allocators and on those of others.
//!
//! * [`Frames`]: an allocator as the loops see it; [`allocators`] has the adapters, [`peers`] more of them, [`machine`]
//!   the whole allocator's
//! * [`loads`]: requests and frees, decided before; [`loops`]: single calls over and over; [`traces`]:
//!   recordings
//! * [`rows`]: the measured values, by name; [`table`]: how names are found and figures written; [`tool`]: the valgrind
//!   tool's other side
//! * [`compaction`]: zones in which its scanners find nothing; [`moves`]: the cost where they find something
//! * [`floor`]: the least that a per-CPU list could cost; [`two`]: two threads; [`ratios`]: times against both
//!
//! `unsafe` is where a zone or an allocator owns its storage through the testkit, and where frames without anything
//! behind them are freed.

#![deny(unsafe_code)]

pub mod allocators;
pub mod compaction;
pub mod floor;
pub mod loads;
pub mod loops;
pub mod machine;
pub mod moves;
pub mod peers;
pub mod ratios;
pub mod rows;
pub mod table;
pub mod tool;
pub mod traces;
pub mod two;

pub use allocators::Frames;

/// Frames of the pool that every loop works on: 1 GiB.
pub const POOL: u64 = 1 << 18;
