//! A migrator that unwinds out of the facade: isolation ends, no frame is lost, and the next call works.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};

use pageblock::{Config, Gfp, PcpConfig, Pfn, PfnRange, ZoneLimits};
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
