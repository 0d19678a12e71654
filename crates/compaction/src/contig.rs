//! Contiguous ranges: emptying a range of frames that the caller names.

use core::ops::Range;

use pageblock_buddy::{Held, Patience, Zone, ZoneScan};
use pageblock_frame::migration::{Interrupt, Migrate, MigrateMode};
use pageblock_frame::trace::RunCounts;
use pageblock_frame::{AllocFlags, FrameState, MigrateType, Order, Pfn, PfnRange, Platform};

use crate::cluster::{BLOCK, CLUSTER, Cluster, keep};
use crate::compactor::Compactor;
use crate::config::CompactionConfig;
use crate::migration::{Migration, Sources};
use crate::request::Origin;
use crate::targets::{Targets, WithheldRange};

/// Times that the blocks left in the range are tried to be moved.
const ROUNDS: u32 = 5;

pageblock_frame::errors! {
    /// Why a range could not be had. Nothing is allocated then, but some blocks of the range may have moved.
    ///
    /// ```
    /// use pageblock_compaction::ContigError;
    /// use pageblock_frame::Pfn;
    /// assert_eq!(ContigError::Unmovable(Pfn::new(5)).to_string(), "the block at 0x5 cannot be moved");
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum ContigError {
        /// The range is empty, or not inside the zone.
        #[error("not a range of this zone")]
        OutOfRange,
        /// Another run has withheld a pageblock of it.
        #[error("withheld by another run")]
        Busy,
        /// A block in it cannot be moved.
        #[error("the block at {0} cannot be moved")]
        Unmovable(Pfn),
        /// There is no room for the blocks that would have to move.
        #[error("no room for what is in the range")]
        NoRoom,
        /// The migrator's answer to [`Migrate::interrupt`] was fatal.
        #[error("interrupted")]
        Interrupted,
    }
}

/// Holder of a frame of the range.
enum RangeHolder {
    /// Nothing, or the frame is reserved, or a hole.
    None,
    /// A block that can be moved; its head may lie below the range.
    Movable(Held),
    /// A block that cannot, up to this frame.
    Stuck(u32),
}

impl Compactor {
    /// Allocates exactly the frames of a range, after moving the blocks in it (`alloc_contig_range()`). They are held
    /// as the largest aligned blocks that they make; [`Zone::free_range`] takes them back.
    ///
    /// # Errors
    /// [`ContigError`]; the range's free frames are free again.
    pub fn alloc_contig_range<P: Platform, M: Migrate>(
        &self,
        zone: &Zone<'_>,
        migrator: &M,
        range: PfnRange,
        mode: MigrateMode,
    ) -> Result<(), ContigError> {
        let last = Pfn::new(range.end.as_u64().saturating_sub(1));
        let (Some(start), Some(last)) = (zone.index_of(range.start), zone.index_of(last)) else {
            return Err(ContigError::OutOfRange);
        };
        if range.is_empty() {
            return Err(ContigError::OutOfRange);
        }
        let scan = zone.scan::<P>(Patience::Wait);
        let migration = Migration { scan: &scan, migrator, mode, passes: self.config().passes };
        let mut work =
            Contig { migration, range: start..last + 1, counts: RunCounts::default(), config: self.config() };
        // Frees of the range stay in it from here on, and nothing is allocated from it but by `take`.
        let withheld = WithheldRange::new(&scan, start / BLOCK..last / BLOCK + 1);
        let result = if withheld.is_complete() { work.clear_and_take() } else { Err(ContigError::Busy) };
        drop(withheld);
        self.counters.add_run(&work.counts, Origin::Direct);
        result
    }
}

struct Contig<'a, 'z, 'm, P, M> {
    migration: Migration<'a, 'z, 'm, P, M>,
    range: Range<u32>,
    counts: RunCounts,
    config: &'a CompactionConfig,
}

impl<'a, 'z, 'm, P: Platform, M: Migrate> Contig<'a, 'z, 'm, P, M> {
    const fn scan(&self) -> &'a ZoneScan<'z, 'm, P> {
        self.migration.scan
    }

    fn clear_and_take(&mut self) -> Result<(), ContigError> {
        let mut stuck = None;
        for _ in 0..ROUNDS {
            stuck = self.clear()?;
            if stuck.is_none() && self.take() {
                return Ok(());
            }
        }
        let at = stuck.unwrap_or(self.range.start);
        Err(ContigError::Unmovable(self.scan().zone().pfn_of(at)))
    }

    /// Moves movable blocks out of the range; returns the first block that stayed.
    fn clear(&mut self) -> Result<Option<u32>, ContigError> {
        let mut stuck = None;
        let mut at = self.range.start;
        while at < self.range.end {
            if self.migration.migrator.interrupt() == Interrupt::Fatal {
                return Err(ContigError::Interrupted);
            }
            let mut wanted = Cluster::new();
            while at < self.range.end && !wanted.is_full() {
                match self.holder(at) {
                    RangeHolder::None => at += 1,
                    // One order a cluster, so that one kind of target serves.
                    RangeHolder::Movable(held) if wanted.first().is_some_and(|first| first.order() != held.order()) => {
                        break;
                    }
                    RangeHolder::Movable(held) => {
                        at = held.index + held.order().frames() as u32;
                        keep(&mut wanted, held);
                    }
                    RangeHolder::Stuck(next) => {
                        stuck = stuck.or(Some(at));
                        at = next;
                    }
                }
            }
            let first = wanted.first().map(|held| held.index);
            if self.move_out(&wanted)? {
                stuck = stuck.or(first);
            }
        }
        Ok(stuck)
    }

    /// Holder of a frame of the range.
    fn holder(&self, at: u32) -> RangeHolder {
        let zone = self.scan().zone();
        match zone.states().head_of(at) {
            Some((head, state)) => match state.decode() {
                FrameState::Allocated(order, Some(MigrateType::Movable)) if order <= self.config.largest_move => {
                    RangeHolder::Movable(Held { index: head, state })
                }
                _ => RangeHolder::Stuck(head + state.order().frames() as u32),
            },
            // Free, or reserved, or a hole; the latter are found when the range is taken.
            None => RangeHolder::None,
        }
    }

    /// Moves a cluster of blocks of one order. True if some of it stayed.
    fn move_out(&mut self, wanted: &Cluster) -> Result<bool, ContigError> {
        let Some(order) = wanted.first().map(|held| held.order()) else { return Ok(false) };
        let mut sources = Sources::new(self.migration);
        let answers = self.migration.isolate(wanted, &mut sources);
        let need = sources.len();
        self.counts.isolated += (need as u64) << order.as_u8();
        let mut targets = Targets::new(self.scan(), order);
        while targets.len() < need.min(CLUSTER)
            && let Some(target) = self.target(order)
        {
            targets.push(target);
        }
        let short = targets.len() < need;
        let failed = self.migration.move_sources(&mut sources, &mut targets, &mut self.counts);
        if short && failed > 0 { Err(ContigError::NoRoom) } else { Ok(answers.refused + failed > 0) }
    }

    /// An ordinary movable block outside the withheld pageblocks, taken out as a target.
    fn target(&mut self, order: Order) -> Option<u32> {
        let zone = self.scan().zone();
        let pfn = zone.alloc::<P>(order, MigrateType::Movable, AllocFlags::CMA)?;
        let index = zone.index_of(pfn)?;
        self.counts.free_scanned += order.frames();
        self.counts.isolated += order.frames();
        // SAFETY: it was handed out above.
        #[expect(unsafe_code, reason = "a block that was handed out here")]
        unsafe { self.scan().reclaim_target(index, order) }.then_some(index)
    }

    /// Takes the whole range, which is withheld, if all of it is free.
    fn take(&mut self) -> bool {
        let zone = self.scan().zone();
        let mut at = self.range.start;
        while at < self.range.end {
            let order = piece(at, self.range.end, zone.max_order());
            if zone.alloc_at::<P>(zone.pfn_of(at), order).is_err() {
                let taken = PfnRange::new(zone.pfn_of(self.range.start), zone.pfn_of(at));
                // SAFETY: handed out above, so that it cannot be refused, either.
                #[expect(unsafe_code, reason = "blocks that were handed out here")]
                let _ = unsafe { zone.free_range::<P>(taken) };
                return false;
            }
            at += order.frames() as u32;
        }
        true
    }
}

/// The largest aligned block that begins at `at` and ends by `end`.
fn piece(at: u32, end: u32, most: Order) -> Order {
    let fits = (end - at).checked_ilog2().unwrap_or(0);
    let log2 = at.trailing_zeros().min(fits).min(u32::from(most.as_u8()));
    Order::saturating(log2 as u8)
}
