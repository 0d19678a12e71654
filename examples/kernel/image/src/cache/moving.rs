//! Pages of the cache can be moved: no page table leads to them, so that the lock is all that keeps readers away.

use pageblock::{Order, PAGE_SIZE, Pfn};
use pageblock_frame::migration::{Migrate, MigrateMode, MoveError, PutBack, Refusal};

use super::{Cache, File};
use crate::arch::paging::phys_ptr;

impl File {
    /// Copies a page that is lent, and keeps it in the new frame from now on.
    fn relocate(&mut self, from: Pfn, to: Pfn) -> Result<(), MoveError> {
        let page = self.page_behind(from).ok_or(MoveError::Failed)?;
        // SAFETY: the page is reached under the lock only, and the new frame is not known to other CPUs.
        unsafe {
            let (source, target) = (phys_ptr::<u8>(from.phys()), phys_ptr(to.phys()));
            core::ptr::copy_nonoverlapping(source, target, PAGE_SIZE as usize);
        }
        self.unlink(page);
        self.link(page, to);
        self.pages[page].lent = false;
        self.counts.moved += 1;
        Ok(())
    }
}

// SAFETY: a page is copied and linked to the new frame under the lock, in the call that answers `Ok`.
unsafe impl Migrate for Cache {
    fn isolate(&self, pfn: Pfn, order: Order, _mode: MigrateMode) -> Result<(), Refusal> {
        let mut file = self.0.lock();
        let page = file.page_behind(pfn).filter(|_| order == Order::ZERO).ok_or(Refusal::Unknown)?;
        if core::mem::replace(&mut file.pages[page].lent, true) { Err(Refusal::Unknown) } else { Ok(()) }
    }

    fn migrate(&self, from: Pfn, to: Pfn, _order: Order, _mode: MigrateMode) -> Result<(), MoveError> {
        self.0.lock().relocate(from, to)
    }

    fn put_back(&self, pfn: Pfn, _order: Order) -> PutBack {
        let mut file = self.0.lock();
        if let Some(page) = file.page_behind(pfn) {
            file.pages[page].lent = false;
        }
        PutBack::Kept
    }
}
