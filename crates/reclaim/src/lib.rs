//! Getting memory back: the actors, when they start, how hard they look, and when they stop.
//!
//! Two actors share the work. A node's background thread, [`Kswapd`], is woken at the low watermark and works up to
//! the high one. A task that fails even so reclaims for itself ([`Direct`]) and asks [`Retries`] whether to
//! go on. Both see memory through two seams only: a [`ReclaimZone`] says how much is free and should be, and a
//! [`Reclaim`](pageblock_frame::reclaim::Reclaim) gives frames up. How old kernels did it is in the module `history`,
//! behind the feature of that name.
//!
//! * [`Kswapd::wake`], [`Kswapd::wake_if_short`]: ask for memory, from any context. [`Kswapd::step`]: one bounded
//!   piece of the thread's work, and the next action ([`KswapdNext`]).
//! * [`Direct::run`]: rounds of falling priority over a zonelist. [`Kswapd::throttle`]: whether to wait for the thread
//!   first.
//! * [`Retries::again`], [`may_retry`]: the rules by which the allocator's slow path goes on or gives up.
//! * [`Shrinker`]: a ready `Reclaim` for kernels with pages on [`pageblock_lru`]'s lists: second chances, working
//!   sets, anonymous against file pages, write-back, other caches. The kernel supplies a [`PageOwner`].
//!
//! # Invariants
//! 1. Nothing is locked while the owner works: it may wait, allocate and free. Two steps of one thread never run at
//!    the same time.
//! 2. Every step, and every direct pass, makes a bounded number of rounds, whatever the owner answers. Claims of
//!    progress are accepted for as long as the count of free frames bears them out, and 16 rounds beyond.
//! 3. A wake-up is never lost: a request that finds the thread asleep wakes it, and one that does not is seen before
//!    the thread sleeps.
//! 4. A run takes back the boost that a zone had when the run began, no more.
//!
//! # Lock order
//! The seat of a run is locked only to take the run out and to put it back: nothing nests in it.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(any(test, loom))]
extern crate std;

mod balance;
mod config;
mod counters;
mod direct;
#[cfg(feature = "history")]
mod history;
mod kswapd;
#[cfg(not(feature = "history"))]
mod no_history;
mod retry;
mod shrink;
mod unconfirmed;
mod zone;

pub use balance::compact_gap;
pub use config::ReclaimConfig;
pub use counters::ReclaimVmStat;
pub use direct::{Direct, Progress};
#[cfg(feature = "history")]
pub use history::{BalanceGap, BalancedRule, ClassZone, ListsBy};
pub use kswapd::{Kswapd, KswapdNext, NAP, Wake};
pub use retry::{Attempt, MAX_RECLAIM_RETRIES, Retries, may_retry};
pub use shrink::{
    Area, AreaScan, AreaSpan, Evicted, Mapped, PageOutcome, PageOwner, Refaults, ShrinkConfig, ShrinkStat, Shrinker,
    Slab, Victim, inactive_is_low,
};
pub use zone::{MarkTest, Marks, ReclaimZone, WithBoost};

/// The README's program.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
