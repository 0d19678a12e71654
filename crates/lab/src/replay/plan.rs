//! From records to operations: which block of ours stands for which of Linux's.

use std::collections::VecDeque;

use pageblock_frame::{Gfp, MigrateType, NodeId, Order, PAGEBLOCK_FRAMES, Pfn, PfnRange};

use super::counters::{Disagreements, EventCounts, Moves, OrderCounts};
use super::layout::ZoneLayout;
use super::linux::{ABSENT, FIRST, FREE, Linux, Owner, START, kind_of};
use crate::trace::{Allocation, Compaction, Event, Extfrag, Record};

/// No frame: the request was refused, or compaction chose the place.
pub(crate) const NONE: u32 = u32::MAX;

/// One call of our allocator. Blocks are named by their number, because a block may be freed in the same batch in which
/// it is allocated.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// The next operations happen on this CPU, so many microseconds after the first event.
    At { cpu: u32, micros: u64 },
    /// Serve a request.
    Alloc { block: u32, order: Order, gfp: Gfp, node: NodeId },
    /// Make a request that Linux refused; a block is given back at once.
    Try { order: Order, gfp: Gfp, node: NodeId },
    /// A node's compaction thread is woken for a block.
    Kcompactd { node: u8, order: Order },
    /// Free a whole block.
    Free { block: u32, order: Order },
    /// Free some frames of a block.
    FreePart { block: u32, offset: u32, frames: u32 },
    /// Free frames that were held before the trace: they are the same in both machines.
    FreeStart { pfn: u32, frames: u32 },
}

/// A block that the trace allocated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    /// First frame in Linux; [`NONE`] where compaction chose it.
    pub(crate) linux: u32,
    /// Frames not freed yet.
    pub(crate) left: u32,
    /// Size.
    pub(crate) order: Order,
}

/// Whether the map of frames was recorded, or is made up from free-block counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Origin {
    /// From `kpageflags`.
    Recorded,
    /// Made up; frames of the trace say nothing about those that our machine held at the start, except by their number.
    Synthetic,
}

/// Microseconds after which the machines are told the time.
const TICK: u64 = 1000;

/// Follows the trace and lists the operations.
#[derive(Debug)]
pub(crate) struct Planner {
    /// The recorded machine.
    pub(crate) linux: Linux,
    /// Blocks of the trace, by number.
    pub(crate) blocks: Vec<Block>,
    /// Operations that were planned and not yet executed.
    pub(crate) ops: Vec<Op>,
    /// Lines by kind.
    pub(crate) events: EventCounts,
    /// Allocations and frees by order.
    pub(crate) orders: OrderCounts,
    /// Where map and events do not agree.
    pub(crate) disagreements: Disagreements,
    /// Linux's fallbacks, and those within a pageblock.
    pub(crate) fallbacks: (u64, u64),
    /// Time of the first and of the last record, in microseconds.
    pub(crate) period: Option<(u64, u64)>,
    /// Work of compaction.
    pub(crate) moves: Moves,
    origin: Origin,
    compactors: Vec<Compactor>,
    /// Pages with an unknown place in Linux, by order, the one that moved first in front.
    moved: [VecDeque<Moved>; Order::COUNT],
    nodes: Vec<(PfnRange, NodeId)>,
    /// CPU and time of the last [`Op::At`].
    at: (u32, u64),
    unused: Vec<u32>,
    /// Numbers that may be used again once the batch has been executed.
    retired: Vec<u32>,
}

impl Planner {
    /// Starts from this state of the recorded machine.
    pub(crate) fn new(linux: Linux, layout: &[ZoneLayout], origin: Origin) -> Self {
        Self {
            linux,
            blocks: Vec::new(),
            ops: Vec::new(),
            events: EventCounts::default(),
            orders: OrderCounts::default(),
            disagreements: Disagreements::default(),
            fallbacks: (0, 0),
            period: None,
            moves: Moves::default(),
            origin,
            compactors: Vec::new(),
            moved: Default::default(),
            nodes: layout.iter().map(|zone| (zone.config.span, zone.config.node)).collect(),
            at: (u32::MAX, 0),
            unused: Vec::new(),
            retired: Vec::new(),
        }
    }

    /// Takes note of one record.
    #[inline]
    pub(crate) fn record(&mut self, record: &Record) {
        self.events.count(&record.event);
        let period = self.period.get_or_insert((record.micros, record.micros));
        period.1 = period.1.max(record.micros);
        let micros = record.micros.saturating_sub(period.0);
        if record.cpu != self.at.0 || micros >= self.at.1 + TICK {
            self.at = (record.cpu, micros);
            self.ops.push(Op::At { cpu: record.cpu, micros });
        }
        match &record.event {
            Event::Alloc(alloc) => self.alloc(alloc),
            Event::Free { pfn, order } => self.free(*pfn, *order, record.pid),
            Event::Compaction(event) => self.compaction(*event, record.pid),
            Event::Extfrag(event) => self.extfrag(event),
            // A batched free repeats a free; the moves between lists change no owner.
            _ => {}
        }
    }

    /// Frees frames that were held by the map but free when the recording began, as the trace shows. Where the map is
    /// made up, this is the only sign of memory that was freed between the counts and the recording; frames that were
    /// counted, but lay elsewhere in the made-up map, are freed besides.
    pub(crate) fn free_early(&mut self, frames: &[u64]) {
        self.ops.push(Op::At { cpu: 0, micros: 0 });
        for &frame in frames {
            if self.linux.was_plain(frame) {
                self.disagreements.listed_at_start += 1;
            } else {
                self.disagreements.freed_before_trace += 1;
            }
            self.linux.set(frame, FREE, 0);
            self.ops.push(Op::FreeStart { pfn: frame as u32, frames: 1 });
        }
    }

    /// Forgets the operations, which have been executed. The next batch begins with CPU and time: each machine executes
    /// it alone.
    pub(crate) fn executed(&mut self) {
        self.ops.clear();
        self.at.0 = u32::MAX;
        self.unused.append(&mut self.retired);
    }

    fn extfrag(&mut self, event: &Extfrag) {
        self.fallbacks.0 += 1;
        self.fallbacks.1 += u64::from(event.is_fragmenting());
        let Some(kind) = MigrateType::from_index(event.wanted).filter(|_| event.change_ownership) else { return };
        let first = event.pfn.as_u64() / PAGEBLOCK_FRAMES;
        for block in first..first + (event.fallback_order.frames() / PAGEBLOCK_FRAMES).max(1) {
            self.linux.set_block_type(block, kind);
        }
    }

    #[inline]
    fn alloc(&mut self, alloc: &Allocation) {
        let migrate_type = alloc.gfp.migrate_type();
        let Some(pfn) = alloc.pfn else {
            self.orders.failed[alloc.order.index()] += 1;
            // Where it would have been served is not known; most machines have one node.
            self.ops.push(Op::Try { order: alloc.order, gfp: alloc.gfp, node: NodeId::default() });
            return;
        };
        self.orders.alloc[alloc.order.index()][migrate_type.index()] += 1;
        let frames = pfn.as_u64()..pfn.as_u64() + alloc.order.frames();
        if frames.clone().any(|frame| self.linux.owner(frame) == ABSENT) {
            self.disagreements.outside += alloc.order.frames();
            return;
        }
        for frame in frames.clone() {
            self.reclaim(frame);
        }
        let block =
            self.new_block(Block { linux: pfn.as_u64() as u32, left: alloc.order.frames() as u32, order: alloc.order });
        for frame in frames {
            self.linux.set(frame, FIRST + block, kind_of(migrate_type));
        }
        let node = self.node_of(pfn);
        self.ops.push(Op::Alloc { block, order: alloc.order, gfp: alloc.gfp, node });
    }

    /// Linux gives out a frame: its holder by the map or the events does not have it any more.
    #[inline]
    fn reclaim(&mut self, frame: u64) {
        match self.linux.owner(frame) {
            FREE | ABSENT => {}
            START => {
                self.disagreements.allocated_while_held += 1;
                if self.origin == Origin::Recorded {
                    self.ops.push(Op::FreeStart { pfn: frame as u32, frames: 1 });
                }
            }
            owner => {
                self.disagreements.allocated_while_held += 1;
                let op = self.give_back(owner - FIRST, frame, 1);
                self.ops.push(op);
            }
        }
    }

    #[inline]
    fn free(&mut self, pfn: Pfn, order: Order, pid: u32) {
        self.orders.free[order.index()] += 1;
        let compactor = self.compactors.iter().position(|compactor| compactor.pid == pid);
        let (mut at, end) = (pfn.as_u64(), pfn.as_u64() + order.frames());
        if self.linux.owner(at) == FREE && (at..end).all(|frame| self.linux.owner(frame) == FREE) {
            return self.free_unknown(pfn, order, compactor);
        }
        let moving = compactor.is_some_and(|index| self.compactors[index].is_moving(pfn));
        if moving && self.move_page(at, order) {
            return;
        }
        let mut parts = 0;
        while at < end {
            let owner = self.linux.owner(at);
            let run = (at + 1..end).find(|&frame| self.linux.owner(frame) != owner).unwrap_or(end) - at;
            self.free_run(at, run, owner);
            at += run;
            parts += 1;
        }
        self.disagreements.frees_in_pieces += u64::from(parts > 1);
    }

    /// A block is freed that is free by the map and the events: compaction gives it back unused, or moved a page to it.
    #[cold]
    fn free_unknown(&mut self, pfn: Pfn, order: Order, compactor: Option<usize>) {
        if compactor.is_some() {
            self.moves.given_back += order.frames();
            return;
        }
        // Compaction moves pages to movable pageblocks only. Frames freed elsewhere were allocated in bulk, without an
        // event.
        let is_target = self.linux.block_type(pfn.as_u64() / PAGEBLOCK_FRAMES) == MigrateType::Movable;
        let page = if is_target { self.moved[order.index()].pop_front() } else { None };
        let Some(page) = page else {
            self.disagreements.freed_while_free += order.frames();
            return;
        };
        self.moves.freed_after += order.frames();
        match page {
            Moved::Start(pfn) => self.ops.push(Op::FreeStart { pfn, frames: order.frames() as u32 }),
            Moved::Block(block) => {
                self.blocks[block as usize].left = 0;
                self.ops.push(Op::Free { block, order });
                self.retired.push(block);
            }
        }
    }

    /// Compaction frees the old place of a page: its contents are elsewhere, so that ours stays held. False if the
    /// frames are not those of one page.
    fn move_page(&mut self, first: u64, order: Order) -> bool {
        let owner = self.linux.owner(first);
        let frames = first..first + order.frames();
        if owner < START || frames.clone().any(|frame| self.linux.owner(frame) != owner) {
            return false;
        }
        let page = if owner == START {
            Moved::Start(first as u32)
        } else {
            let block = &mut self.blocks[(owner - FIRST) as usize];
            if block.order != order {
                return false;
            }
            block.linux = NONE;
            Moved::Block(owner - FIRST)
        };
        for frame in frames {
            self.linux.set(frame, FREE, 0);
        }
        self.moved[order.index()].push_back(page);
        self.moves.moved += order.frames();
        true
    }

    fn compaction(&mut self, event: Compaction, pid: u32) {
        let index = self.compactors.iter().position(|compactor| compactor.pid == pid);
        match (event, index) {
            (Compaction::KcompactdWake { node, order, .. }, _) => self.ops.push(Op::Kcompactd { node, order }),
            (Compaction::Begin, None) => self.compactors.push(Compactor { pid, range: None }),
            (Compaction::IsolateMigrate { range, .. }, Some(index)) => self.compactors[index].range = range,
            (Compaction::Migrate { .. }, Some(index)) => self.compactors[index].range = None,
            (Compaction::End, Some(index)) => {
                self.compactors.swap_remove(index);
            }
            _ => {}
        }
    }

    /// Frees neighbouring frames that have one owner.
    #[inline]
    fn free_run(&mut self, first: u64, frames: u64, owner: Owner) {
        let op = match owner {
            FREE => {
                self.disagreements.freed_while_free += frames;
                return;
            }
            ABSENT => {
                self.disagreements.outside += frames;
                return;
            }
            START => Op::FreeStart { pfn: first as u32, frames: frames as u32 },
            _ => self.give_back(owner - FIRST, first, frames),
        };
        for frame in first..first + frames {
            self.linux.set(frame, FREE, 0);
        }
        self.ops.push(op);
    }

    /// Plans the free of frames of a block of the trace.
    #[inline]
    fn give_back(&mut self, number: u32, first: u64, frames: u64) -> Op {
        let block = &mut self.blocks[number as usize];
        let (order, whole) = (block.order, frames == block.order.frames());
        block.left -= frames as u32;
        let offset = (first as u32).wrapping_sub(block.linux);
        if block.left == 0 {
            self.retired.push(number);
        }
        if whole {
            Op::Free { block: number, order }
        } else {
            Op::FreePart { block: number, offset, frames: frames as u32 }
        }
    }

    #[inline]
    fn new_block(&mut self, block: Block) -> u32 {
        if let Some(number) = self.unused.pop() {
            self.blocks[number as usize] = block;
            return number;
        }
        self.blocks.push(block);
        self.blocks.len() as u32 - 1
    }

    #[inline]
    fn node_of(&self, pfn: Pfn) -> NodeId {
        self.nodes.iter().rev().find(|(span, _)| span.contains(pfn)).map_or(NodeId::default(), |&(_, node)| node)
    }

    /// Frames of pages that compaction moved to frames that the trace does not name, and that are held there.
    pub(crate) fn moved_frames(&self) -> u64 {
        self.moved.iter().zip(Order::LIMIT.up_to()).map(|(pages, order)| pages.len() as u64 * order.frames()).sum()
    }

    /// Blocks of the trace that are held, with their numbers.
    pub(crate) fn live(&self) -> impl Iterator<Item = (u32, &Block)> {
        (0..).zip(&self.blocks).filter(|(_, block)| block.left > 0)
    }
}

/// A page that compaction moved to a frame that the trace does not name.
#[derive(Clone, Copy, Debug)]
enum Moved {
    /// Held since before the trace, with its first frame in our machine.
    Start(u32),
    /// A block of the trace, whole.
    Block(u32),
}

/// A task that is compacting a zone.
#[derive(Debug)]
struct Compactor {
    pid: u32,
    /// Where the pages lie that it took aside and is moving.
    range: Option<PfnRange>,
}

impl Compactor {
    fn is_moving(&self, pfn: Pfn) -> bool {
        self.range.is_some_and(|range| range.contains(pfn))
    }
}
