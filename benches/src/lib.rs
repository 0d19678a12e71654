//! The loops that are measured, on our allocators and on those of others.
//!
//! * [`Frames`]: an allocator as the loops see it; [`allocators`] has the adapters
//! * [`loops`]: alloc+free pairs, a random mix at half occupancy, bulk
//! * [`compaction`]: zones in which its scanners find nothing, or a choice
//! * [`rows`]: each loop by name, as `benches/instructions` counts it
//!
//! The one `unsafe` block is in [`allocators::empty_zone`]: a zone that owns its storage through the testkit.

#![deny(unsafe_code)]

pub mod allocators;
pub mod compaction;
pub mod loops;
pub mod rows;

pub use allocators::Frames;

/// Frames of the pool that every loop works on: 1 GiB.
pub const POOL: u64 = 1 << 18;
