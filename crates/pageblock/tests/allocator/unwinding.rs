//! A migrator that unwinds out of the facade: isolation ends, no frame is lost, and the next call works.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use pageblock::{Config, CpuId, Gfp, Hooks, PcpConfig, Pfn, PfnRange, Platform, ZoneLimits};
use pageblock_frame::Order;
use pageblock_frame::migration::{Interrupt, Migrate, MigrateMode, MoveError, PutBack, Refusal};
use pageblock_testkit::movables::{Disowned, Movables};
use pageblock_testkit::owners::{Owned, Owners, install};

use crate::machine::{MIB, boot_on, memory};

/// Unwinds in one call: the one before which so many others came.
struct Unwinding {
    pages: Movables,
    calls_before: Mutex<Option<u32>>,
}

impl Unwinding {
    fn enter(&self) {
        let mut left = self.calls_before.lock().unwrap();
        let unwinds = *left == Some(0);
        *left = left.and_then(|calls| calls.checked_sub(1));
        drop(left);
        if unwinds {
            // Without the message that a panic would print.
            resume_unwind(Box::new("injected"));
        }
    }
}

// SAFETY: `Movables` answers, or the call unwinds before it has done anything; nothing is behind the frames.
unsafe impl Migrate for Unwinding {
    fn isolate(&self, pfn: Pfn, order: Order, mode: MigrateMode) -> Result<(), Refusal> {
        self.enter();
        self.pages.isolate(pfn, order, mode)
    }

    fn migrate(&self, from: Pfn, to: Pfn, order: Order, mode: MigrateMode) -> Result<(), MoveError> {
        self.enter();
        self.pages.migrate(from, to, order, mode)
    }

    fn put_back(&self, pfn: Pfn, order: Order) -> PutBack {
        self.enter();
        self.pages.put_back(pfn, order)
    }

    fn interrupt(&self) -> Interrupt {
        self.enter();
        Interrupt::None
    }
}

#[test]
fn a_migrator_that_unwinds_takes_nothing_with_it() {
    let migrator = Arc::new(Unwinding { pages: Movables::new(), calls_before: Mutex::new(None) });
    let _installed = install(Owners { migrator: Some(migrator.clone()), reclaimer: None });
    let config = Config::new().zones(ZoneLimits::single()).per_cpu_lists(Some(PcpConfig::new()));
    let frames = boot_on::<Owned<1>>(&memory(16 * MIB), &config).unwrap();
    for tag in 0.. {
        let Ok(frame) = frames.alloc_order(Order::ZERO, Gfp::HIGHUSER_MOVABLE) else { break };
        migrator.pages.own(frame.into_raw().pfn, Order::ZERO, tag);
    }
    let pages: Vec<Pfn> = migrator.pages.pages().keys().copied().collect();
    let free = |pfn: Pfn| {
        assert_eq!(migrator.pages.disown(pfn), Disowned::Now);
        // SAFETY: hosted frames have nothing behind them.
        unsafe { frames.free(pfn, Order::ZERO) }.unwrap();
    };
    pages.iter().copied().filter(|pfn| pfn.as_u64() % 3 != 0).for_each(free);
    frames.drain();
    let range = PfnRange::from_len(Pfn::new(pages[0].as_u64().next_multiple_of(512)), 512);
    let before = frames.stats().free;
    let mut unwound = 0;
    for calls in (0..400).step_by(7) {
        for ranged in [true, false] {
            *migrator.calls_before.lock().unwrap() = Some(calls);
            let result = catch_unwind(AssertUnwindSafe(|| {
                if ranged {
                    drop(frames.alloc_contig_range(range, MigrateMode::Sync));
                } else {
                    let _ = frames.compaction().all().expect("the call before has left nothing behind");
                }
            }));
            *migrator.calls_before.lock().unwrap() = None;
            unwound += u32::from(result.is_err());
            // The call that unwound may be the one that ends an isolation: then the page stays marked in the migrator's
            // own table.
            let pages: Vec<Pfn> = migrator.pages.pages().keys().copied().collect();
            pages.iter().for_each(|pfn| _ = migrator.pages.put_back(*pfn, Order::ZERO));
            assert_eq!((frames.check(), frames.stats().free), (Ok(()), before), "call {calls}");
            // What is freed goes onto the lists again.
            frames.drain();
            drop(frames.alloc_order(Order::ZERO, Gfp::KERNEL).unwrap());
            assert!(frames.stats().listed > 0, "call {calls}: frees go past the lists");
            frames.drain();
        }
    }
    assert!(unwound > 30, "{unwound} calls unwound");
    let all = frames.alloc_contig_range(range, MigrateMode::Sync);
    assert!(all.is_ok(), "{all:?}");
}

thread_local! {
    /// The end of a reclaim scope unwinds.
    static LEAVING_UNWINDS: Cell<bool> = const { Cell::new(false) };
}

/// The machine with the thread's owners, of which the end of a reclaim scope may unwind.
struct Leaving;

type Base = Owned<2>;

// SAFETY: all that is promised is promised by `Base`, to which these calls go.
unsafe impl Platform for Leaving {
    const MAX_CPUS: usize = Base::MAX_CPUS;
    const HAS_MEMORY: bool = false;

    fn phys_to_virt(address: u64) -> NonNull<u8> {
        Base::phys_to_virt(address)
    }

    fn pin() -> CpuId {
        Base::pin()
    }

    unsafe fn unpin() {
        // SAFETY: the caller's promise is passed on.
        unsafe { Base::unpin() };
    }

    fn hooks() -> impl Hooks {
        Self
    }
}

impl Hooks for Leaving {
    fn migrator(&self) -> Option<&'static (dyn Migrate + Sync)> {
        Base::hooks().migrator()
    }

    fn leave_reclaim(&self) {
        if LEAVING_UNWINDS.replace(false) {
            resume_unwind(Box::new("injected"));
        }
    }
}

/// The block that compaction has captured for a request is out of the zone, and has no handle yet, when the scope ends.
#[test]
fn a_captured_block_goes_back_if_the_end_of_the_scope_unwinds() {
    let migrator = Arc::new(Movables::new());
    let _installed = install(Owners { migrator: Some(migrator.clone()), reclaimer: None });
    let frames = boot_on::<Leaving>(&memory(16 * MIB), &Config::new().zones(ZoneLimits::single())).unwrap();
    let mut held: Vec<Pfn> =
        std::iter::from_fn(|| Some(frames.alloc(Gfp::HIGHUSER_MOVABLE).ok()?.into_raw().pfn)).collect();
    held.sort_unstable();
    for (place, &pfn) in held.iter().enumerate() {
        if place % 2 == 0 {
            migrator.own(pfn, Order::ZERO, place as u64);
        } else {
            // SAFETY: hosted frames have nothing behind them.
            unsafe { frames.free(pfn, Order::ZERO) }.unwrap();
        }
    }
    frames.drain();
    let before = frames.stats().free;
    let large = || frames.alloc_order(Order::HUGE, Gfp::HIGHUSER_MOVABLE);
    LEAVING_UNWINDS.set(true);
    let ended = catch_unwind(AssertUnwindSafe(|| drop(large())));
    assert!(ended.is_err() && !LEAVING_UNWINDS.get(), "the request compacts");
    frames.drain();
    assert_eq!((frames.check(), frames.stats().free), (Ok(()), before), "the captured block is free again");
    let block = large().expect("and can be had");
    assert_eq!(frames.stats().free + frames.stats().listed, before - block.pfns().len());
}
