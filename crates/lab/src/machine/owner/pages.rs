//! Uses that processes and the page cache make of their pages.

use pageblock::AllocError;
use pageblock_frame::{DescFlags, Gfp, Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, Pfn};
use pageblock_testkit::simulated::SimulatedZone;

use super::holder::{Holder, Name, Space};
use super::memory::Memory;

impl Memory {
    /// Where a page is, if it is in memory.
    pub(crate) fn find(&self, name: Name) -> Option<Pfn> {
        self.places.borrow().get(name)
    }

    /// True for an anonymous page that must be read from swap.
    pub(crate) fn is_swapped(&self, name: Name) -> bool {
        self.swapped.borrow().contains(&name)
    }

    /// Anonymous pages on swap.
    pub(crate) fn swapped(&self) -> u64 {
        self.swapped.borrow().len() as u64
    }

    /// True if another anonymous page could go to swap.
    pub(crate) fn has_swap(&self) -> bool {
        self.swapped() < self.swap
    }

    /// A page was used through a mapping.
    pub(crate) fn mark_used(&self, pfn: Pfn) {
        if let Some((_, page)) = self.page(pfn) {
            page.set_flags(DescFlags::REFERENCED);
        }
    }

    /// A device knows the page's address: it neither moves nor goes until [`unpin`](Self::unpin).
    pub(crate) fn pin(&self, pfn: Pfn) {
        if let Some((_, page)) = self.page(pfn) {
            page.get();
        }
    }

    /// Ends a [`pin`](Self::pin), for a page of one frame.
    pub(crate) fn unpin(&self, pfn: Pfn) {
        self.drop_reference(pfn, Order::ZERO);
    }

    /// Takes the mark of use off a page; true if it was there.
    pub(crate) fn clear_used(&self, pfn: Pfn) -> bool {
        let page = self.page(pfn);
        page.is_some_and(|(_, page)| page.clear_flags(DescFlags::REFERENCED).contains(DescFlags::REFERENCED))
    }

    /// The pages of a process or a file that are in memory, by number ([`Name::of_process`], [`Name::of_file`]).
    pub(crate) fn pages_of(&self, space: Space) -> Vec<(Name, Pfn)> {
        self.places.borrow().of(space)
    }

    /// Allocates a named page of one frame: a page fault, or a page read into the page cache.
    pub(crate) fn take_page(&self, name: Name, gfp: Gfp) -> Result<Pfn, AllocError> {
        self.take(Holder::named(name, Order::ZERO), gfp)
    }

    /// Allocates a huge anonymous page, known by its first name. Where some page of its range is there already, as
    /// after a split, there is no place for one: the fault takes small pages then.
    pub(crate) fn take_huge(&self, process: u32, page: u32, gfp: Gfp) -> Result<Pfn, AllocError> {
        let mut names = (page..page.saturating_add(PAGEBLOCK_FRAMES as u32)).map(|page| Name::Anon { process, page });
        if names.any(|name| self.find(name).is_some()) {
            return Err(AllocError::OutOfMemory);
        }
        self.take(Holder::Anon { process, page, order: PAGEBLOCK_ORDER }, gfp)
    }

    /// Ends the pages of a process or a file, in memory and on swap: a process ends, a file is truncated. Returns the
    /// frames.
    pub(crate) fn end(&self, space: Space) -> u64 {
        let pages = self.pages_of(space);
        if matches!(space, Space::Process(_)) {
            self.swapped.borrow_mut().retain(|name| !space.contains(*name));
        }
        let frames = pages.iter().map(|(_, pfn)| self.holder(*pfn).order().frames()).sum();
        pages.into_iter().for_each(|(_, pfn)| {
            self.free(pfn);
        });
        frames
    }

    /// Splits a huge page into pages of one frame, on the list and in the names. True if it was one and it has no other
    /// user.
    pub(crate) fn split_huge(&self, pfn: Pfn) -> bool {
        let Holder::Anon { process, page: first, order: PAGEBLOCK_ORDER } = self.holder(pfn) else { return false };
        let Some((lru, page)) = self.page(pfn) else { return false };
        if page.refs() != 1 || !self.allocator_splits(pfn) {
            return false;
        }
        lru.hold().split(pfn);
        for part in 0..PAGEBLOCK_FRAMES {
            let (frame, number) = (pfn.add(part), first.wrapping_add(part as u32));
            if let Some(descriptor) = lru.page(frame) {
                descriptor.store_refs(1);
            }
            self.set_holder(frame, Holder::Anon { process, page: number, order: Order::ZERO });
            self.places.borrow_mut().insert(Name::Anon { process, page: number }, frame);
        }
        true
    }

    /// Tells the allocator that the frames of a huge page are single ones now.
    fn allocator_splits(&self, pfn: Pfn) -> bool {
        let mut zones = self.zones().iter();
        zones.any(|zone| zone.split_simulated::<super::Sim>(pfn, PAGEBLOCK_ORDER, Order::ZERO).is_ok())
    }

    /// A page was used: if it is of a stream that is too long, it goes first. True if so.
    pub(crate) fn leave_behind(&self, pfn: Pfn) -> bool {
        self.page(pfn).is_some_and(|(lru, _)| lru.leave_behind(pfn))
    }

    /// A page was used: the first time it counts as referenced, the second time it becomes active
    /// (`folio_mark_accessed()`).
    pub(crate) fn touch(&self, pfn: Pfn) {
        let Some((lru, page)) = self.page(pfn) else { return };
        if lru.leave_behind(pfn) {
            return;
        }
        if !page.set_flags(DescFlags::REFERENCED).contains(DescFlags::REFERENCED) {
            return;
        }
        if !page.flags().contains(DescFlags::ACTIVE) && lru.isolate(pfn).is_ok() {
            page.change_flags(DescFlags::ACTIVE, DescFlags::REFERENCED);
            let order = self.holder(pfn).order();
            if lru.put_back(pfn) {
                self.give_back(pfn, order);
            }
        }
    }

    /// A page was written to: it must be written back before it can go.
    pub(crate) fn make_dirty(&self, pfn: Pfn) {
        if let Some((_, page)) = self.page(pfn) {
            page.set_flags(DescFlags::DIRTY);
        }
    }

    /// The page's flags, as its descriptor has them.
    pub(crate) fn flags(&self, pfn: Pfn) -> DescFlags {
        self.page(pfn).map_or(DescFlags::empty(), |(_, page)| page.flags())
    }

    /// True for a page that can be dropped at once: clean, not being written, and without users.
    pub(crate) fn is_clean_and_idle(&self, pfn: Pfn) -> bool {
        let busy = DescFlags::DIRTY | DescFlags::WRITEBACK | DescFlags::ISOLATED;
        self.page(pfn).is_some_and(|(_, page)| page.refs() == 1 && !page.flags().intersects(busy))
    }

    /// Begins to write a page back: it is clean from here on unless it is written to again, and keeps its frame until
    /// [`end_writeback`](Self::end_writeback). False if it is not dirty, or being written already.
    pub(crate) fn begin_writeback(&self, pfn: Pfn) -> bool {
        let Some((_, page)) = self.page(pfn) else { return false };
        let flags = page.flags();
        if !flags.contains(DescFlags::DIRTY) || flags.contains(DescFlags::WRITEBACK) || page.refs() == 0 {
            return false;
        }
        page.get();
        page.change_flags(DescFlags::WRITEBACK, DescFlags::DIRTY);
        true
    }

    /// The disk is done with a page. Returns false if it was not being written.
    pub(crate) fn end_writeback(&self, pfn: Pfn) -> bool {
        let Some((_, page)) = self.page(pfn) else { return false };
        if !page.clear_flags(DescFlags::WRITEBACK).contains(DescFlags::WRITEBACK) {
            return false;
        }
        let order = if page.flags().contains(DescFlags::HUGE) { PAGEBLOCK_ORDER } else { Order::ZERO };
        self.drop_reference(pfn, order);
        true
    }
}
