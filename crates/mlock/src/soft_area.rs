//! One large locked area in ordinary memory: benches and the lab unlock it.

use alloc::vec::Vec;

use pageblock_frame::sync::{AtomicBool, Ordering};
use pageblock_frame::{DescFlags, Descriptor, Pfn};
use pageblock_lru::{HUGE_FRAMES, Lru, Lrus, Pagevecs, Unevictable};

use crate::area::{AreaState, LockedArea};
use crate::context::Context;
use crate::lock::mlock_pages;
use crate::munlock::munlock_pages;
use crate::soft::{Mapping, SoftTable, SoftTableGuard};
use crate::span::{Levels, Span, Vpn};
use crate::table::{AddressSpace, FaultError, MarkError, PageTable, Walk};

/// Where the pages of an area lie.
///
/// ```
/// assert_eq!(pageblock_mlock::Placement::ALL.len(), 3);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// All on one node, in address order.
    OneNode,
    /// Alternating between two nodes.
    Interleaved,
    /// Huge pages on one node.
    Huge,
}

impl Placement {
    /// All placements, in the order of the publication's tables.
    pub const ALL: [Self; 3] = [Self::OneNode, Self::Interleaved, Self::Huge];

    const fn nodes(self) -> u64 {
        match self {
            Self::Interleaved => 2,
            Self::OneNode | Self::Huge => 1,
        }
    }

    /// Frame of page `page` of an area with `share` frames on each node.
    fn frame(self, page: u64, share: u64) -> Pfn {
        let nodes = self.nodes();
        Pfn::new(FIRST + page % nodes * share + page / nodes)
    }
}

/// First frame of the first node.
const FIRST: u64 = 1 << 20;

/// An area of pages that are there and, between [`lock`](Self::lock) and [`unlock`](Self::unlock), locked; each mapped
/// once, anonymous, on the LRU lists of its node.
///
/// ```
/// use pageblock_mlock::{Placement, SoftArea};
/// let tables = SoftArea::descriptors(Placement::Interleaved, 2048);
/// let area = SoftArea::new(Placement::Interleaved, 2048, &tables);
/// area.lock();
/// assert_eq!(area.nr_mlock(), 2048);
/// area.unlock();
/// assert_eq!(area.nr_mlock(), 0);
/// ```
#[derive(Debug)]
pub struct SoftArea<'m> {
    table: SoftTable,
    nodes: Vec<Lru<'m>>,
    pages: u64,
    locked: AtomicBool,
}

impl<'m> SoftArea<'m> {
    /// Descriptors for an area of `pages` pages: a table for each node.
    #[must_use]
    pub fn descriptors(placement: Placement, pages: u64) -> Vec<Vec<Descriptor>> {
        let share = pages.next_multiple_of(HUGE_FRAMES) / placement.nodes();
        (0..placement.nodes()).map(|_| (0..share).map(|_| Descriptor::new()).collect()).collect()
    }

    /// An area of `pages` pages (rounded up to whole huge pages) over [its descriptors](Self::descriptors).
    #[must_use]
    pub fn new(placement: Placement, pages: u64, tables: &'m [Vec<Descriptor>]) -> Self {
        let pages = pages.next_multiple_of(HUGE_FRAMES);
        let share = pages / placement.nodes();
        let start = |node: usize| Pfn::new(FIRST + node as u64 * share);
        let lru = |(node, table): (usize, &'m Vec<Descriptor>)| Lru::with_form(start(node), table, Unevictable::Linked);
        let nodes: Vec<Lru<'m>> = tables.iter().enumerate().map(lru).collect();
        let mut table = SoftTable::new();
        let step = if placement == Placement::Huge { HUGE_FRAMES } else { 1 };
        for at in (0..pages).step_by(step as usize) {
            let pfn = placement.frame(at, share);
            let Some(lru) = nodes.iter().find(|lru| lru.index_of(pfn).is_some()) else { continue };
            let Some(page) = lru.page(pfn) else { continue };
            page.store_refs(1);
            page.store_flags(if step == 1 { DescFlags::empty() } else { DescFlags::HUGE });
            lru.add(pfn);
            table.map(Vpn::new(at), if step == 1 { Mapping::Base(pfn) } else { Mapping::Huge(pfn) });
        }
        Self { table, nodes, pages, locked: AtomicBool::new(false) }
    }

    /// Base pages in the area.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// The lists of the nodes.
    #[must_use]
    pub fn lrus(&self) -> &[Lru<'m>] {
        &self.nodes
    }

    /// `NR_MLOCK`.
    #[must_use]
    pub fn nr_mlock(&self) -> i64 {
        self.nodes.iter().map(|lru| lru.counters().nr_mlock()).sum()
    }

    fn with(&self, work: impl FnOnce(&mut Context<'_, 'm, 14>)) {
        let Ok(lrus) = Lrus::new(&self.nodes) else { return };
        let mut vecs = Pagevecs::new();
        work(&mut Context::new(lrus, &mut vecs));
        vecs.drain(lrus, &mut |pfn| self.free(pfn));
    }

    /// Locks the whole area.
    pub fn lock(&self) {
        self.locked.store(true, Ordering::SeqCst);
        self.with(|context| mlock_pages(self, self.span(self.pages), context));
    }

    /// Unlocks the whole area; the CPU's pagevecs are empty before and after.
    pub fn unlock(&self) {
        self.locked.store(false, Ordering::SeqCst);
        self.with(|context| munlock_pages(self, self.span(self.pages), context));
    }

    /// Unlocks the first `pages` pages in the given way.
    #[cfg(feature = "history")]
    pub fn unlock_with(&self, pages: u64, steps: crate::Steps) {
        self.locked.store(false, Ordering::SeqCst);
        self.with(|context| {
            context.steps = steps;
            munlock_pages(self, self.span(pages), context);
        });
    }

    fn span(&self, pages: u64) -> Span {
        Span::new(Vpn::new(0), Vpn::new(pages.min(self.pages)))
    }
}

impl PageTable for SoftArea<'_> {
    const LEVELS: Levels = SoftTable::LEVELS;
    type Table<'a>
        = SoftTableGuard<'a>
    where
        Self: 'a;

    #[inline]
    fn walk(&self, at: Vpn) -> Walk<SoftTableGuard<'_>> {
        self.table.walk(at)
    }
}

impl AddressSpace for SoftArea<'_> {
    fn area(&self, at: Vpn) -> Option<LockedArea> {
        let span = self.span(self.pages);
        let locked = self.locked.load(Ordering::SeqCst);
        let state = if locked { AreaState::Locked } else { AreaState::Unlocked };
        span.contains(at).then_some(LockedArea { span, state })
    }

    fn mark(&self, _part: Span, state: AreaState) -> Result<(), MarkError> {
        self.locked.store(state == AreaState::Locked, Ordering::SeqCst);
        Ok(())
    }

    fn fault_in(&self, _at: Vpn) -> Result<(), FaultError> {
        Err(FaultError::NoMemory)
    }

    fn locked_by_any(&self, _pfn: Pfn) -> bool {
        self.locked.load(Ordering::SeqCst)
    }

    fn free(&self, _pfn: Pfn) {}
}
