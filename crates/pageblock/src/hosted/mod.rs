//! An allocator inside an ordinary program (feature `hosted`): for tests and benches of code that uses one, and for
//! [`model`]s.
//!
//! ```
//! use pageblock::{Gfp, hosted};
//! let frames = hosted::boot(64 << 20);
//! let page = frames.alloc(Gfp::KERNEL | Gfp::ZERO)?;
//! std::thread::spawn(move || drop(page)).join().unwrap(); // another CPU frees it
//! # Ok::<(), pageblock::AllocError>(())
//! ```

mod cpus;
pub mod model;

use core::alloc::Layout;
use core::ptr::NonNull;
use std::boxed::Box;
use std::sync::OnceLock;

use crate::{Config, CpuId, InitError, PageAllocator, PerCpuPtr, Platform, Region};

/// A machine with threads for CPUs and the program's own memory. A thread takes a free CPU when it first
/// needs one, and gives it up when it ends. With `CPU_WORD`, each CPU keeps the allocator's word in a thread-local
/// variable ([`Platform::CPU_WORD`]).
#[derive(Clone, Copy, Debug)]
pub struct Hosted<const CPU_WORD: bool = true>;

/// The alignment of memory: the largest block's.
const ALIGN: usize = 128 << 20;
/// The physical address of the memory that was booted first: above the reach of 32-bit devices, so that all of it is
/// one zone.
const FIRST: usize = 8 << 40;
/// The distance from physical to virtual addresses, modulo 2^64.
static DISTANCE: OnceLock<usize> = OnceLock::new();

// SAFETY: 1. A thread has a CPU of its own, below `MAX_CPUS`, until it ends. 2. There are no interrupts. 3. Physical
// addresses are those of memory that is never freed, at one distance from its virtual ones. 4. A thread's word is its
// CPU's, and is new with it.
#[expect(unsafe_code, reason = "the seam of a hosted platform; its promises are stated above")]
unsafe impl<const CPU_WORD: bool> Platform for Hosted<CPU_WORD> {
    const MAX_CPUS: usize = cpus::MOST as usize;
    const CPU_WORD: bool = CPU_WORD;

    fn phys_to_virt(pa: u64) -> NonNull<u8> {
        let virt = (pa as usize).wrapping_add(*DISTANCE.get_or_init(|| 0));
        NonNull::new(core::ptr::with_exposed_provenance_mut(virt)).unwrap_or(NonNull::dangling())
    }

    #[inline(always)]
    fn pin() -> CpuId {
        cpus::current()
    }

    #[inline(always)]
    fn cpu_word() -> PerCpuPtr {
        cpus::word()
    }

    #[inline(always)]
    unsafe fn set_cpu_word(word: PerCpuPtr) {
        cpus::set_word(word);
    }
}

/// A machine with threads for CPUs and bare numbers for frames, for
/// [`init_simulated`](PageAllocator::init_simulated).
///
/// ```
/// use pageblock::hosted::Simulated;
/// use pageblock::{Config, Gfp, PageAllocator, Region};
/// let frames = PageAllocator::<Simulated>::new();
/// let storage = vec![core::mem::MaybeUninit::uninit(); 1 << 20].leak();
/// frames.init_simulated([Region::from((0, 64 << 20, true))], &Config::new(), storage)?;
/// assert!(frames.alloc(Gfp::KERNEL).is_ok());
/// # Ok::<(), pageblock::InitError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Simulated;

// SAFETY: 1. A thread has a CPU of its own, below `MAX_CPUS`, until it ends. 2. There are no interrupts. 3. There is no
// memory.
#[expect(unsafe_code, reason = "the seam of a simulated platform; its promises are stated above")]
unsafe impl Platform for Simulated {
    const MAX_CPUS: usize = cpus::MOST as usize;
    const HAS_MEMORY: bool = false;

    fn phys_to_virt(_: u64) -> NonNull<u8> {
        NonNull::dangling()
    }

    fn pin() -> CpuId {
        cpus::current()
    }
}

/// An allocator of `bytes` bytes in the default configuration, for as many CPUs as the host has. It lives for ever, and
/// so does its memory.
///
/// # Panics
/// If there is no memory, or too little for an allocator.
#[must_use]
pub fn boot(bytes: usize) -> &'static PageAllocator<Hosted> {
    let cpus = std::thread::available_parallelism().map_or(1, core::num::NonZero::get);
    match boot_with(bytes, &Config::new().cpus(cpus.min(Hosted::<true>::MAX_CPUS))) {
        Ok(frames) => frames,
        Err(error) => panic!("{bytes} bytes of memory: {error}"),
    }
}

/// The same in a configuration of the caller's, with or without a CPU word. CPUs beyond [`Config::cpus`] have no lists.
///
/// # Errors
/// As [`PageAllocator::init`].
///
/// # Panics
/// If the host has no memory.
///
/// ```
/// use pageblock::{Config, hosted};
/// let frames = hosted::boot_with::<false>(64 << 20, &Config::new().cpus(1))?;
/// assert!(frames.stats().free > 16_000);
/// # Ok::<(), pageblock::InitError>(())
/// ```
pub fn boot_with<const CPU_WORD: bool>(
    bytes: usize,
    config: &Config,
) -> Result<&'static PageAllocator<Hosted<CPU_WORD>>, InitError> {
    let physical = memory(bytes);
    let frames: &'static PageAllocator<Hosted<CPU_WORD>> = Box::leak(Box::new(PageAllocator::new()));
    // SAFETY: the memory has just been allocated, and is used by nothing else.
    #[expect(unsafe_code, reason = "the memory is the allocator's")]
    unsafe {
        frames.init([Region::from((physical, bytes as u64, true))], config)?;
    }
    // The word of a CPU leads to one allocator: to the last that its thread has booted.
    cpus::set_word(PerCpuPtr::new());
    Ok(frames)
}

/// Memory that is never freed; its physical address.
fn memory(bytes: usize) -> u64 {
    let Ok(layout) = Layout::from_size_align(bytes.max(1), ALIGN) else { panic!("{bytes} bytes are no memory") };
    // SAFETY: the size is not 0.
    #[expect(unsafe_code, reason = "memory of an alignment")]
    let start = unsafe { std::alloc::alloc(layout) };
    assert!(!start.is_null(), "the host has no {bytes} bytes");
    let start = start.expose_provenance();
    start.wrapping_sub(*DISTANCE.get_or_init(|| start.wrapping_sub(FIRST))) as u64
}
