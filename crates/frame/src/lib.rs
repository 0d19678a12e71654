//! The page-frame model that the `pageblock` crates share.
//!
//! A machine's memory is frames of 4 KiB, numbered ([`Pfn`]); 512 of them are a [`Pageblock`]. Free frames are marked
//! by one bit a frame in the pageblock's own cache line, the holder's state by one byte a frame ([`StateByte`]), and,
//! only where reclaim, compaction or mlock are used, its list links, flags and references by a 16-byte [`Descriptor`].
//!
//! Also here, because everything above needs them:
//! * requests: [`Order`], [`MigrateType`], [`Gfp`] and the pure mapping from flags to zone, type and [`AllocFlags`];
//! * [`sync`]: **every** lock and atomic, real and under the model checker;
//! * [`Platform`] and [`Hooks`]: the seams that a kernel fills, and [`trace`]: the events it can listen to;
//! * [`vmstat!`]: counters under Linux's names;
//! * [`Carver`]: from raw bytes to typed metadata, the only place where memory gets a type.
//!
//! # Invariants
//! A state byte is written only by the frame's owner; a [`Pageblock`] only under its zone's lock. Each is documented
//! with its legal values beside its type.
//!
//! # Lock order
//! Nothing here takes a lock. The order for those above: per-CPU list (owner only), then zone lock, then nothing; an
//! LRU lock and a zone lock never nest.
//!
//! `unsafe` is confined to this crate and to the seams that its documentation names.

#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(any(test, loom))]
extern crate std;

mod addr;
mod block;
mod blocks;
mod carve;
mod desc;
mod errors;
mod gfp;
mod hooks;
mod ids;
mod memory;
mod migrate;
pub mod migration;
mod opening;
mod order;
mod platform;
mod range;
pub mod reclaim;
pub mod runs;
pub mod state;
pub mod sync;
pub mod trace;
mod vmstat;
mod wide;

pub use addr::{MAX_PFN, PAGE_SHIFT, PAGE_SIZE, Pfn, PfnRange, PhysAddr};
pub use block::{BLOCK_WORDS, Fill, Given, NO_BLOCK, Pageblock, Taken, TopChange, Visit, Visited, WordGiven};
pub use blocks::Pageblocks;
pub use carve::{Carver, Slots, Zeroed};
pub use desc::{DescFlags, Descriptor, NO_FRAME};
pub use gfp::{AllocFlags, Gfp, GfpError};
pub use hooks::{Hooks, NoHooks};
pub use ids::{CpuId, MAX_NODES, MAX_ZONES, NodeId, ZoneKind};
pub use memory::{claim_frames, poison, poison_damage, zero_through_mapping};
pub use migrate::MigrateType;
pub use opening::Unopened;
pub use order::{COSTLY_ORDER, Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER};
pub use platform::{IrqState, Platform};
pub use state::{FrameState, StateByte, StateTable, StateView};

/// The README's program.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
