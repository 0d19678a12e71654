//! A zone, an owner of its movable memory, and what they should say.

use core::cell::RefCell;
use core::mem::MaybeUninit;
use pageblock_testkit::simulated::SimulatedZone;
use std::collections::BTreeMap;

use pageblock_buddy::{Zone, ZoneConfig, ZoneStorage};
use pageblock_compaction::{CompactionConfig, Patches, Search};
use pageblock_frame::{AllocFlags, Carver, MigrateType, NodeId, Order, Pfn, PfnRange, ZoneKind};
use pageblock_testkit::host::Host;
use pageblock_testkit::movables::{Disowned, Movables};

/// The platform of these tests.
pub(crate) type P = Host<20>;

pub(crate) fn order(o: u8) -> Order {
    Order::new(o).unwrap()
}

/// Every configuration with a name.
pub(crate) fn all_configs() -> Vec<(String, CompactionConfig)> {
    let mut all: Vec<_> = (0..=6)
        .map(|patches| (format!("3.13 patch {patches}"), CompactionConfig::linux_3_13(Patches::first(patches))))
        .collect();
    all.push(("6.1".into(), CompactionConfig::linux_6_1()));
    all.push(("6.1 linear".into(), CompactionConfig { search: Search::Linear, ..CompactionConfig::linux_6_1() }));
    all.push(("default".into(), CompactionConfig::default()));
    all
}

/// A zone of whole pageblocks from pfn 0x1000 on.
pub(crate) struct Scene {
    pub(crate) zone: Zone<'static>,
    pub(crate) owner: Movables,
    /// Blocks that nobody moves.
    pub(crate) held: RefCell<Vec<(Pfn, Order)>>,
    pub(crate) tags: RefCell<u64>,
}

impl Scene {
    pub(crate) fn new(blocks: u64) -> Self {
        Self::ragged(PfnRange::from_len(Pfn::new(0x1000), blocks * 512), |zone, span| {
            zone.release_simulated::<P>(span).unwrap();
        })
    }

    pub(crate) fn ragged(span: PfnRange, release: impl FnOnce(&Zone<'_>, PfnRange)) -> Self {
        let config = ZoneConfig::new(ZoneKind::Normal, NodeId::new(0), span);
        let raw = vec![MaybeUninit::uninit(); ZoneStorage::bytes(span, config.max_order)].leak();
        let storage = ZoneStorage::carve(span, config.max_order, &mut Carver::new(raw)).unwrap();
        let zone = Zone::new::<P>(config, storage).unwrap();
        release(&zone, span);
        Self { zone, owner: Movables::new(), held: RefCell::new(Vec::new()), tags: RefCell::new(0) }
    }

    /// Allocates one block; a movable one goes to the owner.
    pub(crate) fn alloc(&self, o: u8, migrate_type: MigrateType) -> Option<Pfn> {
        let pfn = self.zone.alloc::<P>(order(o), migrate_type, AllocFlags::empty())?;
        if migrate_type == MigrateType::Movable {
            *self.tags.borrow_mut() += 1;
            self.owner.own(pfn, order(o), *self.tags.borrow());
        } else {
            self.held.borrow_mut().push((pfn, order(o)));
        }
        Some(pfn)
    }

    /// Allocates single frames until there are none.
    pub(crate) fn fill(&self, migrate_type: MigrateType) {
        while self.alloc(0, migrate_type).is_some() {}
        assert_eq!(self.zone.free_frames(), 0);
    }

    /// Frees every block whose frame number is a multiple of `n`.
    pub(crate) fn free_every(&self, n: u64) {
        self.free_where(|pfn| pfn.as_u64() % n == 0);
    }

    pub(crate) fn free_where(&self, wanted: impl Fn(Pfn) -> bool) {
        let pages: Vec<_> = self.owner.pages().iter().map(|(pfn, page)| (*pfn, page.order)).collect();
        for (pfn, order) in pages.into_iter().filter(|(pfn, _)| wanted(*pfn)) {
            assert_eq!(self.owner.disown(pfn), Disowned::Now);
            self.zone.free_simulated::<P>(pfn, order).unwrap();
        }
        self.held.borrow_mut().retain(|&(pfn, order)| {
            if wanted(pfn) {
                self.zone.free_simulated::<P>(pfn, order).unwrap();
            }
            !wanted(pfn)
        });
    }

    /// What is owned, whatever the place.
    pub(crate) fn contents(&self) -> Vec<(u64, Order)> {
        let mut contents: Vec<_> = self.owner.pages().values().map(|page| (page.tag, page.order)).collect();
        contents.sort();
        contents
    }

    pub(crate) fn contents_by_place(&self) -> BTreeMap<Pfn, u64> {
        self.owner.pages().iter().map(|(pfn, page)| (*pfn, page.tag)).collect()
    }

    /// The zone agrees with itself and with the owner.
    pub(crate) fn verify(&self) {
        self.zone.check().unwrap_or_else(|violation| panic!("{violation}"));
        for (pfn, page) in self.owner.pages().iter() {
            let state = self.zone.states().get(self.zone.index_of(*pfn).unwrap());
            assert!(state.is_allocated() && state.order() == page.order, "{pfn}: {:?}", state.decode());
        }
    }
}
