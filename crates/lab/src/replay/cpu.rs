//! The platform of a replay: one thread, which is the CPU that the trace names, at the time that the trace names.

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::rc::Rc;

use pageblock::PageAllocator;
use pageblock_frame::migration::{Migrate, MigrateMode, MoveError, PutBack, Refusal};
use pageblock_frame::trace::{CompactEvent, CompactResult, Event};
use pageblock_frame::{CpuId, Hooks, NodeId, Order, Pfn, Platform};

use super::places::Places;

/// Most CPUs of a recorded machine.
pub(crate) const CPUS: usize = 64;

thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
    /// Nanoseconds since the trace's first event.
    static NOW: Cell<u64> = const { Cell::new(0) };
    /// One bit a node: its compaction thread was woken.
    static WOKEN: Cell<u64> = const { Cell::new(0) };
    /// The machine that is executing.
    static SEAT: RefCell<Option<Rc<Seat>>> = const { RefCell::new(None) };
}

/// The platform.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recorded;

/// An allocator with the record of its held memory, and its events.
pub(crate) struct Seat {
    pub(crate) allocator: PageAllocator<Recorded>,
    pub(crate) places: RefCell<Places>,
    pub(crate) noted: Cell<Noted>,
}

/// Counts of the allocator's events.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Noted {
    /// Fallbacks between migrate types.
    pub(crate) fallbacks: u64,
    /// Of those, the ones that took less than a pageblock.
    pub(crate) fragmenting: u64,
    /// Runs of compaction.
    pub(crate) runs: u64,
    /// Of those, the ones that made the block which was wanted.
    pub(crate) successes: u64,
}

impl std::fmt::Debug for Seat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seat").field("noted", &self.noted).finish_non_exhaustive()
    }
}

/// From now on this machine executes.
pub(crate) fn enter(seat: &Rc<Seat>) {
    SEAT.set(Some(Rc::clone(seat)));
}

/// From now on it is this CPU, and this time in microseconds.
pub(crate) fn set(cpu: u32, micros: u64) {
    CPU.set(cpu);
    NOW.set(micros.saturating_mul(1000));
}

/// The time in nanoseconds.
pub(crate) fn now() -> u64 {
    NOW.get()
}

/// The nodes with compaction threads woken since the last call, one bit each.
pub(crate) fn take_woken() -> u64 {
    WOKEN.take()
}

fn seat() -> Option<Rc<Seat>> {
    SEAT.with_borrow(Clone::clone)
}

// SAFETY: 1. Each thread has a machine of its own, and is all of its CPUs in turn: a CPU number changes between two
// operations, or for the length of a kick, while its sender waits in a call that holds nothing of the other CPU's. 2.
// There are no interrupts. 3. Nothing is behind the frames, as `HAS_MEMORY` says.
#[expect(unsafe_code, reason = "the seam of a hosted platform; its promises are stated above")]
unsafe impl Platform for Recorded {
    const MAX_CPUS: usize = CPUS;
    const HAS_MEMORY: bool = false;

    fn phys_to_virt(_pa: u64) -> NonNull<u8> {
        NonNull::dangling()
    }

    fn pin() -> CpuId {
        CpuId::new(CPU.get())
    }

    fn hooks() -> impl Hooks {
        Self
    }
}

impl Hooks for Recorded {
    fn now(&self) -> u64 {
        now()
    }

    fn kick(&self, cpu: CpuId) -> bool {
        let Some(seat) = seat() else { return false };
        let before = CPU.replace(cpu.index() as u32);
        seat.allocator.cpus().handle_kick();
        CPU.set(before);
        true
    }

    fn wake_kcompactd(&self, node: NodeId) {
        WOKEN.set(WOKEN.get() | 1 << (node.index() % 64));
    }

    fn migrator(&self) -> Option<&'static (dyn Migrate + Sync)> {
        Some(&Mover)
    }

    fn trace(&self, event: &Event) {
        let note = |change: fn(&mut Noted, bool), flag: bool| {
            let Some(seat) = seat() else { return };
            let mut noted = seat.noted.get();
            change(&mut noted, flag);
            seat.noted.set(noted);
        };
        match event {
            Event::Fallback(fallback) => note(
                |noted, fragmenting| {
                    noted.fallbacks += 1;
                    noted.fragmenting += u64::from(fragmenting);
                },
                fallback.is_fragmenting(),
            ),
            Event::Compaction(CompactEvent::End { status, .. }) => note(
                |noted, success| {
                    noted.runs += 1;
                    noted.successes += u64::from(success);
                },
                *status == CompactResult::Success,
            ),
            _ => {}
        }
    }
}

/// Lends and moves every page of the executing machine with a known holder. Nothing else runs meanwhile,
/// so that no page is ever busy.
#[derive(Debug)]
struct Mover;

// SAFETY: the table says which block begins at a frame, and it is changed in the call that answers `Ok`; nothing is
// behind the frames.
#[expect(unsafe_code, reason = "a migrator\'s answers give frames away")]
unsafe impl Migrate for Mover {
    fn isolate(&self, pfn: Pfn, order: Order, _mode: MigrateMode) -> Result<(), Refusal> {
        let seat = seat().ok_or(Refusal::Unknown)?;
        let known = seat.places.borrow().is_known(pfn, order);
        if known { Ok(()) } else { Err(Refusal::Unknown) }
    }

    fn migrate(&self, from: Pfn, to: Pfn, order: Order, _mode: MigrateMode) -> Result<(), MoveError> {
        let seat = seat().ok_or(MoveError::Failed)?;
        let moved = seat.places.borrow_mut().relocate(from, to, order);
        if moved { Ok(()) } else { Err(MoveError::Failed) }
    }

    fn put_back(&self, _pfn: Pfn, _order: Order) -> PutBack {
        PutBack::Kept
    }
}
