//! Giving pages up: the page side of reclaim, and a plain form of the lists' side.

use arrayvec::ArrayVec;
use pageblock_frame::reclaim::{RECLAIM_CLUSTER, Reclaim, Shrink, Shrunk};
use pageblock_frame::{DescFlags, NodeId, Order, Pfn, ZoneKind};
use pageblock_lru::{Lru, LruList};

use super::holder::{Holder, Name};
use super::memory::Memory;

/// Outcome for a page that reclaim has isolated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Its name is gone: its isolation has the last reference.
    Freed,
    /// It was used since the last look, and is not marked as used any more.
    Referenced,
    /// It has to be written first; [`Memory::begin_writeback`] is the way.
    Dirty,
    /// It is being written.
    Writeback,
    /// It cannot go: there is no room on swap, or another user has a reference.
    Kept,
}

impl Memory {
    /// Looks at a page that the caller has isolated from its list, and gives it up if it is unused, clean, and can be
    /// had again.
    pub(crate) fn evict(&self, pfn: Pfn) -> Verdict {
        let holder = self.holder(pfn);
        let Some((_, page)) = self.page(pfn) else { return Verdict::Kept };
        let Some(name) = holder.name() else {
            // Ended while it was isolated.
            return if holder == Holder::Nobody { Verdict::Freed } else { Verdict::Kept };
        };
        if page.clear_flags(DescFlags::REFERENCED).contains(DescFlags::REFERENCED) {
            return Verdict::Referenced;
        }
        self.give_up(pfn, name)
    }

    /// The same for a page with this name that was found to be unused.
    pub(crate) fn give_up(&self, pfn: Pfn, name: Name) -> Verdict {
        let holder = self.holder(pfn);
        let Some((lru, page)) = self.page(pfn).filter(|_| holder.name() == Some(name)) else { return Verdict::Kept };
        let flags = page.flags();
        if flags.contains(DescFlags::WRITEBACK) {
            return Verdict::Writeback;
        }
        let swapped = matches!(name, Name::Anon { .. });
        if holder.is_huge() || page.refs() > 2 || (swapped && self.swapped() >= self.swap) {
            return Verdict::Kept;
        }
        if flags.contains(DescFlags::DIRTY) {
            return Verdict::Dirty;
        }
        self.forget(pfn);
        if swapped {
            self.swapped.borrow_mut().insert(name);
        }
        let last = lru.release(pfn);
        debug_assert!(!last, "the isolator has a reference too");
        Verdict::Freed
    }

    /// Takes up to a cluster from the tail of a list, and gives up the pages that can go; the rest returns.
    fn shrink_list(&self, lru: &Lru<'_>, list: LruList) -> Shrunk {
        let mut pages: ArrayVec<Pfn, { RECLAIM_CLUSTER as usize }> = ArrayVec::new();
        let scanned = lru.isolate_tail(list, RECLAIM_CLUSTER as u32, &mut pages).scanned;
        for pfn in &pages {
            if self.evict(*pfn) == Verdict::Referenced
                && let Some(page) = lru.page(*pfn)
            {
                page.set_flags(DescFlags::ACTIVE);
            }
        }
        lru.put_back_all(&mut pages);
        let freed = pages.len() as u64;
        for pfn in pages {
            // None of those is a huge page any more: evict keeps them.
            self.give_back(pfn, Order::ZERO);
        }
        Shrunk { scanned, freed }
    }

    /// Moves a cluster from the tail of the active list to the inactive one.
    fn age(&self, lru: &Lru<'_>, list: LruList) {
        let mut pages: ArrayVec<Pfn, { RECLAIM_CLUSTER as usize }> = ArrayVec::new();
        lru.isolate_tail(list, RECLAIM_CLUSTER as u32, &mut pages);
        for page in pages.iter().filter_map(|pfn| lru.page(*pfn)) {
            page.clear_flags(DescFlags::ACTIVE | DescFlags::REFERENCED);
        }
        lru.put_back_all(&mut pages);
        debug_assert!(pages.is_empty(), "nobody ended a page meanwhile");
    }

    fn lrus_of(&self, node: NodeId, zone: Option<ZoneKind>) -> impl Iterator<Item = &Lru<'static>> {
        let allocator = self.allocator();
        self.lrus().iter().filter(move |lru| {
            let first = allocator.zones().find(|z| !z.span().intersect(lru.span()).is_empty());
            first.is_some_and(|z| z.node() == node && zone.is_none_or(|kind| kind == z.kind()))
        })
    }
}

impl Reclaim for Memory {
    /// Clean file pages from the tail of the inactive list, and anonymous ones while there is room on swap.
    fn shrink(&self, round: &Shrink) -> Shrunk {
        let mut all = Shrunk::default();
        for lru in self.lrus_of(round.node, round.zone) {
            let pairs = [(LruList::InactiveFile, LruList::ActiveFile), (LruList::InactiveAnon, LruList::ActiveAnon)];
            for (inactive, active) in pairs {
                if inactive == LruList::InactiveAnon && self.swapped() >= self.swap {
                    continue;
                }
                // At each priority the lists are looked at up to their 2^-priority part, and a cluster at least.
                let most = (lru.frames(inactive) >> round.priority.min(63)).max(RECLAIM_CLUSTER);
                let before = all.scanned;
                while all.freed < round.frames && all.scanned - before < most {
                    if lru.frames(inactive) < lru.frames(active) {
                        self.age(lru, active);
                    }
                    let some = self.shrink_list(lru, inactive);
                    all = all + some;
                    if some.scanned == 0 {
                        break;
                    }
                }
            }
        }
        all
    }

    fn reclaimable(&self, node: NodeId, zone: ZoneKind) -> u64 {
        let frames = |lru: &Lru<'_>| {
            let file = lru.frames(LruList::InactiveFile) + lru.frames(LruList::ActiveFile);
            let anon = lru.frames(LruList::InactiveAnon) + lru.frames(LruList::ActiveAnon);
            file + anon.min(self.swap.saturating_sub(self.swapped()))
        };
        let zones = self.lrus_of(node, None).count().max(1);
        let of_node = self.lrus_of(node, (zones > 1).then_some(zone));
        of_node.map(frames).sum()
    }
}
