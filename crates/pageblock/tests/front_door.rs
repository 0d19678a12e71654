//! A kernel that names one crate: every trait implemented, every configuration built, errors matched, with `pageblock`
//! alone.

use core::mem::MaybeUninit;
use core::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

use pageblock::{
    AddError, AllocAtError, AllocError, CompactError, CompactionConfig, Config, ConfigError, ContigError, CpuId,
    DirtyLimit, Event, Experiment, FairPolicy, FilePages, Frames, FreeError, Gfp, GfpError, Hooks, InitError,
    Interrupt, IrqState, IsolateRequest, ListSet, Migrate, MigrateMode, Move, MoveError, NodeId, Order, PageAllocator,
    PcpConfig, PcpError, Pfn, Platform, Policy, PutBack, RawFrames, Reclaim, ReclaimConfig, Refusal, Region, Shrink,
    Shrunk, SlowPath, ZoneKind, ZoneLimits, ZoneSpreading,
};

struct Kernel;

// SAFETY: one CPU, no interrupts; nothing is behind the frames.
unsafe impl Platform for Kernel {
    const MAX_CPUS: usize = 1;
    const HAS_MEMORY: bool = false;

    fn phys_to_virt(_: u64) -> NonNull<u8> {
        NonNull::dangling()
    }

    fn pin() -> CpuId {
        CpuId::new(0)
    }

    unsafe fn unpin() {}

    fn irq_save() -> IrqState {
        IrqState::new(1)
    }

    unsafe fn irq_restore(state: IrqState) {
        assert_eq!(state.bits(), 1);
    }

    fn hooks() -> impl Hooks {
        Self
    }
}

impl Hooks for Kernel {
    fn migrator(&self) -> Option<&'static (dyn Migrate + Sync)> {
        Some(&Owner)
    }

    fn reclaimer(&self) -> Option<&'static (dyn Reclaim + Sync)> {
        Some(&Owner)
    }

    fn trace(&self, event: &Event) {
        assert!(!matches!(event, Event::HighAtomic { reserved: false, .. }));
    }
}

/// Owns nothing that could move, and nothing that could go.
struct Owner;

// SAFETY: it isolates no block.
unsafe impl Migrate for Owner {
    fn isolate(&self, _: Pfn, _: Order, _: MigrateMode) -> Result<(), Refusal> {
        Err(Refusal::Unknown)
    }

    fn migrate(&self, _: Pfn, _: Pfn, _: Order, _: MigrateMode) -> Result<(), MoveError> {
        Err(MoveError::Failed)
    }

    fn put_back(&self, _: Pfn, _: Order) -> PutBack {
        PutBack::Kept
    }

    fn isolate_batch(&self, requests: &mut [IsolateRequest], _: MigrateMode) {
        requests.iter_mut().for_each(|request| request.answer = Some(Err(Refusal::Busy)));
    }

    fn migrate_batch(&self, moves: &mut [Move], _: MigrateMode) {
        moves.iter_mut().for_each(|one| one.outcome = Some(Err(MoveError::Again)));
    }

    fn interrupt(&self) -> Interrupt {
        Interrupt::None
    }
}

impl Reclaim for Owner {
    fn shrink(&self, _: &Shrink) -> Shrunk {
        Shrunk::default()
    }

    fn file_pages(&self, _: NodeId, _: ZoneKind) -> FilePages {
        FilePages::default()
    }
}

fn boot(config: &Config) -> &'static PageAllocator<Kernel> {
    let frames = Box::leak(Box::new(PageAllocator::new()));
    let map = [Region::usable(0..16 << 20), Region::reserved(1 << 20..2 << 20)];
    let bytes = PageAllocator::<Kernel>::metadata_bytes(map, config).unwrap();
    let stats = frames.init_simulated(map, config, vec![core::mem::MaybeUninit::uninit(); bytes].leak()).unwrap();
    assert_eq!(stats.managed, 15 << 8);
    frames
}

#[test]
fn every_configuration_is_built_from_here() {
    let policy = Policy { keep_whole: true, ..Policy::linux_6_1() };
    assert!(policy.highatomic);
    let config = Config::new()
        .experiment(Experiment::Policy(policy))
        .per_cpu_lists(Some(PcpConfig { set: ListSet::Typed, ..PcpConfig::new() }))
        .experiment(Experiment::Compaction(CompactionConfig::new()))
        .experiment(Experiment::Reclaim(ReclaimConfig::linux_6_1()))
        .dirty_limit(DirtyLimit::new())
        .experiment(Experiment::FairZones(FairPolicy::Off))
        .spreading(ZoneSpreading::On)
        .experiment(Experiment::SlowPath(SlowPath::Linux6_1))
        .zones(ZoneLimits::x86_64());
    boot(&config);
    assert!(matches!(config.cpus(0).check(), Err(ConfigError::Cpus { given: 0 })));
}

#[test]
fn every_error_is_matched_from_here() {
    let frames = boot(&Config::new());
    let map = [Region::usable(0..16 << 20)];
    let again = frames.init_simulated(map, &Config::new(), &mut []);
    assert!(matches!(again, Err(InitError::AlreadyInitialised)));
    let bad = frames.alloc(Gfp::KERNEL | Gfp::DMA | Gfp::DMA32).map(drop);
    assert!(matches!(bad, Err(AllocError::BadFlags(GfpError::ZoneBits))));
    let place = frames.alloc_at(Pfn::from_phys(1 << 20), Order::ZERO).map(drop);
    assert!(matches!(place, Err(AllocError::Place(AllocAtError::Busy))), "{place:?}");
    let range = pageblock::PfnRange::new(Pfn::new(1 << 30), Pfn::new((1 << 30) + 1));
    let contig = frames.alloc_contig_range(range, MigrateMode::Sync).map(drop);
    assert!(matches!(contig, Err(AllocError::Contig(ContigError::OutOfRange))));
    // SAFETY: refused.
    let free = unsafe { frames.free(Pfn::from_phys(2 << 20), Order::ZERO) };
    assert!(matches!(free, Err(FreeError::NotAllocated)));
    // SAFETY: refused.
    let added = unsafe { frames.add_memory(Region::usable(0..4096)) };
    assert!(matches!(added, Err(AddError::Overlap(_))));
    assert!(matches!(frames.compaction().zone(NodeId::new(9), ZoneKind::Dma), Err(CompactError::NoSuchZone)));
    assert!(matches!(frames.cpus().take_over(CpuId::new(7)), Err(PcpError::NoSuchCpu(_)) | Ok(())));
}

#[test]
fn a_block_is_a_number_and_a_handle_again() {
    let frames = boot(&Config::new());
    let mut block = frames.request().order(Order::HUGE).gfp(Gfp::USER).alloc().unwrap();
    assert!(block.bytes_mut().is_empty(), "nothing is behind this machine's frames");
    let raw @ RawFrames { pfn, order } = block.into_raw();
    assert_eq!((frames.order_of(pfn), order), (Some(Order::HUGE), Order::PAGEBLOCK));
    // SAFETY: the block above, by its only number.
    drop(unsafe { Frames::from_raw(frames, raw) });
    assert_eq!((frames.order_of(pfn), frames.stats().bad_frees), (None, 0));
    assert!(matches!(frames.request().below(4096).alloc(), Err(AllocError::OutOfMemory)));
}

/// A machine with memory, where nothing but the allocator has any of it.
struct Backed;

const BACKED_BYTES: usize = 8 << 20;
static MEMORY: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());

// SAFETY: one CPU, no interrupts; every address that the map names is in `MEMORY`, which is there for ever.
unsafe impl Platform for Backed {
    const MAX_CPUS: usize = 1;

    fn phys_to_virt(address: u64) -> NonNull<u8> {
        // SAFETY: below the size of the memory.
        NonNull::new(unsafe { MEMORY.load(Ordering::Relaxed).add(address as usize) }).unwrap()
    }
}

#[test]
fn a_block_is_its_holders_memory() {
    let layout = std::alloc::Layout::from_size_align(BACKED_BYTES, 4096).unwrap();
    // SAFETY: the size is not 0; the memory is never freed.
    MEMORY.store(unsafe { std::alloc::alloc(layout) }, Ordering::Relaxed);
    let frames: &PageAllocator<Backed> = Box::leak(Box::new(PageAllocator::new()));
    // SAFETY: the memory is used by nothing else.
    unsafe { frames.init([Region::usable(0..BACKED_BYTES as u64)], &Config::new()) }.unwrap();
    let mut first = frames.request().zeroed().alloc().unwrap();
    let mut second = frames.request().order(Order::new(1).unwrap()).alloc().unwrap();
    second.bytes_mut().fill(MaybeUninit::new(7));
    assert_eq!((first.bytes_mut().len(), second.bytes_mut().len()), (4096, 8192));
    // SAFETY: the request was for zeroed frames.
    assert!(first.bytes_mut().iter().all(|byte| unsafe { byte.assume_init() } == 0));
    drop((first, second));
    frames.check().unwrap();
}
