//! Compaction on demand: of a zone, of a node, of everything, and of a range that the caller names.

use pageblock_buddy::Zone;
use pageblock_compaction::{CompactionVmStat, ContigError, Request};
use pageblock_frame::migration::MigrateMode;
use pageblock_frame::trace::RunCounts;
use pageblock_frame::{Hooks, NodeId, PfnRange, Platform, ZoneKind};
use pageblock_pcp::PcpLists;

use crate::PageAllocator;
use crate::error::{AllocError, CompactError};
use crate::frames::FrameRun;
use crate::slowpath::{ReclaimScope, SPINS, drain_zones};

/// Times that a range is tried to be emptied while free frames hide on per-CPU lists.
const CONTIG_ATTEMPTS: u32 = 3;

impl<P: Platform> PageAllocator<P> {
    /// Compaction: on demand, and the compaction threads.
    #[must_use]
    pub const fn compaction(&self) -> Compaction<'_, P> {
        Compaction { frames: self }
    }
}

/// Compaction of an allocator's zones: on demand, its counters, and the compaction thread of each node
/// ([`PageAllocator::compaction`]).
///
/// ```
/// use pageblock::{CompactError, PageAllocator};
/// use pageblock::hosted::Simulated;
/// let frames = PageAllocator::<Simulated>::new();
/// assert_eq!(frames.compaction().all(), Err(CompactError::NotInitialised));
/// assert_eq!(frames.compaction().stats().migrate_success, 0);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Compaction<'a, P: Platform> {
    pub(crate) frames: &'a PageAllocator<P>,
}

impl<P: Platform> Compaction<'_, P> {
    /// Compacts one zone, all of it, synchronously. Returns how much was looked at and moved.
    ///
    /// # Errors
    /// [`CompactError`]; nothing has been moved.
    pub fn zone(self, node: NodeId, kind: ZoneKind) -> Result<RunCounts, CompactError> {
        self.compact_where(|zone| zone.node() == node && zone.kind() == kind)
    }

    /// Compacts all zones of a node (`/sys/devices/system/node/node0/compact`).
    ///
    /// # Errors
    /// [`CompactError`]; nothing has been moved.
    pub fn node(self, node: NodeId) -> Result<RunCounts, CompactError> {
        self.compact_where(|zone| zone.node() == node)
    }

    /// Compacts all zones (`/proc/sys/vm/compact_memory`).
    ///
    /// # Errors
    /// [`CompactError`]; nothing has been moved.
    pub fn all(self) -> Result<RunCounts, CompactError> {
        self.compact_where(|_| true)
    }

    /// The counters of compaction in all zones since boot.
    #[must_use]
    pub fn stats(self) -> CompactionVmStat {
        let mut sum = CompactionVmStat::default();
        for compactor in self.frames.inner().map_or(&[][..], |inner| inner.compactors) {
            sum.add(&compactor.vmstat());
        }
        sum
    }

    fn compact_where(self, chosen: impl Fn(&Zone<'static>) -> bool) -> Result<RunCounts, CompactError> {
        let inner = self.frames.inner().map_err(|_| CompactError::NotInitialised)?;
        let owner = P::hooks().migrator().ok_or(CompactError::NoMigrator)?;
        if inner.compactors.is_empty() {
            return Err(CompactError::NoMigrator);
        }
        let zones = || inner.zones.iter().filter(|zone| chosen(zone));
        zones().next().ok_or(CompactError::NoSuchZone)?;
        let _scope = ReclaimScope::enter(inner).ok_or(CompactError::Recursion)?;
        drain_zones(inner, zones(), SPINS);
        let mut sum = RunCounts::default();
        for at in zones().filter_map(|zone| inner.compact_zone(zone)) {
            sum += at.compactor.run::<P, _>(at.zone, &owner, &Request::command()).counts;
        }
        Ok(sum)
    }
}

impl<P: Platform> PageAllocator<P> {
    /// Allocates exactly the frames of a range, after moving its contents (`alloc_contig_range()`): for devices that
    /// need neighbouring frames, and memory that is to be taken away. The frames are of one zone. `mode` says how long
    /// the owners may make it wait.
    ///
    /// # Errors
    /// [`AllocError::Contig`] says why the range cannot be had; its free frames are free again, but some of the blocks
    /// held in it may have moved.
    #[cfg_attr(feature = "page_owner", track_caller)]
    pub fn alloc_contig_range(&self, range: PfnRange, mode: MigrateMode) -> Result<FrameRun<'_, P>, AllocError> {
        let inner = self.inner()?;
        let owner = P::hooks().migrator().ok_or(AllocError::NoMigrator)?;
        let zone = inner.zone_of_range(range).ok_or(ContigError::OutOfRange)?;
        let at = inner.compact_zone(zone).ok_or(AllocError::NoMigrator)?;
        let scope = ReclaimScope::enter(inner).ok_or(AllocError::Recursion)?;
        let mut result = Err(ContigError::Busy);
        // Until it is over, freed blocks go past the lists, so that nothing of the range hides there. A refill at
        // the wrong moment can take some of it all the same: then again.
        let lists = inner.lists_of(zone);
        let past_lists = PastLists::new(lists);
        for _ in 0..CONTIG_ATTEMPTS {
            drain_zones(inner, core::iter::once(zone), SPINS);
            result = at.compactor.alloc_contig_range::<P, _>(zone, &owner, range, mode);
            let hidden =
                matches!(result, Err(ContigError::Unmovable(_))) && lists.is_some_and(|lists| lists.frames() > 0);
            if !hidden {
                break;
            }
        }
        // From here on a hook that unwinds frees the run, which a value under way to the caller is not.
        let run = result.map(|()| FrameRun::new(self, range));
        drop(past_lists);
        drop(scope);
        let run = run?;
        inner.count_past_lists(zone, range.len());
        self.taken_run(range);
        Ok(run)
    }
}

/// Frees of a zone go past its lists, until this is dropped: also if the migrator unwinds.
struct PastLists<'a, P: Platform>(Option<&'a PcpLists<'static, P>>);

impl<'a, P: Platform> PastLists<'a, P> {
    fn new(lists: Option<&'a PcpLists<'static, P>>) -> Self {
        lists.into_iter().for_each(|lists| _ = lists.begin_isolation());
        Self(lists)
    }
}

impl<P: Platform> Drop for PastLists<'_, P> {
    fn drop(&mut self) {
        self.0.into_iter().for_each(PcpLists::end_isolation);
    }
}
