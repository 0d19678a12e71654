//! The whole allocator as the loops see it: through the facade's public calls, with per-CPU lists.

use core::cell::Cell;
use core::ptr::NonNull;

use pageblock::{Config, CpuId, CpuWord, Gfp, Order, PageAllocator, PcpConfig, Pfn, Platform, Region};

use crate::Frames;
use crate::allocators::refused;
use crate::floor;

thread_local! {
    /// Which CPU a thread is. One load through a segment register, as in a kernel.
    static CPU: Cell<u32> = const { Cell::new(0) };
    /// What the allocator keeps on the CPU that a thread is.
    static WORD: Cell<CpuWord> = const { Cell::new(CpuWord::new()) };
}

/// Makes the thread CPU `cpu`. Nobody else may be that CPU then.
pub fn become_cpu(cpu: u32) {
    CPU.set(cpu);
    forget();
}

/// The CPU that the thread is.
#[must_use]
#[inline(always)]
pub fn current_cpu() -> u32 {
    CPU.get()
}

/// Forgets what the thread's CPU keeps, so that the next allocator it uses has it.
fn forget() {
    WORD.set(CpuWord::new());
    floor::forget();
}

/// A machine with two CPUs, which are threads; no interrupts. With `HARD`, frees are hardened; with `WORD`, each CPU keeps a word for
/// the allocator in a thread-local variable.
#[derive(Debug)]
pub struct TwoCpus<const HARD: bool, const WORD: bool>;

// SAFETY: 1. every loop's threads take a CPU number each before they begin, below `MAX_CPUS`. 2. There are no interrupts.
// 3. Nothing is behind the frames, and nothing asks for it. 4. A thread forgets its word when it becomes another CPU.
#[expect(unsafe_code, reason = "the seam of a hosted platform; its promises are stated above")]
unsafe impl<const HARD: bool, const KEEPS_WORD: bool> Platform for TwoCpus<HARD, KEEPS_WORD> {
    const MAX_CPUS: usize = 2;
    const HARDENED: bool = HARD;
    const CPU_WORD: bool = KEEPS_WORD;
    const HAS_MEMORY: bool = false;

    #[inline(always)]
    fn phys_to_virt(_pa: u64) -> NonNull<u8> {
        NonNull::dangling()
    }

    #[inline(always)]
    fn pin() -> CpuId {
        CpuId::new(CPU.get())
    }

    #[inline(always)]
    fn cpu_word() -> CpuWord {
        WORD.get()
    }

    #[inline(always)]
    fn set_cpu_word(word: CpuWord) {
        WORD.set(word);
    }
}

/// An allocator for two CPUs, with as much memory again as the loops need, so that no watermark is near. Its metadata live
/// for ever, as a kernel's: words lead to them.
#[derive(Debug)]
pub struct Machine<const HARD: bool = false, const WORD: bool = true>(PageAllocator<TwoCpus<HARD, WORD>>);

/// What the loops ask for.
const GFP: Gfp = Gfp::HIGHUSER_MOVABLE;

impl<const HARD: bool, const WORD: bool> Machine<HARD, WORD> {
    /// A machine of twice `frames` frames whose lists are these.
    ///
    /// # Panics
    /// If it does not boot.
    #[must_use]
    pub fn with_lists(frames: u64, lists: Option<PcpConfig>) -> Self {
        let config = Config::new().zones(pageblock::ZoneLimits::single()).per_cpu_lists(lists);
        let map = [Region::from((0, frames << 13, true))];
        let bytes = match PageAllocator::<TwoCpus<HARD, WORD>>::metadata_bytes(map, &config) {
            Ok(bytes) => bytes,
            Err(error) => panic!("{frames} frames: {error}"),
        };
        let allocator = PageAllocator::new();
        let storage = Box::leak(Box::<[u8]>::new_uninit_slice(bytes));
        if let Err(error) = allocator.init_simulated(map, &config, storage) {
            panic!("{frames} frames: {error}");
        }
        forget();
        Self(allocator)
    }

    /// The allocator.
    #[must_use]
    #[inline(always)]
    pub const fn allocator(&self) -> &PageAllocator<TwoCpus<HARD, WORD>> {
        &self.0
    }

    /// Allocates on the executing CPU.
    #[inline(always)]
    #[must_use]
    pub fn take(&self, order: u8) -> u64 {
        match self.0.alloc_order(Order::saturating(order), GFP) {
            Ok(frames) => frames.into_raw().0.as_u64(),
            Err(_) => refused(order),
        }
    }

    /// Frees on the executing CPU.
    #[inline(always)]
    #[expect(unsafe_code, reason = "the loops' frames have nothing behind them")]
    pub fn give(&self, block: u64, order: u8) {
        // SAFETY: the loop owns the block and nothing is behind it.
        if unsafe { self.0.free(Pfn::new(block), Order::saturating(order)) }.is_err() {
            refused(order);
        }
    }
}

impl<const HARD: bool, const WORD: bool> Frames for Machine<HARD, WORD> {
    fn new(frames: u64) -> Self {
        Self::with_lists(frames, Some(PcpConfig::new()))
    }

    #[inline(always)]
    fn alloc(&mut self, order: u8) -> u64 {
        self.take(order)
    }

    #[inline(always)]
    fn free(&mut self, block: u64, order: u8) {
        self.give(block, order);
    }
}
