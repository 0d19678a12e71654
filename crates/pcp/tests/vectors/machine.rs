//! A zone with the lists of one CPU.

use pageblock_testkit::simulated::{SimulatedLists, SimulatedZone};
use std::mem::MaybeUninit;

use pageblock_buddy::{Zone, ZoneConfig, ZoneStorage};
use pageblock_frame::{AllocFlags, Carver, MigrateType, NodeId, Order, Pfn, PfnRange, ZoneKind};
use pageblock_pcp::{PcpConfig, PcpLists, Sizing};
use pageblock_testkit::host::Quiet;

pub(crate) const FRAMES: u64 = 1 << 20;

#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) zone: &'static Zone<'static>,
    pub(crate) lists: PcpLists<'static, Quiet>,
}

pub(crate) fn order(log2: u8) -> Order {
    Order::new(log2).unwrap()
}

/// The same with batch and high as given.
pub(crate) fn sized(config: PcpConfig, (batch, high): (u32, u32)) -> Machine {
    Machine::new(PcpConfig { sizing: Sizing::Fixed { batch, high }, ..config })
}

impl Machine {
    pub(crate) fn new(config: PcpConfig) -> Self {
        let span = PfnRange::new(Pfn::new(0), Pfn::new(FRAMES));
        let raw = vec![MaybeUninit::uninit(); ZoneStorage::bytes(span, Order::MAX)].leak();
        let storage = ZoneStorage::carve(span, Order::MAX, &mut Carver::new(raw)).unwrap();
        let zone = Zone::new::<Quiet>(ZoneConfig::new(ZoneKind::Normal, NodeId::new(0), span), storage).unwrap();
        zone.release_simulated::<Quiet>(span).unwrap();
        let zone: &_ = Box::leak(Box::new(zone));
        let raw = vec![MaybeUninit::uninit(); PcpLists::<Quiet>::bytes(&config, span, 1)].leak();
        let lists = PcpLists::carve(config, zone, 1, &mut Carver::new(raw)).unwrap();
        assert_eq!(lists.cpus(), 1);
        Self { zone, lists }
    }

    /// Blocks that have never been on a list.
    pub(crate) fn zone_blocks(&self, order: Order, t: MigrateType, count: usize) -> Vec<Pfn> {
        (0..count).map(|_| self.zone.alloc::<Quiet>(order, t, AllocFlags::empty()).unwrap()).collect()
    }

    pub(crate) fn alloc(&self, order: Order, t: MigrateType) -> Pfn {
        let pfn = self.lists.alloc(order, t);
        pfn.or_else(|| self.lists.alloc_slow(order, t, AllocFlags::empty())).unwrap()
    }

    /// Frees a block; returns how many frames went back to the zone by that.
    pub(crate) fn free(&self, pfn: Pfn, order: Order) -> u64 {
        let before = self.zone.free_frames();
        self.lists.free_simulated(pfn, order).unwrap();
        self.zone.free_frames() - before
    }

    /// Frees the blocks in turn; returns what went back, overflow by overflow.
    pub(crate) fn overflows(&self, pfns: Vec<Pfn>, order: Order) -> Vec<u64> {
        pfns.into_iter().map(|pfn| self.free(pfn, order)).filter(|&given| given > 0).collect()
    }

    /// Allocates a block, and returns how many frames the zone gave for that.
    pub(crate) fn refill(&self, order: Order, t: MigrateType) -> u64 {
        let before = self.zone.free_frames();
        let _ = self.alloc(order, t);
        before - self.zone.free_frames()
    }

    /// Nothing is lost, and every structure agrees with the others; `held` frames are allocated.
    pub(crate) fn conserved(&self, held: u64) {
        self.zone.check().unwrap();
        self.lists.check().unwrap();
        assert_eq!(self.zone.free_frames() + self.lists.frames() + held, FRAMES);
    }
}
