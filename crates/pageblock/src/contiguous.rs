//! Neighbouring frames, any number of them: out of one block, or out of a run of pageblocks that compaction empties.

use pageblock_buddy::Zone;
use pageblock_frame::migration::MigrateMode;
use pageblock_frame::{MigrateType, Order, PAGEBLOCK_FRAMES, Pageblock, Pfn, PfnRange, Platform};

use crate::PageAllocator;
use crate::builder::RequestBuilder;
use crate::error::AllocError;
use crate::frames::FrameRun;
use crate::request::{Request, zero_if_asked};

impl<'a, P: Platform> RequestBuilder<'a, P> {
    /// Allocates exactly so many neighbouring frames; the order is not looked at. Up to the largest order they are
    /// aligned to the next power of two (`alloc_pages_exact()`). Above it they are a run of pageblocks, aligned to its
    /// own size if that is a power of two, as a 1 GiB page needs it (`alloc_contig_pages()`). Movable blocks are moved
    /// out of such a run if the kernel has a [`Migrate`](crate::Migrate).
    ///
    /// # Errors
    /// [`AllocError`]; no frame is taken, but blocks may have moved.
    #[cfg_attr(feature = "page_owner", track_caller)]
    pub fn contiguous(self, frames: u64) -> Result<FrameRun<'a, P>, AllocError> {
        if frames == 0 {
            return Err(AllocError::Empty);
        }
        let largest = self.allocator.inner()?.max_order;
        let Some(order) = Order::fitting(frames).filter(|order| *order <= largest) else {
            return self.run_of_pageblocks(frames);
        };
        let allocator = self.allocator;
        let first: Pfn = self.block(order)?.into_raw().pfn;
        let run = FrameRun::new(allocator, PfnRange::from_len(first, frames));
        allocator.give_back_range(PfnRange::new(first.add(frames), first.add(order.frames())));
        allocator.taken_run(run.pfns());
        Ok(run)
    }

    /// A run that no block holds: free pageblocks first, then such as can be emptied.
    #[cfg_attr(feature = "page_owner", track_caller)]
    fn run_of_pageblocks(&self, frames: u64) -> Result<FrameRun<'a, P>, AllocError> {
        let (inner, gfp) = (self.allocator.inner()?, self.flags()?);
        let node = match self.node {
            Some(node) => inner.node(node).ok_or(AllocError::NoSuchNode(node))?,
            None => inner.local_node().ok_or(AllocError::OutOfMemory)?,
        };
        let request = Request::new(inner, node, Order::ZERO, gfp)?;
        self.allocator.drain();
        for state in [RunState::Free, RunState::Movable] {
            for zone in request.zones() {
                let mark =
                    zone.mark_for(request.fast_flags()).saturating_add(frames).saturating_add(inner.committed_in(zone));
                if !zone.frames_ok(Order::ZERO, mark, request.limit, request.fast_flags()) {
                    continue;
                }
                if let Some(run) = self.run_in(zone, frames, state) {
                    zero_if_asked::<P>(run.pfns(), gfp);
                    self.allocator.taken_run(run.pfns());
                    return Ok(run);
                }
            }
        }
        Err(AllocError::OutOfMemory)
    }

    /// The first run of a zone that can be had.
    fn run_in(&self, zone: &'static Zone<'static>, frames: u64, state: RunState) -> Option<FrameRun<'a, P>> {
        let own = if frames.is_power_of_two() { frames } else { PAGEBLOCK_FRAMES };
        let align = own.max(self.align.frames());
        let mut from = zone.span().start;
        while let Some(range) = first_run(zone, from, Shape { frames, align }, state) {
            let run = match state {
                RunState::Free => self.allocator.take_free_range(range),
                RunState::Movable => self.allocator.alloc_contig_range(range, MigrateMode::Sync).ok(),
            };
            if run.is_some() {
                return run;
            }
            from = range.start.add(align);
        }
        None
    }
}

/// Properties wanted of a run.
#[derive(Clone, Copy)]
struct Shape {
    frames: u64,
    /// Frames: a power of two, at least a pageblock.
    align: u64,
}

/// Contents of the pageblocks of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RunState {
    /// Nothing.
    Free,
    /// Nothing that is known to stay.
    Movable,
}

impl RunState {
    fn admits(self, block: &Pageblock) -> bool {
        // Withheld for another request, or by the kernel.
        if block.migrate_type() == MigrateType::Isolate {
            return false;
        }
        match self {
            Self::Free => block.is_wholly_free(),
            Self::Movable => {
                u64::from(block.managed()) == PAGEBLOCK_FRAMES
                    && (block.is_wholly_free() || block.migrate_type() == MigrateType::Movable)
            }
        }
    }
}

/// The first aligned run of admitted pageblocks at `from` or above. It may be gone when the caller looks for it.
fn first_run(zone: &Zone<'_>, from: Pfn, shape: Shape, state: RunState) -> Option<PfnRange> {
    // `start` is where the run that is being followed begins, and `end` where it ends so far: empty where a pageblock
    // was not admitted.
    let (mut start, mut end, mut found) = (0, 0, None);
    zone.for_each_pageblock(|number, block| {
        let first = zone.pfn_of(number * PAGEBLOCK_FRAMES as u32).as_u64();
        if found.is_some() || first < from.as_u64() || !state.admits(block) {
            return;
        }
        if first != end {
            start = first;
        }
        end = first + PAGEBLOCK_FRAMES;
        let aligned = start.next_multiple_of(shape.align);
        if aligned + shape.frames <= end {
            found = Some(PfnRange::from_len(Pfn::new(aligned), shape.frames));
        }
    });
    found
}

impl<P: Platform> PageAllocator<P> {
    /// Takes a range that was all free a moment ago: all of it or nothing.
    fn take_free_range(&self, range: PfnRange) -> Option<FrameRun<'_, P>> {
        let largest = self.inner().ok()?.max_order;
        // The pageblocks taken so far go back when the run is dropped.
        let mut run = FrameRun::new(self, PfnRange::from_len(range.start, 0));
        while run.pfns().end < range.end {
            let at = run.pfns().end;
            let order = largest_piece(at, range.end, largest);
            let block = self.alloc_at(at, order).ok()?.into_raw();
            run.extend(block.order);
        }
        Some(run)
    }
}

/// The largest block that begins at `at` and ends by `end`.
fn largest_piece(at: Pfn, end: Pfn, most: Order) -> Order {
    let fits = (end.as_u64() - at.as_u64()).checked_ilog2().unwrap_or(0);
    let log2 = at.as_u64().trailing_zeros().min(fits).min(u32::from(most.as_u8()));
    Order::saturating(log2 as u8)
}
