//! Per-CPU data, reached through the GS base.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::mem::offset_of;

use pageblock_frame::CpuId;
use pageblock_frame::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering, PerCpuPtr};
use x86_64::VirtAddr;
use x86_64::registers::model_specific::GsBase;

/// Most CPUs that this kernel starts.
pub const MAX_CPUS: usize = 16;

/// A CPU's data about itself. `id` is first because [`current`] reads it at GS:0.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Cpu {
    /// Our number; written once, before GS points here.
    id: AtomicU32,
    /// The allocator's. Read and written by this CPU only, through GS.
    word: UnsafeCell<PerCpuPtr>,
    /// The number of its interrupt controller; written once, before the CPU starts.
    pub apic_id: AtomicU32,
    /// Runs, and takes interrupts.
    pub online: AtomicBool,
    /// Timer interrupts taken.
    pub ticks: AtomicU64,
    /// Kicks taken.
    pub kicks: AtomicU64,
    /// Translation shoot-downs carried out for others.
    pub shootdowns: AtomicU64,
    /// Executes a call of the allocator. Only this CPU writes: an interrupt leaves it as it found it.
    pub in_allocator: AtomicBool,
    /// Reclaims or compacts. Only this CPU writes.
    pub reclaims: AtomicBool,
}

impl Cpu {
    const fn new() -> Self {
        Self {
            id: AtomicU32::new(0),
            word: UnsafeCell::new(PerCpuPtr::new()),
            apic_id: AtomicU32::new(0),
            online: AtomicBool::new(false),
            ticks: AtomicU64::new(0),
            kicks: AtomicU64::new(0),
            shootdowns: AtomicU64::new(0),
            in_allocator: AtomicBool::new(false),
            reclaims: AtomicBool::new(false),
        }
    }

    /// Our number for it.
    pub fn id(&self) -> CpuId {
        CpuId::new(self.id.load(Ordering::Relaxed))
    }
}

// SAFETY: all but `word` are atomics, and that is one CPU's own.
unsafe impl Sync for Cpu {}

static CPUS: [Cpu; MAX_CPUS] = [const { Cpu::new() }; MAX_CPUS];

/// All CPUs there can be.
pub fn all() -> &'static [Cpu; MAX_CPUS] {
    &CPUS
}

/// The CPUs that run.
pub fn online() -> impl Iterator<Item = &'static Cpu> {
    CPUS.iter().filter(|cpu| cpu.online.load(Ordering::Acquire))
}

/// Makes the CPU that executes this the one with number `index`.
///
/// # Panics
/// `index` is not below [`MAX_CPUS`].
pub fn adopt(index: usize) {
    let cpu = &CPUS[index];
    cpu.id.store(index as u32, Ordering::Relaxed);
    GsBase::write(VirtAddr::from_ptr(cpu));
}

/// The number of the CPU that executes this.
#[inline(always)]
pub fn current() -> CpuId {
    let id: u32;
    // SAFETY: `adopt` pointed GS at this CPU's `Cpu`, its first field is its number.
    unsafe { asm!("mov {:e}, gs:[0]", out(reg) id, options(nostack, preserves_flags, readonly)) };
    CpuId::new(id)
}

/// The allocator's word of the CPU that executes this.
#[inline(always)]
pub fn word() -> PerCpuPtr {
    let raw: *mut ();
    // SAFETY: `adopt` pointed GS at this CPU's `Cpu`; an interrupt leaves the word whole.
    unsafe {
        asm!("mov {}, gs:[{}]", out(reg) raw, const offset_of!(Cpu, word), options(nostack, preserves_flags, readonly));
        PerCpuPtr::from_raw(raw)
    }
}

/// Replaces it.
#[inline(always)]
pub fn set_word(word: PerCpuPtr) {
    // SAFETY: as above.
    unsafe {
        asm!("mov gs:[{}], {}", const offset_of!(Cpu, word), in(reg) word.into_raw(), options(nostack, preserves_flags))
    };
}

/// This CPU's data.
pub fn this() -> &'static Cpu {
    &CPUS[current().index()]
}
