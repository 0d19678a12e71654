//! One CPU's own lists: the structure, and the protocol that keeps others out of it.
//!
//! Each CPU has an [`Area`]: the stacks of zone-relative frame numbers, the CPU's memory of their use, and three
//! words that make the area safe to share:
//!
//! | word | written by | meaning |
//! |---|---|---|
//! | `busy` | the owner only | set while code on this CPU works in the area; an interrupt that finds it set stays out |
//! | `visible_frames` | every CPU | the number of frames with state bytes that may be touched: those of the zone up to the first pageblock that was never opened, or 0 while a signal waits for an answer |
//! | `signals` | every CPU | requests of other CPUs to the owner, one bit each ([`Signals`]) |
//!
//! The owner's way in and out ([`Areas::enter`]) is a plain store each, with compiler fences: no lock, no atomic
//! read-modify-write, no fence instruction. A frame number has to be compared with the length of the state table
//! anyway, which is why signals cost nothing: the comparison is with `visible_frames`, and fails while a signal waits.
//!
//! # Access to an area
//! * The code that is pinned to its CPU ([`Platform::pin`](pageblock_frame::Platform::pin)), one at a time:
//!   [`LocalGuard`].
//! * After the owner has left for good ([`LocalGuard::go_offline`] leaves the busy flag set) one [`OfflineGuard`] at a
//!   time, by a compare-and-exchange in `signals`, until the owner is back ([`Areas::come_online`]).
//!
//! Under the model checker the stacks are tracked cells, and two owners at once are a reported race.
//!
//! This module is all of the crate that is unsafe.

#![expect(unsafe_code, reason = "the structure of the lists; every block states its reason")]

use core::ptr::NonNull;

use pageblock_frame::sync::{AtomicU8, AtomicU32};

mod areas;
mod busy;
mod guard;
mod lists;
mod signals;
#[cfg(not(loom))]
mod table;
#[cfg(not(loom))]
mod top;

#[cfg(not(loom))]
mod stacks;
#[cfg(loom)]
#[path = "model.rs"]
mod stacks;
#[cfg(loom)]
use stacks as table;
#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use areas::{AreaRef, Areas, Layout};
pub use guard::LocalGuard;
pub(crate) use lists::CpuLists;
pub(crate) use signals::{ComeOnline, Signals};

use busy::BusyFlag;

/// One CPU's area. The slots of its stacks follow it in memory.
#[repr(C, align(128))]
pub(crate) struct Area {
    busy: BusyFlag,
    visible_frames: AtomicU32,
    signals: AtomicU32,
    body: stacks::Body,
}

/// The state bytes of a zone. They are kept where the pointer to the areas is kept, so that the way to them does not
/// lead through an area: its address is known last.
#[derive(Clone, Copy, Debug)]
struct Frames {
    /// State byte of the zone's first frame.
    states: NonNull<AtomicU8>,
    /// Number of the zone's first frame.
    origin: u64,
    /// The rest of the areas' common data.
    common: NonNull<stacks::Common>,
}
