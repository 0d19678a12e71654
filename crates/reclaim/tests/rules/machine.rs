//! A small machine: zones with frames, the fair-zone policy, a page cache on real LRU lists, kswapd and direct reclaim.
//!
//! A sixteenth of 8 GiB under the watermarks of Linux 3.16, where DMA32 keeps more from requests for Normal than lies
//! between its low and high watermarks: the condition of *Fair zone policy*.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use pageblock_frame::reclaim::Shrink;
use pageblock_frame::{DescFlags, Descriptor, Gfp, Order, Pfn, PfnRange, ZoneKind};
use pageblock_lru::{Lru, LruList, Lrus, Pagevecs};
use pageblock_reclaim::{
    Area, AreaSpan, Direct, Evicted, Kswapd, KswapdNext, MarkTest, Marks, PageOwner, ReclaimConfig, ReclaimZone,
    ShrinkConfig, Shrinker, Victim,
};

use crate::mock::{Host, NODE};

pub(crate) const KINDS: [ZoneKind; 3] = [ZoneKind::Dma, ZoneKind::Dma32, ZoneKind::Normal];
/// Managed frames of each zone.
pub(crate) const MANAGED: [u64; 3] = [240, 47_812, 79_375];
const RESERVE: [[u64; 4]; 3] = [[0, 186, 496, 496], [0, 0, 310, 310], [0; 4]];
const MIN: [u64; 3] = [1, 67, 111];

/// A page of a file.
pub(crate) type Page = (u32, u32);

/// What all parts share: free frames, and what is where.
#[derive(Default)]
pub(crate) struct Memory {
    free: RefCell<[Vec<Pfn>; 3]>,
    cache: RefCell<HashMap<Page, Pfn>>,
    holds: RefCell<HashMap<Pfn, Page>>,
    shadows: RefCell<HashMap<Page, Evicted>>,
    batch: [Cell<i64>; 3],
    pub(crate) allocated: [Cell<u64>; 3],
}

fn start(zone: usize) -> u64 {
    MANAGED[..zone].iter().sum()
}

fn zone_of(pfn: Pfn) -> usize {
    (0..3).rfind(|zone| pfn.as_u64() >= start(*zone)).unwrap()
}

fn marks(zone: usize) -> Marks {
    let min = MIN[zone];
    Marks { min, low: min + min / 4, high: min + min / 2 }
}

/// A zone of the machine.
#[derive(Clone, Copy)]
pub(crate) struct View<'a>(&'a Memory, usize);

impl ReclaimZone for View<'_> {
    fn node(&self) -> pageblock_frame::NodeId {
        NODE
    }

    fn kind(&self) -> ZoneKind {
        KINDS[self.1]
    }

    fn managed(&self) -> u64 {
        MANAGED[self.1]
    }

    fn present(&self) -> u64 {
        MANAGED[self.1]
    }

    fn free(&self) -> u64 {
        self.0.free.borrow()[self.1].len() as u64
    }

    fn marks(&self) -> Marks {
        marks(self.1)
    }

    fn boost(&self) -> u64 {
        0
    }

    fn subtract_boost(&self, _: u64) {}

    fn watermark_ok(&self, test: &MarkTest) -> bool {
        assert_eq!(test.order, Order::ZERO);
        self.free() + test.extra > test.mark + RESERVE[self.1][test.limit.index()]
    }
}

/// The page cache, as an owner of pages: clean, and mapped by nobody.
pub(crate) struct Cache<'a>(&'a Memory, &'a [Descriptor]);

impl PageOwner for Cache<'_> {
    fn look(&self, _: &mut [Victim<'_, '_>]) {}

    fn give_up(&self, pages: &mut [Victim<'_, '_>], _: &Shrink) {
        for victim in pages {
            let page = self.0.holds.borrow_mut().remove(&victim.pfn()).expect("a page of the cache");
            assert_eq!(self.0.cache.borrow_mut().remove(&page), Some(victim.pfn()));
            self.1[victim.pfn().as_u64() as usize].put();
            self.0.shadows.borrow_mut().insert(page, victim.evict());
        }
    }

    fn free(&self, blocks: &[(Pfn, Order)]) {
        for (pfn, order) in blocks {
            assert_eq!(*order, Order::ZERO);
            self.0.free.borrow_mut()[zone_of(*pfn)].push(*pfn);
        }
    }
}

/// The machine at work.
pub(crate) struct Machine<'a> {
    pub(crate) memory: &'a Memory,
    pub(crate) shrinker: &'a Shrinker<'a, 'a, Cache<'a>, Host>,
    pub(crate) kswapd: &'a Kswapd,
    lrus: Lrus<'a, 'a>,
    vecs: RefCell<Pagevecs>,
    awake: Cell<bool>,
    now: Cell<u64>,
}

/// Runs `work` on a fresh machine with these rules, whose lists are its zones' or its node's.
pub(crate) fn on_machine<R>(config: ReclaimConfig, work: impl FnOnce(&Machine<'_>) -> R) -> R {
    let total = MANAGED.iter().sum();
    let table: Vec<Descriptor> = (0..total).map(|_| Descriptor::new()).collect();
    let memory = Memory::default();
    for (zone, free) in memory.free.borrow_mut().iter_mut().enumerate() {
        *free = (start(zone)..start(zone + 1)).rev().map(Pfn::new).collect();
    }
    let spans: Vec<AreaSpan> = (0..3)
        .map(|zone| AreaSpan { kind: KINDS[zone], frames: PfnRange::from_len(Pfn::new(start(zone)), MANAGED[zone]) })
        .collect();
    let by_zone = config.lists == pageblock_reclaim::ListsBy::Zone;
    let spans: Vec<&[AreaSpan]> = if by_zone { spans.chunks(1).collect() } else { vec![&spans[..]] };
    let sets: Vec<Lru<'_>> = spans
        .iter()
        .map(|zones| {
            let (first, last) = (zones[0].frames.start, zones[zones.len() - 1].frames.end);
            Lru::new(first, &table[first.as_u64() as usize..last.as_u64() as usize])
        })
        .collect();
    let areas: Vec<Area<'_, '_>> = sets.iter().zip(&spans).map(|(lru, zones)| Area::new(NODE, lru, zones)).collect();
    let rules = if by_zone { ShrinkConfig::linux_3_16() } else { ShrinkConfig::linux_6_1() };
    let shrinker = Shrinker::new(&areas, Cache(&memory, &table), rules);
    let kswapd = Kswapd::new(NODE, config);
    let machine = Machine {
        memory: &memory,
        shrinker: &shrinker,
        kswapd: &kswapd,
        lrus: Lrus::new(&sets).unwrap(),
        vecs: RefCell::new(Pagevecs::new()),
        awake: Cell::new(false),
        now: Cell::new(1),
    };
    let result = work(&machine);
    machine.drain();
    sets.iter().for_each(|lru| assert_eq!(lru.check(), Ok(())));
    result
}

impl Machine<'_> {
    pub(crate) fn views(&self) -> [View<'_>; 3] {
        [0, 1, 2].map(|zone| View(self.memory, zone))
    }

    pub(crate) fn free(&self, zone: usize) -> u64 {
        self.views()[zone].free()
    }

    /// Frames looked at so far in each zone.
    pub(crate) fn scanned(&self) -> [u64; 3] {
        KINDS.map(|kind| {
            let scan = self.shrinker.scan(NODE, kind);
            scan.scan_kswapd + scan.scan_direct
        })
    }

    fn take(&self, zone: usize) -> Option<Pfn> {
        let pfn = self.memory.free.borrow_mut()[zone].pop()?;
        let (batch, count) = (&self.memory.batch[zone], &self.memory.allocated[zone]);
        batch.set(batch.get() - 1);
        count.set(count.get() + 1);
        Some(pfn)
    }

    /// The first zone, from the limit down, that has `mark` and its reserve against the limit; with `fair`, only such
    /// as have something left of their batch.
    fn walk(&self, limit: ZoneKind, mark: impl Fn(Marks) -> u64, fair: bool) -> Option<Pfn> {
        let views = self.views();
        let fits = |zone: &usize| {
            let test = MarkTest::new(Order::ZERO, mark(views[*zone].marks()), limit);
            views[*zone].watermark_ok(&test) && (!fair || self.memory.batch[*zone].get() > 0)
        };
        let zone = (0..=limit.index().min(2)).rev().find(fits)?;
        self.take(zone)
    }

    /// Allocates a frame: fair batches, then without them, then at min with the thread woken, then after reclaiming.
    pub(crate) fn allocate(&self, limit: ZoneKind) -> Pfn {
        self.breathe();
        if let Some(pfn) = self.walk(limit, |marks| marks.low, true) {
            return pfn;
        }
        for (zone, batch) in self.memory.batch.iter().enumerate() {
            batch.set((marks(zone).high - marks(zone).low) as i64);
        }
        if let Some(pfn) = self.walk(limit, |marks| marks.low, false) {
            return pfn;
        }
        self.kswapd.wake::<Host>(Order::ZERO, limit);
        self.awake.set(true);
        loop {
            if let Some(pfn) = self.walk(limit, |marks| marks.min, false) {
                return pfn;
            }
            let [dma, dma32, normal] = self.views();
            let task = Direct {
                zones: &[normal, dma32, dma],
                nodes: std::slice::from_ref(self.kswapd),
                owner: self.shrinker,
                order: Order::ZERO,
                limit,
                gfp: Gfp::KERNEL,
            };
            assert!(task.run::<Host>(self.kswapd.config()).is_some(), "out of memory");
        }
    }

    /// Lets the thread work beside the allocations, a step for each.
    fn breathe(&self) {
        self.now.set(self.now.get() + 1_000);
        if !self.awake.get() {
            return;
        }
        let next = self.kswapd.step::<Host, _>(&self.views(), self.shrinker, self.now.get());
        if let KswapdNext::Sleep { until: None } = next {
            self.awake.set(!self.kswapd.may_sleep());
        }
    }

    /// Reads a page of a file through the cache; true if it was there.
    pub(crate) fn read(&self, page: Page) -> bool {
        let found = self.memory.cache.borrow().get(&page).copied();
        let free = &mut |pfn: Pfn| self.memory.free.borrow_mut()[zone_of(pfn)].push(pfn);
        if let Some(pfn) = found {
            self.vecs.borrow_mut().mark_accessed(pfn, self.lrus, free);
            return true;
        }
        let pfn = self.allocate(ZoneKind::Normal);
        let desc = self.lrus.page(pfn).unwrap();
        desc.store_refs(1);
        desc.store_flags(DescFlags::FILE);
        if let Some(evicted) = self.memory.shadows.borrow_mut().remove(&page) {
            self.shrinker.refault(pfn, evicted);
        }
        self.memory.cache.borrow_mut().insert(page, pfn);
        self.memory.holds.borrow_mut().insert(pfn, page);
        let mut vecs = self.vecs.borrow_mut();
        vecs.push(pageblock_lru::Batch::Add, pfn, self.lrus, free);
        vecs.mark_accessed(pfn, self.lrus, free);
        false
    }

    fn drain(&self) {
        let free = &mut |pfn: Pfn| self.memory.free.borrow_mut()[zone_of(pfn)].push(pfn);
        self.vecs.borrow_mut().drain(self.lrus, free);
    }

    /// Frames on all lists, active and inactive.
    pub(crate) fn listed(&self) -> u64 {
        self.drain();
        let count = |area: &Area<'_, '_>| {
            let frames = area.lru().all_frames();
            frames[LruList::InactiveFile.index()] + frames[LruList::ActiveFile.index()]
        };
        self.shrinker.areas().iter().map(count).sum()
    }

    /// Every frame is free or cached.
    pub(crate) fn conserved(&self) {
        let cached = self.memory.cache.borrow().len() as u64;
        assert_eq!(self.listed(), cached);
        let free: u64 = (0..3).map(|zone| self.free(zone)).sum();
        assert_eq!(free + cached, MANAGED.iter().sum());
    }
}
