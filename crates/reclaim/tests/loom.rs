//! Wake-ups against steps and sleep, in every interleaving with up to two preemptions.
//!
//! Bounds: one thread that steps, one or two that ask. The platform's wake-up is a token, as in any kernel: a wake-up
//! before the sleep ends the sleep at once. A wake-up that is lost leaves the thread asleep for ever, which the
//! checker reports as a deadlock.
#![cfg(loom)]
#![expect(clippy::disallowed_types, reason = "counters that live outside the models")]

use std::sync::atomic::{AtomicUsize, Ordering};

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use pageblock_frame::reclaim::{Reclaim, Shrink, Shrunk};
use pageblock_frame::{Hooks, NodeId, Order, Platform, ZoneKind};
use pageblock_reclaim::{Kswapd, KswapdNext, MarkTest, Marks, ReclaimConfig, ReclaimZone};

loom::lazy_static! {
    static ref TOKEN: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());
}

struct Host;

// SAFETY: no CPU-local state and no interrupts in the model; nothing is behind the frames.
unsafe impl Platform for Host {
    const MAX_CPUS: usize = 3;
    const HAS_MEMORY: bool = false;

    fn phys_to_virt(_: u64) -> core::ptr::NonNull<u8> {
        core::ptr::NonNull::dangling()
    }

    fn hooks() -> impl Hooks {
        Self
    }
}

impl Hooks for Host {
    fn wake_kswapd(&self, _: NodeId) {
        *TOKEN.0.lock().unwrap() = true;
        TOKEN.1.notify_one();
    }
}

/// Sleeps until there is a token, and takes it.
fn sleep() {
    let mut token = TOKEN.0.lock().unwrap();
    while !*token {
        token = TOKEN.1.wait(token).unwrap();
    }
    *token = false;
}

/// A zone with plenty free: runs are short, and what matters is that they begin.
struct Plenty;

impl ReclaimZone for Plenty {
    fn node(&self) -> NodeId {
        NodeId::new(0)
    }

    fn kind(&self) -> ZoneKind {
        ZoneKind::Normal
    }

    fn managed(&self) -> u64 {
        100
    }

    fn present(&self) -> u64 {
        100
    }

    fn free(&self) -> u64 {
        50
    }

    fn marks(&self) -> Marks {
        Marks { min: 1, low: 2, high: 3 }
    }

    fn boost(&self) -> u64 {
        0
    }

    fn subtract_boost(&self, _: u64) {}

    fn watermark_ok(&self, _: &MarkTest) -> bool {
        true
    }
}

struct Nobody;

impl Reclaim for Nobody {
    fn shrink(&self, _: &Shrink) -> Shrunk {
        unreachable!("the node is balanced")
    }
}

fn explore(executions: &'static AtomicUsize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.max_branches = 50_000;
    builder.check(move || {
        executions.fetch_add(1, Ordering::Relaxed);
        model();
    });
    println!("{} executions", executions.load(Ordering::Relaxed));
}

/// The kernel's thread: steps when told to, until it has taken up orders that add up to all that will be asked for.
fn serve(thread: &Kswapd, largest: Order) -> usize {
    let (mut now, mut runs) = (1, 0);
    loop {
        match thread.step::<Host, _>(&[Plenty], &Nobody, now) {
            KswapdNext::Sleep { until: None } => sleep(),
            // The nap is slept through at once, or cut short: a token left over only makes the next sleep shorter.
            KswapdNext::Sleep { until: Some(until) } => now = until,
            KswapdNext::WakeKcompactd { order, .. } => {
                runs += 1;
                if order == largest {
                    return runs;
                }
            }
            _ => {}
        }
    }
}

#[test]
fn a_request_is_served_whenever_it_comes() {
    static EXECUTIONS: AtomicUsize = AtomicUsize::new(0);
    explore(&EXECUTIONS, || {
        let kswapd = Arc::new(Kswapd::new(NodeId::new(0), ReclaimConfig::linux_6_1()));
        let asks = {
            let kswapd = kswapd.clone();
            thread::spawn(move || kswapd.wake::<Host>(Order::new(9).unwrap(), ZoneKind::Normal))
        };
        // Returns only if the request was taken up.
        assert_eq!(serve(&kswapd, Order::new(9).unwrap()), 1);
        asks.join().unwrap();
        assert!(kswapd.may_sleep());
    });
}

#[test]
fn two_requests_one_after_the_other() {
    static EXECUTIONS: AtomicUsize = AtomicUsize::new(0);
    static WOKEN: AtomicUsize = AtomicUsize::new(0);
    static AWAKE: AtomicUsize = AtomicUsize::new(0);
    explore(&EXECUTIONS, || {
        let kswapd = Arc::new(Kswapd::new(NodeId::new(0), ReclaimConfig::linux_6_1()));
        let asks = {
            let kswapd = kswapd.clone();
            thread::spawn(move || {
                for order in [1, 2] {
                    let woken = kswapd.wake::<Host>(Order::new(order).unwrap(), ZoneKind::Normal);
                    if woken { &WOKEN } else { &AWAKE }.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let runs = serve(&kswapd, Order::new(2).unwrap());
        assert!((1..=2).contains(&runs));
        asks.join().unwrap();
    });
    assert!(WOKEN.load(Ordering::Relaxed) > 0 && AWAKE.load(Ordering::Relaxed) > 0);
}

#[test]
fn two_tasks_ask_at_once() {
    static EXECUTIONS: AtomicUsize = AtomicUsize::new(0);
    explore(&EXECUTIONS, || {
        let kswapd = Arc::new(Kswapd::new(NodeId::new(0), ReclaimConfig::linux_6_1()));
        let asks: Vec<_> = [3, 5]
            .map(|order| {
                let kswapd = kswapd.clone();
                thread::spawn(move || kswapd.wake::<Host>(Order::new(order).unwrap(), ZoneKind::Normal))
            })
            .into_iter()
            .collect();
        // The larger one stands for both where they meet.
        assert!(serve(&kswapd, Order::new(5).unwrap()) <= 2);
        asks.into_iter().for_each(|task| _ = task.join().unwrap());
    });
}

/// A zone whose free frames are a relaxed count, as a real zone's are.
#[derive(Clone)]
struct Counted(Arc<loom::sync::atomic::AtomicU64>);

impl ReclaimZone for Counted {
    fn node(&self) -> NodeId {
        NodeId::new(0)
    }

    fn kind(&self) -> ZoneKind {
        ZoneKind::Normal
    }

    fn managed(&self) -> u64 {
        100
    }

    fn present(&self) -> u64 {
        100
    }

    fn free(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn marks(&self) -> Marks {
        Marks { min: 1, low: 2, high: 3 }
    }

    fn boost(&self) -> u64 {
        0
    }

    fn subtract_boost(&self, _: u64) {}

    fn watermark_ok(&self, test: &MarkTest) -> bool {
        self.free() > test.mark
    }
}

impl Reclaim for Counted {
    fn shrink(&self, _: &Shrink) -> Shrunk {
        self.0.store(50, Ordering::Relaxed);
        Shrunk { scanned: 50, freed: 50 }
    }
}

#[test]
fn the_thread_sees_the_shortage_for_which_it_was_asked() {
    static EXECUTIONS: AtomicUsize = AtomicUsize::new(0);
    explore(&EXECUTIONS, || {
        let kswapd = Arc::new(Kswapd::new(NodeId::new(0), ReclaimConfig::linux_6_1()));
        let zone = Counted(Arc::new(loom::sync::atomic::AtomicU64::new(50)));
        let asks = {
            let (kswapd, zone) = (kswapd.clone(), zone.clone());
            thread::spawn(move || {
                // All is taken, and more is wanted.
                zone.0.store(0, Ordering::Relaxed);
                kswapd.wake::<Host>(Order::new(1).unwrap(), ZoneKind::Normal)
            })
        };
        let (mut now, mut shrunk) = (1, 0);
        loop {
            let before = kswapd.vmstat().steal_kswapd;
            let next = kswapd.step::<Host, _>(&[zone.clone()], &zone, now);
            shrunk += kswapd.vmstat().steal_kswapd - before;
            match next {
                KswapdNext::Sleep { until: None } => sleep(),
                KswapdNext::Sleep { until: Some(until) } => now = until,
                KswapdNext::WakeKcompactd { .. } => break,
                _ => {}
            }
        }
        assert!(shrunk > 0, "the node looked balanced to the thread");
        asks.join().unwrap();
    });
}
