//! Walks over a zone let interrupts in after a few pageblocks.

use core::cell::Cell;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use pageblock_buddy::{Zone, ZoneConfig, ZoneStorage};
use pageblock_frame::{Carver, IrqState, NodeId, Order, Pfn, PfnRange, Platform, ZoneKind};
use pageblock_testkit::simulated::SimulatedZone;

const BLOCKS: u64 = 1000;

thread_local! {
    /// Times that interrupts were turned off, and whether they are.
    static SAVES: Cell<u64> = const { Cell::new(0) };
    static OFF: Cell<bool> = const { Cell::new(false) };
}

/// One CPU that counts.
struct Counting;

// SAFETY: each test is a thread with a zone of its own; nothing is behind the frames.
#[expect(unsafe_code, reason = "the seam of a platform")]
unsafe impl Platform for Counting {
    const MAX_CPUS: usize = 1;
    const HAS_MEMORY: bool = false;

    fn phys_to_virt(_: u64) -> NonNull<u8> {
        NonNull::dangling()
    }

    fn irq_save() -> IrqState {
        SAVES.set(SAVES.get() + 1);
        IrqState::new(usize::from(OFF.replace(true)))
    }

    unsafe fn irq_restore(state: IrqState) {
        OFF.set(state.bits() != 0);
    }
}

fn zone() -> Zone<'static> {
    let span = PfnRange::new(Pfn::new(0), Pfn::new(BLOCKS * 512));
    let raw = vec![MaybeUninit::uninit(); ZoneStorage::bytes(span, Order::MAX)].leak();
    let storage = ZoneStorage::carve(span, Order::MAX, &mut Carver::new(raw)).unwrap();
    let zone = Zone::new::<Counting>(ZoneConfig::new(ZoneKind::Normal, NodeId::new(0), span), storage).unwrap();
    zone.release_simulated::<Counting>(span).unwrap();
    zone
}

/// Most pageblocks that are visited between two moments at which interrupts may come, and how many are in all.
fn longest_stretch(zone: &Zone<'_>) -> (u64, u64) {
    let (mut longest, mut stretch, mut all, mut last) = (0, 0, 0, u64::MAX);
    zone.for_each_pageblock(|_, _| {
        assert!(OFF.get(), "a pageblock is shown under its lock");
        stretch = if SAVES.get() == last { stretch + 1 } else { 1 };
        last = SAVES.get();
        longest = longest.max(stretch);
        all += 1;
    });
    assert!(!OFF.get());
    (longest, all)
}

#[test]
fn a_walk_looks_at_four_pageblocks_with_interrupts_off() {
    assert_eq!(longest_stretch(&zone()), (4, BLOCKS));
}

#[test]
fn reports_and_frees_let_interrupts_in_for_each_pageblock() {
    let zone = zone();
    let saves = |call: &dyn Fn()| {
        let before = SAVES.get();
        call();
        SAVES.get() - before
    };
    assert!(saves(&|| _ = zone.pagetypeinfo().to_string()) >= BLOCKS);
    let range = zone.alloc_exact::<Counting>(1000, pageblock_frame::MigrateType::Movable, Default::default()).unwrap();
    assert!(saves(&|| zone.free_range_simulated::<Counting>(range).unwrap()) >= 2, "1000 frames are two pageblocks");
}
