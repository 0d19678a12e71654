//! The facade beside the oracle: every operation, right and wrong, on machines of several shapes.

use pageblock::{FreeError, Gfp, MigrateType, NodeId, Order, Pfn, PfnRange, Region, RegionKind, ZoneLimits};
use pageblock_frame::AllocFlags;
use pageblock_testkit::host::is_balanced;
use pageblock_testkit::{Counts, Driver, FreeFault, Oracle, Subject, strategy};
use proptest::prelude::*;
use proptest::sample::select;

use crate::machine::{ALL_OF_IT, Booted, MIB, boot, free_all, memory};

/// A machine: what is usable at boot, what can be added, where zones end.
#[derive(Clone, Copy, Debug)]
struct Shape {
    name: &'static str,
    /// In frames.
    usable: &'static [(u64, u64)],
    pending: &'static [(u64, u64)],
    limits: ZoneLimits,
    nodes: Nodes,
}

#[derive(Clone, Copy, Debug)]
enum Nodes {
    One,
    /// Every usable run is on the next node.
    ByRun,
}

/// Without Movable zones, so that any request may use any frame.
const SHAPES: &[Shape] = &[
    Shape { name: "plain", usable: &[(0, 4096)], pending: &[], limits: ZoneLimits::single(), nodes: Nodes::One },
    Shape {
        name: "three zones",
        usable: &[(1, 3000), (3100, 8192)],
        pending: &[(3000, 3100)],
        limits: ZoneLimits { dma_end: Some(Pfn::new(1024)), dma32_end: Some(Pfn::new(4096)), ..ZoneLimits::single() },
        nodes: Nodes::One,
    },
    Shape {
        name: "two nodes, interleaved",
        usable: &[(0, 1024), (1024, 2048), (2048, 3072), (4096, 5000)],
        pending: &[],
        limits: ZoneLimits::single(),
        nodes: Nodes::ByRun,
    },
];

struct FacadeSubject(Booted);

fn driver(shape: &Shape) -> Driver<FacadeSubject> {
    let region = |(start, end): (u64, u64), kind| Region::new(start << 12, end << 12, kind);
    let of_run = |(i, run): (usize, &(u64, u64))| {
        let node = if matches!(shape.nodes, Nodes::ByRun) { i as u8 % 2 } else { 0 };
        region(*run, RegionKind::Usable).with_node(NodeId::new(node))
    };
    let mut map: Vec<Region> = shape.usable.iter().enumerate().map(of_run).collect();
    map.extend(shape.pending.iter().map(|run| region(*run, RegionKind::Reclaimable)));
    // `tests/lists` has lists beside the oracle; free blocks are compared order by order here.
    let frames = boot(&map, &ALL_OF_IT.zones(shape.limits).per_cpu_lists(None));
    let range = |(start, end): &(u64, u64)| PfnRange::new(Pfn::new(*start), Pfn::new(*end));
    let last = shape.usable.iter().map(|run| run.1).max().unwrap();
    let mut oracle = Oracle::new(PfnRange::new(Pfn::new(shape.usable[0].0), Pfn::new(last)));
    shape.usable.iter().for_each(|run| oracle.manage(range(run)));
    Driver::new(FacadeSubject(frames), oracle, shape.pending.iter().map(range).collect())
}

fn fault(error: FreeError) -> FreeFault {
    match error {
        FreeError::OutOfRange => FreeFault::OutOfRange,
        FreeError::NotAllocated => FreeFault::NotAllocated,
        FreeError::Reserved => FreeFault::NotManaged,
        FreeError::NotHead { head } => FreeFault::NotHead { head },
        FreeError::OrderMismatch { allocated } => FreeFault::OrderMismatch { allocated },
        _ => FreeFault::Other,
    }
}

/// A request that leads to this migrate type, by flags that lead to these allocation flags.
fn gfp(migrate_type: MigrateType, flags: AllocFlags) -> Gfp {
    let mobility = match migrate_type {
        MigrateType::Movable => Gfp::MOVABLE | Gfp::HIGHMEM,
        MigrateType::Reclaimable => Gfp::RECLAIMABLE,
        _ => Gfp::empty(),
    };
    let context = if flags.contains(AllocFlags::HIGHATOMIC) {
        Gfp::ATOMIC
    } else if flags.contains(AllocFlags::NON_BLOCK) {
        Gfp::NOWAIT
    } else {
        Gfp::KERNEL
    };
    mobility | context | Gfp::ZERO
}

impl Subject for FacadeSubject {
    fn alloc(&mut self, order: Order, migrate_type: MigrateType, flags: AllocFlags) -> Option<Pfn> {
        let frames = self.0.alloc_order(order, gfp(migrate_type, flags)).ok()?;
        Some(frames.into_raw().pfn)
    }

    fn free(&mut self, pfn: Pfn, order: Order) -> Result<(), FreeFault> {
        // SAFETY: hosted frames have nothing behind them.
        unsafe { self.0.free(pfn, order) }.map_err(fault)
    }

    fn free_frames(&self) -> u64 {
        self.0.stats().free
    }

    fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for zone in self.0.zones() {
            counts.iter_mut().zip(zone.free_blocks()).for_each(|(sum, blocks)| *sum += blocks);
        }
        counts
    }

    fn block_type(&self, pfn: Pfn) -> MigrateType {
        self.0.zone_of(pfn).and_then(|zone| zone.block_type(pfn)).unwrap_or(MigrateType::Movable)
    }

    fn max_order(&self) -> Order {
        Order::MAX
    }

    fn check(&self) -> Result<(), String> {
        if !is_balanced() {
            return Err("a pin or an interrupt state was not undone".into());
        }
        self.0.check().map_err(|violation| violation.to_string())
    }

    fn alloc_at(&mut self, pfn: Pfn, order: Order) -> Option<bool> {
        Some(self.0.alloc_at(pfn, order).map(|frames| frames.into_raw()).is_ok())
    }

    fn alloc_exact(&mut self, frames: u64, migrate_type: MigrateType) -> Option<Option<PfnRange>> {
        let run = self.0.alloc_exact(frames, gfp(migrate_type, AllocFlags::empty()));
        Some(run.ok().map(|run| run.into_raw()))
    }

    fn free_run(&mut self, range: PfnRange) -> Option<Result<(), FreeFault>> {
        let zone = |pfn| self.0.zone_of(pfn);
        let first = zone(range.start);
        let one_zone = (range.start.as_u64()..range.end.as_u64()).all(|pfn| zone(Pfn::new(pfn)) == first);
        // SAFETY: hosted frames have nothing behind them.
        one_zone.then(|| unsafe { self.0.free_range(range) }.map_err(fault))
    }

    fn add_memory(&mut self, range: PfnRange) -> bool {
        let region = Region::new(range.start.phys(), range.end.phys(), RegionKind::Usable);
        // SAFETY: hosted frames have nothing behind them.
        unsafe { self.0.add_memory(region) }.is_ok()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 4000, ..ProptestConfig::default() })]

    #[test]
    fn the_facade_does_what_the_oracle_says(
        shape in select(SHAPES),
        ops in strategy::sequence(strategy::nasty(), 100),
    ) {
        let mut driver = driver(&shape);
        driver.verify().unwrap();
        for op in &ops {
            driver.apply(op).unwrap_or_else(|breach| panic!("{}, {op:?}: {breach}", shape.name));
            driver.verify().unwrap_or_else(|breach| panic!("{}, after {op:?}: {breach}", shape.name));
        }
        driver.settle().unwrap();
        prop_assert_eq!(driver.subject.0.stats().free, driver.oracle.managed_frames());
    }
}

proptest! {
    /// Bulk calls hand out what single calls could have, no frame twice, and as many as there are.
    #[test]
    fn bulk_calls_lose_nothing(sizes in proptest::collection::vec((0usize..300, 0u8..3), 1..40), keep in any::<u64>()) {
        let frames = boot(&memory(24 * MIB), &ALL_OF_IT);
        let managed = frames.stats().managed;
        let mut held = Vec::new();
        for (i, (size, migrate_type)) in sizes.into_iter().enumerate() {
            let free = frames.stats().free;
            let mut out = vec![Pfn::default(); size];
            let migrate_type = MigrateType::from_index(migrate_type).unwrap();
            let got = frames.alloc_bulk(gfp(migrate_type, AllocFlags::empty()), &mut out).unwrap_or(0);
            prop_assert_eq!(got as u64, free.min(size as u64));
            prop_assert_eq!(frames.stats().free, free - got as u64);
            out.truncate(got);
            if keep >> (i % 64) & 1 == 1 { held.extend(out) } else { free_all(&frames, out) }
        }
        let unique: std::collections::BTreeSet<_> = held.iter().collect();
        prop_assert_eq!(unique.len(), held.len());
        frames.check().unwrap();
        free_all(&frames, held);
        frames.check().unwrap();
        prop_assert_eq!(frames.stats().free, managed);
    }
}
