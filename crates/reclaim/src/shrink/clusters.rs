//! One cluster of pages: off a list, judged, given up or put back.

use arrayvec::ArrayVec;
use pageblock_frame::reclaim::{Shrink, Shrunk};
use pageblock_frame::{DescFlags, Order, PAGEBLOCK_ORDER, Pfn, Platform};
use pageblock_lru::frames_of;

use super::area::Area;
use super::events::add;
use super::judge::{Verdict, judge};
use super::owner::{CLUSTER, Cluster, PageOutcome, PageOwner, Victim};
use super::{Part, Place, Shrinker};

/// Frames of pages, as they are taken off a list.
type Pages = ArrayVec<Pfn, CLUSTER>;

/// Blocks on their way to the allocator.
type Blocks = ArrayVec<(Pfn, Order), CLUSTER>;

/// Observations on a cluster, apart from the frames it gave.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Congestion {
    /// Frames of the pages taken.
    taken: u64,
    /// Under write-back.
    writing: u64,
    /// Dirty, and not being written.
    dirty: u64,
    /// Under write-back the second time that reclaim met them: it comes round faster than the disk writes.
    immediate: u64,
}

impl Congestion {
    pub(crate) fn add(&mut self, other: Self) {
        self.taken = self.taken.saturating_add(other.taken);
        self.writing = self.writing.saturating_add(other.writing);
        self.dirty = self.dirty.saturating_add(other.dirty);
        self.immediate = self.immediate.saturating_add(other.immediate);
    }

    /// All that was met is dirty and waits for a writer.
    pub(crate) const fn wants_writer(&self) -> bool {
        self.taken > 0 && self.dirty == self.taken
    }

    /// Going on would only burn time: all that was met waits for the disk.
    pub(crate) const fn wants_wait(&self) -> bool {
        self.taken > 0
            && (self.immediate > 0 || self.writing.saturating_add(self.dirty) == self.taken)
            && self.writing > 0
    }
}

impl<P: Platform, O: PageOwner> Shrinker<'_, '_, O, P> {
    /// Takes up to a cluster of pages off the tail of a list, such as the round may free. Returns how many frames were
    /// looked at.
    ///
    /// Pages of other zones go to the head of the list, as in Linux: that costs their order, and the time for it is
    /// counted as `skipped`. How many are stepped over in a row is bounded.
    fn isolate(&self, place: Place<'_, '_>, round: &Shrink, part: Part, out: &mut Pages) -> u64 {
        let Part { list, wanted } = part;
        let area = place.area;
        let wanted = wanted.min(CLUSTER as u64) as u32;
        if area.serves_wholly(round) {
            return area.lru().isolate_tail(list, wanted, out).scanned;
        }
        let mut scanned = 0u64;
        let mut patience = wanted.saturating_mul(self.config.skips_a_page);
        while (out.len() as u32) < wanted && patience > 0 {
            let mut pages = Pages::new();
            let looked = area.lru().isolate_tail(list, wanted - out.len() as u32, &mut pages);
            if pages.is_empty() {
                break;
            }
            patience = patience.saturating_sub(pages.len() as u32);
            let mut skipped = Pages::new();
            let mut aside = 0u64;
            for pfn in pages {
                let kind = area.kind_of(pfn);
                if kind.is_none_or(|kind| Area::accepts(round, kind)) {
                    let _ = out.try_push(pfn); // no more than were asked for
                    continue;
                }
                let frames = area.lru().page(pfn).map_or(1, |page| frames_of(page.flags()));
                aside = aside.saturating_add(frames);
                kind.into_iter().for_each(|kind| area.count_skip(kind, frames));
                let _ = skipped.try_push(pfn);
            }
            scanned = scanned.saturating_add(looked.scanned.saturating_sub(aside));
            self.put_back(place, skipped);
        }
        scanned
    }

    /// Puts pages back, and frees those that lost their last owner meanwhile. Returns the frames freed.
    fn put_back(&self, place: Place<'_, '_>, mut pages: Pages) -> u64 {
        let lru = place.area.lru();
        let mut huge = Pages::new();
        for pfn in &pages {
            // A page that is freed loses its flags: its size is looked up before.
            if lru.page(*pfn).is_some_and(|desc| desc.flags().contains(DescFlags::HUGE)) {
                let _ = huge.try_push(*pfn);
            }
        }
        lru.put_back_all(&mut pages);
        let (mut blocks, mut freed) = (Blocks::new(), 0u64);
        for pfn in pages {
            let order = if huge.contains(&pfn) { PAGEBLOCK_ORDER } else { Order::ZERO };
            freed = freed.saturating_add(order.frames());
            let _ = blocks.try_push((pfn, order));
        }
        if !blocks.is_empty() {
            self.owner.free(&blocks);
        }
        freed
    }

    /// Pages that were taken off a list, as their owner sees them.
    fn victims<'a, 'm>(place: Place<'a, 'm>, pages: &Pages) -> Cluster<'a, 'm> {
        let mut cluster = Cluster::new();
        for pfn in pages {
            let _ = cluster.try_push(Victim::of_area(place.area.lru(), place.index, *pfn));
        }
        cluster
    }

    /// Reclaims from the tail of an inactive list, a cluster at most (`shrink_inactive_list()`).
    pub(crate) fn shrink_inactive(
        &self,
        place: Place<'_, '_>,
        round: &Shrink,
        part: Part,
        congestion: &mut Congestion,
    ) -> Shrunk {
        let mut pages = Pages::new();
        let scanned = self.isolate(place, round, part, &mut pages);
        let mut cluster = Self::victims(place, &pages);
        if cluster.is_empty() {
            return Shrunk { scanned, freed: 0 };
        }
        for page in &cluster {
            place.area.count_scan(round.actor, page.pfn(), page.frames());
        }
        self.owner.look(&mut cluster);
        let (mut asked, mut kept) = (Cluster::new(), Pages::new());
        let mut seen = Congestion::default();
        for page in cluster {
            let verdict = judge(&self.config, round, self.owner.swap(), page.flags(), page.mapped());
            if verdict == Verdict::Reclaim {
                let _ = asked.try_push(page);
            } else {
                let _ = kept.try_push(page.pfn());
            }
            self.mark(place, &page, verdict, &mut seen);
        }
        congestion.add(seen);
        if !asked.is_empty() {
            self.owner.give_up(&mut asked, round);
        }
        let freed = self.collect(place, round, asked, &mut kept);
        Shrunk { scanned, freed: freed.saturating_add(self.put_back(place, kept)) }
    }

    /// Notes a verdict in a page's flags and in the counters.
    fn mark(&self, place: Place<'_, '_>, page: &Victim<'_, '_>, verdict: Verdict, seen: &mut Congestion) {
        let Some(desc) = place.area.lru().page(page.pfn()) else { return };
        let frames = page.frames();
        seen.taken = seen.taken.saturating_add(frames);
        if verdict != Verdict::Writing {
            // A use is remembered for one turn on the list.
            if page.mapped().references > 0 {
                desc.set_flags(DescFlags::REFERENCED);
            } else {
                desc.clear_flags(DescFlags::REFERENCED);
            }
        }
        match verdict {
            Verdict::Activate => self.activate(place, page, true),
            Verdict::Writing | Verdict::Dirty => {
                let again = desc.set_flags(DescFlags::RECLAIM).contains(DescFlags::RECLAIM);
                let counter = if verdict == Verdict::Writing { &mut seen.writing } else { &mut seen.dirty };
                *counter = counter.saturating_add(frames);
                if again && verdict == Verdict::Writing {
                    seen.immediate = seen.immediate.saturating_add(frames);
                }
                if !again {
                    add(&self.events.immediate, frames);
                }
                if self.config.park_dirty {
                    self.activate(place, page, self.config.refaults.parking_ages());
                }
            }
            Verdict::Keep | Verdict::Reclaim => {}
        }
    }

    /// Makes a page active: it goes to that list when it is put back. The lists' clock advances if that `ages`, for it
    /// makes room.
    fn activate(&self, place: Place<'_, '_>, page: &Victim<'_, '_>, ages: bool) {
        let lru = place.area.lru();
        let Some(desc) = lru.page(page.pfn()) else { return };
        if desc.flags().contains(DescFlags::MLOCKED) {
            return;
        }
        desc.set_flags(DescFlags::ACTIVE);
        if ages {
            lru.advance_age(page.frames());
        }
        add(&self.events.activate, page.frames());
        place.area.note_cost(page.flags().contains(DescFlags::FILE), page.frames());
    }

    /// Frees the pages that its owner gave up, and sets the rest aside for its list. Returns the frames freed.
    fn collect(&self, place: Place<'_, '_>, round: &Shrink, asked: Cluster<'_, '_>, kept: &mut Pages) -> u64 {
        let lru = place.area.lru();
        let (mut blocks, mut freed) = (Blocks::new(), 0u64);
        for page in asked {
            let pfn = page.pfn();
            match page.outcome() {
                // One reference is the scanner's. A look at the page holds another for a moment, or its owner has
                // not told the truth: then it stays where it is found again.
                PageOutcome::Freed if lru.page(pfn).is_some_and(|desc| desc.refs() == 1) => {
                    if lru.release(pfn) {
                        place.area.count_steal(round.actor, pfn, page.frames());
                        freed = freed.saturating_add(page.frames());
                        let _ = blocks.try_push((pfn, page.order()));
                    }
                    continue;
                }
                PageOutcome::Activate => self.activate(place, &page, true),
                PageOutcome::Written => {
                    add(&self.events.written, page.frames());
                    place.area.note_cost(page.flags().contains(DescFlags::FILE), page.frames());
                    if let Some(desc) = lru.page(pfn) {
                        desc.set_flags(DescFlags::RECLAIM);
                    }
                }
                PageOutcome::Keep | PageOutcome::Freed => {}
            }
            let _ = kept.try_push(pfn);
        }
        if !blocks.is_empty() {
            self.owner.free(&blocks);
        }
        freed
    }

    /// Moves pages from the tail of an active list to the inactive one, a cluster at most (`shrink_active_list()`).
    /// Only a program's code that was used stays. Returns how many frames were looked at.
    pub(crate) fn shrink_active(&self, place: Place<'_, '_>, round: &Shrink, part: Part) -> u64 {
        let mut pages = Pages::new();
        let scanned = self.isolate(place, round, part, &mut pages);
        let lru = place.area.lru();
        let mut cluster = Self::victims(place, &pages);
        if !cluster.is_empty() {
            self.owner.look(&mut cluster);
        }
        let mut deactivated = 0u64;
        for page in &cluster {
            let mapped = page.mapped();
            let code = mapped.references > 0 && mapped.executable && page.flags().contains(DescFlags::FILE);
            if code {
                place.area.note_cost(true, page.frames());
            } else if let Some(desc) = lru.page(page.pfn()) {
                desc.change_flags(DescFlags::WORKINGSET, DescFlags::ACTIVE);
                deactivated = deactivated.saturating_add(page.frames());
            }
        }
        add(&self.events.refill, scanned);
        add(&self.events.deactivate, deactivated);
        self.put_back(place, pages);
        scanned
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_writer_is_wanted_only_where_all_pages_met_are_dirty() {
        let met = |taken, dirty| Congestion { taken, dirty, ..Congestion::default() };
        assert!(met(3, 3).wants_writer());
        assert!(!met(3, 2).wants_writer() && !met(0, 0).wants_writer());
    }

    #[test]
    fn reclaim_waits_where_all_pages_met_wait_for_the_disk() {
        let met = |taken, writing, dirty| Congestion { taken, writing, dirty, ..Congestion::default() };
        assert!(met(3, 1, 2).wants_wait() && met(3, 3, 0).wants_wait());
        assert!(!met(3, 1, 1).wants_wait() && !met(3, 0, 3).wants_wait() && !met(0, 0, 0).wants_wait());
        assert!(Congestion { immediate: 1, ..met(3, 1, 0) }.wants_wait());
    }
}
