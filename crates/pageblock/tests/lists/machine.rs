//! Four CPUs that one thread is in turn.

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::ptr::NonNull;
use std::rc::Rc;

use pageblock::{Config, CpuId, PageAllocator, PcpConfig, Platform, Region, ZoneLimits};
use pageblock_frame::{Hooks, IrqState};
use pageblock_testkit::host::Stored;

pub(crate) const CPUS: u32 = 4;
/// 256 MiB: enough for lists of every preset on four CPUs.
pub(crate) const FRAMES: u64 = 1 << 16;

thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
    static PINS: Cell<u32> = const { Cell::new(0) };
    static IRQS_OFF: Cell<usize> = const { Cell::new(0) };
    /// How often interrupts were turned off: every way to a zone lock does that, and nothing on a list does.
    static MASKED: Cell<u64> = const { Cell::new(0) };
    /// Runs on top of each call that turns interrupts off, until it says that it is done.
    static ON_MASK: RefCell<Option<Box<dyn FnMut() -> bool>>> = const { RefCell::new(None) };
    /// Who answers kicks; without one, nobody.
    static KICKED: RefCell<Option<Rc<Booted>>> = const { RefCell::new(None) };
}

/// The platform.
#[derive(Debug)]
pub(crate) struct FourCpus;

// SAFETY: 1. The CPU is a number of the thread's, below `MAX_CPUS`, and changes between calls only, or for the length
// of a kick, when nothing works in the other CPU's lists. 2. The only interrupts are kicks; they come while no lock is
// held. 3. Nothing is behind the frames, and nothing asks for it.
unsafe impl Platform for FourCpus {
    const MAX_CPUS: usize = CPUS as usize;
    const HAS_MEMORY: bool = false;

    fn phys_to_virt(_: u64) -> NonNull<u8> {
        NonNull::dangling()
    }

    fn pin() -> CpuId {
        PINS.set(PINS.get() + 1);
        CpuId::new(CPU.get())
    }

    unsafe fn unpin() {
        PINS.set(PINS.get() - 1);
    }

    fn irq_save() -> IrqState {
        MASKED.set(MASKED.get() + 1);
        if let Some(mut interrupt) = ON_MASK.take()
            && !interrupt()
        {
            ON_MASK.set(Some(interrupt));
        }
        IrqState::new(IRQS_OFF.replace(IRQS_OFF.get() + 1))
    }

    unsafe fn irq_restore(state: IrqState) {
        assert_eq!(IRQS_OFF.replace(state.bits()), state.bits() + 1);
    }

    fn hooks() -> impl Hooks {
        Self
    }
}

impl Hooks for FourCpus {
    /// The other CPU answers while this one waits.
    fn kick(&self, cpu: CpuId) -> bool {
        let machine = KICKED.with(|kicked| kicked.borrow().clone());
        machine.is_some_and(|machine| {
            on_cpu(cpu.index() as u32, || machine.cpus().handle_kick());
            true
        })
    }
}

/// Runs `action` as this CPU.
pub(crate) fn on_cpu<R>(cpu: u32, action: impl FnOnce() -> R) -> R {
    assert!(cpu < CPUS);
    let before = CPU.replace(cpu);
    let result = action();
    CPU.set(before);
    result
}

/// Makes `machine` answer kicks at once from now on; with `None` nobody answers them.
pub(crate) fn answer_kicks(machine: Option<Rc<Booted>>) {
    KICKED.with(|kicked| *kicked.borrow_mut() = machine);
}

/// True if somebody answers kicks.
pub(crate) fn kicks_are_answered() -> bool {
    KICKED.with(|kicked| kicked.borrow().is_some())
}

/// Runs `interrupt` whenever interrupts are about to be turned off, until it says that it is done.
pub(crate) fn on_mask(interrupt: impl FnMut() -> bool + 'static) {
    ON_MASK.set(Some(Box::new(interrupt)));
}

/// True if such an interrupt was done.
pub(crate) fn interrupt_is_done() -> bool {
    ON_MASK.take().is_none()
}

/// Runs `action`, and says whether it did without any zone lock.
pub(crate) fn lock_free<R>(action: impl FnOnce() -> R) -> (R, bool) {
    let before = MASKED.get();
    let result = action();
    (result, MASKED.get() == before)
}

/// True if every pin and every interrupt state was undone.
pub(crate) fn is_balanced() -> bool {
    PINS.get() == 0 && IRQS_OFF.get() == 0
}

/// An allocator and what it lives in.
#[derive(Debug)]
pub(crate) struct Booted(Stored<PageAllocator<FourCpus>>);

impl Deref for Booted {
    type Target = PageAllocator<FourCpus>;

    fn deref(&self) -> &PageAllocator<FourCpus> {
        &self.0
    }
}

/// One zone, no watermarks but what the scale factor makes of low, these lists.
pub(crate) fn boot(lists: PcpConfig) -> Rc<Booted> {
    boot_with(FRAMES, ALL_OF_IT.per_cpu_lists(Some(lists)))
}

/// Twice that, half of it movable, as a zone of its own.
pub(crate) fn boot_two_zones(lists: PcpConfig) -> Rc<Booted> {
    boot_with(FRAMES * 2, ALL_OF_IT.movable_share(50).per_cpu_lists(Some(lists)))
}

const ALL_OF_IT: Config =
    Config::new().zones(ZoneLimits::single()).min_free_kbytes(Some(0)).lowmem_reserve_ratio([0; 4]);

fn boot_with(frames: u64, config: Config) -> Rc<Booted> {
    let map = [Region::usable(0..frames << 12)];
    let bytes = PageAllocator::<FourCpus>::metadata_bytes(map, &config).unwrap();
    // SAFETY: nothing of the allocator is kept longer than it.
    let stored = unsafe {
        Stored::new(bytes, |raw| {
            let allocator = PageAllocator::new();
            allocator.init_simulated(map, &config, raw).unwrap();
            allocator
        })
    };
    Rc::new(Booted(stored))
}
