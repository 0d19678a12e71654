//! Random operations against an oracle of plain queues: same order on every list, same references, same counters.

use std::collections::VecDeque;

use arrayvec::ArrayVec;
use pageblock_frame::{DescFlags, Descriptor, Pfn};
use pageblock_lru::{Batch, Lru, LruEvent, LruIsolateError, LruList, Lrus, Pagevecs};
use proptest::prelude::*;

const NODES: usize = 2;
const FRAMES: usize = 12;
const BASE: [u64; NODES] = [0x100, 0x400];
const VECTOR: usize = 4;

#[derive(Clone, Debug)]
enum Op {
    Allocate { page: usize, file: bool },
    Push { page: usize, batch: usize },
    Accessed { page: usize },
    Isolate { page: usize },
    IsolateTail { node: usize, list: usize, limit: u32 },
    PutBack { page: usize, activate: bool },
    PutBackAll { node: usize },
    Lock { page: usize, on: bool },
    Release { page: usize },
    Drain,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let page = 0..NODES * FRAMES;
    let op = prop_oneof![
        4 => (page.clone(), any::<bool>()).prop_map(|(page, file)| Op::Allocate { page, file }),
        6 => (page.clone(), 0..Batch::COUNT).prop_map(|(page, batch)| Op::Push { page, batch }),
        3 => page.clone().prop_map(|page| Op::Accessed { page }),
        2 => page.clone().prop_map(|page| Op::Isolate { page }),
        2 => (0..NODES, 0..LruList::COUNT, 0..6_u32)
            .prop_map(|(node, list, limit)| Op::IsolateTail { node, list, limit }),
        2 => (page.clone(), any::<bool>()).prop_map(|(page, activate)| Op::PutBack { page, activate }),
        1 => (0..NODES).prop_map(|node| Op::PutBackAll { node }),
        2 => (page.clone(), any::<bool>()).prop_map(|(page, on)| Op::Lock { page, on }),
        1 => page.prop_map(|page| Op::Release { page }),
        1 => Just(Op::Drain),
    ];
    prop::collection::vec(op, 1..120)
}

/// What the oracle knows of a page.
#[derive(Clone, Default)]
struct Page {
    owned: bool,
    isolated: bool,
    file: bool,
    active: bool,
    referenced: bool,
    mlocked: bool,
    unevictable: bool,
    listed: bool,
    /// In how many pagevec slots.
    waiting: u32,
}

impl Page {
    fn refs(&self) -> u32 {
        u32::from(self.owned) + u32::from(self.isolated) + self.waiting
    }

    fn list(&self) -> usize {
        match (self.unevictable, self.file, self.active) {
            (true, ..) => 4,
            (_, file, active) => usize::from(file) * 2 + usize::from(active),
        }
    }
}

/// Queues with their heads at the front.
#[derive(Default)]
struct Oracle {
    pages: Vec<Page>,
    lists: Vec<[VecDeque<usize>; LruList::COUNT]>,
    batches: [Vec<usize>; Batch::COUNT],
    freed: Vec<usize>,
    rescued: u64,
    culled: u64,
    cleared: u64,
}

impl Oracle {
    fn new() -> Self {
        Self {
            pages: vec![Page::default(); NODES * FRAMES],
            lists: (0..NODES).map(|_| Default::default()).collect(),
            ..Self::default()
        }
    }

    fn unlink(&mut self, page: usize) {
        let list = self.pages[page].list();
        self.lists[page / FRAMES][list].retain(|other| *other != page);
        self.pages[page].listed = false;
    }

    fn link(&mut self, page: usize, tail: bool) {
        let this = &mut self.pages[page];
        this.listed = true;
        let list = this.list();
        let queue = &mut self.lists[page / FRAMES][list];
        if tail { queue.push_back(page) } else { queue.push_front(page) }
    }

    fn add(&mut self, page: usize) {
        let this = &mut self.pages[page];
        if this.listed {
            return;
        }
        self.rescued += u64::from(this.unevictable && !this.mlocked);
        self.culled += u64::from(!this.unevictable && this.mlocked);
        this.unevictable = this.mlocked;
        this.active &= !this.mlocked;
        self.link(page, false);
    }

    fn settle_refs(&mut self, page: usize) {
        if self.pages[page].refs() == 0 {
            if self.pages[page].listed {
                self.unlink(page);
            }
            self.cleared += u64::from(self.pages[page].mlocked);
            self.pages[page] = Page::default();
            self.freed.push(page);
        }
    }

    fn flush(&mut self, batch: usize) {
        let pages = std::mem::take(&mut self.batches[batch]);
        for page in &pages {
            let page = *page;
            let this = self.pages[page].clone();
            let moves = this.listed && !this.unevictable;
            match Batch::ALL[batch] {
                Batch::Add => self.add(page),
                Batch::Activate if moves && !this.active => self.relink(page, true, false),
                Batch::Deactivate if moves && this.active => {
                    self.pages[page].referenced = false;
                    self.relink(page, false, false);
                }
                Batch::DeactivateFile if moves => {
                    self.pages[page].referenced = false;
                    self.relink(page, false, true);
                }
                Batch::Rotate if moves => self.relink(page, false, true),
                _ => {}
            }
        }
        for page in pages {
            self.pages[page].waiting -= 1;
            self.settle_refs(page);
        }
    }

    fn relink(&mut self, page: usize, active: bool, tail: bool) {
        self.unlink(page);
        self.pages[page].active = active;
        self.link(page, tail);
    }

    fn push(&mut self, batch: usize, page: usize) {
        self.pages[page].waiting += 1;
        self.batches[batch].push(page);
        if self.batches[batch].len() == VECTOR {
            self.flush(batch);
        }
    }

    fn accessed(&mut self, page: usize) {
        let this = &mut self.pages[page];
        if !this.referenced {
            this.referenced = true;
        } else if !this.unevictable && !this.active {
            this.referenced = false;
            if this.listed {
                self.push(Batch::Activate as usize, page);
            } else if self.batches[Batch::Add as usize].contains(&page) {
                this.active = true;
            }
        }
    }
}

fn pfn(page: usize) -> Pfn {
    Pfn::new(BASE[page / FRAMES] + (page % FRAMES) as u64)
}

fn page_of(pfn: Pfn) -> usize {
    let node = usize::from(pfn.as_u64() >= BASE[1]);
    node * FRAMES + (pfn.as_u64() - BASE[node]) as usize
}

/// The order of a list, head first, from the links.
fn order(lru: &Lru<'_>, list: LruList) -> Vec<usize> {
    let on = |page: &&Descriptor| page.flags().contains(DescFlags::LRU) && LruList::of(page.flags()) == list;
    let head = lru.table().iter().filter(on).find(|page| page.prev.get() == pageblock_frame::NO_FRAME);
    let mut order = Vec::new();
    let mut at = head;
    while let Some(page) = at {
        let index = lru.table().iter().position(|other| std::ptr::eq(other, page)).unwrap();
        order.push(page_of(lru.pfn_of(index as u32)));
        at = lru.table().get(page.next.get() as usize);
    }
    order
}

fn isolate(oracle: &mut Oracle, lru: &Lru<'_>, page: usize) {
    let this = &oracle.pages[page];
    let expected = match (this.refs(), this.listed) {
        (0, _) => Err(LruIsolateError::Free),
        (_, false) => Err(LruIsolateError::NotOnLru),
        _ => Ok(()),
    };
    assert_eq!(lru.isolate(pfn(page)), expected);
    if expected.is_ok() {
        oracle.unlink(page);
        oracle.pages[page].isolated = true;
    }
}

fn isolate_tail(oracle: &mut Oracle, lru: &Lru<'_>, (node, list): (usize, usize), limit: u32) {
    let mut out = ArrayVec::<Pfn, 3>::new();
    let scan = lru.isolate_tail(LruList::ALL[list], limit, &mut out);
    let expected: Vec<usize> = oracle.lists[node][list].iter().rev().take(3.min(limit as usize)).copied().collect();
    assert_eq!(out.iter().map(|pfn| page_of(*pfn)).collect::<Vec<_>>(), expected);
    assert_eq!((scan.scanned, scan.taken), (expected.len() as u64, expected.len() as u64));
    for page in expected {
        oracle.unlink(page);
        oracle.pages[page].isolated = true;
    }
}

/// The operations on isolated pages.
fn step_isolated(oracle: &mut Oracle, sets: &[Lru<'_>], freed: &mut Vec<usize>, op: Op) {
    let lru_of = |page: usize| &sets[page / FRAMES];
    let descriptor = |page: usize| lru_of(page).page(pfn(page)).unwrap();
    match op {
        Op::PutBack { page, activate } if oracle.pages[page].isolated => {
            if activate {
                descriptor(page).set_flags(DescFlags::ACTIVE);
                oracle.pages[page].active = true;
            }
            oracle.add(page);
            oracle.pages[page].isolated = false;
            oracle.settle_refs(page);
            if lru_of(page).put_back(pfn(page)) {
                freed.push(page);
            }
        }
        Op::PutBackAll { node } => {
            let isolated = (node * FRAMES..(node + 1) * FRAMES).filter(|page| oracle.pages[*page].isolated);
            let isolated: Vec<usize> = isolated.collect();
            let mut pages: ArrayVec<Pfn, FRAMES> = isolated.iter().map(|page| pfn(*page)).collect();
            sets[node].put_back_all(&mut pages);
            freed.extend(pages.iter().map(|pfn| page_of(*pfn)));
            isolated.iter().for_each(|page| oracle.add(*page));
            for page in isolated {
                oracle.pages[page].isolated = false;
                oracle.settle_refs(page);
            }
        }
        Op::Lock { page, on } if oracle.pages[page].isolated && oracle.pages[page].mlocked != on => {
            let counters = lru_of(page).counters();
            if on {
                descriptor(page).set_flags(DescFlags::MLOCKED)
            } else {
                descriptor(page).clear_flags(DescFlags::MLOCKED)
            };
            counters.add_mlocked(if on { 1 } else { -1 });
            oracle.pages[page].mlocked = on;
        }
        _ => {}
    }
}

fn step(oracle: &mut Oracle, sets: &[Lru<'_>], vecs: &mut Pagevecs<VECTOR>, freed: &mut Vec<usize>, op: Op) {
    let lrus = Lrus::new(sets).unwrap();
    let descriptor = |page: usize| lrus.page(pfn(page)).unwrap();
    let lru_of = |page: usize| &sets[page / FRAMES];
    let mut free = |pfn: Pfn| freed.push(page_of(pfn));
    match op {
        Op::Allocate { page, file } if oracle.pages[page].refs() == 0 => {
            descriptor(page).store_refs(1);
            descriptor(page).store_flags(if file { DescFlags::FILE } else { DescFlags::empty() });
            oracle.pages[page] = Page { owned: true, file, ..Page::default() };
            vecs.push(Batch::Add, pfn(page), lrus, &mut free);
            oracle.push(Batch::Add as usize, page);
        }
        Op::Push { page, batch } if oracle.pages[page].owned && (batch != 0 || !oracle.pages[page].isolated) => {
            vecs.push(Batch::ALL[batch], pfn(page), lrus, &mut free);
            oracle.push(batch, page);
        }
        Op::Accessed { page } if oracle.pages[page].owned => {
            vecs.mark_accessed(pfn(page), lrus, &mut free);
            oracle.accessed(page);
        }
        // A page that waits in the add batch may be put back meanwhile only by the drain.
        Op::Isolate { page } if !oracle.batches[0].contains(&page) => isolate(oracle, lru_of(page), page),
        Op::IsolateTail { node, list, limit } if oracle.batches[0].is_empty() => {
            isolate_tail(oracle, &sets[node], (node, list), limit);
        }
        Op::Release { page } if oracle.pages[page].owned => {
            oracle.pages[page].owned = false;
            oracle.settle_refs(page);
            if lru_of(page).release(pfn(page)) {
                freed.push(page);
            }
        }
        Op::Drain => {
            vecs.drain(lrus, &mut free);
            (0..Batch::COUNT).for_each(|batch| oracle.flush(batch));
        }
        op => step_isolated(oracle, sets, freed, op),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn lists_behave_as_queues(ops in ops()) {
        let table = || (0..FRAMES).map(|_| Descriptor::new()).collect();
        let tables: Vec<Vec<Descriptor>> = (0..NODES).map(|_| table()).collect();
        let sets: Vec<Lru<'_>> = tables.iter().zip(BASE).map(|(table, base)| Lru::new(Pfn::new(base), table)).collect();
        let lrus = Lrus::new(&sets).unwrap();
        let mut vecs = Pagevecs::<VECTOR>::new();
        let (mut oracle, mut freed) = (Oracle::new(), Vec::new());
        for op in ops {
            step(&mut oracle, &sets, &mut vecs, &mut freed, op);
            for (node, lru) in sets.iter().enumerate() {
                prop_assert_eq!(lru.check(), Ok(()));
                for list in LruList::ALL {
                    let expected: Vec<usize> = oracle.lists[node][list.index()].iter().copied().collect();
                    prop_assert_eq!(order(lru, list), expected);
                }
            }
            for (page, this) in oracle.pages.iter().enumerate() {
                prop_assert_eq!(lrus.page(pfn(page)).unwrap().refs(), this.refs());
            }
            prop_assert_eq!(&freed, &oracle.freed);
            prop_assert_eq!(lrus.event(LruEvent::Rescued), oracle.rescued);
            prop_assert_eq!(lrus.event(LruEvent::Culled), oracle.culled);
            prop_assert_eq!(lrus.event(LruEvent::Cleared), oracle.cleared);
        }
    }
}
