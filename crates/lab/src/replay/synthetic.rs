//! A start without a map of frames: made up, with the recorded number of free blocks by zone, type and order.
//!
//! Each pageblock gets a type; free blocks are laid into pageblocks of their type, the largest first, each beside a
//! part of the same size that keeps something held, so that no two merge. Where which frame is free differs from the
//! recorded machine: that, and the rest that does not fit, is reported.

use std::collections::VecDeque;

use pageblock_frame::{MigrateType, Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER};

use super::layout::{ZoneLayout, top};
use super::linux::{FREE, Linux, START, kind_of};
use super::plan::Origin;
use super::start::{Start, wanted};
use super::types::Wanted;
use crate::state::State;

/// Makes up a start.
pub(crate) fn start(state: &State, layout: &[ZoneLayout]) -> Start {
    let mut linux = Linux::new(top(layout));
    let mut types = Vec::new();
    let mut unmatched = vec![
        "there is no kpageflags: which frames are free is made up from pagetypeinfo, and frees of frames that were held \
         before the trace hit them only by chance"
            .to_owned(),
    ];
    for zone in layout {
        for range in &zone.ram {
            for pfn in range.start.as_u64()..range.end.as_u64() {
                linux.set(pfn, START, kind_of(MigrateType::Movable));
            }
        }
        let (chosen, missing) = fill(&mut linux, zone, &wanted(state, zone));
        if missing > 0 {
            unmatched.push(format!(
                "zone {}: {missing} free frames found no place in pageblocks of their type",
                zone.name()
            ));
        }
        types.push(chosen);
    }
    Start { linux, origin: Origin::Synthetic, types, unmatched }
}

/// The pageblocks that lie wholly in the zone's memory, and the parts of the others as aligned pieces.
fn pieces(zone: &ZoneLayout) -> (VecDeque<u64>, Vec<(u64, u8)>) {
    let (mut whole, mut parts) = (VecDeque::new(), Vec::new());
    for range in &zone.ram {
        let (mut at, end) = (range.start.as_u64(), range.end.as_u64());
        while at < end {
            let order =
                at.trailing_zeros().min(63 - (end - at).leading_zeros()).min(u32::from(PAGEBLOCK_ORDER.as_u8()));
            if order == u32::from(PAGEBLOCK_ORDER.as_u8()) {
                whole.push_back(at / PAGEBLOCK_FRAMES);
            } else {
                parts.push((at, order as u8));
            }
            at += 1 << order;
        }
    }
    (whole, parts)
}

/// Assigns types and lays the free blocks; returns the types that are not movable and the free frames without a place.
fn fill(linux: &mut Linux, zone: &ZoneLayout, wanted: &Wanted) -> (Vec<(u64, MigrateType)>, u64) {
    let (whole, mut parts) = pieces(zone);
    let longest = 1 << (zone.config.max_order.index() - PAGEBLOCK_ORDER.index());
    let mut pool = Pool { whole, kept: Vec::new(), longest };
    let (mut chosen, mut missing) = (Vec::new(), 0);
    for kind in KINDS {
        let free = &wanted.free[kind.index()];
        let mut used = pool.lay_whole(linux, free, &mut missing);
        let mut rest = wanted.blocks[kind.index()].saturating_sub(used.len() as u64) as usize;
        let mut nodes = Nodes::default();
        // A pageblock that memory fills only in part, at the bottom of it, is the kernel's first.
        if rest > 0 || kind == MigrateType::Movable {
            for (pfn, order) in parts.drain(..) {
                nodes.edges[usize::from(order)].push(pfn);
                if used.last() != Some(&(pfn / PAGEBLOCK_FRAMES)) {
                    used.push(pfn / PAGEBLOCK_FRAMES);
                    rest = rest.saturating_sub(1);
                }
            }
        }
        for block in pool.take(if kind == MigrateType::Movable { usize::MAX } else { rest }) {
            nodes.add(block * PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER.as_u8());
            used.push(block);
        }
        missing += lay_small(linux, &mut nodes, free);
        if kind != MigrateType::Movable {
            chosen.extend(used.into_iter().map(|block| (block, kind)));
        }
    }
    for &(block, kind) in &chosen {
        linux.set_block_type(block, kind);
    }
    (chosen, missing)
}

/// The order in which types choose their pageblocks.
const KINDS: [MigrateType; 5] =
    [MigrateType::Unmovable, MigrateType::Reclaimable, MigrateType::HighAtomic, MigrateType::Cma, MigrateType::Movable];

/// Whole pageblocks that have no type yet.
struct Pool {
    whole: VecDeque<u64>,
    /// Neighbours of free runs: something in them stays held, or the runs would merge.
    kept: Vec<u64>,
    /// Pageblocks in a block of the largest order.
    longest: u64,
}

impl Pool {
    /// Frees whole pageblocks, from the top of the zone down, and returns them.
    fn lay_whole(&mut self, linux: &mut Linux, free: &[u64; Order::COUNT], missing: &mut u64) -> Vec<u64> {
        let mut used = Vec::new();
        for (order, &blocks) in free.iter().enumerate().skip(PAGEBLOCK_ORDER.index()).rev() {
            let run = 1u64 << (order - PAGEBLOCK_ORDER.index());
            for _ in 0..blocks {
                let Some(at) = last_run(&self.whole, run) else {
                    *missing += run * PAGEBLOCK_FRAMES;
                    continue;
                };
                let first = self.whole[at];
                used.extend(self.whole.drain(at..at + run as usize));
                for pfn in first * PAGEBLOCK_FRAMES..(first + run) * PAGEBLOCK_FRAMES {
                    linux.set(pfn, FREE, 0);
                }
                if run < self.longest {
                    let buddy = (first ^ run)..(first ^ run) + run;
                    self.kept.extend(self.whole.iter().filter(|block| buddy.contains(block)));
                    self.whole.retain(|block| !buddy.contains(block));
                }
            }
        }
        used
    }

    /// Up to `count` pageblocks, neighbours of free runs first.
    fn take(&mut self, count: usize) -> Vec<u64> {
        let mut taken: Vec<u64> = self.kept.drain(..count.min(self.kept.len())).collect();
        let more = (count - taken.len()).min(self.whole.len());
        taken.extend(self.whole.drain(..more));
        taken
    }
}

/// Index of the last aligned run of this many neighbouring pageblocks.
fn last_run(whole: &VecDeque<u64>, run: u64) -> Option<usize> {
    (0..=whole.len().checked_sub(run as usize)?)
        .rev()
        .find(|&at| whole[at].is_multiple_of(run) && whole[at + run as usize - 1] == whole[at] + run - 1)
}

/// Lays the blocks below the pageblock order; returns the frames that found no place.
fn lay_small(linux: &mut Linux, nodes: &mut Nodes, free: &[u64; Order::COUNT]) -> u64 {
    let mut missing = 0;
    for order in (0..PAGEBLOCK_ORDER.as_u8()).rev() {
        for _ in 0..free[usize::from(order)] {
            match nodes.place(order) {
                Some(first) => {
                    for pfn in first..first + (1 << order) {
                        linux.set(pfn, FREE, 0);
                    }
                }
                None => missing += 1 << order,
            }
        }
    }
    missing
}

/// Aligned pieces of memory in which something must stay held, by order.
#[derive(Default)]
struct Nodes {
    /// Maximal pieces at the edge of memory: they may become free as a whole, since nothing beside them can.
    edges: [Vec<u64>; PAGEBLOCK_ORDER.index() + 1],
    by_order: [VecDeque<u64>; PAGEBLOCK_ORDER.index() + 1],
}

impl Nodes {
    fn add(&mut self, first: u64, order: u8) {
        self.by_order[usize::from(order)].push_back(first);
    }

    /// A place for a free block of `order`: the first half of a piece twice as large, of which the other half keeps a
    /// frame held.
    fn place(&mut self, order: u8) -> Option<u64> {
        if let Some(first) = self.edges[usize::from(order)].pop() {
            return Some(first);
        }
        let parent = usize::from(order) + 1;
        let has = |at: &usize| !self.by_order[*at].is_empty() || !self.edges[*at].is_empty();
        let from = (parent..self.by_order.len()).find(has)?;
        let first = self.by_order[from].pop_front().or_else(|| self.edges[from].pop())?;
        for half in (parent..from).rev() {
            self.by_order[half].push_back(first + (1 << half));
        }
        self.by_order[usize::from(order)].push_back(first + (1 << order));
        Some(first)
    }
}
