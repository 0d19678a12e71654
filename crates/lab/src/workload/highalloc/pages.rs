//! The owner of the experiment's pages, for the scanner of the LRU lists: clean page cache goes, anonymous pages have
//! nowhere to go.

use std::rc::{Rc, Weak};

use pageblock_frame::reclaim::Shrink;
use pageblock_frame::{DescFlags, Order, Pfn};
use pageblock_lru::Swap;
use pageblock_reclaim::{Mapped, PageOutcome, PageOwner, Victim};

use crate::machine::owner::{Memory, Verdict};

/// Does not keep the memory alive.
#[derive(Debug)]
pub(super) struct Pages(Weak<Memory>);

impl Pages {
    pub(super) fn new(memory: &Rc<Memory>) -> Self {
        Self(Rc::downgrade(memory))
    }
}

impl PageOwner for Pages {
    /// Anonymous pages are mapped once; the file was read, not mapped.
    fn look(&self, pages: &mut [Victim<'_, '_>]) {
        let Some(memory) = self.0.upgrade() else { return };
        for page in pages.iter_mut().filter(|page| !page.flags().contains(DescFlags::FILE)) {
            let references = u32::from(memory.clear_used(page.pfn()));
            page.set_mapped(Mapped { references, ..Mapped::default() });
        }
    }

    fn give_up(&self, pages: &mut [Victim<'_, '_>], _round: &Shrink) {
        let Some(memory) = self.0.upgrade() else { return };
        for page in pages {
            let name = memory.holder(page.pfn()).name();
            // Without a name it ended while it was off its list: only the scanner has it.
            match name.map_or(Verdict::Freed, |name| memory.give_up(page.pfn(), name)) {
                Verdict::Freed => _ = page.evict(),
                _ => page.set_outcome(PageOutcome::Keep),
            }
        }
    }

    fn free(&self, blocks: &[(Pfn, Order)]) {
        if let Some(memory) = self.0.upgrade() {
            blocks.iter().for_each(|(pfn, order)| memory.give_back(*pfn, *order));
        }
    }

    fn swap(&self) -> Swap {
        Swap::Absent
    }
}
