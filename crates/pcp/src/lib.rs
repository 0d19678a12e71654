//! Per-CPU lists of free blocks (Linux's `pcp`), high orders included.
//!
//! Most allocations and frees never reach the zone: each CPU has stacks of free blocks for every order up to 10 by
//! migrate type, and takes from them and gives to them alone. They are filled and emptied through the zone's bulk
//! calls, one lock hold each.
//!
//! * [`PcpLists`]: one zone's lists on all CPUs; [`PcpLists::alloc`] and [`PcpLists::free`] are the fast path
//! * [`PcpConfig`]: which orders have lists, how long they are, how they are tuned; presets for Linux releases
//! * [`List`]: which list a block is on
//! * [`batch`], [`high`]: Linux's sizes
//!
//! # The fast path
//! No lock, no atomic read-modify-write, no fence. The owner marks its area busy by a plain store, works, and clears
//! it. An interrupt that finds it busy goes to the zone and loses nothing. A remote CPU never touches a list: it sets a
//! signal, which the owner meets in a check that it makes anyway, and kicks it. See the module `percpu`. A platform
//! with a word for each CPU ([`Platform::CPU_WORD`](pageblock_frame::Platform::CPU_WORD)) has the shortest way to a
//! list ([`PcpRef`]).
//!
//! # Invariants
//! 1. A block on a list has the state `Listed` with the list's order; it is on one list only. A free of a frame that is
//!    not `Allocated` with the order given is refused by name.
//! 2. Blocks on lists are not free to the zone; free, listed and allocated frames make up the frames that the zone
//!    manages.
//! 3. While pageblocks of the zone are isolated no block is put on a list; see [`PcpLists::begin_isolation`].
//! 4. With the default configuration the work of one call is bounded: it gives back at most [`PcpConfig::call_limit`]
//!    blocks or two whole words of 64, and a zone ends a refill or a drain of scattered blocks early.
//!
//! # Lock order
//! Owner of an area, then the zone lock, then nothing.

#![no_std]
#![deny(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(any(test, loom))]
extern crate std;

mod account;
mod check;
mod config;
mod counters;
mod depot;
mod drain;
mod list;
mod lists;
#[cfg(loom)]
pub mod model;
mod percpu;
mod sizing;
mod slow;
mod tune;

pub use check::{PcpCounts, PcpViolation};
pub use config::{ListSet, PcpConfig, RefillSize, Sizing, Tuning, WhenShort};
pub use drain::{Drain, PcpError, ReclaimActivity};
pub use list::{BlockKind, List};
pub use lists::{PcpLists, PcpRef};
pub use percpu::LocalGuard;
pub use sizing::{Sizes, batch, high, high_max};
