//! One of our machines at work: executes operations, and runs its background threads meanwhile.

use pageblock::{FreeError, Next};
use pageblock_frame::{Gfp, NodeId, Order, Pfn, PfnRange};

use super::layout::ZoneLayout;
use super::machine::Machine;
use super::outcome::Ruled;
use super::plan::{NONE, Op};
use super::{cpu, figures};

/// A machine, and its findings.
#[derive(Debug)]
pub(crate) struct Ours {
    /// The machine.
    pub(crate) machine: Machine,
    /// Findings of the execution.
    pub(crate) tally: Tally,
    /// When each node's compaction thread looks again, in nanoseconds.
    due: Vec<Option<u64>>,
}

/// Findings of the execution of operations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Requests and frees.
    pub(crate) operations: u64,
    /// Requests that Linux served and this machine refused, by order.
    pub(crate) refused: [u64; Order::COUNT],
    /// Of those, the ones for which no zone had enough free frames.
    pub(crate) refused_for_memory: u64,
    /// Requests that were served from below the watermarks, because Linux did serve them, after reclaim at another
    /// time.
    pub(crate) below_watermarks: u64,
    /// Requests that Linux refused and this machine could have served.
    pub(crate) served_beyond: u64,
    /// Frees that were refused.
    pub(crate) rejected: u64,
    /// The first of them.
    pub(crate) first_rejection: Option<String>,
}

impl Ours {
    /// A machine with all held frames held since the start.
    pub(crate) fn new(machine: Machine) -> Self {
        let due = machine.nodes().map(|_| Some(0)).collect();
        Self { machine, tally: Tally::default(), due }
    }

    /// Executes operations.
    pub(crate) fn execute(&mut self, ops: &[Op]) {
        cpu::enter(&self.machine.seat);
        for &op in ops {
            let freed = self.step(op);
            if let Err(error) = freed {
                self.tally.rejected += 1;
                self.tally.first_rejection.get_or_insert_with(|| format!("{op:?}: {error}"));
            }
            let woken = cpu::take_woken();
            if woken != 0 {
                let nodes = self.machine.nodes().filter(|node| woken >> (node.index() % 64) & 1 != 0);
                nodes.for_each(|node| self.run_thread(node));
            }
        }
    }

    /// One operation. A refused request leaves its block without frames, and the frees of that block do nothing.
    #[inline]
    fn step(&mut self, op: Op) -> Result<(), FreeError> {
        self.tally.operations += u64::from(!matches!(op, Op::At { .. } | Op::Kcompactd { .. }));
        match op {
            Op::At { cpu, micros } => self.at(cpu, micros),
            Op::Alloc { block, order, gfp, node } => self.alloc(block, (order, gfp, node)),
            Op::Try { order, gfp, node } => return self.attempt(order, gfp, node),
            Op::Kcompactd { node, order } => self.machine.seat.allocator.compaction().wake(NodeId::new(node), order),
            Op::Free { block, order } => {
                let first = self.machine.seat.places.borrow_mut().take_block(block);
                if first != NONE {
                    return self.machine.free(Pfn::new(u64::from(first)), order);
                }
            }
            Op::FreePart { block, offset, frames } => {
                let first = self.machine.seat.places.borrow().of_block(block);
                if first != NONE {
                    return self.machine.free_range(range(first + offset, frames));
                }
            }
            Op::FreeStart { pfn, frames } => return self.free_start(pfn, frames),
        }
        Ok(())
    }

    /// Another CPU, or another time: threads that are due look at their zones.
    fn at(&mut self, cpu: u32, micros: u64) {
        cpu::set(cpu % self.machine.cpus, micros);
        let now = cpu::now();
        let is_due = |node: &NodeId| self.due.get(node.index()).copied().flatten().is_some_and(|due| due <= now);
        let due: Vec<_> = self.machine.nodes().filter(is_due).collect();
        due.into_iter().for_each(|node| self.run_thread(node));
    }

    /// A node's compaction thread, until it sleeps.
    fn run_thread(&mut self, node: NodeId) {
        let until = loop {
            match self.machine.seat.allocator.compaction().step(node) {
                Next::Sleep { until } => break until,
                _ => continue,
            }
        };
        if let Some(due) = self.due.get_mut(node.index()) {
            *due = until;
        }
    }

    #[inline]
    fn alloc(&mut self, block: u32, (order, gfp, node): (Order, Gfp, NodeId)) {
        let pfn = self.machine.alloc(order, gfp, node).or_else(|| self.alloc_anyhow(order, gfp, node));
        let mut places = self.machine.seat.places.borrow_mut();
        match pfn {
            Some(pfn) => places.placed(block, order, pfn),
            None => places.refused(block),
        }
    }

    /// Serves a request without regard for watermarks: Linux did serve it, after reclaim that the trace shows as frees
    /// at other times.
    #[cold]
    fn alloc_anyhow(&mut self, order: Order, gfp: Gfp, node: NodeId) -> Option<Pfn> {
        let anyhow = gfp.difference(Gfp::NOMEMALLOC) | Gfp::MEMALLOC;
        let served = self.machine.alloc(order, anyhow, node);
        match served {
            Some(_) => self.tally.below_watermarks += 1,
            None => {
                self.tally.refused[order.index()] += 1;
                self.tally.refused_for_memory += u64::from(!self.machine.has_frames(order, gfp));
            }
        }
        served
    }

    /// A request that Linux refused: its task asks here, too, and goes on without, as it did there.
    fn attempt(&mut self, order: Order, gfp: Gfp, node: NodeId) -> Result<(), FreeError> {
        let Some(pfn) = self.machine.alloc(order, gfp, node) else { return Ok(()) };
        self.tally.served_beyond += 1;
        self.machine.seat.places.borrow_mut().occupancy.take(pfn.as_u64(), order.frames());
        self.machine.free(pfn, order)
    }

    /// Frees frames held since the start, wherever they are now.
    fn free_start(&mut self, first: u32, frames: u32) -> Result<(), FreeError> {
        if !self.machine.seat.places.borrow().any_moved() {
            let pfn = Pfn::new(u64::from(first));
            return if frames == 1 {
                self.machine.free(pfn, Order::ZERO)
            } else {
                self.machine.free_range(range(first, frames))
            };
        }
        for pfn in first..first + frames {
            let place = self.machine.seat.places.borrow().place(pfn);
            self.machine.free(place, Order::ZERO)?;
            self.machine.seat.places.borrow_mut().forget(pfn);
        }
        Ok(())
    }

    /// The machine as it is at the end, with its per-CPU lists emptied: the recorded machine's frames on lists count as
    /// free, too.
    pub(crate) fn outcome(&self, layout: &[ZoneLayout], present: u64) -> Ruled {
        let (machine, tally, noted) = (&self.machine, &self.tally, self.machine.seat.noted.get());
        let listed_frames = machine.drain();
        let mut end = figures::ours(machine, layout);
        (end.fallbacks, end.fallbacks_below_pageblock) = (noted.fallbacks, noted.fragmenting);
        Ruled {
            rules: machine.rules.name(),
            listed_frames,
            end,
            refused: tally.refused.iter().sum(),
            refused_by_order: tally.refused.to_vec(),
            refused_for_memory: tally.refused_for_memory,
            below_watermarks: tally.below_watermarks,
            served_beyond: tally.served_beyond,
            operations: tally.operations,
            compaction_runs: noted.runs,
            compaction_successes: noted.successes,
            moved: machine.seat.allocator.compaction().stats().migrate_success,
            rejected_frees: tally.rejected,
            metadata_bytes_per_frame: machine.metadata as f64 / present as f64,
            cpus: machine.cpus,
            files: figures::files(machine),
        }
    }

    /// Frees the frames held since the start that are not in their first place. Returns their first places.
    pub(crate) fn free_moved_start(&mut self) -> Result<Vec<Pfn>, FreeError> {
        let pfns = self.machine.seat.places.borrow().moved_start();
        for &pfn in &pfns {
            self.free_start(pfn, 1)?;
        }
        Ok(pfns.into_iter().map(|pfn| Pfn::new(u64::from(pfn))).collect())
    }
}

fn range(first: u32, frames: u32) -> PfnRange {
    PfnRange::from_len(Pfn::new(u64::from(first)), u64::from(frames))
}

#[cfg(test)]
#[path = "ours_tests.rs"]
mod tests;
