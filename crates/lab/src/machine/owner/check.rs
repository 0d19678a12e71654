//! Recomputing the tables from one another.

use anyhow::{Context, ensure};
use pageblock_frame::{FrameState, Pfn};

use super::holder::{Counts, Holder};
use super::memory::Memory;

impl Memory {
    /// Compares the tables with each other, with the descriptors, with the LRU lists and with the allocator, which is
    /// checked too. For a machine at rest: nothing is isolated or being written.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        self.allocator().check().context("the zones are damaged")?;
        self.allocator().check_lists().context("the per-CPU lists are damaged")?;
        for lru in self.lrus() {
            lru.check().context("the LRU lists are damaged")?;
        }
        let mut counts = Counts::default();
        let mut names = 0;
        for (pfn, holder) in self.held() {
            counts.change(holder, true);
            self.check_block(pfn, holder)?;
            if let Some(name) = holder.name() {
                names += 1;
                ensure!(self.find(name) == Some(pfn), "{name:?} is at {pfn}, and looked for at {:?}", self.find(name));
            }
        }
        ensure!(names == self.places.borrow().len(), "{names} named pages, {} names", self.places.borrow().len());
        ensure!(counts == self.counts(), "counted {:?}, found {counts:?}", self.counts());
        let stats = self.allocator().stats();
        let held = stats.managed - stats.free;
        ensure!(held == counts.total(), "{held} frames are allocated, {} are held", counts.total());
        ensure!(self.swapped() <= self.swap, "{} pages on swap, room for {}", self.swapped(), self.swap);
        Ok(())
    }

    /// A block's state byte, references and list.
    fn check_block(&self, pfn: Pfn, holder: Holder) -> anyhow::Result<()> {
        let zone = self.allocator().zone_of(pfn).context("held outside the zones")?;
        let state = zone.state_of(pfn).context("held outside its zone")?;
        let allocated = matches!(state, FrameState::Allocated(order, _) if order == holder.order());
        ensure!(allocated, "{pfn} is held by {holder:?}, and {state:?} to the allocator");
        let (_, page) = self.page(pfn).context("held without a descriptor")?;
        ensure!(page.refs() == 1, "{pfn} has {} references", page.refs());
        let listed = page.flags().contains(pageblock_frame::DescFlags::LRU);
        ensure!(listed == holder.name().is_some(), "{pfn} is {holder:?}, with flags {:?}", page.flags());
        Ok(())
    }
}
