//! Scanning lists: who goes, who stays, and that no frame is lost whatever the owner says.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

use pageblock_frame::reclaim::{Actor, Reclaim, Shrink, Shrunk};
use pageblock_frame::{DescFlags, Descriptor, Gfp, NodeId, Order, PAGEBLOCK_ORDER, Pfn, PfnRange, ZoneKind};
use pageblock_lru::{Lru, LruList, Swap};
use pageblock_reclaim::{
    Area, AreaScan, AreaSpan, Mapped, PageOutcome, PageOwner, ShrinkConfig, Shrinker, Slab, Victim,
};
use proptest::prelude::*;

use crate::mock::{Host, NODE, told};

const FILE: DescFlags = DescFlags::FILE;

/// What the owner knows of a page, and what it does when asked.
#[derive(Clone, Copy, Debug, Default)]
struct Page {
    mapped: Mapped,
    /// `None`: it says that the page is freed, and keeps its reference.
    answer: Option<PageOutcome>,
}

/// Owns the pages of a table.
struct Owner<'a> {
    table: &'a [Descriptor],
    pages: RefCell<Vec<Page>>,
    freed: RefCell<HashSet<u64>>,
    swap: Swap,
    asked: Cell<u64>,
    slabs: RefCell<Vec<Slab>>,
    writers: Cell<u32>,
}

impl PageOwner for Owner<'_> {
    fn look(&self, pages: &mut [Victim<'_, '_>]) {
        for page in pages {
            let known = &mut self.pages.borrow_mut()[page.pfn().as_u64() as usize];
            page.set_mapped(known.mapped);
            known.mapped.references = 0;
        }
    }

    fn give_up(&self, pages: &mut [Victim<'_, '_>], round: &Shrink) {
        for page in pages {
            self.asked.set(self.asked.get() + 1);
            assert!(round.may_write || !page.flags().contains(DescFlags::DIRTY));
            let pfn = page.pfn().as_u64() as usize;
            match self.pages.borrow()[pfn].answer {
                Some(PageOutcome::Freed) => {
                    self.table[pfn].put();
                    page.evict();
                }
                Some(outcome) => page.set_outcome(outcome),
                None => page.set_outcome(PageOutcome::Freed),
            }
        }
    }

    fn free(&self, blocks: &[(Pfn, Order)]) {
        for (pfn, order) in blocks {
            for frame in 0..order.frames() {
                assert!(self.freed.borrow_mut().insert(pfn.as_u64() + frame), "freed twice");
            }
        }
    }

    fn swap(&self) -> Swap {
        self.swap
    }

    fn shrink_slab(&self, slab: &Slab) -> Shrunk {
        self.slabs.borrow_mut().push(*slab);
        Shrunk { scanned: slab.share(1 << 20), freed: 3 }
    }

    fn start_writeback(&self, _: NodeId) {
        self.writers.set(self.writers.get() + 1);
    }
}

const DMA32: u64 = 1000;

/// A table whose pages have these flags, on lists that a DMA32 of a thousand frames and a Normal share.
fn with<R>(
    flags: &[DescFlags],
    page: Page,
    swap: Swap,
    work: impl FnOnce(&Shrinker<'_, '_, Owner<'_>, Host>, &Lru<'_>) -> R,
) -> R {
    let table: Vec<Descriptor> = flags.iter().map(|_| Descriptor::new()).collect();
    let lru = Lru::new(Pfn::new(0), &table);
    for (pfn, flags) in flags.iter().enumerate() {
        table[pfn].store_refs(1);
        table[pfn].store_flags(*flags);
        assert!(lru.add(Pfn::new(pfn as u64)));
    }
    let zones = [
        AreaSpan { kind: ZoneKind::Dma32, frames: PfnRange::new(Pfn::new(0), Pfn::new(DMA32)) },
        AreaSpan { kind: ZoneKind::Normal, frames: PfnRange::new(Pfn::new(DMA32), Pfn::new(1 << 20)) },
    ];
    let areas = [Area::new(NODE, &lru, &zones)];
    let owner = Owner {
        table: &table,
        pages: RefCell::new(vec![page; flags.len()]),
        freed: RefCell::default(),
        swap,
        asked: Cell::new(0),
        slabs: RefCell::default(),
        writers: Cell::new(0),
    };
    let shrinker = Shrinker::new(&areas, owner, ShrinkConfig::linux_6_1());
    let result = work(&shrinker, &lru);
    assert_eq!(lru.check(), Ok(()));
    result
}

fn round(priority: u8) -> Shrink {
    Shrink { priority, ..Shrink::direct(NODE, ZoneKind::Normal, Gfp::KERNEL) }
}

const GIVES: Page =
    Page { mapped: Mapped { references: 0, executable: false, locked: false }, answer: Some(PageOutcome::Freed) };

#[test]
fn the_oldest_go_first_and_the_priority_says_how_many_are_looked_at() {
    with(&[FILE; 4096], GIVES, Swap::Absent, |shrinker, lru| {
        assert_eq!(shrinker.reclaimable(NODE, ZoneKind::Dma32) + shrinker.reclaimable(NODE, ZoneKind::Normal), 4096);
        let slab = 3;
        assert_eq!(shrinker.shrink(&round(12)), Shrunk { scanned: 1, freed: 1 + slab });
        assert_eq!(shrinker.shrink(&round(8)), Shrunk { scanned: 15, freed: 15 + slab });
        assert_eq!(shrinker.shrink(&round(0)), Shrunk { scanned: 32, freed: 32 + slab });
        assert_eq!(lru.frames(LruList::InactiveFile), 4096 - 48);
        assert_eq!(*shrinker.owner().freed.borrow(), (0..48).collect());
        let zone = shrinker.scan(NODE, ZoneKind::Dma32);
        assert_eq!((zone.scan_direct, zone.steal_direct, zone.efficiency()), (48, 48, 100));
        // Another node's are left alone.
        let elsewhere = Shrink { node: NodeId::new(1), ..round(0) };
        assert_eq!(shrinker.shrink(&elsewhere).scanned, 0);
    });
}

#[test]
fn a_use_gives_a_second_chance_and_two_make_a_page_active() {
    let used = Page { mapped: Mapped { references: 1, ..Mapped::default() }, ..GIVES };
    with(&[FILE; 16], used, Swap::Absent, |shrinker, lru| {
        assert_eq!(shrinker.shrink(&round(0)).freed, 3);
        assert_eq!(lru.frames(LruList::InactiveFile), 16, "all kept");
        // Used again, all but one.
        for page in shrinker.owner().pages.borrow_mut().iter_mut().skip(1) {
            page.mapped.references = 1;
        }
        assert_eq!(shrinker.shrink(&round(0)).freed, 1 + 3);
        assert_eq!(lru.all_frames(), [0, 0, 0, 15, 0]);
        assert_eq!(shrinker.stat().activate, 15);
        // Active pages come back to the inactive list from their tail, used or not, and then go.
        let passes = (0..10).take_while(|_| !lru.all_frames().iter().all(|frames| *frames == 0));
        passes.for_each(|_| _ = shrinker.shrink(&round(0)));
        assert_eq!(lru.all_frames(), [0; 5]);
        assert_eq!((shrinker.stat().deactivate, shrinker.owner().freed.borrow().len()), (15, 16));
    });
}

#[test]
fn code_in_use_stays_active() {
    let code = Page { mapped: Mapped { references: 1, executable: true, locked: false }, ..GIVES };
    with(&[FILE | DescFlags::ACTIVE; 8], code, Swap::Absent, |shrinker, lru| {
        shrinker.shrink(&round(0));
        assert_eq!(lru.frames(LruList::ActiveFile), 8);
        shrinker.shrink(&round(0)); // not used since
        assert_eq!(lru.frames(LruList::InactiveFile), 8);
        assert_eq!((shrinker.stat().refill, shrinker.stat().deactivate), (16, 8));
    });
}

#[test]
fn pages_above_the_limit_are_stepped_over_and_counted() {
    with(&[FILE; 3000], GIVES, Swap::Absent, |shrinker, lru| {
        // The oldest are DMA32's: turn the list, so that Normal's come first.
        let (low, high) = (0..DMA32, DMA32..3000);
        for pfn in low.clone() {
            lru.isolate(Pfn::new(pfn)).unwrap();
            assert!(!lru.put_back(Pfn::new(pfn)));
        }
        let only_low = Shrink { limit: ZoneKind::Dma32, ..round(3) };
        assert_eq!(shrinker.shrink(&only_low).freed, 32 + 3);
        let freed = shrinker.owner().freed.borrow().clone();
        assert!(freed.iter().all(|pfn| low.contains(pfn)), "{freed:?}");
        // To get there all 2000 of Normal's were taken off and put back at the other end.
        let normal = shrinker.scan(NODE, ZoneKind::Normal);
        assert_eq!(normal, AreaScan { skipped: high.end - high.start, ..normal });
        assert_eq!((normal.scan_direct, normal.steal_direct), (0, 0));
        assert_eq!(shrinker.scan(NODE, ZoneKind::Dma32).scan_direct, 32);
        assert_eq!(lru.frames(LruList::InactiveFile), 3000 - 32);
        // A round for one zone alone steps over the other in the same way.
        let only_normal = Shrink { zone: Some(ZoneKind::Normal), ..round(3) };
        shrinker.shrink(&only_normal);
        assert_eq!(shrinker.scan(NODE, ZoneKind::Normal).steal_direct, 32);
    });
}

#[test]
fn patience_with_pages_above_the_limit_ends() {
    with(&[FILE; 3000], GIVES, Swap::Absent, |shrinker, _| {
        // There is none of DMA: nothing is even taken off.
        let only_dma = Shrink { limit: ZoneKind::Dma, ..round(0) };
        assert_eq!(shrinker.shrink(&only_dma).scanned, 0);
        assert_eq!(shrinker.scan(NODE, ZoneKind::Normal).skipped, 0);
        // All of DMA32 is gone: what is left is stepped over, a bounded number of times.
        let only_low = Shrink { limit: ZoneKind::Dma32, frames: 5000, ..round(0) };
        for _ in 0..40 {
            shrinker.shrink(&only_low);
        }
        assert_eq!(shrinker.owner().freed.borrow().len(), 1000);
        let skipped = shrinker.scan(NODE, ZoneKind::Normal).skipped;
        assert!(skipped > 2000, "{skipped}");
        shrinker.shrink(&only_low);
        let more = shrinker.scan(NODE, ZoneKind::Normal).skipped - skipped;
        assert!(more <= 32 * 1024, "{more}");
    });
}

#[test]
fn anonymous_pages_go_only_to_swap_and_not_for_a_boost() {
    for (swap, may_write, expected) in
        [(Swap::Absent, true, 0), (Swap::Available, false, 0), (Swap::Available, true, 32)]
    {
        with(&[DescFlags::empty(); 64], GIVES, swap, |shrinker, _| {
            shrinker.shrink(&Shrink { may_write, ..round(0) });
            assert_eq!(shrinker.owner().freed.borrow().len(), expected);
            assert_eq!(shrinker.owner().slabs.borrow().len(), usize::from(may_write));
        });
    }
}

#[test]
fn other_caches_are_told_what_the_lists_gave() {
    with(&[FILE; 4096], GIVES, Swap::Absent, |shrinker, _| {
        shrinker.shrink(&round(10));
        let slab = shrinker.owner().slabs.borrow()[0];
        assert_eq!((slab.priority, slab.scanned, slab.actor), (10, 4, Actor::Direct));
        assert!(slab.eligible > 4000);
        assert_eq!(shrinker.stat().slabs_scanned, slab.share(1 << 20));
    });
}

#[test]
fn dirty_pages_call_the_writer_and_pages_under_write_back_make_it_wait() {
    with(&[FILE | DescFlags::DIRTY; 64], GIVES, Swap::Absent, |shrinker, lru| {
        shrinker.shrink(&round(0));
        assert_eq!((shrinker.owner().writers.get(), shrinker.owner().asked.get()), (1, 0));
        assert!(lru.table()[0].flags().contains(DescFlags::RECLAIM));
        assert_eq!(told(|t| t.waits.get()), 0, "nobody writes yet: nothing to wait for");
    });
    with(&[FILE | DescFlags::WRITEBACK; 64], GIVES, Swap::Absent, |shrinker, lru| {
        shrinker.shrink(&Shrink { may_write: false, ..round(1) });
        assert_eq!(told(|t| t.waits.get()), 0);
        lru.table().iter().for_each(|page| _ = page.clear_flags(DescFlags::RECLAIM));
        shrinker.shrink(&Shrink { frames: 1, ..round(0) });
        assert_eq!(told(|t| (t.waits.get(), t.now.get())), (1, 100_000_000));
        assert_eq!(shrinker.stat().stalls, 1);
    });
}

#[test]
fn what_reclaim_writes_is_counted_and_kept() {
    let writes = Page { answer: Some(PageOutcome::Written), ..GIVES };
    with(&[DescFlags::DIRTY; 8], writes, Swap::Available, |shrinker, lru| {
        shrinker.shrink(&round(0));
        assert_eq!((shrinker.stat().written, shrinker.owner().asked.get()), (8, 8));
        assert_eq!(lru.frames(LruList::InactiveAnon), 8);
        assert!(lru.table().iter().all(|page| page.refs() == 1));
    });
}

#[test]
fn a_page_that_is_said_to_be_freed_and_is_not_stays() {
    let lies = Page { answer: None, ..GIVES };
    with(&[FILE; 64], lies, Swap::Absent, |shrinker, lru| {
        assert_eq!(shrinker.shrink(&round(0)).freed, 3, "the slab's, which nobody can check");
        assert_eq!(lru.frames(LruList::InactiveFile), 64);
        assert!(lru.table().iter().all(|page| page.refs() == 1));
    });
}

#[test]
fn a_huge_page_goes_as_one() {
    let mut flags = vec![FILE; 512];
    flags[0] = FILE | DescFlags::HUGE;
    let table: Vec<Descriptor> = flags.iter().map(|_| Descriptor::new()).collect();
    let lru = Lru::new(Pfn::new(0), &table);
    table[0].store_refs(1);
    table[0].store_flags(flags[0]);
    assert!(lru.add(Pfn::new(0)));
    let zones = [AreaSpan { kind: ZoneKind::Normal, frames: PfnRange::new(Pfn::new(0), Pfn::new(512)) }];
    let areas = [Area::new(NODE, &lru, &zones)];
    let owner = Owner {
        table: &table,
        pages: RefCell::new(vec![GIVES; 512]),
        freed: RefCell::default(),
        swap: Swap::Absent,
        asked: Cell::new(0),
        slabs: RefCell::default(),
        writers: Cell::new(0),
    };
    let shrinker = Shrinker::<_, Host>::new(&areas, owner, ShrinkConfig::linux_6_1());
    assert_eq!(Victim::new(&lru, Pfn::new(0)).order(), PAGEBLOCK_ORDER);
    assert_eq!(shrinker.shrink(&round(0)), Shrunk { scanned: 512, freed: 512 + 3 });
    assert_eq!(shrinker.owner().freed.borrow().len(), 512);
}

#[test]
fn a_locked_page_ends_on_the_unevictable_list() {
    with(&[FILE; 8], GIVES, Swap::Absent, |shrinker, lru| {
        shrinker.owner().pages.borrow_mut()[3].mapped.locked = true;
        lru.table()[3].set_flags(DescFlags::MLOCKED);
        lru.counters().add_mlocked(1);
        shrinker.shrink(&round(0));
        assert_eq!(lru.all_frames(), [0, 0, 0, 0, 1]);
    });
}

fn flags() -> impl Strategy<Value = DescFlags> {
    let all = FILE | DescFlags::ACTIVE | DescFlags::REFERENCED | DescFlags::DIRTY | DescFlags::WRITEBACK;
    any::<u32>().prop_map(move |bits| DescFlags::from_bits_truncate(bits) & all)
}

fn page() -> impl Strategy<Value = Page> {
    let answer = prop_oneof![
        1 => Just(None),
        1 => Just(Some(PageOutcome::Keep)),
        1 => Just(Some(PageOutcome::Activate)),
        1 => Just(Some(PageOutcome::Written)),
        3 => Just(Some(PageOutcome::Freed)),
    ];
    (0..3u32, any::<bool>(), answer).prop_map(|(references, executable, answer)| Page {
        mapped: Mapped { references, executable, locked: false },
        answer,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever pages there are and whatever their owner says: each is on a list with its owner's reference, or freed
    /// once.
    #[test]
    fn no_page_is_lost(
        pages in proptest::collection::vec((flags(), page()), 1..1500),
        rounds in proptest::collection::vec((0..=12u8, any::<[bool; 4]>(), 0..3usize), 1..20),
        swap in any::<bool>(),
    ) {
        let flags: Vec<_> = pages.iter().map(|(flags, _)| *flags).collect();
        let swap = if swap { Swap::Available } else { Swap::Absent };
        with(&flags, GIVES, swap, |shrinker, lru| {
            *shrinker.owner().pages.borrow_mut() = pages.iter().map(|(_, page)| *page).collect();
            let mut claimed = 0;
            for (priority, [kswapd, may_write, low, one], frames) in rounds {
                let limit = if low { ZoneKind::Dma32 } else { ZoneKind::Normal };
                let shrunk = shrinker.shrink(&Shrink {
                    actor: if kswapd { Actor::Kswapd } else { Actor::Direct },
                    may_write,
                    limit,
                    zone: one.then_some(limit),
                    frames: [1, 32, 5000][frames],
                    ..round(priority)
                });
                claimed += shrunk.freed - if may_write { 3 } else { 0 };
            }
            let freed = shrinker.owner().freed.borrow();
            prop_assert_eq!(claimed, freed.len() as u64);
            prop_assert_eq!(lru.all_frames().iter().sum::<u64>() + claimed, flags.len() as u64);
            for (pfn, page) in lru.table().iter().enumerate() {
                prop_assert_eq!(page.refs(), u32::from(!freed.contains(&(pfn as u64))));
            }
            Ok(())
        })?;
    }
}
