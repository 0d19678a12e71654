//! A zone as the testkit's subject, with its storage, in several shapes. Shared by the tests here and the fuzz targets.

use pageblock_buddy::{FreeError, SplitError, Unreserve, Zone, ZoneConfig, ZoneStorage};
use pageblock_frame::{AllocFlags, Carver, MigrateType, NodeId, Order, PAGEBLOCK_FRAMES, Pfn, PfnRange, ZoneKind};
use pageblock_testkit::host::{Host, Stored, is_balanced};
use pageblock_testkit::simulated::SimulatedZone;
use pageblock_testkit::{Counts, Driver, FreeFault, Op, Oracle, Subject, decompose};

/// The platform of these tests: it counts saved interrupt states.
pub(crate) type Machine = Host<0>;

/// A zone to test: where it is, what is in it, what can be added.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) span: (u64, u64),
    pub(crate) max_order: u8,
    pub(crate) managed: &'static [(u64, u64)],
    pub(crate) pending: &'static [(u64, u64)],
}

/// Aligned and not, whole and with holes, small and large, low and at the very end of the frame numbers.
pub(crate) const SHAPES: &[Shape] = &[
    Shape { name: "aligned", span: (0, 4096), max_order: 10, managed: &[(0, 4096)], pending: &[] },
    Shape { name: "ragged ends", span: (100, 3001), max_order: 10, managed: &[(100, 3001)], pending: &[] },
    Shape {
        name: "holes",
        span: (300, 6000),
        max_order: 10,
        managed: &[(300, 512), (600, 601), (1024, 2048), (2049, 4095), (4608, 5500)],
        pending: &[(512, 600), (601, 1024), (4095, 4608), (5510, 6000)],
    },
    Shape { name: "a part of a pageblock", span: (513, 700), max_order: 10, managed: &[(513, 700)], pending: &[] },
    Shape { name: "one frame", span: (1535, 1536), max_order: 9, managed: &[(1535, 1536)], pending: &[] },
    Shape {
        name: "large blocks",
        span: (1000, 12_500),
        max_order: 12,
        managed: &[(1000, 8192)],
        pending: &[(8192, 9000), (9000, 12_500)],
    },
    Shape {
        name: "the last frames",
        span: ((1 << 32) - 3000, 1 << 32),
        max_order: 10,
        managed: &[((1 << 32) - 3000, (1 << 32) - 1024)],
        pending: &[((1 << 32) - 1024, 1 << 32)],
    },
];

pub(crate) fn range((start, end): (u64, u64)) -> PfnRange {
    PfnRange::new(Pfn::new(start), Pfn::new(end))
}

/// An empty zone over storage of its own.
pub(crate) fn zone(config: ZoneConfig) -> Stored<Zone<'static>> {
    let bytes = ZoneStorage::bytes(config.span, config.max_order);
    // SAFETY: tests keep no state table, and nothing else of the zone, longer than the zone.
    unsafe {
        Stored::new(bytes, |raw| {
            let storage = ZoneStorage::carve(config.span, config.max_order, &mut Carver::new(raw)).unwrap();
            Zone::new::<Machine>(config, storage).unwrap()
        })
    }
}

#[derive(Debug)]
pub(crate) struct ZoneSubject(pub(crate) Stored<Zone<'static>>);

impl Shape {
    /// The zone and the truth about it.
    pub(crate) fn driver(&self) -> Driver<ZoneSubject> {
        let span = range(self.span);
        let mut config = ZoneConfig::new(ZoneKind::Normal, NodeId::new(0), span);
        config.max_order = Order::new(self.max_order).unwrap();
        let zone = zone(config);
        let mut oracle = Oracle::new(span);
        for &part in self.managed {
            assert_eq!(zone.release_simulated::<Machine>(range(part)), Ok(part.1 - part.0), "{}", self.name);
            oracle.manage(range(part));
        }
        zone.mark_absent(span, pageblock_buddy::Absent::Hole);
        Driver::new(ZoneSubject(zone), oracle, self.pending.iter().copied().map(range).collect())
    }
}

/// Allocates until about `percent` of the managed frames are in use, of all types, then frees every third block.
pub(crate) fn crowd(driver: &mut Driver<ZoneSubject>, percent: u64) {
    let target = driver.oracle.managed_frames() * percent / 100;
    let mut step = 0u32;
    while driver.oracle.managed_frames() - driver.oracle.free_frames() < target {
        let order = Order::saturating([0, 0, 1, 0, 3, 0, 2, 5][step as usize % 8]);
        let migrate_type = MigrateType::ALL[(step / 8) as usize % MigrateType::PCP_COUNT];
        let before = driver.oracle.live().len();
        driver.apply(&Op::Alloc { order, migrate_type, flags: AllocFlags::empty() }).unwrap();
        if driver.oracle.live().len() == before {
            break;
        }
        step += 1;
    }
    for victim in (0..driver.oracle.live().len() as u32 / 3).map(|i| 3 * i) {
        driver.apply(&Op::Free { victim }).unwrap();
    }
}

/// Frees everything, gives every pageblock to the movable type, and compares with the decomposition of all managed
/// frames: nothing of the history may be left.
pub(crate) fn assert_restored(driver: &mut Driver<ZoneSubject>) {
    driver.settle().unwrap();
    let span = driver.oracle.span();
    let first = span.start.as_u64() & !(PAGEBLOCK_FRAMES - 1);
    for block in (first..span.end.as_u64()).step_by(PAGEBLOCK_FRAMES as usize) {
        driver.subject.retype(Pfn::new(block).max(span.start), MigrateType::Movable);
    }
    driver.verify().unwrap();
    let all = decompose(span, driver.subject.max_order(), |pfn| driver.oracle.is_managed(pfn).then_some(0));
    assert_eq!(driver.subject.counts(), all);
    assert_eq!(driver.subject.free_frames(), driver.oracle.managed_frames());
    assert_eq!(driver.subject.0.managed(), driver.oracle.managed_frames());
}

fn fault(error: FreeError) -> FreeFault {
    match error {
        FreeError::OutOfRange => FreeFault::OutOfRange,
        FreeError::NotAllocated => FreeFault::NotAllocated,
        FreeError::Reserved => FreeFault::NotManaged,
        FreeError::NotHead { head } => FreeFault::NotHead { head },
        FreeError::OrderMismatch { allocated } => FreeFault::OrderMismatch { allocated },
        FreeError::OnList => FreeFault::OnList,
        _ => FreeFault::Other,
    }
}

impl Subject for ZoneSubject {
    fn alloc(&mut self, order: Order, migrate_type: MigrateType, flags: AllocFlags) -> Option<Pfn> {
        self.0.alloc::<Machine>(order, migrate_type, flags)
    }

    fn free(&mut self, pfn: Pfn, order: Order) -> Result<(), FreeFault> {
        self.0.free_simulated::<Machine>(pfn, order).map_err(fault)
    }

    fn free_frames(&self) -> u64 {
        self.0.free_frames()
    }

    fn counts(&self) -> Counts {
        self.0.free_blocks()
    }

    fn block_type(&self, pfn: Pfn) -> MigrateType {
        self.0.block_type(pfn).unwrap()
    }

    fn max_order(&self) -> Order {
        self.0.max_order()
    }

    fn check(&self) -> Result<(), String> {
        if !is_balanced() {
            return Err("an interrupt state was saved and not restored".into());
        }
        let counts = self.0.counts();
        for (order, &blocks) in counts.by_order.iter().enumerate() {
            let by_type: u64 = counts.by_type.iter().map(|orders| orders[order]).sum();
            if by_type != blocks {
                return Err(format!("order {order}: {blocks} free blocks, {by_type} by type"));
            }
        }
        self.0.check().map_err(|violation| violation.to_string())
    }

    fn alloc_at(&mut self, pfn: Pfn, order: Order) -> Option<bool> {
        Some(self.0.alloc_at::<Machine>(pfn, order).is_ok())
    }

    fn alloc_exact(&mut self, frames: u64, migrate_type: MigrateType) -> Option<Option<PfnRange>> {
        Some(self.0.alloc_exact::<Machine>(frames, migrate_type, AllocFlags::empty()))
    }

    fn split(&mut self, pfn: Pfn, order: Order, to: Order) -> Option<bool> {
        match self.0.split_simulated::<Machine>(pfn, order, to) {
            Ok(()) => Some(true),
            Err(SplitError::Block(_) | SplitError::Order) => Some(false),
            Err(_) => None,
        }
    }

    fn free_run(&mut self, range: PfnRange) -> Option<Result<(), FreeFault>> {
        Some(self.0.free_range_simulated::<Machine>(range).map_err(fault))
    }

    fn alloc_bulk(&mut self, order: Order, count: usize, migrate_type: MigrateType) -> Option<Vec<Pfn>> {
        let mut out = vec![0; count];
        let got = self.0.alloc_bulk::<Machine>(order, migrate_type, &mut out);
        Some(out[..got].iter().map(|&index| self.0.pfn_of(index)).collect())
    }

    fn free_bulk(&mut self, pfns: &[Pfn], order: Order) -> usize {
        let indices: Vec<u32> = pfns.iter().map(|&pfn| self.0.index_of(pfn).unwrap()).collect();
        self.0.free_bulk_simulated::<Machine>(order, &indices)
    }

    fn isolate(&mut self, pfn: Pfn) -> bool {
        self.0.isolate_block::<Machine>(pfn).is_ok()
    }

    fn unisolate(&mut self, pfn: Pfn) -> bool {
        self.0.unisolate_block::<Machine>(pfn).is_ok()
    }

    fn retype(&mut self, pfn: Pfn, migrate_type: MigrateType) {
        let isolated = self.block_type(pfn) == MigrateType::Isolate;
        assert_eq!(self.0.set_block_type::<Machine>(pfn, migrate_type).is_err(), isolated);
    }

    fn reserve(&mut self, pfn: Pfn) {
        self.0.reserve_highatomic::<Machine>(pfn);
    }

    fn unreserve(&mut self, migrate_type: MigrateType) {
        self.0.unreserve_highatomic::<Machine>(Unreserve::Last, migrate_type);
    }

    fn add_memory(&mut self, range: PfnRange) -> bool {
        self.0.release_simulated::<Machine>(range).is_ok()
    }
}
