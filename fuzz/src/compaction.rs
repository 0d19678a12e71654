//! Compaction between random operations on a zone: every era of it, owners that keep their word badly, everything
//! checked after each.

use core::cell::{Cell, RefCell};
use pageblock_testkit::simulated::SimulatedZone;

use arbitrary::{Arbitrary, Unstructured};
use pageblock_buddy::{Zone, ZoneConfig, ZoneStorage};
use pageblock_compaction::{CompactionConfig, Compactor, Patches, Priority, Request, Search};
use pageblock_frame::{
    AllocFlags, Carver, FrameState, MigrateType, NodeId, Order, PAGEBLOCK_FRAMES, Pfn, PfnRange, ZoneKind,
};
use pageblock_testkit::host::{Host, Stored};
use pageblock_testkit::movables::{Disowned, Fault, Faulty, Movables};

type P = Host<40>;

/// First frame of the zone.
const BASE: u64 = 0x1000;

/// Operations on the zone.
#[derive(Clone, Debug, Arbitrary)]
enum Act {
    /// Single frames or small blocks, for that many requests.
    Alloc { order: u8, kind: u8, times: u8 },
    /// Gives up the blocks at multiples of this frame number.
    Thin { every: u8 },
    /// Gives up one block.
    Free { which: u16 },
    /// Pins a movable block, or unpins it.
    Pin { which: u16, pinned: bool },
    /// Runs compaction; `faults` are the owner's faults in its calls.
    Compact { config: u8, order: u8, how: u8, faults: Vec<u8> },
    /// Clears compaction's memory.
    Reset,
}

// How much a series of inputs moved, so that a smoke run which moved nothing fails.
fn configs() -> [CompactionConfig; 6] {
    [
        CompactionConfig::new(),
        CompactionConfig::linux_6_1(),
        CompactionConfig { search: Search::Linear, ..CompactionConfig::linux_6_1() },
        CompactionConfig::linux_3_13(Patches::ALL),
        CompactionConfig::linux_3_13(Patches::NONE),
        CompactionConfig { window: 4, foreign_targets: false, exact_need: false, ..CompactionConfig::new() },
    ]
}

struct Machine {
    zone: Stored<Zone<'static>>,
    owner: Movables,
    /// Blocks that cannot move.
    held: RefCell<Vec<(Pfn, Order)>>,
    compactors: [Compactor; 6],
    next: Cell<u64>,
}

impl Machine {
    fn new(blocks: u64) -> Self {
        let span = PfnRange::from_len(Pfn::new(BASE), blocks * PAGEBLOCK_FRAMES);
        let config = ZoneConfig::new(ZoneKind::Normal, NodeId::new(0), span);
        let build = |raw| {
            let storage = ZoneStorage::carve(span, config.max_order, &mut Carver::new(raw)).expect("there is room");
            let zone = Zone::new::<P>(config, storage).expect("the zone is in order");
            zone.release_simulated::<P>(span).expect("the frames are the zone's");
            zone
        };
        // SAFETY: nothing that borrows from the storage leaves the machine.
        let zone = unsafe { Stored::new(ZoneStorage::bytes(span, config.max_order), build) };
        let compactors = configs().map(Compactor::new);
        Self { zone, owner: Movables::new(), held: RefCell::default(), compactors, next: Cell::new(0) }
    }

    fn alloc(&self, order: Order, migrate_type: MigrateType) -> bool {
        let Some(pfn) = self.zone.alloc::<P>(order, migrate_type, AllocFlags::empty()) else { return false };
        if migrate_type == MigrateType::Movable {
            self.next.set(self.next.get() + 1);
            self.owner.own(pfn, order, self.next.get());
        } else {
            self.held.borrow_mut().push((pfn, order));
        }
        true
    }

    fn free_movable(&self, pfn: Pfn, order: Order) {
        give_up(&self.zone, &self.owner, (pfn, order));
    }

    fn free_where(&self, wanted: impl Fn(Pfn) -> bool) {
        let pages: Vec<_> = self.owner.pages().iter().map(|(pfn, page)| (*pfn, page.order)).collect();
        for (pfn, order) in pages.into_iter().filter(|(pfn, _)| wanted(*pfn)) {
            self.free_movable(pfn, order);
        }
        self.held.borrow_mut().retain(|&(pfn, order)| {
            if wanted(pfn) {
                assert_eq!(self.zone.free_simulated::<P>(pfn, order), Ok(()), "{pfn}");
            }
            !wanted(pfn)
        });
    }

    fn movable(&self, which: u16) -> Option<(Pfn, Order)> {
        movable(&self.owner, which)
    }

    fn compact(&self, config: u8, request: &Request, faults: &[u8]) {
        let compactor = &self.compactors[usize::from(config) % self.compactors.len()];
        // Most calls go well: a run in which nothing does moves nothing.
        let honest = Fault::honest();
        let script = faults.iter().map(|fault| honest.get(usize::from(*fault)).copied().unwrap_or(Fault::None));
        // In the middle of a call the owner gives something up, as another CPU might.
        let (zone, movables, which) = (&*self.zone, &self.owner, self.next.get() as u16);
        let reenter = move || {
            if let Some(block) = movable(movables, which) {
                give_up(zone, movables, block);
            }
        };
        let owner = Faulty::new(&self.owner, script.collect(), reenter);
        let before = self.zone.free_frames();
        let outcome = compactor.run::<P, _>(&self.zone, &owner, request);
        if let Some(pfn) = outcome.captured {
            let order = request.order.expect("nobody wanted a block");
            assert!(pfn.is_aligned(order), "{pfn} is no block of {order}");
            self.held.borrow_mut().push((pfn, order));
            assert!(self.zone.free_frames() + order.frames() >= before);
        } else {
            assert!(self.zone.free_frames() >= before, "compaction kept frames");
        }
        assert_eq!(self.owner.lent(), 0, "a loan has not ended");
        assert_eq!(self.owner.collisions(), 0, "a target was in use");
    }

    fn apply(&self, act: &Act) {
        match *act {
            Act::Alloc { order, kind, times } => {
                let kinds =
                    [MigrateType::Movable, MigrateType::Movable, MigrateType::Unmovable, MigrateType::Reclaimable];
                let order = Order::saturating(order % 6);
                for _ in 0..=u32::from(times) * 4 {
                    if !self.alloc(order, kinds[usize::from(kind) % kinds.len()]) {
                        break;
                    }
                }
            }
            Act::Thin { every } => self.free_where(|pfn| pfn.as_u64() % (u64::from(every % 7) + 2) == 0),
            Act::Free { which } => drop(self.movable(which).map(|(pfn, order)| self.free_movable(pfn, order))),
            Act::Pin { which, pinned } => drop(self.movable(which).map(|(pfn, _)| self.owner.pin(pfn, pinned))),
            Act::Compact { config, order, how, ref faults } => {
                let order = Order::saturating(order % 11);
                let priority = [Priority::Async, Priority::SyncLight, Priority::SyncFull][usize::from(how) % 3];
                let request = match how % 6 {
                    3 => Request::kcompactd(order),
                    4 => Request::command(),
                    5 => Request::proactive(),
                    _ => Request::direct(order, MigrateType::Movable, priority),
                };
                self.compact(config, &request, faults);
            }
            Act::Reset => self.compactors.iter().for_each(|compactor| compactor.reset::<P>(&self.zone)),
        }
    }

    /// The zone agrees with itself and with the owners of its frames.
    fn verify(&self) {
        assert_eq!(self.zone.check(), Ok(()));
        let mut held = 0;
        for (pfn, page) in self.owner.pages().iter() {
            self.verify_block(*pfn, page.order);
            held += page.order.frames();
        }
        for (pfn, order) in self.held.borrow().iter() {
            self.verify_block(*pfn, *order);
            held += order.frames();
        }
        assert_eq!(held + self.zone.free_frames(), self.zone.managed(), "a frame is lost");
    }

    fn verify_block(&self, pfn: Pfn, order: Order) {
        let state = self.zone.states().get(self.zone.index_of(pfn).expect("a frame of the zone")).decode();
        assert!(matches!(state, FrameState::Allocated(found, _) if found == order), "{pfn}: {state:?}");
    }
}

/// The movable block that a number stands for.
fn movable(owner: &Movables, which: u16) -> Option<(Pfn, Order)> {
    let pages = owner.pages();
    let at = usize::from(which) % pages.len().max(1);
    pages.iter().nth(at).map(|(pfn, page)| (*pfn, page.order))
}

/// Ends a movable block: at once, or when compaction has done with it.
fn give_up(zone: &Zone<'_>, owner: &Movables, (pfn, order): (Pfn, Order)) {
    if owner.disown(pfn) == Disowned::Now {
        assert_eq!(zone.free_simulated::<P>(pfn, order), Ok(()), "{pfn}");
    }
}

/// First the size of the zone, then its operations.
///
/// # Panics
/// At the first thing that is not as it should be.
pub fn run(data: &[u8]) {
    let mut source = Unstructured::new(data);
    let Ok(size) = u8::arbitrary(&mut source) else { return };
    let machine = Machine::new(u64::from(size % 12) + 2);
    // A memory that is scattered from the start: otherwise short inputs never have anything to move.
    while machine.alloc(Order::ZERO, MigrateType::Movable) {}
    machine.free_where(|pfn| pfn.as_u64() % 2 == 0);
    while let Ok(act) = Act::arbitrary(&mut source) {
        machine.apply(&act);
        machine.verify();
        if source.is_empty() {
            break;
        }
    }
    machine.free_where(|_| true);
    assert_eq!(machine.zone.free_frames(), machine.zone.managed());
    machine.verify();
}
