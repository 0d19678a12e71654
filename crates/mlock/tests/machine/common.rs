//! A machine with two nodes and one address space, for the tests: areas with states a page, mappings that share frames.
use std::sync::Mutex;

use pageblock_frame::{DescFlags, Descriptor, Pfn};
use pageblock_lru::{Lru, LruList, Lrus, Unevictable};
use pageblock_mlock::{
    AddressSpace, AreaState, FaultError, Levels, LockedArea, MarkError, PageTable, SoftTable, SoftTableGuard, Span,
    Vpn, Walk,
};

/// First page of the address space: a table ends within it.
pub(crate) const BASE: u64 = 512 - 24;
/// Pages of the address space.
pub(crate) const PAGES: u64 = 64;
/// Frames of each node.
pub(crate) const FRAMES: usize = 48;
/// First frame of each node.
pub(crate) const NODES: [u64; 2] = [0x1000, 0x8000];

/// Memory for descriptors, with every frame free.
pub(crate) fn tables(frames: usize) -> [Vec<Descriptor>; 2] {
    std::array::from_fn(|_| (0..frames).map(|_| Descriptor::new()).collect())
}

/// The list sets of both nodes.
pub(crate) fn nodes(tables: &[Vec<Descriptor>; 2], form: Unevictable) -> [Lru<'_>; 2] {
    std::array::from_fn(|node| Lru::with_form(Pfn::new(NODES[node]), &tables[node], form))
}

/// Frame number `page` of the machine: nodes alternate.
pub(crate) fn frame(page: usize) -> Pfn {
    Pfn::new(NODES[page % 2] + (page / 2) as u64)
}

/// A page of an area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    /// Which area it was created in: pages of different ones are never one area.
    pub(crate) id: u8,
    pub(crate) state: AreaState,
    pub(crate) page: Option<Pfn>,
}

/// What [`AddressSpace`] needs.
pub(crate) struct Machine<'a> {
    pub(crate) table: SoftTable,
    pub(crate) nodes: &'a [Lru<'a>; 2],
    /// One for each page from [`BASE`] on; `None` for a hole.
    pub(crate) slots: Mutex<Vec<Option<Slot>>>,
    pub(crate) freed: Mutex<Vec<Pfn>>,
    /// Frames for `fault_in`.
    pub(crate) pool: Mutex<Vec<Pfn>>,
    /// Pages that `mark` refuses.
    pub(crate) refused: Mutex<Option<Vpn>>,
    pub(crate) walks: Mutex<u64>,
    pub(crate) asked: Mutex<u64>,
}

impl<'a> Machine<'a> {
    pub(crate) fn new(nodes: &'a [Lru<'a>; 2]) -> Self {
        let mut table = SoftTable::new();
        for page in [BASE, BASE + PAGES - 1] {
            table.map(Vpn::new(page), pageblock_mlock::Mapping::Nothing);
        }
        Self {
            table,
            nodes,
            slots: Mutex::new(vec![None; PAGES as usize]),
            freed: Mutex::default(),
            pool: Mutex::default(),
            refused: Mutex::default(),
            walks: Mutex::default(),
            asked: Mutex::default(),
        }
    }

    pub(crate) fn lrus(&self) -> Lrus<'a, 'a> {
        Lrus::new(self.nodes).unwrap()
    }

    /// Makes the pages `from..to` (counted from [`BASE`]) an area.
    pub(crate) fn area(&self, id: u8, pages: std::ops::Range<u64>, state: AreaState) {
        let mut slots = self.slots.lock().unwrap();
        for page in pages {
            slots[page as usize] = Some(Slot { id, state, page: None });
        }
    }

    /// Maps page `at` (counted from [`BASE`]) to a frame, which is put on a list if it was free.
    pub(crate) fn map(&self, at: u64, pfn: Pfn) {
        let page = self.lrus().page(pfn).unwrap();
        if page.refs() == 0 {
            page.store_refs(1);
            assert!(self.lrus().of(pfn).unwrap().add(pfn));
        } else {
            page.get();
        }
        assert!(self.table.set(Vpn::new(BASE + at), pageblock_mlock::Mapping::Base(pfn)));
        self.slots.lock().unwrap()[at as usize].as_mut().unwrap().page = Some(pfn);
    }

    /// Frames that a locked area maps: what should be `MLOCKED`.
    pub(crate) fn locked(&self) -> Vec<Pfn> {
        let slots = self.slots.lock().unwrap();
        let mut locked: Vec<Pfn> = slots
            .iter()
            .flatten()
            .filter(|slot| slot.state == AreaState::Locked)
            .filter_map(|slot| slot.page)
            .collect();
        locked.sort();
        locked.dedup();
        locked
    }

    /// Frames that are `MLOCKED`.
    pub(crate) fn mlocked(&self) -> Vec<Pfn> {
        let of = |lru: &Lru<'_>| -> Vec<Pfn> {
            let locked = |index: &usize| lru.table()[*index].flags().contains(DescFlags::MLOCKED);
            (0..lru.table().len()).filter(locked).map(|index| lru.pfn_of(index as u32)).collect()
        };
        let mut all: Vec<Pfn> = self.nodes.iter().flat_map(of).collect();
        all.sort();
        all
    }

    /// Asserts the invariants that hold whenever nothing is under way; `off` are the frames somebody has isolated.
    pub(crate) fn check(&self, off: &[Pfn]) {
        assert_eq!(self.mlocked(), self.locked());
        assert_eq!(self.lrus().nr_mlock(), self.locked().len() as i64);
        let slots = self.slots.lock().unwrap();
        for lru in self.nodes {
            assert_eq!(lru.check(), Ok(()));
            for (index, page) in lru.table().iter().enumerate() {
                let pfn = lru.pfn_of(index as u32);
                let mappings = slots.iter().flatten().filter(|slot| slot.page == Some(pfn)).count() as u32;
                let cached = u32::from(page.flags().contains(DescFlags::FILE));
                let isolated = u32::from(off.contains(&pfn));
                assert_eq!(page.refs(), mappings + cached + isolated, "references of {pfn}");
                if isolated == 0 && page.refs() > 0 {
                    assert!(page.flags().contains(DescFlags::LRU), "{pfn} is on a list");
                    let unevictable = LruList::of(page.flags()) == LruList::Unevictable;
                    assert_eq!(unevictable, page.flags().contains(DescFlags::MLOCKED), "list of {pfn}");
                }
            }
        }
    }
}

impl PageTable for Machine<'_> {
    const LEVELS: Levels = Levels::X86_64;
    type Table<'b>
        = SoftTableGuard<'b>
    where
        Self: 'b;

    fn walk(&self, at: Vpn) -> Walk<SoftTableGuard<'_>> {
        *self.walks.lock().unwrap() += 1;
        self.table.walk(at)
    }
}

impl AddressSpace for Machine<'_> {
    fn area(&self, at: Vpn) -> Option<LockedArea> {
        let slots = self.slots.lock().unwrap();
        let index = usize::try_from(at.as_u64().checked_sub(BASE)?).ok()?;
        let this = (*slots.get(index)?)?;
        let like = |slot: &Option<Slot>| slot.is_some_and(|slot| (slot.id, slot.state) == (this.id, this.state));
        let before = slots[..index].iter().rev().take_while(|slot| like(slot)).count();
        let after = slots[index..].iter().take_while(|slot| like(slot)).count();
        let start = Vpn::new(at.as_u64() - before as u64);
        Some(LockedArea { span: Span::new(start, at.add(after as u64)), state: this.state })
    }

    fn mark(&self, part: Span, state: AreaState) -> Result<(), MarkError> {
        if self.refused.lock().unwrap().is_some_and(|page| part.contains(page)) {
            return Err(MarkError::TooManyAreas);
        }
        let mut slots = self.slots.lock().unwrap();
        for page in part.start.as_u64()..part.end.as_u64() {
            slots[(page - BASE) as usize].as_mut().unwrap().state = state;
        }
        Ok(())
    }

    fn fault_in(&self, at: Vpn) -> Result<(), FaultError> {
        let pfn = self.pool.lock().unwrap().pop().ok_or(FaultError::NoMemory)?;
        self.map(at.as_u64() - BASE, pfn);
        Ok(())
    }

    fn locked_by_any(&self, pfn: Pfn) -> bool {
        *self.asked.lock().unwrap() += 1;
        self.locked().contains(&pfn)
    }

    fn free(&self, pfn: Pfn) {
        self.freed.lock().unwrap().push(pfn);
    }
}
