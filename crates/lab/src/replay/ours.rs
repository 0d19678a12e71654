//! Our machine with what it holds: executes operations; compaction where the recorded machine compacted, and where a request finds
//! frames but no block. The clock of the allocator stands still meanwhile.

use std::time::{Duration, Instant};

use pageblock_buddy::FreeError;
use pageblock_compaction::Priority;
use pageblock_frame::{Gfp, NodeId, Order, Pfn, PfnRange};

use super::compaction::Compaction;
use super::machine::Machine;
use super::places::Places;
use super::plan::{Block, NONE, Op};

/// Our machine.
#[derive(Debug)]
pub(crate) struct Ours<'m> {
    /// Its zones.
    pub(crate) machine: Machine<'m>,
    places: Places,
    pub(crate) compaction: Compaction,
    /// What execution found.
    pub(crate) tally: Tally,
}

/// What the execution of operations found.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Time in the allocator, compaction excepted.
    pub(crate) time: Duration,
    /// Requests and frees.
    pub(crate) operations: u64,
    /// Requests that were refused, by order.
    pub(crate) refused: [u64; Order::COUNT],
    /// Of those, the ones for which no zone had enough free frames.
    pub(crate) refused_for_memory: u64,
    /// Frees that the zones refused.
    pub(crate) rejected: u64,
    /// The first of them.
    pub(crate) first_rejection: Option<String>,
    /// Time in compaction.
    pub(crate) compacting: Duration,
}

impl<'m> Ours<'m> {
    /// A machine whose held frames below `frames` are all held since the start.
    pub(crate) fn new(machine: Machine<'m>, frames: u64) -> Self {
        let compaction = Compaction::new(machine.zones());
        Self { machine, places: Places::new(frames), compaction, tally: Tally::default() }
    }

    /// Executes operations; the clock runs only while the allocator does.
    pub(crate) fn execute(&mut self, ops: &[Op], blocks: &mut [Block]) {
        let (mut known, mut others) = (0, 0);
        let mut started = Instant::now();
        for (at, &op) in ops.iter().enumerate() {
            if self.step(op, blocks) {
                continue;
            }
            self.tally.time += started.elapsed();
            started = Instant::now();
            self.places.learn(&ops[known..at], blocks);
            known = at;
            others += u64::from(!self.slow_step(op, blocks));
            self.tally.compacting += started.elapsed();
            started = Instant::now();
        }
        self.tally.time += started.elapsed();
        self.tally.operations += ops.len() as u64 - others;
        self.places.learn(&ops[known..], blocks);
    }

    /// One request or free; false for a request that was refused, and for what is neither. A refused request leaves its block
    /// without frames, and the frees of that block do nothing.
    #[inline]
    fn step(&mut self, op: Op, blocks: &mut [Block]) -> bool {
        let freed = match op {
            Op::Alloc { block, order, gfp, node } => {
                let mut place = self.machine.alloc(order, gfp, node);
                if place.is_none() && order == Order::ZERO {
                    place = self.machine.alloc_anyhow(order, gfp, node);
                }
                blocks[block as usize].ours = place.map_or(NONE, |pfn| pfn.as_u64() as u32);
                return place.is_some();
            }
            Op::Free { block, order } => match std::mem::replace(&mut blocks[block as usize].ours, NONE) {
                NONE => Ok(()),
                ours => self.machine.free(Pfn::new(u64::from(ours)), order),
            },
            Op::FreePart { block, offset, frames } => match blocks[block as usize].ours {
                NONE => Ok(()),
                ours => self.machine.free_range(range(ours + offset, frames)),
            },
            Op::FreeStart { pfn, frames } if self.places.any_moved() => self.free_moved(pfn, frames),
            Op::FreeStart { pfn, frames: 1 } => self.machine.free(Pfn::new(u64::from(pfn)), Order::ZERO),
            Op::FreeStart { pfn, frames } => self.machine.free_range(range(pfn, frames)),
            Op::Compact { .. } | Op::Kcompactd { .. } | Op::Look => return false,
        };
        if let Err(error) = freed {
            self.tally.rejected += 1;
            self.tally.first_rejection.get_or_insert_with(|| format!("{op:?}: {error}"));
        }
        true
    }

    /// Frees frames held since the start, wherever they are now.
    fn free_moved(&mut self, first: u32, frames: u32) -> Result<(), FreeError> {
        for pfn in first..first + frames {
            self.machine.free(self.places.place(pfn), Order::ZERO)?;
            self.places.forget(pfn);
        }
        Ok(())
    }

    /// Frees the frames held since the start that are not in their first place. Returns their first places.
    pub(crate) fn free_moved_start(&mut self) -> Result<Vec<Pfn>, FreeError> {
        let pfns = self.places.moved_start();
        for &pfn in &pfns {
            self.free_moved(pfn, 1)?;
        }
        Ok(pfns.into_iter().map(|pfn| Pfn::new(u64::from(pfn))).collect())
    }

    /// What `step` does not do; false for what is neither a request nor a free.
    #[cold]
    fn slow_step(&mut self, op: Op, blocks: &mut [Block]) -> bool {
        let (compaction, machine, places) = (&mut self.compaction, &self.machine, &mut self.places);
        match op {
            Op::Alloc { block, order, gfp, node } => self.make_room(block, (order, gfp, node), blocks),
            Op::Compact { order, gfp, priority } => {
                let asked = (order, gfp, NodeId::default());
                compaction.direct(machine, asked, priority, &places.owner(blocks));
                return false;
            }
            Op::Kcompactd { node, order, limit } => {
                compaction.thread(machine, NodeId::new(node), (order, limit), &places.owner(blocks));
                return false;
            }
            Op::Look => {
                compaction.look(machine, &places.owner(blocks));
                return false;
            }
            _ => {}
        }
        true
    }

    /// A request found no block above the watermarks: compacts for it with growing determination, then goes below the
    /// watermarks, where others must have gone before it: Linux did serve it.
    fn make_room(&mut self, block: u32, (order, gfp, node): (Order, Gfp, NodeId), blocks: &mut [Block]) {
        let mut place = None;
        for priority in [Priority::Async, Priority::SyncLight, Priority::SyncFull] {
            if place.is_none() {
                let owner = self.places.owner(blocks);
                self.compaction.direct(&self.machine, (order, gfp, node), priority, &owner);
                place = self.machine.alloc(order, gfp, node);
            }
        }
        let Some(pfn) = place.or_else(|| self.machine.alloc_anyhow(order, gfp, node)) else {
            self.tally.refused[order.index()] += 1;
            self.tally.refused_for_memory += u64::from(!self.machine.has_frames(order, gfp));
            return;
        };
        blocks[block as usize].ours = pfn.as_u64() as u32;
        self.places.placed(pfn, block);
    }
}

fn range(first: u32, frames: u32) -> PfnRange {
    PfnRange::from_len(Pfn::new(u64::from(first)), u64::from(frames))
}

#[cfg(test)]
#[path = "ours_tests.rs"]
mod tests;
