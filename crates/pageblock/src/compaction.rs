//! Compaction on demand: of a zone, of a node, of everything, and of a range that the caller names.

use pageblock_buddy::Zone;
use pageblock_compaction::{ContigError, Request, VmStat};
use pageblock_frame::migration::MigrateMode;
use pageblock_frame::trace::RunCounts;
use pageblock_frame::{NodeId, PfnRange, Platform, ZoneKind};

use crate::PageAllocator;
use crate::error::{AllocError, CompactError};
use crate::frames::FrameRun;
use crate::slowpath::{ReclaimScope, SPINS, drain_zones};

impl<P: Platform> PageAllocator<P> {
    /// Compacts one zone, all of it, synchronously. Returns what was looked at and moved.
    ///
    /// # Errors
    /// [`CompactError`]; nothing has been moved.
    pub fn compact_zone(&self, node: NodeId, kind: ZoneKind) -> Result<RunCounts, CompactError> {
        self.compact_where(|zone| zone.node() == node && zone.kind() == kind)
    }

    /// Compacts all zones of a node (`/sys/devices/system/node/node0/compact`).
    ///
    /// # Errors
    /// [`CompactError`]; nothing has been moved.
    pub fn compact_node(&self, node: NodeId) -> Result<RunCounts, CompactError> {
        self.compact_where(|zone| zone.node() == node)
    }

    /// Compacts all zones (`/proc/sys/vm/compact_memory`).
    ///
    /// # Errors
    /// [`CompactError`]; nothing has been moved.
    pub fn compact_all(&self) -> Result<RunCounts, CompactError> {
        self.compact_where(|_| true)
    }

    /// What compaction has counted in all zones since boot.
    #[must_use]
    pub fn compaction_vmstat(&self) -> VmStat {
        let mut sum = VmStat::default();
        for compactor in self.inner().map_or(&[][..], |inner| inner.compactors) {
            sum.add(&compactor.vmstat());
        }
        sum
    }

    fn compact_where(&self, chosen: impl Fn(&Zone<'static>) -> bool) -> Result<RunCounts, CompactError> {
        let inner = self.inner().map_err(|_| CompactError::NotInitialised)?;
        let owner = P::migrator().ok_or(CompactError::NoMigrator)?;
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

    /// Allocates exactly the frames of a range, after moving what is in it (`alloc_contig_range()`): for devices that need
    /// neighbouring frames, and memory that is to be taken away. The frames are of one zone. `mode` says how long the
    /// owners may make it wait.
    ///
    /// # Errors
    /// [`AllocError::Contig`] says why the range cannot be had; what was free in it is free again, but some of what was held may
    /// have moved.
    pub fn alloc_contig_range(&self, range: PfnRange, mode: MigrateMode) -> Result<FrameRun<'_, P>, AllocError> {
        let inner = self.inner()?;
        let owner = P::migrator().ok_or(AllocError::NoMigrator)?;
        let zone = inner.zone_of_range(range).ok_or(ContigError::OutOfRange)?;
        let at = inner.compact_zone(zone).ok_or(AllocError::NoMigrator)?;
        let _scope = ReclaimScope::enter(inner).ok_or(AllocError::Recursion)?;
        // Until it is over, what is freed goes past the lists, so that nothing of the range hides there.
        let lists = inner.lists_of(zone);
        if let Some(lists) = lists
            && lists.begin_isolation(zone) > 0
        {
            let _ = lists.wait(SPINS);
        }
        let result = at.compactor.alloc_contig_range::<P, _>(zone, &owner, range, mode);
        if let Some(lists) = lists {
            lists.end_isolation();
        }
        result?;
        inner.count_past_lists(zone, range.len());
        Ok(FrameRun::new(self, range))
    }
}
