//! The allocator as the testkit's driver sees it, and how often lists served.

use std::cell::Cell;
use std::rc::Rc;

use pageblock::{FreeError, Gfp, MigrateType, Order, Pfn, PfnRange};
use pageblock_frame::AllocFlags;
use pageblock_testkit::{Counts, FreeFault, Subject};

use crate::machine::{Booted, CPUS, is_balanced, kicks_are_answered, lock_free, on_cpu};

/// Operations on this CPU of the machine.
pub(crate) struct Stack {
    pub(crate) frames: Rc<Booted>,
    pub(crate) cpu: u32,
    /// Allocations and frees that succeeded without any zone lock.
    pub(crate) hits: Cell<u64>,
    /// All that succeeded.
    pub(crate) operations: Cell<u64>,
    /// CPUs that are offline.
    pub(crate) offline: [bool; CPUS as usize],
}

fn fault(error: FreeError) -> FreeFault {
    match error {
        FreeError::OutOfRange => FreeFault::OutOfRange,
        // A list is the allocator's own business: to the caller the frame is free.
        FreeError::NotAllocated | FreeError::OnList => FreeFault::NotAllocated,
        FreeError::Reserved => FreeFault::NotManaged,
        FreeError::NotHead { head } => FreeFault::NotHead { head },
        FreeError::OrderMismatch { allocated } => FreeFault::OrderMismatch { allocated },
        _ => FreeFault::Other,
    }
}

/// A request that may wait, for this type.
fn gfp(migrate_type: MigrateType) -> Gfp {
    let mobility = match migrate_type {
        MigrateType::Movable => Gfp::MOVABLE,
        MigrateType::Reclaimable => Gfp::RECLAIMABLE,
        _ => Gfp::empty(),
    };
    mobility | Gfp::KERNEL
}

impl Stack {
    pub(crate) fn new(frames: Rc<Booted>) -> Self {
        Self { frames, cpu: 0, hits: Cell::new(0), operations: Cell::new(0), offline: [false; CPUS as usize] }
    }

    /// Does it on the current CPU and notes, if it succeeded, whether a list served.
    fn counted<R, E>(&self, action: impl FnOnce(&Booted) -> Result<R, E>) -> Result<R, E> {
        let (result, on_list) = on_cpu(self.cpu, || lock_free(|| action(&self.frames)));
        self.operations.set(self.operations.get() + u64::from(result.is_ok()));
        self.hits.set(self.hits.get() + u64::from(result.is_ok() && on_list));
        result
    }

    fn here<R>(&self, action: impl FnOnce(&Booted) -> R) -> R {
        on_cpu(self.cpu, || action(&self.frames))
    }

    /// Where kicks are answered late, a request may find nothing although other CPUs' lists have it; not a second time,
    /// after they have answered.
    fn insist<R>(&self, first: Option<R>, again: impl FnOnce() -> Option<R>) -> Option<R> {
        if first.is_some() || kicks_are_answered() {
            return first;
        }
        self.drain();
        again()
    }

    /// Empties every list, the CPUs answering one after the other, whether anybody passes kicks on or not.
    pub(crate) fn drain(&self) {
        self.here(|frames| frames.drain());
        (0..CPUS).for_each(|cpu| on_cpu(cpu, || self.frames.cpus().handle_kick()));
        let offline = (0..CPUS).filter(|&cpu| self.offline[cpu as usize]);
        offline.for_each(|cpu| self.frames.cpus().take_over(pageblock::CpuId::new(cpu)).unwrap());
        assert_eq!(self.frames.stats().listed, 0);
    }

    /// A CPU goes, or comes back if it was gone.
    pub(crate) fn plug(&mut self, cpu: u32) {
        let offline = &mut self.offline[cpu as usize];
        let result =
            on_cpu(cpu, || if *offline { self.frames.cpus().come_online() } else { self.frames.cpus().go_offline() });
        assert_eq!(result, Ok(()));
        *offline = !*offline;
    }

    /// Every CPU's lists against the state bytes.
    pub(crate) fn check_lists(&self) {
        (0..CPUS).for_each(|cpu| on_cpu(cpu, || self.frames.check_lists()).unwrap());
    }
}

impl Subject for Stack {
    fn alloc(&mut self, order: Order, migrate_type: MigrateType, _: AllocFlags) -> Option<Pfn> {
        let request = |frames: &Booted| frames.alloc_order(order, gfp(migrate_type)).map(|f| f.into_raw().pfn);
        let block = self.counted(request).ok();
        self.insist(block, || self.counted(request).ok())
    }

    fn free(&mut self, pfn: Pfn, order: Order) -> Result<(), FreeFault> {
        // SAFETY: hosted frames have nothing behind them.
        self.counted(|frames| unsafe { frames.free(pfn, order) }).map_err(fault)
    }

    fn free_frames(&self) -> u64 {
        self.frames.stats().free
    }

    fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for zone in self.frames.zones() {
            counts.iter_mut().zip(zone.free_blocks()).for_each(|(sum, blocks)| *sum += blocks);
        }
        counts
    }

    fn block_type(&self, pfn: Pfn) -> MigrateType {
        self.frames.zone_of(pfn).and_then(|zone| zone.block_type(pfn)).unwrap_or(MigrateType::Movable)
    }

    fn max_order(&self) -> Order {
        Order::MAX
    }

    fn check(&self) -> Result<(), String> {
        if !is_balanced() {
            return Err("a pin or an interrupt state was not undone".into());
        }
        self.frames.check().map_err(|violation| violation.to_string())
    }

    fn alloc_at(&mut self, pfn: Pfn, order: Order) -> Option<bool> {
        let request = || self.here(|frames| frames.alloc_at(pfn, order).map(|frames| frames.into_raw()).ok());
        Some(self.insist(request(), request).is_some())
    }

    fn alloc_exact(&mut self, frames: u64, migrate_type: MigrateType) -> Option<Option<PfnRange>> {
        let request = || self.here(|all| all.alloc_exact(frames, gfp(migrate_type)).map(|run| run.into_raw()).ok());
        Some(self.insist(request(), request))
    }

    fn free_run(&mut self, range: PfnRange) -> Option<Result<(), FreeFault>> {
        // SAFETY: hosted frames have nothing behind them.
        Some(self.here(|frames| unsafe { frames.free_range(range) }).map_err(fault))
    }
}
