//! Requests of all kinds on a full machine whose owners, of memory to move and to give up, break down in every way that
//! they may: whatever they do, no frame is lost, and failing is by name. Types are not mixed before reclaim and
//! compaction were tried.

use std::sync::{Arc, Weak};

use pageblock::{AllocError, Config, Experiment, Gfp, MigrateType, Order, Pfn, SlowPath, ZoneLimits, ZoneSpreading};
use pageblock_testkit::caches::{Allocator, Cache, Fault as ReclaimFault};
use pageblock_testkit::movables::{Disowned, Fault, Faulty, Movables};
use pageblock_testkit::owners::{Installed, Owned, Owners, install};
use proptest::prelude::*;
use proptest::sample::select;

use crate::machine::{Booted, MIB, boot_on, memory};

type Machine = Owned<1>;

/// The cache's names for pages are their tags: places change.
struct ByTag {
    frames: Weak<Booted<Machine>>,
    pages: &'static Movables,
}

impl Allocator for ByTag {
    fn free(&self, tag: Pfn) {
        let Some((place, frames)) = self.pages.place_of(tag.as_u64()).zip(self.frames.upgrade()) else { return };
        if self.pages.disown(place) == Disowned::Now {
            // SAFETY: hosted frames have nothing behind them.
            unsafe { frames.free(place, Order::ZERO) }.unwrap();
        }
    }

    fn reenter(&self) {
        if let Some(frames) = self.frames.upgrade() {
            drop(frames.alloc_order(Order::saturating(3), Gfp::KERNEL | Gfp::RETRY_MAYFAIL));
        }
    }
}

struct Scene {
    frames: Arc<Booted<Machine>>,
    pages: &'static Movables,
    cache: Arc<Cache>,
    held: Vec<(Pfn, Order)>,
    tag: u64,
    _installed: Installed,
}

impl Scene {
    /// Full of movable pages down to the min watermark.
    fn new(form: SlowPath, moving: Vec<Fault>, giving: Vec<ReclaimFault>) -> Self {
        let config = Config::new()
            .experiment(Experiment::SlowPath(form))
            .spreading(ZoneSpreading::Throughout)
            .zones(ZoneLimits::single());
        let frames = Arc::new(boot_on::<Machine>(&memory(48 * MIB), &config.min_free_kbytes(Some(1024))).unwrap());
        let pages: &'static Movables = Box::leak(Box::new(Movables::new()));
        let (cache, weak) = (Arc::new(Cache::new(giving)), Arc::downgrade(&frames));
        cache.over(ByTag { frames: weak.clone(), pages });
        let owner = Faulty::new(pages, moving, move || ByTag { frames: weak.clone(), pages }.reenter());
        let mut scene = Self { frames, pages, cache, held: Vec::new(), tag: 0, _installed: install(Owners::default()) };
        while scene.take(Order::ZERO, Gfp::HIGHUSER_MOVABLE - Gfp::RECLAIM).is_ok() {}
        scene._installed = install(Owners { migrator: Some(Arc::new(owner)), reclaimer: Some(scene.cache.clone()) });
        scene
    }

    fn take(&mut self, order: Order, gfp: Gfp) -> Result<(), AllocError> {
        let raw = self.frames.alloc_order(order, gfp)?.into_raw();
        let (pfn, order) = (raw.pfn, raw.order);
        if gfp.migrate_type() == MigrateType::Movable && order == Order::ZERO {
            self.pages.own(pfn, order, self.tag);
            self.cache.keep(Pfn::new(self.tag));
            self.tag += 1;
        } else {
            self.held.push((pfn, order));
        }
        Ok(())
    }

    fn give(&mut self, victim: usize) {
        if !self.held.is_empty() {
            let (pfn, order) = self.held.swap_remove(victim % self.held.len());
            // SAFETY: hosted frames have nothing behind them.
            unsafe { self.frames.free(pfn, order) }.unwrap();
        }
    }

    fn check(&self) {
        self.frames.check().unwrap();
        self.frames.check_lists().unwrap();
        let (stats, held) = (self.frames.stats(), self.held.iter().map(|(_, order)| order.frames()).sum::<u64>());
        assert_eq!(stats.free + self.pages.pages().len() as u64 + held, stats.managed);
        assert_eq!((self.pages.lent(), self.pages.collisions(), stats.bad_frees), (0, 0, 0));
    }
}

fn flags() -> impl Strategy<Value = Gfp> + Clone {
    let kernel = Gfp::KERNEL;
    select(vec![
        kernel,
        kernel | Gfp::RECLAIMABLE,
        Gfp::HIGHUSER_MOVABLE,
        Gfp::NOFS,
        Gfp::NOIO,
        Gfp::ATOMIC,
        Gfp::NOWAIT,
        kernel | Gfp::NORETRY,
        kernel | Gfp::RETRY_MAYFAIL,
        kernel | Gfp::NOFAIL,
        kernel | Gfp::MEMALLOC,
        kernel | Gfp::NOMEMALLOC,
    ])
}

/// A request so often in turn, or the return of one.
#[derive(Clone, Debug)]
enum Step {
    Take(u8, Gfp, u8),
    Give(usize),
}

fn step() -> impl Strategy<Value = Step> + Clone {
    let order = prop_oneof![6 => Just(0u8), 3 => 1..=3u8, 1 => 4..=9u8];
    prop_oneof![
        4 => (order, flags(), 1..=60u8).prop_map(|(order, gfp, times)| Step::Take(order, gfp, times)),
        1 => any::<usize>().prop_map(Step::Give),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn whatever_owners_do_no_frame_is_lost(
        steps in proptest::collection::vec(step(), 1..40),
        moving in proptest::collection::vec(select(Fault::honest()), 0..400),
        giving in proptest::collection::vec(select(ReclaimFault::ALL.to_vec()), 0..60),
    ) {
        for form in [SlowPath::Linux6_1, SlowPath::Linux3_13] {
            let mut scene = Scene::new(form, moving.clone(), giving.clone());
            for step in &steps {
                match *step {
                    Step::Take(order, gfp, times) => for _ in 0..u32::from(times) >> order {
                        if let Err(error) = scene.take(Order::saturating(order), gfp) {
                            prop_assert_eq!(error, AllocError::OutOfMemory, "{:?} {}", gfp, order);
                            break;
                        }
                    },
                    Step::Give(victim) => scene.give(victim),
                }
                scene.check();
            }
            while !scene.held.is_empty() {
                scene.give(0);
            }
            scene.check();
        }
    }
}
