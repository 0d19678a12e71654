//! The machine below a stream: CPUs, of which each event runs on one, and a page allocator with zone-lock acquisitions
//! that are counted where they happen.

use std::cell::Cell;
use std::ptr::NonNull;

use anyhow::Context;
use pageblock::{Config, CpuId, Gfp, MigrateType, Order, PageAllocator, PcpConfig, Pfn, Platform, Region, ZoneLimits};
use pageblock_frame::IrqState;
use pageblock_testkit::host::Stored;

use super::clocks::{Clocks, UnderLock};

/// Most CPUs of a machine.
pub(crate) const MOST_CPUS: usize = 16;
/// One zone of 4 GiB.
const MEMORY: u64 = 4 << 30;

thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
    static LOCKED: Cell<u64> = const { Cell::new(0) };
}

/// The platform. One thread is all CPUs in turn, so that a run is the same every time.
#[derive(Debug)]
pub(crate) struct Cpus;

// SAFETY: 1. The CPU is a number of the thread's, below `MOST_CPUS`, and changes between calls only. 2. There are no
// interrupts. 3. Nothing is behind the frames, and nothing asks for it.
#[expect(unsafe_code, reason = "the seam of a hosted platform; its promises are stated above")]
unsafe impl Platform for Cpus {
    const MAX_CPUS: usize = MOST_CPUS;
    const HAS_MEMORY: bool = false;

    fn phys_to_virt(_: u64) -> NonNull<u8> {
        NonNull::dangling()
    }

    #[inline]
    fn pin() -> CpuId {
        CpuId::new(CPU.get())
    }

    /// Called once for each acquisition of a zone lock: the lock is always taken with interrupts off, and no stream
    /// asks for anything else that turns them off.
    #[inline]
    fn irq_save() -> IrqState {
        LOCKED.set(LOCKED.get() + 1);
        IrqState::new(0)
    }
}

/// A block that a stream holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pfn: u32,
    order: u8,
}

/// Where a stream gets its blocks.
pub(crate) trait Frames {
    /// A block for this CPU.
    fn take(&mut self, cpu: u32, order: u8, migrate_type: MigrateType) -> Block;
    /// Takes it back on this CPU.
    fn give(&mut self, cpu: u32, block: Block);
    /// Time of the CPUs.
    fn clocks(&mut self) -> &mut Clocks;
}

/// So that a stream is the same machine code whatever is below it.
impl Frames for Box<dyn Frames> {
    fn take(&mut self, cpu: u32, order: u8, migrate_type: MigrateType) -> Block {
        (**self).take(cpu, order, migrate_type)
    }

    fn give(&mut self, cpu: u32, block: Block) {
        (**self).give(cpu, block);
    }

    fn clocks(&mut self) -> &mut Clocks {
        (**self).clocks()
    }
}

/// Counts of the allocator.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub(crate) struct Counts {
    /// Blocks that were allocated and freed.
    pub(crate) allocations: u64,
    pub(crate) frees: u64,
    /// Frames of the blocks that were allocated.
    pub(crate) frames: u64,
    /// Acquisitions of the zone lock.
    pub(crate) zone_locks: u64,
    /// Frames that went from the zone to a CPU or back, under the lock.
    pub(crate) frames_moved: u64,
}

/// The page allocator, every call counted.
#[derive(Debug)]
pub(crate) struct Counted {
    allocator: Stored<PageAllocator<Cpus>>,
    pub(crate) counts: Counts,
    clocks: Clocks,
}

/// The page allocator, uncounted: for counting its instructions.
#[derive(Debug)]
pub(crate) struct Plain(Stored<PageAllocator<Cpus>>, Clocks);

/// No allocator: the stream by itself.
#[derive(Debug, Default)]
pub(crate) struct Nothing(u32, Clocks);

#[expect(unsafe_code, reason = "the testkit's seam: an allocator together with its storage")]
fn boot(lists: PcpConfig, cpus: usize) -> anyhow::Result<Stored<PageAllocator<Cpus>>> {
    let config = Config::new().zones(ZoneLimits::single()).cpus(cpus).per_cpu_lists(Some(lists));
    let map = [Region::from((0, MEMORY, true))];
    let bytes = PageAllocator::<Cpus>::metadata_bytes(map, &config).context("the machine does not boot")?;
    let mut result = Ok(());
    // SAFETY: nothing of the allocator is kept longer than it.
    let stored = unsafe {
        Stored::new(bytes, |raw| {
            let allocator = PageAllocator::new();
            result = allocator.init_simulated(map, &config, raw).map(drop);
            allocator
        })
    };
    result.context("the machine does not boot")?;
    Ok(stored)
}

fn gfp(migrate_type: MigrateType) -> Gfp {
    match migrate_type {
        MigrateType::Movable => Gfp::HIGHUSER_MOVABLE,
        MigrateType::Reclaimable => Gfp::KERNEL | Gfp::RECLAIMABLE,
        _ => Gfp::KERNEL,
    }
}

fn take(allocator: &PageAllocator<Cpus>, cpu: u32, order: u8, migrate_type: MigrateType) -> Block {
    CPU.set(cpu);
    match allocator.alloc_order(Order::saturating(order), gfp(migrate_type)) {
        Ok(frames) => Block { pfn: frames.into_raw().pfn.as_u64() as u32, order },
        Err(error) => panic!("no stream needs as much memory as there is: {error}"),
    }
}

#[expect(unsafe_code, reason = "the streams' frames have nothing behind them")]
fn give(allocator: &PageAllocator<Cpus>, cpu: u32, block: Block) {
    CPU.set(cpu);
    // SAFETY: the stream owns the block, and nothing is behind it.
    if let Err(error) = unsafe { allocator.free(Pfn::new(block.pfn.into()), Order::saturating(block.order)) } {
        panic!("a stream frees what it allocated: {error}");
    }
}

impl Plain {
    pub(crate) fn new(lists: PcpConfig, cpus: usize) -> anyhow::Result<Self> {
        Ok(Self(boot(lists, cpus)?, Clocks::default()))
    }
}

impl Frames for Plain {
    fn take(&mut self, cpu: u32, order: u8, migrate_type: MigrateType) -> Block {
        take(&self.0, cpu, order, migrate_type)
    }

    fn give(&mut self, cpu: u32, block: Block) {
        give(&self.0, cpu, block);
    }

    fn clocks(&mut self) -> &mut Clocks {
        &mut self.1
    }
}

impl Frames for Nothing {
    fn take(&mut self, _: u32, order: u8, _: MigrateType) -> Block {
        self.0 += 1;
        Block { pfn: self.0, order }
    }

    fn give(&mut self, _: u32, block: Block) {
        std::hint::black_box(block);
    }

    fn clocks(&mut self) -> &mut Clocks {
        &mut self.1
    }
}

impl Counted {
    pub(crate) fn new(lists: PcpConfig, cpus: usize) -> anyhow::Result<Self> {
        Ok(Self { allocator: boot(lists, cpus)?, counts: Counts::default(), clocks: Clocks::default() })
    }

    /// Frames in the zone, those on lists not counted.
    fn in_zone(&self) -> u64 {
        self.allocator.zones().map(pageblock::ZoneView::free_frames).sum()
    }

    /// Runs an operation, and counts what it did under the lock.
    fn counted<R>(&mut self, action: impl FnOnce(&PageAllocator<Cpus>) -> R) -> (R, UnderLock) {
        let before = (LOCKED.get(), self.in_zone());
        let result = action(&self.allocator);
        let (locks, after) = (LOCKED.get() - before.0, self.in_zone());
        let (refilled, drained) = (before.1.saturating_sub(after), after.saturating_sub(before.1));
        self.counts.zone_locks += locks;
        self.counts.frames_moved += refilled + drained;
        (result, UnderLock { locks, refilled, drained })
    }

    /// Everything that the stream took has come back but `held` frames, and all structures agree.
    pub(crate) fn verify(&self, held: u64) -> anyhow::Result<()> {
        let stats = self.allocator.stats();
        self.allocator.check().context("a zone is damaged")?;
        self.allocator.check_lists().context("a list is damaged")?;
        anyhow::ensure!(
            stats.free + held == stats.managed && stats.bad_frees == 0,
            "of {} frames {} are free and {held} held",
            stats.managed,
            stats.free
        );
        Ok(())
    }
}

impl Frames for Counted {
    fn take(&mut self, cpu: u32, order: u8, migrate_type: MigrateType) -> Block {
        self.counts.allocations += 1;
        self.counts.frames += 1 << order;
        let (block, under) = self.counted(|allocator| take(allocator, cpu, order, migrate_type));
        self.clocks.take(cpu, under);
        block
    }

    fn give(&mut self, cpu: u32, block: Block) {
        self.counts.frees += 1;
        let ((), under) = self.counted(|allocator| give(allocator, cpu, block));
        self.clocks.give(cpu, under);
    }

    fn clocks(&mut self) -> &mut Clocks {
        &mut self.clocks
    }
}
