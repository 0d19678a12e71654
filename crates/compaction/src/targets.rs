//! Parts of the zone that a run holds besides sources: targets, and pageblocks withheld from allocation. Each is given
//! back when dropped.

use core::ops::Range;

use arrayvec::ArrayVec;
use pageblock_buddy::{BlockView, ZoneScan};
use pageblock_frame::{Order, Platform};

use crate::cluster::{CLUSTER, keep};

/// Isolated blocks that are free, all of one order (`cc->freepages`). Dropped, they are freed.
#[derive(Debug)]
pub(crate) struct Targets<'a, 'z, 'm, P: Platform> {
    scan: &'a ZoneScan<'z, 'm, P>,
    order: Order,
    blocks: ArrayVec<u32, { 2 * CLUSTER }>,
}

impl<'a, 'z, 'm, P: Platform> Targets<'a, 'z, 'm, P> {
    pub(crate) fn new(scan: &'a ZoneScan<'z, 'm, P>, order: Order) -> Self {
        Self { scan, order, blocks: ArrayVec::new() }
    }

    pub(crate) fn order(&self) -> Order {
        self.order
    }

    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The highest first frame.
    pub(crate) fn highest(&self) -> Option<u32> {
        self.blocks.iter().copied().max()
    }

    /// Adds a block that is isolated with this order.
    pub(crate) fn push(&mut self, index: u32) {
        keep(&mut self.blocks, index);
    }

    /// Takes a block out: its frames are the caller's.
    pub(crate) fn pop(&mut self) -> Option<u32> {
        self.blocks.pop()
    }

    /// Isolates up to `missing` free blocks of one pageblock; returns how many it got.
    pub(crate) fn take_from(&mut self, block: u32, missing: usize) -> usize {
        let mut out = [0; CLUSTER];
        let room = missing.min(CLUSTER).min(self.blocks.remaining_capacity());
        let got = self.scan.take(block, self.order, out.get_mut(..room).unwrap_or_default());
        out.into_iter().take(got).for_each(|index| self.push(index));
        got
    }

    /// Frees all of them under one lock hold a pageblock.
    pub(crate) fn free(&mut self) {
        if !self.blocks.is_empty() {
            // SAFETY: the targets here are isolated, each for this value alone; nothing has been moved into them, or
            // what was there has been moved elsewhere or freed.
            #[expect(unsafe_code, reason = "targets are in hand")]
            unsafe {
                self.scan.give_free(&self.blocks, self.order);
            }
            self.blocks.clear();
        }
    }

    /// Frees all of them, and holds blocks of another order from now on.
    pub(crate) fn restart(&mut self, order: Order) {
        self.free();
        self.order = order;
    }
}

impl<P: Platform> Drop for Targets<'_, '_, '_, P> {
    fn drop(&mut self) {
        self.free();
    }
}

/// Neighbouring pageblocks that are withheld from allocation. Dropped, they are restored.
#[derive(Debug)]
pub(crate) struct WithheldRange<'a, 'z, 'm, P: Platform> {
    scan: &'a ZoneScan<'z, 'm, P>,
    withheld: Range<u32>,
    wanted_end: u32,
}

impl<'a, 'z, 'm, P: Platform> WithheldRange<'a, 'z, 'm, P> {
    /// Withholds pageblocks, in ascending order, up to the first that cannot be.
    pub(crate) fn new(scan: &'a ZoneScan<'z, 'm, P>, blocks: Range<u32>) -> Self {
        let mut range = Self { scan, withheld: blocks.start..blocks.start, wanted_end: blocks.end };
        while range.withheld.end < blocks.end && scan.withhold(range.withheld.end).is_some() {
            range.withheld.end += 1;
        }
        range
    }

    /// True if all that were asked for are withheld.
    pub(crate) fn is_complete(&self) -> bool {
        self.withheld.end == self.wanted_end
    }

    /// Those that are withheld.
    pub(crate) fn blocks(&self) -> Range<u32> {
        self.withheld.clone()
    }

    /// Another call has restored them.
    pub(crate) fn forget(mut self) {
        self.withheld.end = self.withheld.start;
    }
}

impl<P: Platform> Drop for WithheldRange<'_, '_, '_, P> {
    fn drop(&mut self) {
        self.blocks().for_each(|block| self.scan.restore(block));
    }
}

/// Pageblocks here and there that are withheld as targets, the last one first. Dropped, they are restored.
#[derive(Debug)]
pub(crate) struct WithheldTargets<'a, 'z, 'm, P: Platform> {
    scan: &'a ZoneScan<'z, 'm, P>,
    blocks: ArrayVec<u32, 64>,
}

impl<'a, 'z, 'm, P: Platform> WithheldTargets<'a, 'z, 'm, P> {
    pub(crate) fn new(scan: &'a ZoneScan<'z, 'm, P>) -> Self {
        Self { scan, blocks: ArrayVec::new() }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.blocks.is_full()
    }

    pub(crate) fn last(&self) -> Option<u32> {
        self.blocks.last().copied()
    }

    /// Withholds one more; returns it as it is then.
    pub(crate) fn withhold(&mut self, block: u32) -> Option<BlockView> {
        if self.is_full() {
            return None;
        }
        let view = self.scan.withhold(block)?;
        keep(&mut self.blocks, block);
        Some(view)
    }

    /// Restores the last one.
    pub(crate) fn restore_last(&mut self) {
        if let Some(block) = self.blocks.pop() {
            self.scan.restore(block);
        }
    }

    /// Restores all of them.
    pub(crate) fn restore(&mut self) {
        for block in core::mem::take(&mut self.blocks) {
            self.scan.restore(block);
        }
    }
}

impl<P: Platform> Drop for WithheldTargets<'_, '_, '_, P> {
    fn drop(&mut self) {
        self.restore();
    }
}
