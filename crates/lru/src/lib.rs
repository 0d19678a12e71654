//! LRU lists over the descriptor table: which page to reclaim next, and which never.
//!
//! An [`Lru`] covers the frames of one zone (Linux before 4.8) or of one node (since): it is given their slice of
//! [`Descriptor`](pageblock_frame::Descriptor)s and threads five lists through it ([`LruList`]): inactive and active
//! anonymous pages, inactive and active file pages, and the unevictable ones. New pages enter at the head; reclaim
//! takes from the tail. [`Lrus`] finds the list set of a frame when a machine has several.
//!
//! * [`Lru::isolate`], [`Lru::isolate_tail`]: take pages off, one that is named or a batch from the end of a list;
//!   [`Lru::put_back_all`] returns a batch, spliced in as one chain a list.
//! * [`Pagevecs`]: a CPU's batches of pages to add, activate, deactivate or rotate, 15 (before 4.16: 14) at a time, so
//!   that the lock is taken once a batch. [`PerCpu`] holds one for each CPU.
//! * [`LruGuard`]: the lock held, for callers with a batch of their own (mlock).
//! * [`Shadow`], [`Lru::refault`]: how long ago a page was evicted, so that a working set is recognised.
//! * [`Lru::check`]: recomputes every list from the links and the flags.
//!
//! # Invariants
//! 1. `LRU` is set in a page's flags only under the LRU lock, after its links are; the CPU that clears it (by one
//!    atomic step) owns the links, and takes the lock to unlink. So a page seen with `LRU` *under the lock* is linked,
//!    and stays linked until the lock is released.
//! 2. Which list a linked page is on is said by `UNEVICTABLE`, `ACTIVE` and `FILE`; of a linked page they change only
//!    under the lock, together with the list. So does `HUGE`.
//! 3. The CPU that clears `LRU` holds a reference, or has given back the last one ([`Lru::release`]).
//! 4. Each page in a pagevec or taken by an isolate function carries one reference for it. No reference is dropped
//!    under the LRU lock unless another is known to remain: freeing takes the lock again.
//! 5. `NR_MLOCK` changes once for each change of a page's `MLOCKED`, by the CPU that made that change.
//!
//! # Lock order
//! Page-table lock, then a CPU's pagevecs, then the LRU lock, then nothing. The LRU lock and a zone lock never nest, no
//! callback runs under it, and interrupts stay on: interrupt handlers do not use these lists.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(any(test, loom))]
extern crate std;

mod check;
mod counters;
mod guard;
mod isolate;
mod list;
mod lists;
mod lru;
mod mlocked;
mod pagevec;
mod percpu;
mod refault;
mod set;

pub use check::LruViolation;
pub use counters::{Counters, LruEvent};
pub use guard::LruGuard;
pub use isolate::{LruIsolateError, Scan};
pub use list::{HUGE_FRAMES, LruList, frames_of};
pub use lists::Unevictable;
pub use lru::Lru;
pub use mlocked::{Tally, maybe_shared};
pub use pagevec::{Batch, Pagevecs};
pub use percpu::PerCpu;
pub use refault::{Refault, Shadow, Swap};
pub use set::{LruSetError, Lrus};

/// The README's program.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
