//! Reclaim as a rung, and the reclaim thread: who may wait for it, how long, and nothing lost.

use std::sync::{Arc, Weak};

use pageblock::{
    AllocError, Config, Experiment, FairPolicy, Gfp, Next, NodeId, Order, Pfn, SlowPath, ZoneKind, ZoneLimits,
    ZoneSpreading,
};
use pageblock_frame::reclaim::{Reclaim, Shrink, Shrunk};
use pageblock_frame::trace::{Event, ReclaimEvent};
use pageblock_testkit::caches::{Allocator, Cache, Fault};
use pageblock_testkit::host::record;
use pageblock_testkit::owners::{Installed, Owned, Owners, calls, install};

use crate::machine::{Booted, MIB, boot_on, memory, zone};

const NODE: NodeId = NodeId::new(0);
/// Calls of the owner that one request may make, whatever it is told: rounds of the ladder by priorities, and some for
/// large blocks.
const MOST_CALLS: u64 = 256 * 13 * 4;

struct Over<const N: usize, const FLAG: bool>(Weak<Booted<Owned<N, FLAG>>>);

impl<const N: usize, const FLAG: bool> Allocator for Over<N, FLAG> {
    fn free(&self, pfn: Pfn) {
        if let Some(frames) = self.0.upgrade() {
            // SAFETY: hosted frames have nothing behind them.
            unsafe { frames.free(pfn, Order::ZERO) }.unwrap();
        }
    }

    fn reenter(&self) {
        if let Some(frames) = self.0.upgrade() {
            drop(frames.alloc_order(Order::saturating(5), Gfp::KERNEL | Gfp::RETRY_MAYFAIL));
        }
    }
}

/// An allocator whose frames are a cache's.
struct Scene<const N: usize = 3, const FLAG: bool = true> {
    frames: Arc<Booted<Owned<N, FLAG>>>,
    cache: Arc<Cache>,
    _installed: Installed,
}

impl<const N: usize, const FLAG: bool> Scene<N, FLAG> {
    fn new(config: &Config, script: Vec<Fault>) -> Self {
        let cache = Arc::new(Cache::new(script));
        let installed = install(Owners { migrator: None, reclaimer: Some(cache.clone()) });
        let config = config.zones(ZoneLimits::single()).min_free_kbytes(Some(1024));
        let frames = Arc::new(boot_on(&memory(64 * MIB), &config).unwrap());
        cache.over(Over(Arc::downgrade(&frames)));
        Self { frames, cache, _installed: installed }
    }

    /// Lets the cache have memory down to the low watermark.
    fn fill(&self) {
        let normal = zone(&self.frames, 0, ZoneKind::Normal);
        while normal.free_frames() > normal.watermarks().low {
            self.cache.keep(self.frames.alloc(Gfp::HIGHUSER_MOVABLE).unwrap().into_raw().pfn);
        }
    }

    /// The cache has all but what is below the min watermark.
    fn fill_to_the_brim(&self) {
        while let Ok(frame) = self.frames.alloc(Gfp::HIGHUSER_MOVABLE - Gfp::RECLAIM) {
            self.cache.keep(frame.into_raw().pfn);
        }
    }

    fn check(&self, held: u64) {
        self.frames.check().unwrap();
        self.frames.check_lists().unwrap();
        let stats = self.frames.stats();
        assert_eq!((stats.free + self.cache.len() as u64 + held, stats.bad_frees), (stats.managed, 0));
    }
}

fn both(config: &Config) -> [Config; 2] {
    [config.experiment(Experiment::SlowPath(SlowPath::Linux6_1)), Config::linux_3_13()]
}

#[test]
fn who_may_wait_gets_what_owners_give_up() {
    for config in both(&Config::new()) {
        let scene = Scene::<1>::new(&config, vec![]);
        scene.fill_to_the_brim();
        let (mut held, cached) = (Vec::new(), scene.cache.len());
        for _ in 0..cached / 2 {
            held.push(scene.frames.alloc(Gfp::KERNEL).unwrap());
            scene.frames.check().unwrap();
        }
        assert!(scene.cache.len() < cached);
        scene.check(held.len() as u64);
    }
}

#[test]
fn who_cannot_wait_and_who_frees_memory_by_using_it_calls_nobody() {
    for config in both(&Config::new()) {
        let scene = Scene::<1>::new(&config, vec![]);
        scene.fill_to_the_brim();
        let mut held = 0;
        for gfp in
            [Gfp::ATOMIC, Gfp::NOWAIT, Gfp::KERNEL | Gfp::MEMALLOC, Gfp::KERNEL | Gfp::MEMALLOC | Gfp::NOMEMALLOC]
        {
            while let Ok(frame) = scene.frames.alloc(gfp) {
                let _ = frame.into_raw();
                held += 1;
            }
        }
        assert_eq!(zone(&scene.frames, 0, ZoneKind::Normal).free_frames(), 0, "MEMALLOC takes the last");
        assert_eq!((scene.cache.calls(), calls().waits, calls().recursions), Default::default());
        scene.check(held);
    }
}

#[test]
fn kswapd_is_woken_at_low_and_works_up_to_high() {
    for config in both(&Config::new()) {
        // The fair-zone policy of 3.13 would go through the slow path at each turn.
        let scene = Scene::<1>::new(&config.experiment(Experiment::FairZones(FairPolicy::Off)), vec![]);
        let normal = zone(&scene.frames, 0, ZoneKind::Normal);
        assert!(scene.frames.reclaim().may_sleep(NODE));
        assert!(matches!(scene.frames.reclaim().step(NODE), Next::Sleep { .. }));
        scene.fill();
        assert_eq!(calls().wake_kswapd, 0);
        while calls().wake_kswapd == 0 {
            scene.cache.keep(scene.frames.alloc(Gfp::HIGHUSER_MOVABLE).unwrap().into_raw().pfn);
        }
        assert!(!scene.frames.reclaim().may_sleep(NODE));
        assert!(normal.free_frames() <= normal.watermarks().low);
        let mut steps = 0;
        while scene.frames.reclaim().step(NODE) == Next::Again {
            scene.check(0);
            steps += 1;
            assert!(steps < 1000);
        }
        assert!(normal.free_frames() > normal.watermarks().high);
        assert!(scene.cache.calls().shrink > 0);
    }
}

#[test]
fn failing_is_by_name_and_after_a_bounded_number_of_calls() {
    let flags = [
        Gfp::KERNEL,
        Gfp::NOIO,
        Gfp::NOFS,
        Gfp::KERNEL | Gfp::NORETRY,
        Gfp::KERNEL | Gfp::RETRY_MAYFAIL,
        Gfp::KERNEL | Gfp::NOFAIL,
        Gfp::KERNEL | Gfp::HIGH,
        Gfp::TRANSHUGE,
    ];
    for config in both(&Config::new()) {
        for fault in [Fault::Nothing, Fault::Boast, Fault::Absurd] {
            for gfp in flags {
                for order in [0, 2, 9] {
                    let scene = Scene::<1>::new(&config, vec![fault; 1 << 16]);
                    scene.fill_to_the_brim();
                    let held: Vec<_> =
                        std::iter::from_fn(|| scene.frames.alloc_order(Order::saturating(order), gfp).ok()).collect();
                    let made = scene.cache.calls().shrink;
                    assert!(made <= MOST_CALLS * (held.len() as u64 + 1), "{made} calls, {fault:?} {gfp:?} {order}");
                    scene.check((held.len() as u64) << order);
                    let error = scene.frames.alloc_order(Order::saturating(order), gfp).unwrap_err();
                    assert_eq!(error, AllocError::OutOfMemory);
                }
            }
        }
    }
}

/// Where nothing more is given up, who must not fail gets half of the min reserve, and nobody else does; also where
/// mixing types has raised the boost, which is no part of the reserve.
#[test]
fn who_must_not_fail_may_use_half_of_the_reserve() {
    for config in both(&Config::new()) {
        let scene = Scene::<1>::new(&config.per_cpu_lists(None), vec![Fault::Nothing; 1 << 16]);
        scene.fill_to_the_brim();
        let normal = zone(&scene.frames, 0, ZoneKind::Normal);
        let (brim, min) = (normal.free_frames(), normal.watermarks().min);
        assert_eq!(scene.frames.alloc(Gfp::KERNEL).map(drop), Err(AllocError::OutOfMemory));
        let held: Vec<_> = std::iter::from_fn(|| scene.frames.alloc(Gfp::KERNEL | Gfp::NOFAIL).ok()).collect();
        assert!(brim >= min && normal.free_frames() <= min / 2 + 1, "{brim}, {min}, {}", normal.free_frames());
        assert!(normal.free_frames() >= min / 2 - 1);
        scene.check(held.len() as u64);
    }
}

#[test]
fn noretry_makes_one_pass() {
    let scene = Scene::<1>::new(&Config::new(), vec![Fault::Nothing; 1 << 16]);
    scene.fill_to_the_brim();
    let begins = |gfp| {
        let (result, events) = record(|| scene.frames.alloc(gfp).map(drop));
        assert_eq!(result, Err(AllocError::OutOfMemory));
        events.iter().filter(|e| matches!(e, Event::Reclaim(ReclaimEvent::DirectBegin { .. }))).count()
    };
    assert_eq!(begins(Gfp::KERNEL | Gfp::NORETRY), 1);
    // While more could be freed it goes on, but not for ever.
    assert_eq!(begins(Gfp::KERNEL), 17);
}

/// In either form: one pass of reclaim, and then types are mixed rather than more given up.
#[test]
fn whoever_avoids_mixing_reclaims_once() {
    for form in [SlowPath::Linux6_1, SlowPath::Linux3_13] {
        for (spreading, passes) in [(ZoneSpreading::Throughout, 1), (ZoneSpreading::On, 0)] {
            let config = Config::new().experiment(Experiment::SlowPath(form)).spreading(spreading).per_cpu_lists(None);
            let scene = Scene::<1>::new(&config, vec![]);
            scene.fill();
            let (frame, events) = record(|| scene.frames.alloc(Gfp::KERNEL).unwrap());
            let begins =
                events.iter().filter(|e| matches!(e, Event::Reclaim(ReclaimEvent::DirectBegin { .. }))).count();
            assert_eq!((begins, scene.frames.events().fragmenting()), (passes, 1), "{form:?} {spreading:?}");
            drop(frame);
            scene.check(0);
        }
    }
}

#[test]
fn the_last_resort_comes_last_and_not_for_everybody() {
    for config in both(&Config::new()) {
        let scene = Scene::<1>::new(&config, vec![]);
        while let Ok(frame) = scene.frames.alloc(Gfp::HIGHUSER_MOVABLE - Gfp::RECLAIM) {
            scene.cache.hoard(frame.into_raw().pfn);
        }
        for gfp in [Gfp::ATOMIC, Gfp::KERNEL | Gfp::NORETRY, Gfp::KERNEL | Gfp::RETRY_MAYFAIL, Gfp::NOFS] {
            let mut held = Vec::new();
            while let Ok(frame) = scene.frames.alloc(gfp) {
                held.push(frame);
            }
            assert_eq!(scene.cache.calls().out_of_memory, 0, "{gfp:?} {:?}", config == Config::new());
        }
        assert!(scene.frames.alloc_order(Order::saturating(9), Gfp::KERNEL).is_err());
        assert_eq!(scene.cache.calls().out_of_memory, 0);
        let frame = scene.frames.alloc(Gfp::KERNEL).unwrap();
        assert_eq!((scene.cache.calls().out_of_memory, scene.cache.len()), (1, 0));
        drop(frame);
        scene.check(0);
    }
}

#[test]
fn a_caller_that_is_killed_stops_waiting() {
    for config in both(&Config::new()) {
        let scene = Scene::<1>::new(&config, [vec![Fault::Nothing; 1000], vec![Fault::Die]].concat());
        scene.fill_to_the_brim();
        assert!(scene.frames.alloc(Gfp::KERNEL | Gfp::NOMEMALLOC).is_err());
        assert!(scene.cache.calls().shrink < 100);
    }
}

/// It gets half of what is left of the reserve, and makes nobody work.
#[test]
fn who_is_killed_already_reclaims_nothing() {
    struct Killed(std::sync::Mutex<u64>);
    impl Reclaim for Killed {
        fn shrink(&self, _: &Shrink) -> Shrunk {
            *self.0.lock().unwrap() += 1;
            Shrunk::default()
        }
        fn is_dying(&self) -> bool {
            true
        }
    }
    for config in both(&Config::new()) {
        let scene = Scene::<1>::new(&config, vec![]);
        scene.fill_to_the_brim();
        let killed = Arc::new(Killed(0.into()));
        let _installed = install(Owners { migrator: None, reclaimer: Some(killed.clone()) });
        assert_eq!(scene.frames.alloc(Gfp::KERNEL | Gfp::NOMEMALLOC).map(drop), Err(AllocError::OutOfMemory));
        assert!(scene.frames.alloc(Gfp::KERNEL).is_ok());
        assert_eq!(*killed.0.lock().unwrap(), 0);
    }
}

fn reenters<const N: usize, const FLAG: bool>(config: &Config) -> Scene<N, FLAG> {
    let scene = Scene::<N, FLAG>::new(config, vec![Fault::Reenter; 200]);
    scene.fill_to_the_brim();
    let held: Vec<_> = (0..50).map_while(|_| scene.frames.alloc(Gfp::KERNEL).ok()).collect();
    scene.check(held.len() as u64);
    drop(held);
    scene.check(0);
    scene
}

#[test]
fn reclaim_does_not_enter_itself() {
    for config in both(&Config::new()) {
        let scene = reenters::<1, true>(&config);
        assert_eq!(scene.cache.calls().nested, 0, "the task's flag stops it at once");
        assert!(calls().recursions > 0);
        // Without a flag it may look like other tasks, but not for long.
        let scene = reenters::<1, false>(&config);
        assert!(scene.cache.calls().nested > 0);
    }
}

#[test]
fn recursion_is_told_by_name() {
    struct Asks(Weak<Booted<Owned<1>>>, Arc<std::sync::Mutex<Vec<AllocError>>>);
    impl Allocator for Asks {
        fn free(&self, pfn: Pfn) {
            Over(self.0.clone()).free(pfn);
        }
        fn reenter(&self) {
            let frames = self.0.upgrade().unwrap();
            let error = frames.alloc(Gfp::KERNEL | Gfp::NOMEMALLOC).map(drop).unwrap_err();
            self.1.lock().unwrap().push(error);
        }
    }
    let seen = Arc::default();
    let cache = Arc::new(Cache::new(vec![Fault::Reenter]));
    let _installed = install(Owners { migrator: None, reclaimer: Some(cache.clone()) });
    let frames = Arc::new(boot_on::<Owned<1>>(&memory(64 * MIB), &Config::new()).unwrap());
    cache.over(Asks(Arc::downgrade(&frames), Arc::clone(&seen)));
    while let Ok(frame) = frames.alloc(Gfp::HIGHUSER_MOVABLE - Gfp::RECLAIM) {
        cache.keep(frame.into_raw().pfn);
    }
    drop(frames.alloc(Gfp::KERNEL).unwrap());
    assert_eq!(*seen.lock().unwrap(), [AllocError::Recursion]);
}
