//! Pages to and from the unevictable list in bulk, under one hold of the LRU lock, for mlock and munlock.
//!
//! The callers hold the lock of the page table that maps the pages, or a reference to each: the pages keep their
//! identity. Neighbours on a list are moved as one run: links inside the run are only compared, not written.

use pageblock_frame::{DescFlags, Descriptor};

use crate::counters::{Counters, LruEvent};
use crate::guard::LruGuard;
use crate::list::{LruList, frames_of};
use crate::lists::Chain;

/// Counts of a bulk operation, in frames: to be [counted](Self::count) once the lock is released.
///
/// ```
/// use pageblock_lru::{Counters, LruEvent, Tally};
/// let counters = Counters::new();
/// counters.add_mlocked(3);
/// Tally { cleared: 3, stranded: 1, ..Tally::default() }.count(&counters);
/// assert_eq!(counters.nr_mlock(), 0);
/// assert_eq!(counters.event(LruEvent::Munlocked), 2);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// `MLOCKED` set.
    pub set: u64,
    /// `MLOCKED` cleared; those among them that were off their list and unevictable are also `stranded`.
    pub cleared: u64,
    /// Cleared while another CPU had the unevictable page off its list.
    pub stranded: u64,
    /// Moved away from the unevictable list; counted already.
    pub rescued: u64,
    /// Moved to the unevictable list; counted already.
    pub culled: u64,
    /// Pages left alone because they seem to be mapped more than once: the areas that lock them must be asked for
    /// without the lock.
    pub shared: u64,
}

impl Tally {
    /// Counts it: `NR_MLOCK` once, each event at most once.
    #[inline]
    pub fn count(&self, counters: &Counters) {
        let change = self.set as i64 - self.cleared as i64;
        if change != 0 {
            counters.add_mlocked(change);
        }
        counters.count_some(LruEvent::Mlocked, self.set);
        counters.count_some(LruEvent::Munlocked, self.cleared.saturating_sub(self.stranded));
        counters.count_some(LruEvent::Stranded, self.stranded);
    }
}

/// Clears the flags of a page that is exactly of this kind and mapped once. True if so; else nothing has changed.
///
/// A reference that appears between the two looks is another mapping's: then the flags are put back as they were, and
/// the page goes the long way.
#[inline]
fn unlock_one(page: &Descriptor, kind: Kind, tally: &mut Tally) -> bool {
    page.refs() <= kind.refs
        && page.replace_flags(kind.seen, kind.after)
        && (page.refs() <= kind.refs || take_back(page, kind, tally))
}

/// Sets the flags again that [`unlock_one`] cleared; false, for the page is not unlocked. If another CPU has locked it
/// in between and counted that, the clearing counts too.
#[cold]
fn take_back(page: &Descriptor, kind: Kind, tally: &mut Tally) -> bool {
    if page.set_flags(LEAVES).contains(DescFlags::MLOCKED) {
        tally.cleared += kind.frames;
    }
    false
}

/// True if a page with so many references may be mapped more than once: besides `pins` of the caller's own, a mapping
/// and, for file pages, the page cache hold one each.
#[must_use]
#[inline]
pub const fn maybe_shared(flags: DescFlags, refs: u32, pins: u32) -> bool {
    refs > 1 + pins + flags.contains(DescFlags::FILE) as u32
}

/// An entry of a list: a page or a huge page.
struct Entry<'p> {
    index: u32,
    page: &'p Descriptor,
    frames: u64,
}

/// A run of neighbours on one list that is to be moved to another.
#[derive(Clone, Copy)]
struct Run {
    from: LruList,
    to: LruList,
    chain: Chain,
}

impl Run {
    const EMPTY: Self = Self { from: LruList::Unevictable, to: LruList::Unevictable, chain: Chain::EMPTY };
}

/// One pass over a batch: the run that is being gathered, and the counts so far.
struct Pass {
    run: Run,
    tally: Tally,
}

/// Properties that the pages of a run share while they are unlocked, worked out once.
#[derive(Clone, Copy)]
struct Kind {
    /// Their flags before.
    seen: DescFlags,
    /// Their flags after.
    after: DescFlags,
    /// References that one mapping explains.
    refs: u32,
    /// Frames of each.
    frames: u64,
}

/// Flags that a page which munlock moves has, and those it loses.
const LEAVES: DescFlags = DescFlags::MLOCKED.union(DescFlags::UNEVICTABLE);

impl Kind {
    #[inline]
    fn of(seen: DescFlags) -> Self {
        let refs = 1 + u32::from(seen.contains(DescFlags::FILE));
        Self { seen, after: seen - LEAVES, refs, frames: frames_of(seen) }
    }

    /// True for pages on the unevictable list that are locked: those that move.
    #[inline]
    fn moves(self) -> bool {
        self.seen.contains(LEAVES.union(DescFlags::LRU))
    }
}

impl LruGuard<'_, '_> {
    /// Clears `MLOCKED` of pages that are mapped once, and moves those on the unevictable list to the list that their
    /// other flags name, at its head. One atomic operation a page. `pages` are indices into the table.
    ///
    /// The caller holds the lock of the page table that maps all of `pages`, so each has a reference, its mapping's. A
    /// page with more than that is left alone and reported as `shared`. If one is mapped elsewhere *while* this runs,
    /// either that CPU sets `MLOCKED` after it was cleared here, or this one sees the new reference after clearing and
    /// takes it back: the atomic steps on the flags order the two.
    #[inline]
    pub fn unlock_pages(&mut self, pages: &[u32]) -> Tally {
        let (table, mut pass) = (self.lru.table(), Pass { run: Run::EMPTY, tally: Tally::default() });
        let mut rest = pages.iter();
        // Runs of pages with the same flags take the short way, which ends at the first page that it is not for.
        while let Some(first) = rest.as_slice().first() {
            let Some(page) = table.get(*first as usize) else { break };
            let kind = Kind::of(page.flags());
            let left = rest.len();
            if kind.moves() && !self.lists.counted(LruList::Unevictable) {
                rest = self.unlock_run(kind, rest.as_slice(), &mut pass).iter();
            }
            if rest.len() == left {
                let _ = rest.next();
                self.unlock_odd(*first, page, &mut pass);
            }
        }
        self.finish(&pass)
    }

    /// The short way: pages on the unevictable list with the flags of `kind`, mapped once. Returns those that are
    /// left, from the first that is different.
    #[inline]
    fn unlock_run<'p>(&mut self, kind: Kind, pages: &'p [u32], pass: &mut Pass) -> &'p [u32] {
        let table = self.lru.table();
        let Some((first, others)) = pages.split_first() else { return pages };
        if !table.get(*first as usize).is_some_and(|page| unlock_one(page, kind, &mut pass.tally)) {
            return pages;
        }
        let mut chain = Chain { first: *first, last: *first, entries: 1, frames: 0 };
        let mut done = 1;
        for index in others {
            let Some(page) = table.get(*index as usize) else { break };
            // Pages were added in the order of their addresses: the next one is nearer to the head. A page that is not
            // the neighbour ends the chain before its flags are touched.
            if page.next.get() != chain.first || !unlock_one(page, kind, &mut pass.tally) {
                break;
            }
            chain.first = *index;
            done += 1;
        }
        chain.entries = done;
        chain.frames = u64::from(done) * kind.frames;
        pass.tally.cleared += chain.frames;
        pass.tally.rescued += chain.frames;
        self.move_run(&Run { from: LruList::Unevictable, to: LruList::of(kind.after), chain });
        pages.get(done as usize..).unwrap_or_default()
    }

    /// The long way for one page, whatever it is.
    #[cold]
    fn unlock_odd(&mut self, index: u32, page: &Descriptor, pass: &mut Pass) {
        let tally = &mut pass.tally;
        let seen = page.flags();
        if !seen.contains(DescFlags::MLOCKED) {
            return;
        }
        if maybe_shared(seen, page.refs(), 0) {
            tally.shared += 1;
            return;
        }
        // Linked now means linked until the lock is released, also if it is claimed meanwhile.
        let linked = seen.contains(DescFlags::LRU);
        let before = page.clear_flags(if linked { LEAVES } else { DescFlags::MLOCKED });
        let frames = frames_of(before);
        let cleared = before.contains(DescFlags::MLOCKED);
        let unevictable = before.contains(DescFlags::UNEVICTABLE);
        tally.cleared += if cleared { frames } else { 0 };
        if unevictable && linked {
            tally.rescued += frames;
            let (table, to) = (self.lru.table(), LruList::of(before - LEAVES));
            self.lists.remove(table, LruList::Unevictable, index, frames);
            self.lists.push_head(table, to, index, frames);
        } else if unevictable && cleared {
            tally.stranded += frames;
        }
        if cleared && maybe_shared(before, page.refs(), 0) {
            tally.shared += 1;
            if !page.set_flags(DescFlags::MLOCKED).contains(DescFlags::MLOCKED) {
                tally.set += frames;
            }
            if linked {
                self.resettle(index, page);
            }
        }
    }

    /// Sets `MLOCKED` of pages, and moves those on a list to the unevictable one. One atomic operation a page, two for
    /// an active one. The caller holds the lock of the page table that maps all of `pages`.
    pub fn lock_pages(&mut self, pages: &[u32]) -> Tally {
        const STAYS: DescFlags = DescFlags::MLOCKED.union(DescFlags::UNEVICTABLE);
        let (table, mut pass) = (self.lru.table(), Pass { run: Run::EMPTY, tally: Tally::default() });
        let relink = !self.lists.counted(LruList::Unevictable);
        for index in pages {
            let Some(page) = table.get(*index as usize) else { continue };
            let seen = page.flags();
            let linked = seen.contains(DescFlags::LRU);
            // Also where `MLOCKED` is set already: the atomic step orders `unlock_pages` on another CPU after this.
            let before = page.set_flags(if linked { STAYS } else { DescFlags::MLOCKED });
            let frames = frames_of(before);
            pass.tally.set += if before.contains(DescFlags::MLOCKED) { 0 } else { frames };
            if !linked || before.contains(DescFlags::UNEVICTABLE) {
                continue;
            }
            pass.tally.culled += frames;
            if before.contains(DescFlags::ACTIVE) {
                page.clear_flags(DescFlags::ACTIVE);
            }
            if relink {
                let entry = Entry { index: *index, page, frames };
                self.extend(&mut pass.run, entry, LruList::of(before), LruList::of(STAYS));
            } else {
                self.lists.remove(table, LruList::of(before), *index, frames);
                page.prev.set(1);
                self.lists.push_head(table, LruList::Unevictable, *index, frames);
            }
        }
        self.finish(&pass)
    }

    /// Adds a page to the run if it is the run's neighbour on the same list, else moves the run and begins another.
    #[inline]
    fn extend(&mut self, run: &mut Run, entry: Entry<'_>, from: LruList, to: LruList) {
        let Entry { index, page, frames } = entry;
        if from == run.from && to == run.to {
            // Pages were added in the order of their addresses: the next one is nearer to the head.
            if page.next.get() == run.chain.first && run.chain.entries != 0 {
                run.chain.first = index;
                run.chain.entries += 1;
                run.chain.frames += frames;
                return;
            }
            if page.prev.get() == run.chain.last && run.chain.entries != 0 {
                run.chain.last = index;
                run.chain.entries += 1;
                run.chain.frames += frames;
                return;
            }
        }
        self.move_run(run);
        *run = Run { from, to, chain: Chain { first: index, last: index, entries: 1, frames } };
    }

    /// Moves the last run, and updates the counts that the lock protects.
    fn finish(&mut self, pass: &Pass) -> Tally {
        self.move_run(&pass.run);
        let counters = &self.lru.counters;
        if pass.tally.rescued != 0 {
            counters.count_held(LruEvent::Rescued, pass.tally.rescued);
        }
        if pass.tally.culled != 0 {
            counters.count_held(LruEvent::Culled, pass.tally.culled);
        }
        pass.tally
    }

    /// Moves a run from its list to the other.
    fn move_run(&mut self, run: &Run) {
        if run.chain.entries != 0 {
            self.lists.cut(self.lru.table(), run.from, &run.chain);
            self.lists.splice_head(self.lru.table(), run.to, &run.chain);
        }
    }

    /// Linux 5.18's way to lock a page with `MLOCKED` already set: on the unevictable list it is counted once
    /// more, from another list it moves there with a count of 1. A page off its list is skipped. Mirrors
    /// `__mlock_page()` (6.1).
    ///
    /// The count lives in the page's first link word, so it exists only where that list is
    /// [counted](crate::Unevictable::Counted).
    pub fn lock_counted(&mut self, index: u32) {
        let Some(page) = self.lru.table().get(index as usize) else { return };
        let flags = page.flags();
        if !flags.contains(DescFlags::LRU) {
            return;
        }
        let counted = self.lists.counted(LruList::Unevictable);
        if !flags.contains(DescFlags::MLOCKED) || !flags.contains(DescFlags::UNEVICTABLE) {
            self.resettle(index, page);
            let now = page.flags();
            if now.contains(DescFlags::UNEVICTABLE) && counted {
                page.prev.set(u32::from(now.contains(DescFlags::MLOCKED)));
            }
        } else if counted {
            page.prev.set(page.prev.get().saturating_add(1));
        }
    }

    /// Linux 5.18's way to unlock a page: counts one area less; with none left, clears `MLOCKED` and moves the page
    /// away from the unevictable list. Mirrors `__munlock_page()` (6.1).
    ///
    /// Where the unevictable list is [linked](crate::Unevictable::Linked) there is no count, and the page is unlocked
    /// at once.
    pub fn unlock_counted(&mut self, index: u32) -> Tally {
        let mut tally = Tally::default();
        let Some(page) = self.lru.table().get(index as usize) else { return tally };
        let seen = page.flags();
        let linked = seen.contains(DescFlags::LRU);
        if linked && seen.contains(DescFlags::UNEVICTABLE) && self.lists.counted(LruList::Unevictable) {
            let count = page.prev.get().saturating_sub(1);
            page.prev.set(count);
            if count > 0 {
                return tally;
            }
        }
        let before = page.clear_flags(DescFlags::MLOCKED);
        let frames = frames_of(before);
        if before.contains(DescFlags::MLOCKED) {
            tally.cleared = frames;
            tally.stranded = if !linked && before.contains(DescFlags::UNEVICTABLE) { frames } else { 0 };
        }
        if linked {
            self.resettle(index, page);
        }
        tally
    }
}
