//! Scanning LRU lists: a ready [`Reclaim`] for kernels that keep their pages on [`pageblock_lru`]'s lists.

mod area;
mod clusters;
mod config;
mod events;
mod judge;
mod owner;
mod proportion;
mod slab;

use core::fmt;
use core::marker::PhantomData;

use pageblock_frame::reclaim::{FilePages, RECLAIM_CLUSTER, Reclaim, Shrink, Shrunk};
use pageblock_frame::sync::Ordering;
use pageblock_frame::{DescFlags, Hooks, NodeId, Pfn, Platform, ZoneKind, const_unless_model};
use pageblock_lru::{LruList, Refault, Swap};

pub use area::{Area, AreaScan, AreaSpan};
pub use config::{Refaults, ShrinkConfig};
pub use events::ShrinkStat;
pub use owner::{Evicted, Mapped, PageOutcome, PageOwner, Victim};
pub use proportion::inactive_is_low;
pub use slab::Slab;

use clusters::Congestion;
use events::{Events, add};
use proportion::{Balance, scan_counts};

/// Time for which a round waits for write-back (`HZ/10`), in nanoseconds.
const STALL: u64 = 100_000_000;

/// Frames of one list that are wanted.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    pub(crate) list: LruList,
    pub(crate) wanted: u64,
}

/// Lists, and their place among the shrinker's.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a, 'm> {
    pub(crate) area: &'a Area<'a, 'm>,
    pub(crate) index: u8,
}

/// Gives up pages of LRU lists, oldest first. The kernel supplies a [`PageOwner`].
///
/// ```
/// # use core::ptr::NonNull;
/// # struct Host;
/// # // SAFETY: one CPU, nothing is mapped.
/// # unsafe impl pageblock_frame::Platform for Host {
/// #     const MAX_CPUS: usize = 1;
/// #     fn phys_to_virt(_: u64) -> NonNull<u8> { NonNull::dangling() }
/// # }
/// use pageblock_frame::reclaim::{Reclaim, Shrink};
/// use pageblock_frame::{DescFlags, Descriptor, Gfp, NodeId, Order, Pfn, PfnRange, ZoneKind};
/// use pageblock_lru::{Lru, LruList};
/// use pageblock_reclaim::{Area, PageOwner, ShrinkConfig, Shrinker, Victim, AreaSpan};
/// /// Clean pages of a file that is not mapped; the table holds the cache's reference to each.
/// struct Cache<'m>(&'m [Descriptor]);
/// impl PageOwner for Cache<'_> {
///     fn look(&self, _: &mut [Victim<'_, '_>]) {}
///     fn give_up(&self, pages: &mut [Victim<'_, '_>], _: &Shrink) {
///         for page in pages {
///             self.0[page.pfn().as_u64() as usize].put();
///             page.evict();
///         }
///     }
///     fn free(&self, blocks: &[(Pfn, Order)]) { assert!(!blocks.is_empty()); }
/// }
/// let table = [const { Descriptor::new() }; 100];
/// let lru = Lru::new(Pfn::new(0), &table);
/// for pfn in 0..100 {
///     table[pfn].store_flags(DescFlags::FILE);
///     table[pfn].store_refs(1);
///     lru.add(Pfn::new(pfn as u64));
/// }
/// let zones = [AreaSpan { kind: ZoneKind::Normal, frames: PfnRange::new(Pfn::new(0), Pfn::new(100)) }];
/// let areas = [Area::new(NodeId::new(0), &lru, &zones)];
/// let shrinker = Shrinker::<_, Host>::new(&areas, Cache(&table), ShrinkConfig::default());
/// let round = Shrink { priority: 0, ..Shrink::direct(NodeId::new(0), ZoneKind::Normal, Gfp::KERNEL) };
/// assert_eq!(shrinker.shrink(&round).freed, 32);
/// assert_eq!(lru.frames(LruList::InactiveFile), 68);
/// ```
pub struct Shrinker<'a, 'm, O, P> {
    areas: &'a [Area<'a, 'm>],
    pub(crate) owner: O,
    pub(crate) config: ShrinkConfig,
    pub(crate) events: Events,
    platform: PhantomData<fn() -> P>,
}

impl<O, P> fmt::Debug for Shrinker<'_, '_, O, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shrinker")
            .field("areas", &self.areas.len())
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl<'a, 'm, O: PageOwner, P: Platform> Shrinker<'a, 'm, O, P> {
    const_unless_model! {
        /// Over these lists, at most 256 of them, for the pages of this owner.
        #[must_use]
        pub const fn new(areas: &'a [Area<'a, 'm>], owner: O, config: ShrinkConfig) -> Self {
            Self { areas, owner, config, events: Events::new(), platform: PhantomData }
        }
    }

    /// The lists.
    #[must_use]
    pub const fn areas(&self) -> &'a [Area<'a, 'm>] {
        self.areas
    }

    /// The owner.
    #[must_use]
    pub const fn owner(&self) -> &O {
        &self.owner
    }

    /// Counts so far.
    #[must_use]
    pub fn stat(&self) -> ShrinkStat {
        self.events.read()
    }

    /// Counts of scans in one zone of a node, whatever lists its pages are on.
    #[must_use]
    pub fn scan(&self, node: NodeId, kind: ZoneKind) -> AreaScan {
        let mut sum = AreaScan::default();
        for scan in self.areas.iter().filter(|area| area.node() == node).map(|area| area.scan(kind)) {
            sum.scan_kswapd = sum.scan_kswapd.saturating_add(scan.scan_kswapd);
            sum.scan_direct = sum.scan_direct.saturating_add(scan.scan_direct);
            sum.steal_kswapd = sum.steal_kswapd.saturating_add(scan.steal_kswapd);
            sum.steal_direct = sum.steal_direct.saturating_add(scan.steal_direct);
            sum.skipped = sum.skipped.saturating_add(scan.skipped);
        }
        sum
    }

    /// Judges a page that comes back where it was evicted, and makes it active if it belongs to the working set
    /// (`workingset_refault()`). Its frame `pfn` is on no list yet. `None` if the lists that it left, or those for the
    /// frame, are not among these, or nothing is made of it ([`ShrinkConfig::refaults`]).
    pub fn refault(&self, pfn: Pfn, evicted: Evicted) -> Option<Refault> {
        let left = self.areas.get(usize::from(evicted.area))?.lru();
        let swap = match self.config.refaults {
            Refaults::Ignored => return None,
            Refaults::ActiveFiles => Swap::Absent,
            Refaults::ActiveAndAnon | Refaults::Streams => self.owner.swap(),
        };
        let mut refault = left.refault(evicted.shadow, left.workingset_frames(swap));
        let behind = self.config.refaults.leaves_behind(left.age(), refault);
        refault.workingset &= !behind;
        let joins = self.areas.iter().find(|area| area.lru().index_of(pfn).is_some())?;
        joins.lru().readmit(pfn, refault);
        if behind {
            joins.lru().page(pfn)?.set_flags(DescFlags::BEHIND);
        }
        Some(refault)
    }

    /// Reclaims from one set of lists until enough is freed, or the priority's part of each was looked at
    /// (`shrink_lruvec()`).
    fn shrink_area(&self, place: Place<'_, '_>, round: &Shrink, congestion: &mut Congestion) -> Shrunk {
        let area = place.area;
        let frames = area.frames_in(|kind| Area::accepts(round, kind));
        let mut left = scan_counts(&self.config, &self.balance(area, round, frames));
        let mut total = Shrunk::default();
        while left.iter().any(|count| *count > 0) && total.freed < round.frames && !self.owner.is_dying() {
            for (list, count) in LruList::ALL.into_iter().zip(&mut left) {
                let cluster = RECLAIM_CLUSTER.min(*count);
                *count -= cluster;
                if cluster == 0 {
                    continue;
                }
                match list {
                    LruList::InactiveAnon | LruList::InactiveFile => {
                        let shrunk = self.shrink_inactive(place, round, Part { list, wanted: cluster }, congestion);
                        total = total + shrunk;
                        if shrunk.scanned == 0 {
                            *count = 0;
                        }
                    }
                    LruList::ActiveAnon | LruList::ActiveFile => {
                        self.refill(place, round, Part { list, wanted: cluster })
                    }
                    LruList::Unevictable => {}
                }
            }
        }
        // Anonymous pages age slowly even while only files go, so that it is known which of them are in use.
        if self.owner.swap() == Swap::Available && round.may_write {
            self.refill(place, round, Part { list: LruList::ActiveAnon, wanted: RECLAIM_CLUSTER });
        }
        total
    }

    fn balance(&self, area: &Area<'_, '_>, round: &Shrink, frames: [u64; LruList::COUNT]) -> Balance {
        let [anon, files] = &area.cost;
        Balance {
            frames,
            priority: round.priority,
            swap: self.owner.swap(),
            cost: [anon.load(Ordering::Relaxed), files.load(Ordering::Relaxed)],
            may_swap: round.may_write,
        }
    }

    /// Moves pages from an active list to its inactive one, if that is too short.
    fn refill(&self, place: Place<'_, '_>, round: &Shrink, part: Part) {
        let [anon_inactive, anon_active, file_inactive, file_active, _] = place.area.lru().all_frames();
        let low = match part.list {
            LruList::ActiveFile => inactive_is_low(file_inactive, file_active, self.config.files_half_active),
            _ => inactive_is_low(anon_inactive, anon_active, false),
        };
        if low {
            self.shrink_active(place, round, part);
        }
    }

    /// Lets other caches shrink in proportion.
    fn shrink_slab(&self, round: &Shrink, scanned: u64, eligible: u64) -> u64 {
        if !round.may_write && !self.config.boost_shrinks_slab {
            return 0;
        }
        let Shrink { node, actor, gfp, priority, .. } = *round;
        let shrunk = self.owner.shrink_slab(&Slab { node, actor, gfp, priority, scanned, eligible });
        add(&self.events.slabs_scanned, shrunk.scanned);
        shrunk.freed
    }

    /// After a round that met mostly pages on their way to the disk: tells the writer, and waits for it once
    /// (`reclaim_throttle()`; before, `congestion_wait()`).
    fn stall(&self, round: &Shrink, congestion: &Congestion) {
        if congestion.wants_writer() {
            self.owner.start_writeback(round.node);
        }
        if congestion.wants_wait() && round.may_write && round.gfp.contains(pageblock_frame::Gfp::IO) {
            add(&self.events.stalls, 1);
            P::hooks().wait_until(round.node, P::hooks().now().saturating_add(STALL));
        }
    }
}

impl<O: PageOwner, P: Platform> Reclaim for Shrinker<'_, '_, O, P> {
    fn shrink(&self, round: &Shrink) -> Shrunk {
        let (mut total, mut congestion, mut eligible) = (Shrunk::default(), Congestion::default(), 0u64);
        for (index, area) in self.areas.iter().enumerate().take(1 << u8::BITS) {
            if area.serves(round) {
                let place = Place { area, index: index as u8 };
                total = total + self.shrink_area(place, round, &mut congestion);
                eligible = eligible.saturating_add(self.evictable(area, |kind| Area::accepts(round, kind)));
            }
        }
        total.freed = total.freed.saturating_add(self.shrink_slab(round, total.scanned, eligible));
        self.stall(round, &congestion);
        total
    }

    fn reclaimable(&self, node: NodeId, zone: ZoneKind) -> u64 {
        let areas = self.areas.iter().filter(|area| area.node() == node);
        areas.fold(0, |sum, area| sum.saturating_add(self.evictable(area, |kind| kind == zone)))
    }

    fn file_pages(&self, node: NodeId, zone: ZoneKind) -> FilePages {
        let areas = self.areas.iter().filter(|area| area.node() == node);
        let frames = areas.map(|area| area.frames_in(|kind| kind == zone));
        let all =
            frames.fold(0u64, |sum, [_, _, inactive, active, _]| sum.saturating_add(inactive).saturating_add(active));
        FilePages { all, dirty: self.owner.dirty(node, zone) }
    }

    fn is_dying(&self) -> bool {
        self.owner.is_dying()
    }
}

impl<O: PageOwner, P> Shrinker<'_, '_, O, P> {
    /// Frames of the pages on lists that can be given up, in zones of which `wanted` says yes
    /// (`zone_reclaimable_pages()`).
    fn evictable(&self, area: &Area<'_, '_>, wanted: impl Fn(ZoneKind) -> bool) -> u64 {
        let [anon_inactive, anon_active, file_inactive, file_active, _] = area.frames_in(wanted);
        let files = file_inactive.saturating_add(file_active);
        match self.owner.swap() {
            Swap::Available => files.saturating_add(anon_inactive).saturating_add(anon_active),
            Swap::Absent => files,
        }
    }
}
