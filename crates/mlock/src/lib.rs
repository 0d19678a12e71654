//! Locking pages in memory and unlocking them, in batches.
//!
//! Unlocking a large area used to take several locked operations and two LRU-lock round trips a page; the seven patches
//! of *munlock batching* (2013) took it to a bit more than half the time. With the feature `history` all seven are here
//! as switches, each with the work that it replaced. The default goes further: one atomic operation a page.
//!
//! * [`PageTable`], [`AddressSpace`]: supplied by the kernel. [`Levels`] knows where tables end.
//! * [`mlock`], [`munlock`]: the system calls' rules: rounding, holes, areas locked already, partial failure.
//! * [`mlock_pages`], [`munlock_pages`]: the pages of one area.
//! * [`MlockBatch`]: the per-CPU form of Linux since 5.18, which counts locks in the page.
//!
//! # How the default does it
//! Under the lock of one page table its entries cannot change, so every page they map keeps the reference that its
//! mapping holds: no reference is taken, no page is locked, and migration and reclaim, which must remove the entry
//! first, wait. Up to 96 pages of one LRU are gathered from the table (those of other zones wait in a bitmap), then
//! the LRU lock is taken once: one atomic operation clears `MLOCKED` and `UNEVICTABLE`, and pages that are neighbours
//! on the unevictable list, as pages locked together are, move as one run. Counters change once a batch. A page with
//! more references than one mapping explains may be locked by another area: it is left for a second pass that asks
//! [`AddressSpace::locked_by_any`] with no lock held.
//!
//! # Invariants
//! 1. `NR_MLOCK` is the number of frames of pages with `MLOCKED`: the CPU that flips the flag counts it, also if the
//!    page cannot be isolated.
//! 2. When nothing is under way, a page is `MLOCKED` if and only if a locked area maps it.
//! 3. Counts of references return to their former values.
//!
//! # Lock order
//! Page-table lock, then pagevecs, then the LRU lock. Under the LRU lock nothing of the kernel's is called; under a
//! page-table lock nothing but [`Table::entry`]; `locked_by_any` and [`AddressSpace::free`] are called with neither.
//! Interrupts stay enabled. Vectors on the stack take at most 512 bytes.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "soft-table")]
extern crate alloc;
#[cfg(any(test, loom))]
extern crate std;

mod area;
mod context;
mod gather;
#[cfg(feature = "history")]
mod history;
mod lock;
mod munlock;
mod percpu;
mod runs;
mod shared;
#[cfg(feature = "soft-table")]
mod soft;
#[cfg(feature = "soft-table")]
mod soft_area;
mod span;
mod table;

pub use area::{AreaState, Cause, LockedArea, Stopped, mlock, munlock};
pub use context::Context;
#[cfg(feature = "history")]
pub use history::{Accounting, InPlace, Steps};
pub use lock::{mlock_page, mlock_pages};
pub use munlock::{clear_mlocked, munlock_pages};
pub use percpu::{MlockBatch, mlock_pages_counted, munlock_pages_counted};
#[cfg(feature = "soft-table")]
pub use soft::{Mapping, SoftTable, SoftTableGuard};
#[cfg(feature = "soft-table")]
pub use soft_area::{Placement, SoftArea};
pub use span::{Levels, Span, SpanError, Vpn};
pub use table::{AddressSpace, Entry, FaultError, MarkError, PageTable, Table, Walk};

/// The README's program.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
