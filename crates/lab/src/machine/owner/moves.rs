//! Lending and moving pages: the reference implementation of [`Migrate`] over the descriptor table and the LRU.

use pageblock_frame::migration::{Migrate, MigrateMode, MoveError, PutBack, Refusal};
use pageblock_frame::{DescFlags, Order, Pfn};
use pageblock_lru::LruIsolateError;

use super::holder::Holder;
use super::memory::Memory;

#[expect(unsafe_code, reason = "a migrator\'s answers give frames away")]
// SAFETY: a page is isolated by the claim of its LRU flag, one caller at a time; its name and the reference move to the
// target before `Ok`; nothing is behind the frames.
unsafe impl Migrate for Memory {
    /// Takes a page off its list, with a reference. A page without a name cannot move, nor one with another reference.
    fn isolate(&self, pfn: Pfn, order: Order, mode: MigrateMode) -> Result<(), Refusal> {
        let holder = self.holder(pfn);
        let Some((lru, page)) = self.page(pfn) else { return Err(Refusal::Unknown) };
        if holder == Holder::Nobody || holder.order() != order {
            return Err(Refusal::Unknown);
        }
        let flags = page.flags();
        if holder.name().is_none() {
            return Err(Refusal::Pinned);
        }
        let waits = match mode {
            MigrateMode::Async => DescFlags::LOCKED | DescFlags::WRITEBACK,
            MigrateMode::SyncLight => DescFlags::WRITEBACK,
            MigrateMode::Sync => DescFlags::empty(),
        };
        // Being written back holds a reference of its own, which ends by itself.
        if flags.intersects(waits) || flags.contains(DescFlags::WRITEBACK) {
            return Err(Refusal::Busy);
        }
        if page.refs() > 1 {
            return Err(Refusal::Pinned);
        }
        match lru.isolate(pfn) {
            Ok(()) => {
                page.set_flags(DescFlags::ISOLATED);
                Ok(())
            }
            Err(LruIsolateError::NotOnLru) => Err(Refusal::Busy),
            Err(_) => Err(Refusal::Unknown),
        }
    }

    /// Moves the name, the flags and the owner's reference; the page goes to the head of its list, as in Linux.
    fn migrate(&self, from: Pfn, to: Pfn, order: Order, _mode: MigrateMode) -> Result<(), MoveError> {
        let holder = self.holder(from);
        let (Some((lru, page)), Some((target_lru, target))) = (self.page(from), self.page(to)) else {
            return Err(MoveError::Failed);
        };
        if !page.flags().contains(DescFlags::ISOLATED) {
            return Err(MoveError::Failed);
        }
        if holder == Holder::Nobody {
            // Ended while it was isolated: the reference of the isolation is the last.
            return if lru.release(from) { Err(MoveError::Released) } else { Err(MoveError::Again) };
        }
        let Some(name) = holder.name().filter(|_| holder.order() == order) else { return Err(MoveError::Failed) };
        // The name's reference and that of the isolation.
        if !page.freeze(2) {
            return Err(MoveError::Again);
        }
        let flags = page.flags() - DescFlags::ISOLATED - DescFlags::LRU;
        page.store_flags(DescFlags::empty());
        self.set_holder(from, Holder::Nobody);
        let before = self.set_holder(to, holder);
        assert_eq!(before, Holder::Nobody, "{to} is the target of a move, and held");
        self.places.borrow_mut().insert(name, to);
        target.store_refs(1);
        target.store_flags(flags);
        target_lru.add(to);
        self.moved.set(self.moved.get() + order.frames());
        Ok(())
    }

    fn put_back(&self, pfn: Pfn, _order: Order) -> PutBack {
        let Some((lru, page)) = self.page(pfn) else { return PutBack::Kept };
        if !page.clear_flags(DescFlags::ISOLATED).contains(DescFlags::ISOLATED) {
            return PutBack::Kept;
        }
        if lru.put_back(pfn) { PutBack::Released } else { PutBack::Kept }
    }
}
