//! One CPU, whose interrupts are signals, and a zone with its lists.

use pageblock_testkit::simulated::{SimulatedLists, SimulatedZone};
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use pageblock_buddy::{FreeError, Zone, ZoneConfig, ZoneStorage};
use pageblock_frame::{AllocFlags, Carver, IrqState, MigrateType, NodeId, Order, Pfn, PfnRange, Platform, ZoneKind};
use pageblock_pcp::{PcpConfig, PcpLists};

pub(crate) const FRAMES: u64 = 1 << 15;

/// One CPU: the thread that the timer interrupts.
#[derive(Debug)]
pub(crate) struct Machine;

pub(crate) static IRQS_OFF: AtomicBool = AtomicBool::new(false);

// SAFETY: 1. One thread works, and its signal handler on top of it. 2. While `IRQS_OFF` is set the handler returns at
// once. 3. Nothing is mapped.
unsafe impl Platform for Machine {
    const MAX_CPUS: usize = 1;
    const HAS_MEMORY: bool = false;

    fn phys_to_virt(_: u64) -> NonNull<u8> {
        NonNull::dangling()
    }

    fn irq_save() -> IrqState {
        IrqState::new(usize::from(IRQS_OFF.swap(true, Ordering::SeqCst)))
    }

    unsafe fn irq_restore(state: IrqState) {
        IRQS_OFF.store(state.bits() != 0, Ordering::SeqCst);
    }
}

#[derive(Debug)]
pub(crate) struct Fixture {
    pub(crate) zone: &'static Zone<'static>,
    pub(crate) lists: PcpLists<'static, Machine>,
}

/// What the handler works on. Changes while there is no timer.
static CURRENT: AtomicPtr<Fixture> = AtomicPtr::new(null_mut());

const ORDERS: [u8; 12] = [0, 0, 0, 0, 0, 0, 1, 2, 3, 5, 8, 9];

/// Half single frames.
pub(crate) fn order(choice: usize) -> Order {
    Order::new(ORDERS[choice % ORDERS.len()]).unwrap()
}

pub(crate) fn migrate_type(choice: usize) -> MigrateType {
    MigrateType::ALL[choice % MigrateType::PCP_COUNT]
}

impl Fixture {
    /// A fresh machine, which the handler works on from now on.
    pub(crate) fn install(config: PcpConfig) -> &'static Self {
        let span = PfnRange::new(Pfn::new(0), Pfn::new(FRAMES));
        let raw = vec![MaybeUninit::uninit(); ZoneStorage::bytes(span, Order::MAX)].leak();
        let storage = ZoneStorage::carve(span, Order::MAX, &mut Carver::new(raw)).unwrap();
        let zone = Zone::new::<Machine>(ZoneConfig::new(ZoneKind::Normal, NodeId::new(0), span), storage).unwrap();
        zone.release_simulated::<Machine>(span).unwrap();
        let zone: &_ = Box::leak(Box::new(zone));
        let raw = vec![MaybeUninit::uninit(); PcpLists::<Machine>::bytes(&config, span, 1)].leak();
        let lists = PcpLists::carve(config, zone, 1, &mut Carver::new(raw)).unwrap();
        assert_eq!(lists.cpus(), 1);
        let fixture = Box::leak(Box::new(Self { zone, lists }));
        CURRENT.store(fixture, Ordering::SeqCst);
        fixture
    }

    pub(crate) fn current() -> Option<&'static Self> {
        // SAFETY: null, or leaked by `install`.
        unsafe { CURRENT.load(Ordering::SeqCst).as_ref() }
    }

    pub(crate) fn alloc(&self, order: Order, t: MigrateType) -> Option<Pfn> {
        self.lists.alloc(order, t).or_else(|| self.lists.alloc_slow(order, t, AllocFlags::empty()))
    }

    pub(crate) fn free(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.lists.free_simulated(pfn, order)
    }
}
