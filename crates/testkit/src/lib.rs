//! Shared parts of the tests, fuzz targets and benches of `pageblock`. Not published; the standard library is welcome
//! here.
//!
//! * [`Op`]: one operation on an allocator, good or bad. `strategy` (feature `proptest`) makes sequences of them for
//!   proptest, and its `Arbitrary` implementation (feature `arbitrary`) makes them out of a fuzzer's bytes.
//! * [`Oracle`]: required truths, from a set of owned frames that knows nothing of buddies, lists or orders of
//!   merging.
//! * [`Driver`]: applies an [`Op`] to a [`Subject`] (an allocator under test) and to the oracle, and compares.
//! * [`decompose()`]: the per-order counts that a set of free frames must have, found the slow and obvious way.
//! * [`maps`]: memory maps as firmware delivers them on a bad day, and the frames that are in them.
//! * `regions` (feature `arbitrary`): such maps out of random bytes, and whether the normaliser gets them right.
//! * [`movables`]: an owner of movable memory over nothing but a table, and one that breaks every promise.
//! * [`caches`]: an owner of memory that it gives up, and breaks its word where told to.
//! * [`owners`]: a hosted machine with owners of memory from the test.
//! * [`host`]: a [`Platform`](pageblock_frame::Platform) over threads, and storage for an allocator's metadata.
//! * [`simulated`]: freeing by number, where no memory is behind the frames.
//! * [`conformance`]: points that every frame allocator should pass, run against ours and, with the feature `peers`,
//!   those of others.
//!
//! # Where `unsafe` is
//! In [`host`], [`owners`] and [`simulated`] (the platform promises, and storage that outlives its content) and in the
//! adapter for a peer with a free that is an `unsafe fn`. Each block says why.

#![deny(unsafe_code)]

#[cfg(feature = "arbitrary")]
mod bytes;
pub mod caches;
pub mod conformance;
mod decompose;
#[cfg(feature = "oracle")]
mod driver;
pub mod host;
#[cfg(feature = "oracle")]
pub mod maps;
pub mod movables;
mod op;
#[cfg(feature = "oracle")]
mod oracle;
pub mod owners;
#[cfg(feature = "arbitrary")]
pub mod regions;
#[cfg(feature = "schedule")]
pub mod schedule;
pub mod simulated;
#[cfg(feature = "proptest")]
pub mod strategy;

pub use decompose::{Counts, decompose};
#[cfg(feature = "oracle")]
pub use driver::{Driver, Subject};
pub use op::Op;
#[cfg(feature = "oracle")]
pub use oracle::{Breach, FreeFault, Holder, Live, Oracle};
