//! Giving pages up: the work of the pages' owner for scanners of the LRU lists.

use std::rc::{Rc, Weak};

use pageblock_frame::reclaim::{FilePages, Reclaim, Shrink, Shrunk};
use pageblock_frame::{DescFlags, NodeId, Order, Pfn, ZoneKind};
use pageblock_lru::Swap;
use pageblock_reclaim::{AreaScan, Mapped, PageOutcome, PageOwner, ShrinkStat, Slab, Victim};

use super::owner::{Name, Verdict};
use super::process::swap_sector;
use super::{Machine, costs};

/// The machine as the owner of its pages: does not keep it alive.
#[derive(Debug)]
pub(super) struct Pages(Weak<Machine>);

impl Pages {
    pub(super) fn new(machine: Weak<Machine>) -> Self {
        Self(machine)
    }

    fn machine(&self) -> Option<Rc<Machine>> {
        self.0.upgrade()
    }
}

impl PageOwner for Pages {
    /// Anonymous pages and those of programs are mapped once; that one was used is said by the same mark that says that
    /// a file was read.
    fn look(&self, pages: &mut [Victim<'_, '_>]) {
        let Some(machine) = self.machine() else { return };
        for page in pages {
            machine.compute(costs::RECLAIM_SCAN);
            let anon = !page.flags().contains(DescFlags::FILE);
            let mapped = anon || machine.is_mapped(page.pfn());
            let used = mapped && machine.memory.clear_used(page.pfn());
            page.set_mapped(Mapped { references: u32::from(used), executable: !anon && mapped, ..Mapped::default() });
        }
    }

    fn give_up(&self, pages: &mut [Victim<'_, '_>], _round: &Shrink) {
        let Some(machine) = self.machine() else { return };
        for page in pages {
            let name = machine.memory.holder(page.pfn()).name();
            match machine.give_up(page.pfn()) {
                PageOutcome::Freed => {
                    let evicted = page.evict();
                    machine.shadows.borrow_mut().leave(name, evicted);
                }
                other => page.set_outcome(other),
            }
        }
    }

    fn free(&self, blocks: &[(Pfn, Order)]) {
        if let Some(machine) = self.machine() {
            for (pfn, order) in blocks {
                machine.memory.give_back(*pfn, *order);
            }
        }
    }

    fn swap(&self) -> Swap {
        let room = self.machine().is_some_and(|machine| machine.memory.has_swap());
        if room { Swap::Available } else { Swap::Absent }
    }

    fn shrink_slab(&self, slab: &Slab) -> Shrunk {
        self.machine().map_or(Shrunk::default(), |machine| machine.shrink_objects(slab))
    }

    fn dirty(&self, node: NodeId, zone: ZoneKind) -> u64 {
        self.machine().map_or(0, |machine| machine.dirty.borrow().in_zone((node, zone)))
    }

    fn start_writeback(&self, _node: NodeId) {
        if let Some(machine) = self.machine() {
            machine.hurry_flusher();
        }
    }
}

impl Machine {
    /// One round of reclaim.
    pub(super) fn shrink(&self, round: &Shrink) -> Shrunk {
        self.shrinker.shrink(round)
    }

    /// Pages of files in a zone.
    pub(super) fn zone_files(&self, node: NodeId, zone: ZoneKind) -> FilePages {
        self.shrinker.file_pages(node, zone)
    }

    /// Counts of reclaim so far.
    pub(crate) fn shrink_stat(&self) -> ShrinkStat {
        self.shrinker.stat()
    }

    /// Its counts in one zone of a node.
    pub(crate) fn zone_scan(&self, node: NodeId, kind: pageblock::ZoneKind) -> AreaScan {
        self.shrinker.scan(node, kind)
    }

    /// A page of a file is there again. An overwritten page belongs to no working set.
    pub(super) fn readmit(&self, pfn: Pfn, name: Name, written: bool) {
        let evicted = self.shadows.borrow_mut().take(name);
        if let Some(evicted) = evicted.filter(|_| !written) {
            self.shrinker.refault(pfn, evicted);
        }
    }

    fn give_up(&self, pfn: Pfn) -> PageOutcome {
        let Some(name) = self.memory.holder(pfn).name() else {
            // Its name ended while it was off its list: only the scanner has it.
            return PageOutcome::Freed;
        };
        if let Name::File { file, index } = name
            && self.loading.borrow().has((file, index))
        {
            return PageOutcome::Keep;
        }
        match self.memory.give_up(pfn, name) {
            Verdict::Freed => PageOutcome::Freed,
            Verdict::Dirty => self.write_out(pfn, name),
            Verdict::Referenced | Verdict::Writeback | Verdict::Kept => PageOutcome::Keep,
        }
    }

    /// Begins to write one page for reclaim: to its file, or to swap.
    fn write_out(&self, pfn: Pfn, name: Name) -> PageOutcome {
        let sector = match name {
            Name::File { file, index } => self.files.borrow().sector(super::FileId(file), index),
            Name::Anon { process, page } => swap_sector(process, page),
        };
        let started = match name {
            Name::File { .. } => self.start_writing(pfn),
            Name::Anon { .. } => self.start_swapping(pfn),
        };
        if !started {
            return PageOutcome::Keep;
        }
        let anon = matches!(name, Name::Anon { .. });
        let mut tally = self.tally.borrow_mut();
        if anon {
            tally.swapped_out += 1;
        } else {
            tally.written_by_reclaim += 1;
        }
        drop(tally);
        self.submit(vec![(sector.0, pfn)]);
        PageOutcome::Written
    }
}
