//! The whole allocator as the loops see it: the facade's public calls, in its default configuration.

use core::cell::Cell;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use pageblock::{Config, CpuId, Gfp, Hooks, Order, PageAllocator, PerCpuPtr, Pfn, Platform, Region};

use crate::Frames;
use crate::floor;

/// CPUs that one thread can be in turn.
pub const MOST_CPUS: usize = 64;

thread_local! {
    /// Which CPU a thread is. One load through a segment register, as in a kernel.
    static CPU: Cell<u32> = const { Cell::new(0) };
    /// The allocator's word on the CPU that a thread is.
    static WORD: Cell<PerCpuPtr> = const { Cell::new(PerCpuPtr::new()) };
    /// Its words on the others that the thread has been.
    static WORDS: [Cell<PerCpuPtr>; MOST_CPUS] = const { [const { Cell::new(PerCpuPtr::new()) }; MOST_CPUS] };
    /// Answer to a kick of a CPU that the thread emulates.
    static ANSWER: Cell<Option<&'static dyn Answer>> = const { Cell::new(None) };
}

/// An allocator with CPUs that can be kicked.
trait Answer {
    fn answer(&self);
}

/// Makes the thread CPU `cpu`. No other thread may be that CPU then.
#[inline(always)]
pub fn become_cpu(cpu: u32) {
    WORDS.with(|words| {
        let before = CPU.replace(cpu);
        if let (Some(old), Some(new)) = (words.get(before as usize), words.get(cpu as usize)) {
            old.set(WORD.get());
            WORD.set(new.get());
        }
    });
}

/// The CPU that the thread is.
#[must_use]
#[inline(always)]
pub fn current_cpu() -> u32 {
    CPU.get()
}

/// Clears the words of the thread's CPUs, so that the next allocator they use has it.
fn forget() {
    WORD.set(PerCpuPtr::new());
    WORDS.with(|words| words.iter().for_each(|word| word.set(PerCpuPtr::new())));
    floor::forget();
}

/// Ranges of addresses that are the emulated CPUs' own, and none of the allocator's: the thread-local variables above.
#[must_use]
pub fn own_variables() -> [(usize, usize); 3] {
    fn range<T>(variable: &T) -> (usize, usize) {
        let start = core::ptr::from_ref(variable).addr();
        (start, start + size_of::<T>())
    }
    [CPU.with(range), WORD.with(range), WORDS.with(range)]
}

/// A machine of `CPUS` CPUs, which are threads, or one thread in turn; no interrupts. With `WORD`, each CPU keeps a
/// word for the allocator in a thread-local variable; with `HARD`, frees are hardened; with `KICK`, all CPUs are one
/// thread, and a CPU that is kicked answers at once.
#[derive(Debug)]
pub struct Cpus<const CPUS: usize, const KEEPS_WORD: bool, const HARD: bool, const KICK: bool>;

// SAFETY: 1. every loop's threads take a CPU number each before they begin, below `MAX_CPUS`. 2. There are no
// interrupts.
// 3. Nothing is behind the frames, and nothing asks for it. 4. A thread changes its word when it becomes another CPU.
//    5. A kick is
// answered on behalf of another CPU only where one thread is all CPUs.
#[expect(unsafe_code, reason = "the seam of a hosted platform; its promises are stated above")]
unsafe impl<const CPUS: usize, const KEEPS_WORD: bool, const HARD: bool, const KICK: bool> Platform
    for Cpus<CPUS, KEEPS_WORD, HARD, KICK>
{
    const MAX_CPUS: usize = CPUS;
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
    fn cpu_word() -> PerCpuPtr {
        WORD.get()
    }

    #[inline(always)]
    unsafe fn set_cpu_word(word: PerCpuPtr) {
        WORD.set(word);
    }

    #[inline(always)]
    fn hooks() -> impl Hooks {
        Kicks::<KICK>
    }
}

/// The services of the emulated machine: a kick, with `ANSWERED`, is answered at once.
struct Kicks<const ANSWERED: bool>;

impl<const ANSWERED: bool> Hooks for Kicks<ANSWERED> {
    fn kick(&self, cpu: CpuId) -> bool {
        if ANSWERED && let Some(answer) = ANSWER.get() {
            let own = current_cpu();
            become_cpu(cpu.index() as u32);
            answer.answer();
            become_cpu(own);
        }
        ANSWERED
    }
}

/// An allocator in its default configuration. Its memory begins at 4 GiB, where all of it is one zone; its metadata
/// live for ever, as a kernel's: words lead to them.
#[derive(Debug)]
pub struct Machine<const CPUS: usize = 2, const WORD: bool = true, const HARD: bool = false, const KICK: bool = false>(
    &'static PageAllocator<Cpus<CPUS, WORD, HARD, KICK>>,
);

/// All CPUs are one thread.
pub type Emulated<const CPUS: usize> = Machine<CPUS, true, false, true>;

/// Requests of the loops.
pub const GFP: Gfp = Gfp::HIGHUSER_MOVABLE;

/// The address at which memory begins.
const BASE: u64 = 4 << 30;

impl<P: Platform> Answer for PageAllocator<P> {
    fn answer(&self) {
        self.cpus().handle_kick();
    }
}

/// The map of a machine of `frames` frames.
#[must_use]
pub fn map_of(frames: u64) -> [Region; 1] {
    [Region::from((BASE, frames << 12, true))]
}

impl<const CPUS: usize, const WORD: bool, const HARD: bool, const KICK: bool> Machine<CPUS, WORD, HARD, KICK> {
    /// A machine with this memory map, over storage that is big enough.
    ///
    /// # Panics
    /// If it does not boot.
    #[must_use]
    pub fn boot(map: &[Region], storage: &'static mut [MaybeUninit<u8>]) -> Self {
        let allocator: &'static PageAllocator<Cpus<CPUS, WORD, HARD, KICK>> = Box::leak(Box::new(PageAllocator::new()));
        if let Err(error) = allocator.init_simulated(map.iter().copied(), &Config::new(), storage) {
            panic!("{map:?}: {error}");
        }
        forget();
        ANSWER.set(Some(allocator));
        Self(allocator)
    }

    /// Bytes of metadata that a map needs.
    ///
    /// # Panics
    /// If the map is none.
    #[must_use]
    pub fn metadata_bytes(map: &[Region]) -> usize {
        match PageAllocator::<Cpus<CPUS, WORD, HARD, KICK>>::metadata_bytes(map.iter().copied(), &Config::new()) {
            Ok(bytes) => bytes,
            Err(error) => panic!("{map:?}: {error}"),
        }
    }

    /// The allocator.
    #[must_use]
    #[inline(always)]
    pub const fn allocator(&self) -> &'static PageAllocator<Cpus<CPUS, WORD, HARD, KICK>> {
        self.0
    }

    /// Allocates on the executing CPU.
    #[inline(always)]
    #[must_use]
    pub fn take(&self, order: u8, gfp: Gfp) -> Option<u64> {
        let frames = self.0.alloc_order(Order::saturating(order), gfp).ok()?;
        Some(frames.into_raw().pfn.as_u64())
    }

    /// Frees on the executing CPU.
    ///
    /// # Panics
    /// If the free is refused.
    #[inline(always)]
    #[expect(unsafe_code, reason = "the loops' frames have nothing behind them")]
    pub fn give(&self, block: u64, order: u8) {
        // SAFETY: the loop owns the block and nothing is behind it.
        if unsafe { self.0.free(Pfn::new(block), Order::saturating(order)) }.is_err() {
            crate::allocators::refused(order);
        }
    }
}

impl<const CPUS: usize, const WORD: bool, const HARD: bool, const KICK: bool> Frames
    for Machine<CPUS, WORD, HARD, KICK>
{
    fn new(frames: u64) -> Self {
        let map = map_of(frames);
        let bytes = Self::metadata_bytes(&map);
        Self::boot(&map, Box::leak(Box::<[u8]>::new_uninit_slice(bytes)))
    }

    #[inline(always)]
    fn alloc(&mut self, order: u8) -> Option<u64> {
        self.take(order, GFP)
    }

    #[inline(always)]
    fn free(&mut self, block: u64, order: u8) {
        self.give(block, order);
    }

    fn count_blocks(&mut self, order: u8) -> u64 {
        // All CPUs are this thread here.
        for cpu in 0..CPUS as u32 {
            become_cpu(cpu);
            self.0.drain();
        }
        become_cpu(0);
        // Watermarks keep some of the last ones from ordinary requests.
        core::iter::from_fn(|| self.take(order, GFP | Gfp::MEMALLOC)).count() as u64
    }

    fn exhaust(&mut self) -> Vec<u64> {
        core::iter::from_fn(|| self.take(0, GFP | Gfp::MEMALLOC)).collect()
    }
}
