//! The seam to the allocator: this machine as a [`Platform`], and its memory from the device tree.

use core::ptr::NonNull;

use pageblock::{
    Config, CpuId, DeviceTree, Hooks, IrqState, Loaded, Migrate, PageAllocator, PhysRange, Platform, ZoneLimits, arch,
};

use crate::{CPUS, compact, machine, must};

/// The machine.
pub struct Virt;

// SAFETY: 1. nothing is preempted or moved, and each CPU has its number before it comes here; 2. handlers are interrupt
// handlers;
// 3. all memory is mapped where it is.
unsafe impl Platform for Virt {
    const MAX_CPUS: usize = CPUS;

    fn phys_to_virt(pa: u64) -> NonNull<u8> {
        NonNull::new(pa as usize as *mut u8).unwrap_or(NonNull::dangling())
    }

    #[inline(always)]
    fn pin() -> CpuId {
        this_cpu()
    }

    #[inline(always)]
    fn irq_save() -> IrqState {
        machine::irq_save()
    }

    #[inline(always)]
    unsafe fn irq_restore(state: IrqState) {
        // SAFETY: the caller's promise is passed on.
        unsafe { machine::irq_restore(state) }
    }

    fn hooks() -> impl Hooks {
        Self
    }
}

impl Hooks for Virt {
    fn migrator(&self) -> Option<&'static (dyn Migrate + Sync)> {
        Some(&compact::PAGES)
    }
}

/// The page allocator.
pub static FRAMES: PageAllocator<Virt> = PageAllocator::new();

unsafe extern "C" {
    static image_start: u8;
    static image_end: u8;
}

/// The number of the CPU that executes this.
#[inline(always)]
pub fn this_cpu() -> CpuId {
    // SAFETY: the way in sets it before any Rust code runs.
    unsafe { arch::cpu_number() }
}

/// The device tree at this address.
pub fn device_tree(blob: usize) -> DeviceTree<'static> {
    let start = core::ptr::with_exposed_provenance::<u8>(blob);
    // SAFETY: the firmware has put a device tree there, which nothing overwrites: `init` keeps its frames back.
    let bytes = unsafe {
        let len = must("device tree", DeviceTree::blob_len(&start.cast::<[u8; 8]>().read()));
        core::slice::from_raw_parts(start, len)
    };
    must("device tree", DeviceTree::new(bytes))
}

/// A static: a boot stack has better uses.
static CONFIG: Config = Config::new().zones(ZoneLimits::single()).cpus(CPUS);

/// Gives the memory of the machine to the allocator. A function of its own, so that its stack can be measured.
#[inline(never)]
pub fn init(tree: &DeviceTree<'static>, blob: usize) {
    let kernel = (&raw const image_start).addr() as u64..(&raw const image_end).addr() as u64;
    let loaded = Loaded { blob: (blob as u64).into(), kernel: PhysRange::from(kernel) };
    // SAFETY: memory that the tree neither reserves nor has loaded something into is used by nothing but this kernel.
    must("init", unsafe { FRAMES.init(tree.regions(loaded), &CONFIG) });
}
