//! What an interrupt does: mostly it allocates and frees, sometimes anything else that interrupts may do.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use pageblock_frame::{CpuId, Pfn};
use pageblock_pcp::PcpError;

use crate::machine::{Fixture, IRQS_OFF, migrate_type, order};
use crate::thread;

/// Interrupts that were taken, those of them that found the lists busy, and those that came while interrupts were off.
pub(crate) static INTERRUPTS: AtomicU64 = AtomicU64::new(0);
pub(crate) static BUSY: AtomicU64 = AtomicU64::new(0);
pub(crate) static MASKED: AtomicU64 = AtomicU64::new(0);

/// Blocks that are the handler's, or that the thread left for it; each slot has an order of its own.
static HELD: [AtomicU32; 64] = [const { AtomicU32::new(EMPTY) }; 64];
const EMPTY: u32 = u32::MAX;
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// The interrupt.
pub(crate) fn handle() {
    if IRQS_OFF.load(Ordering::SeqCst) {
        // A CPU with interrupts off would take it later.
        MASKED.fetch_add(1, Ordering::Relaxed);
        return;
    }
    let Some(fixture) = Fixture::current() else { return };
    INTERRUPTS.fetch_add(1, Ordering::Relaxed);
    if fixture.lists.enter().is_none() {
        BUSY.fetch_add(1, Ordering::Relaxed);
        thread::note_interrupted();
    }
    let turn = NEXT.fetch_add(1, Ordering::Relaxed);
    match turn % 131 {
        0 => fixture.lists.handle_kick(),
        1 => drop(fixture.lists.drain_cpu(CpuId::new(0))),
        2 => come_and_go(fixture),
        3 => free_twice(fixture),
        _ => visit(fixture, turn, migrate_type(turn)),
    }
}

/// Every second visit to a slot frees what the visit before has allocated. Returns what a visit leaves there, if
/// something was taken out of it.
pub(crate) fn visit(fixture: &Fixture, slot: usize, t: pageblock_frame::MigrateType) {
    let order = order(slot % HELD.len());
    let held = &HELD[slot % HELD.len()];
    match held.swap(EMPTY, Ordering::Relaxed) {
        EMPTY => {
            let new = fixture.alloc(order, t).map_or(EMPTY, |pfn| pfn.as_u64() as u32);
            // An interrupt may have put something there meanwhile.
            let other = held.swap(new, Ordering::Relaxed);
            if other != EMPTY {
                fixture.free(Pfn::new(other.into()), order).unwrap();
            }
        }
        pfn => fixture.free(Pfn::new(pfn.into()), order).unwrap(),
    }
}

/// The CPU leaves and returns at once; refused on top of an operation, or while it is away.
fn come_and_go(fixture: &Fixture) {
    match fixture.lists.go_offline() {
        Ok(()) => fixture.lists.come_online().unwrap(),
        Err(error) => assert_eq!(error, PcpError::Busy(CpuId::new(0))),
    }
}

/// Whoever is interrupted, no frame can be freed twice here: nothing else runs until the handler returns.
fn free_twice(fixture: &Fixture) {
    let order = order(4);
    if let Some(pfn) = fixture.alloc(order, migrate_type(1)) {
        fixture.free(pfn, order).unwrap();
        assert!(fixture.free(pfn, order).is_err());
    }
}

/// Frames in the slots.
pub(crate) fn held_frames() -> u64 {
    let full = |slot: &usize| HELD[*slot].load(Ordering::Relaxed) != EMPTY;
    (0..HELD.len()).filter(full).map(|slot| order(slot).frames()).sum()
}

/// Empties the slots.
pub(crate) fn free_all(fixture: &Fixture) {
    for (slot, held) in HELD.iter().enumerate() {
        let pfn = held.swap(EMPTY, Ordering::Relaxed);
        if pfn != EMPTY {
            fixture.free(Pfn::new(pfn.into()), order(slot)).unwrap();
        }
    }
}
