//! Zones of pageblocks, and the buddy allocator on them.
//!
//! A zone is an array of pageblocks; its free frames are a 512-bit map in one cache line. A set of free frames
//! decomposes in exactly one way into maximal aligned blocks, so freeing is setting bits, and merging is not an action
//! but a fact. The data beside the bits serves to find a block fast: for each word the orders it holds, for each
//! pageblock its largest order, for each migrate type and largest order the set of pageblocks that have it, for each
//! region the number of free blocks by order.
//!
//! * [`Zone`]: regions with a lock each, allocation, free, and everything done to blocks and pageblocks under the locks
//! * [`Refill`]: requests of per-CPU lists, each CPU from a pageblock of its own
//! * [`Policy`]: how migrate types fall back on one another
//! * [`Watermarks`] and lowmem reserves, and the test against them; [`Reserves`] sets them for all zones of a machine
//! * [`BoostRule`]: the price of mixing; [`ZoneEvents`]: how often it happened
//! * [`Node`] and [`Zonelist`]: in which order the zones of a machine are tried
//! * [`ZoneScan`]: the view of compaction's scanners, and pageblocks that they withhold and take
//! * [`FreeCounts`] and the lines of `/proc/buddyinfo`, `pagetypeinfo`, `zoneinfo`
//! * [`Violation`]: findings of [`Zone::check`], which recomputes all that from the bits
//!
//! # Invariants
//! 1. A bit is set if and only if the frame is free in the zone; its state byte is then `Inside`.
//! 2. A free frame is found under its pageblock's own type, always (Linux got there in 6.10).
//! 3. A pageblock is in the set of its type and largest order, or of the reserved ones, and in no other; counts by
//!    order are exact. Which words have which orders may be out of date after a drain, and is computed again before the
//!    pageblock is taken from.
//! 4. An operation that returns an error has changed nothing.
//!
//! # Safety
//! A zone hands out numbers of frames, and keeps nothing that tells their holders apart: a call that takes a frame from
//! a holder, or gives the zone new ones, is an `unsafe fn` with its promises in a list. The zone itself reads and
//! writes no frame.
//!
//! # Lock order
//! One region lock at a time, taken with interrupts saved, held for a bounded number of word operations, and never
//! across a callback: events go out after it is released.

#![no_std]
#![deny(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(test)]
extern crate std;

mod alloc;
mod alloc_free;
mod blocks;
mod boost;
mod bulk;
mod check;
#[cfg(feature = "defmt")]
mod defmt;
mod error;
mod events;
mod fallback;
mod fragmentation;
mod free;
mod free_area;
mod highatomic;
#[cfg(feature = "history")]
mod history;
mod node;
mod ones;
mod online;
mod policy;
mod ranges;
mod refill;
mod region;
mod report;
mod reservations;
mod scan;
mod scattered;
mod span;
mod storage;
mod summary;
mod taken;
mod watermark;
mod whole;
mod word;
mod zone;
mod zonelist;

#[cfg(feature = "history")]
pub use boost::BoostArithmetic;
pub use boost::BoostRule;
pub use bulk::BulkGiven;
pub use check::Violation;
pub use error::{AllocAtError, FreeError, IsolateError, SplitError, ZoneError};
pub use events::ZoneEvents;
pub use fragmentation::{fragmentation_index, unusable_free_index};
pub use highatomic::Unreserve;
#[cfg(feature = "history")]
pub use history::FairPolicy;
pub use node::{Node, Reserves, WatermarkRule};
pub use online::Absent;
pub use policy::Policy;
pub use refill::Refill;
pub use report::{
    BlockTypeInfo, BuddyInfo, CmaColumn, FragmentationLine, FreeCounts, PageTypeHeading, PageTypeInfo, ZoneInfo,
};
pub use scan::{BlockView, Held, Patience, Servable, ZoneScan, count_free_blocks};
pub use storage::ZoneStorage;
pub use watermark::{LOWMEM_RESERVE_RATIO, WatermarkTest, Watermarks, lowmem_reserves, min_free_kbytes};
pub use word::word_of;
pub use zone::{Zone, ZoneConfig};
pub use zonelist::{Distances, LOCAL_DISTANCE, NodeOrder, REMOTE_DISTANCE, ZonePlace, ZoneRef, Zonelist};

/// The README's program.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
