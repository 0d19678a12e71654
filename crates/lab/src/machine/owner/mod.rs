//! The owner of the simulated machine's pages: a [`PageAllocator`](pageblock::PageAllocator) and all holders of
//! its frames.
//!
//! * [`Memory`]: the allocator, a descriptor a frame, LRU lists through them, and their holders
//! * [`Name`], [`Holder`]: by what name a page is known (a page of a process, a page of a file), and other uses of a
//!   frame
//! * [`Sim`]: the platform. Its static functions reach the [`Memory`] that the thread has [entered](Memory::enter)
//! * [`Hooks`]: the reaction of the machine around it when the allocator wakes a thread, waits, or tells an event
//!
//! It lends and moves pages ([`Migrate`](pageblock_frame::migration::Migrate)): off the LRU, contents and every
//! reference to the target, back on the LRU. It gives pages up ([`Reclaim`](pageblock_frame::reclaim::Reclaim)): clean
//! page cache at once, dirty and anonymous pages after a write.
//!
//! # Rules
//! 1. No borrow is held in a call of the allocator: migration and reclaim come back in.
//! 2. A frame has a holder exactly if it is allocated: from the moment that the allocator returned it, until just
//!    before it is freed.
//! 3. A named page has one reference for its name. Isolation and write-back have another one each; the user that drops
//!    the last frees the frame.
//! 4. One thread is all CPUs of a machine; which one it is now says [`Sim::set_cpu`].

mod check;
mod evict;
mod holder;
mod memory;
mod moves;
mod pages;
mod places;
mod sim;
mod storage;
#[cfg(test)]
mod tests;

pub(crate) use evict::Verdict;
pub(crate) use holder::{Counts, Holder, Name};
pub(crate) use memory::{LruScope, Memory, MemoryConfig};
pub(crate) use sim::{Entered, Hooks, Sim};
