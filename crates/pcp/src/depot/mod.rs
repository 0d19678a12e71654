//! Full batches of blocks that change hands between CPUs: one depot a zone, a stack of batches for each list.
//!
//! A CPU with a full list puts the blocks that have been there longest into a batch and pushes it; a CPU with an
//! empty list pops one. Either is one compare-and-exchange for up to [`BATCH`] frames, where the zone would take its
//! lock and merge or split. The zone is asked when the stack is full or empty. Blocks in a batch stay marked as listed,
//! so that a wrong free of one is named.
//!
//! ```text
//! heads[list]   | tag 32 | depth 16 | index 16 |──► batch ──► batch ──► NONE        full batches of one list
//! empty         | tag 32 | depth 16 | index 16 |──► batch ──► NONE                  batches without blocks
//! ```
//! A batch is in exactly one of these places: a stack, the hands of a CPU between a pop and the next push, or a CPU's
//! [`Spare`]. The CPU that popped a batch is the only one to touch its frames. The tag counts the changes of a head: a
//! compare-and-exchange that was prepared before other CPUs popped a batch and pushed it again fails, although the
//! index is the same. (A CPU would have to sleep through exactly 2^32 changes to be misled.)
//!
//! On machines without 64-bit compare-and-exchange there is no depot: the stacks are always full and always empty.

#![expect(unsafe_code, reason = "frames of a batch belong to the CPU that popped it; every block states its reason")]

#[cfg(not(loom))]
use pageblock_frame::Carver;
use pageblock_frame::Order;

use crate::list::{LISTS, List};

mod batch;
#[cfg(any(target_has_atomic = "64", loom))]
mod head;
#[cfg(not(any(target_has_atomic = "64", loom)))]
#[path = "no_head.rs"]
mod head;

use batch::Batch;
pub(crate) use head::{Head, NONE};

/// Most frames in a batch of a small order, and most blocks in any. Two are enough for a model.
pub(crate) const BATCH: usize = if cfg!(loom) { 2 } else { 64 };

/// Blocks in a batch of an order.
#[inline]
pub(crate) const fn blocks_of(order: Order) -> u32 {
    let blocks = BATCH as u32 >> order.as_u8();
    if blocks == 0 { 1 } else { blocks }
}

/// How much a depot holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capacity {
    /// Batches of all lists together.
    pub(crate) batches: u16,
    /// Frames in the batches of one list.
    pub(crate) frames: u32,
    /// Distance of heads: the heads of several CPUs' lists lie in cache lines of their own.
    stride: u8,
}

impl Capacity {
    /// For a zone with so many frames: one list's batches hold at most a 256th of it, all lists' fewer than a
    /// twentieth. A zone below 64 MiB has no depot.
    #[cfg(not(loom))]
    pub(crate) const fn new(frames: u64, cpus: u32) -> Self {
        let batches = frames / (BATCH as u64 * BATCH as u64);
        let most = if cpus > 1000 { 8008 } else { 8 + 8 * cpus as u64 };
        let batches = if batches > most { most } else { batches };
        let frames = if frames / 256 > u32::MAX as u64 { u32::MAX } else { (frames / 256) as u32 };
        let stride = if cpus > 2 { 8 } else { 1 };
        if batches < 4 {
            Self { batches: 0, frames: 0, stride: 1 }
        } else {
            Self { batches: batches as u16, frames, stride }
        }
    }

    /// For a model.
    #[cfg(loom)]
    pub(crate) const fn model(batches: u16, frames: u32) -> Self {
        Self { batches, frames, stride: 1 }
    }

    const fn heads(&self) -> usize {
        LISTS * self.stride as usize
    }

    /// Batches of one list.
    #[inline]
    const fn limit(&self, order: Order) -> u16 {
        let batches = self.frames / (blocks_of(order) << order.as_u8());
        if batches > self.batches as u32 { self.batches } else { batches as u16 }
    }
}

/// A CPU's batch without blocks, so that a CPU that pops and pushes in turn need not visit the shared stack of such.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Spare(u16);

impl Spare {
    pub(crate) const NONE: Self = Self(NONE);
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Depot<'m> {
    capacity: Capacity,
    heads: &'m [Head],
    empty: Head,
    batches: &'m [Batch],
}

impl<'m> Depot<'m> {
    #[cfg(not(loom))]
    pub(crate) const fn bytes(capacity: &Capacity) -> usize {
        if capacity.batches == 0 {
            return 0;
        }
        capacity.heads() * size_of::<Head>() + capacity.batches as usize * size_of::<Batch>() + 2 * align_of::<Batch>()
    }

    /// Without a batch on any list. `None` if the bytes do not suffice.
    #[cfg(not(loom))]
    pub(crate) fn carve(capacity: Capacity, carver: &mut Carver<'m>) -> Option<Self> {
        if capacity.batches == 0 {
            return Some(Self { capacity, heads: &[], empty: Head::new(), batches: &[] });
        }
        let batches = carver.take_with(capacity.batches.into(), |_| Some(Batch::new()))?;
        let heads = carver.take_with(capacity.heads(), |_| Some(Head::new()))?;
        Some(Self { capacity, heads, empty: Head::new(), batches }.filled())
    }

    /// The same inside a model, on the heap.
    #[cfg(loom)]
    pub(crate) fn model(capacity: Capacity) -> Self {
        let heads = (0..capacity.heads()).map(|_| Head::new()).collect::<std::vec::Vec<_>>().leak();
        let batches = (0..capacity.batches).map(|_| Batch::new()).collect::<std::vec::Vec<_>>().leak();
        Self { capacity, heads, empty: Head::new(), batches }.filled()
    }

    /// With all batches among the empty ones.
    fn filled(self) -> Self {
        for batch in (0..self.capacity.batches).rev() {
            self.empty.push(self.batches, batch, u16::MAX);
        }
        self
    }

    /// Batches on the stack of those without blocks.
    #[cfg(any(test, loom))]
    pub(crate) fn empties(&self) -> usize {
        self.empty.depth().into()
    }

    #[inline]
    fn head(&self, list: List) -> Option<&Head> {
        self.heads.get(list.index() * usize::from(self.capacity.stride))
    }

    /// Batches that are not on the stack of those without blocks: full ones, and the CPUs' spares.
    #[inline]
    pub(crate) fn in_use(&self) -> u32 {
        u32::from(self.capacity.batches.saturating_sub(self.empty.depth()))
    }

    /// Batches of a list, as of a moment ago.
    pub(crate) fn depth(&self, list: List) -> u32 {
        self.head(list).map_or(0, |head| head.depth().into())
    }

    /// Blocks of a list, as of a moment ago.
    pub(crate) fn blocks(&self, list: List) -> u32 {
        self.depth(list) * blocks_of(list.order())
    }

    /// True if a batch of the list would be taken now.
    #[inline]
    pub(crate) fn has_room(&self, list: List) -> bool {
        self.head(list).is_some_and(|head| head.depth() < self.capacity.limit(list.order()))
    }

    /// Hands a full batch over: its blocks, [`blocks_of`] the list's order, are the depot's from now on. False, with
    /// nothing changed, if the list has no room, or no batch is empty.
    pub(crate) fn push(&self, list: List, spare: &mut Spare, blocks: &[u32]) -> bool {
        let Some(head) = self.head(list).filter(|_| blocks.len() == blocks_of(list.order()) as usize) else {
            return false;
        };
        let index = match core::mem::replace(spare, Spare::NONE) {
            Spare::NONE => self.empty.pop(self.batches),
            Spare(index) => Some(index),
        };
        let Some(index) = index else { return false };
        if let Some(batch) = self.batches.get(usize::from(index)) {
            // SAFETY: this CPU has popped the batch, or had it as its spare, and has not pushed it yet.
            unsafe { batch.write(blocks) };
        }
        let pushed = head.push(self.batches, index, self.capacity.limit(list.order()));
        if !pushed {
            *spare = Spare(index);
        }
        pushed
    }

    /// Takes a full batch over: shows its blocks to `take`, which owns them. False if the list has none.
    pub(crate) fn pop(&self, list: List, spare: &mut Spare, take: impl FnOnce(&[u32])) -> bool {
        let popped = self.head(list).and_then(|head| head.pop(self.batches));
        let Some((index, batch)) = popped.and_then(|index| Some((index, self.batches.get(usize::from(index))?))) else {
            return false;
        };
        // SAFETY: this CPU has popped the batch and has not pushed it yet.
        unsafe { batch.read(blocks_of(list.order()) as usize, take) };
        if *spare == Spare::NONE {
            *spare = Spare(index);
        } else {
            self.empty.push(self.batches, index, u16::MAX);
        }
        true
    }

    /// Shows every batch of a list to `look`, while no CPU works with the lists: takes them out one by one and puts
    /// them back, in the same order.
    pub(crate) fn look<E>(&self, list: List, mut look: impl FnMut(&[u32]) -> Result<(), E>) -> Result<(), E> {
        let Some(head) = self.head(list) else { return Ok(()) };
        let seen = Head::new();
        let mut result = Ok(());
        while let Some(index) = head.pop(self.batches) {
            if let Some(batch) = self.batches.get(usize::from(index)) {
                // SAFETY: this CPU has popped the batch and has not pushed it yet.
                unsafe {
                    batch.read(blocks_of(list.order()) as usize, |blocks| {
                        result = core::mem::replace(&mut result, Ok(())).and_then(|()| look(blocks))
                    })
                };
            }
            seen.push(self.batches, index, u16::MAX);
        }
        while let Some(index) = seen.pop(self.batches) {
            head.push(self.batches, index, u16::MAX);
        }
        result
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
