//! Contiguous ranges: emptying a range of frames that the caller names.

use pageblock_buddy::{Held, Patience, Zone, ZoneScan};
use pageblock_frame::migration::{Interrupt, Migrate, MigrateMode};
use pageblock_frame::trace::RunCounts;
use pageblock_frame::{AllocFlags, FrameState, MigrateType, Order, PAGEBLOCK_FRAMES, Pfn, PfnRange, Platform};

use crate::Compactor;
use crate::moving::{CLUSTER, Cluster, Mover, Stock, keep};

const BLOCK: u32 = PAGEBLOCK_FRAMES as u32;
/// Times that what is still in the range is tried to be moved.
const ROUNDS: u32 = 5;

/// Why a range could not be had. Nothing is allocated then, but some of what was in the range may have moved.
///
/// ```
/// use pageblock_compaction::ContigError;
/// use pageblock_frame::Pfn;
/// assert_eq!(ContigError::Unmovable(Pfn::new(5)).to_string(), "the block at 0x5 cannot be moved");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContigError {
    /// The range is empty, or not inside the zone.
    #[error("not a range of this zone")]
    OutOfRange,
    /// Another run, or somebody else, has withheld a pageblock of it.
    #[error("withheld by somebody else")]
    Busy,
    /// A block in it cannot be moved.
    #[error("the block at {0} cannot be moved")]
    Unmovable(Pfn),
    /// There is no room for what would have to move.
    #[error("no room for what is in the range")]
    NoRoom,
    /// The owner's answer to [`Migrate::interrupt`] was fatal.
    #[error("interrupted")]
    Interrupted,
}

/// How the search for one block to move went.
enum Held1 {
    None,
    Movable(Held),
    Stuck(u32),
}

impl Compactor {
    /// Allocates exactly the frames of a range, after moving what is in it (`alloc_contig_range()`). They are held as the largest
    /// aligned blocks that they make; [`Zone::free_range`] takes them back.
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
        let mover = Mover { scan: &scan, migrator, mode, passes: self.config().passes };
        let mut work = Contig { mover, start, end: last + 1, counts: RunCounts::default(), config: self.config() };
        let (first, last) = (start / BLOCK, last / BLOCK);
        let mut withheld = first;
        while withheld <= last && scan.withhold(withheld).is_some() {
            withheld += 1;
        }
        let result = if withheld > last { work.clear_and_take() } else { Err(ContigError::Busy) };
        (first..withheld).for_each(|block| scan.restore(block));
        self.counters.add_run(&work.counts, crate::Origin::Direct);
        result
    }
}

struct Contig<'a, 'z, 'm, P, M> {
    mover: Mover<'a, 'z, 'm, P, M>,
    start: u32,
    end: u32,
    counts: RunCounts,
    config: &'a crate::Config,
}

impl<'a, 'z, 'm, P: Platform, M: Migrate> Contig<'a, 'z, 'm, P, M> {
    const fn scan(&self) -> &'a ZoneScan<'z, 'm, P> {
        self.mover.scan
    }

    fn clear_and_take(&mut self) -> Result<(), ContigError> {
        let mut stuck = None;
        for _ in 0..ROUNDS {
            stuck = self.clear()?;
            if stuck.is_none() && self.take() {
                return Ok(());
            }
        }
        let at = stuck.unwrap_or(self.start);
        Err(ContigError::Unmovable(self.scan().zone().pfn_of(at)))
    }

    /// Moves what can be moved out of the range; returns the first block that stayed.
    fn clear(&mut self) -> Result<Option<u32>, ContigError> {
        let mut stuck = None;
        let mut at = self.start;
        while at < self.end {
            if self.mover.migrator.interrupt() == Interrupt::Fatal {
                return Err(ContigError::Interrupted);
            }
            let mut wanted = Cluster::new();
            while at < self.end && !wanted.is_full() {
                match self.holder(at) {
                    Held1::None => at += 1,
                    // One order a cluster, so that one kind of target serves.
                    Held1::Movable(held) if wanted.first().is_some_and(|first| first.order() != held.order()) => break,
                    Held1::Movable(held) => {
                        at = held.index + held.order().frames() as u32;
                        keep(&mut wanted, held);
                    }
                    Held1::Stuck(next) => {
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

    /// Who holds a frame: the head may lie below the range.
    fn holder(&self, at: u32) -> Held1 {
        let zone = self.scan().zone();
        match zone.states().head_of(at) {
            Some((head, state)) => match state.decode() {
                FrameState::Allocated(order, Some(MigrateType::Movable)) if order <= self.config.largest_move => {
                    Held1::Movable(Held { index: head, state })
                }
                _ => Held1::Stuck(head + state.order().frames() as u32),
            },
            // Free, or reserved, or a hole; the latter are found when the range is taken.
            None => Held1::None,
        }
    }

    /// Moves a cluster of blocks of one order. True if some of it stayed.
    fn move_out(&mut self, wanted: &Cluster) -> Result<bool, ContigError> {
        let Some(order) = wanted.first().map(|held| held.order()) else { return Ok(false) };
        let mut lent = Cluster::new();
        let answers = self.mover.borrow(wanted, &mut lent);
        self.counts.isolated += (lent.len() as u64) << order.as_u8();
        let mut stock = Stock::new();
        let need = lent.len();
        while stock.len() < need.min(CLUSTER)
            && let Some(target) = self.target(order)
        {
            keep(&mut stock, target);
        }
        let short = stock.len() < need;
        let failed = self.mover.move_cluster(&mut lent, &mut stock, &mut self.counts);
        self.mover.return_stock(&mut stock, order);
        if short && failed > 0 { Err(ContigError::NoRoom) } else { Ok(answers.refused + failed > 0) }
    }

    /// An ordinary movable block outside the withheld pageblocks, taken out as a target.
    fn target(&mut self, order: Order) -> Option<u32> {
        let zone = self.scan().zone();
        let pfn = zone.alloc::<P>(order, MigrateType::Movable, AllocFlags::CMA)?;
        let index = zone.index_of(pfn)?;
        self.counts.free_scanned += order.frames();
        self.counts.isolated += order.frames();
        self.scan().reclaim_target(index, order).then_some(index)
    }

    /// Takes the whole range, which is withheld, if all of it is free.
    fn take(&mut self) -> bool {
        let zone = self.scan().zone();
        let mut at = self.start;
        while at < self.end {
            let order = piece(at, self.end, zone.max_order());
            if zone.alloc_at::<P>(zone.pfn_of(at), order).is_err() {
                let taken = PfnRange::new(zone.pfn_of(self.start), zone.pfn_of(at));
                // Ours, so it cannot be refused.
                let _ = zone.free_range::<P>(taken);
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
