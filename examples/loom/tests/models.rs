//! The models. Without `--cfg loom` each program runs once, with real threads.
#![expect(clippy::disallowed_types, reason = "counters that live outside the models")]

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

#[cfg(loom)]
use loom::{sync::Arc, thread};
use pageblock::{Config, CpuId, Drain, Gfp, PageAllocator, PcpConfig, Platform, Region, Sizing, ZoneLimits};
use shared_frames::SharedFrame;
#[cfg(not(loom))]
use std::{sync::Arc, thread};

/// Frames of the machine.
const FRAMES: u64 = 8;

#[cfg(loom)]
loom::thread_local! {
    static CPU: Cell<u32> = Cell::new(0);
}
#[cfg(not(loom))]
thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
}

/// Two CPUs, each a thread.
#[derive(Debug)]
struct TwoCpus;

// SAFETY: each thread of a model has a CPU number of its own, below `MAX_CPUS`; there are no interrupts; nothing is
// mapped.
unsafe impl Platform for TwoCpus {
    const MAX_CPUS: usize = 2;
    const HAS_MEMORY: bool = false;

    fn phys_to_virt(_: u64) -> NonNull<u8> {
        NonNull::dangling()
    }

    fn pin() -> CpuId {
        CpuId::new(CPU.with(Cell::get))
    }
}

/// An allocator over eight frames, with lists of two blocks each, and one frame of it that is shared.
struct Machine {
    allocator: &'static PageAllocator<TwoCpus>,
    shared: SharedFrame<TwoCpus>,
}

impl Machine {
    fn boot() -> Self {
        let lists = PcpConfig { sizing: Sizing::Fixed { batch: 1, high: 2 }, ..PcpConfig::new() };
        let config = Config::new().zones(ZoneLimits::single()).min_free_kbytes(Some(0)).per_cpu_lists(Some(lists));
        let map = [Region::from((0, FRAMES << 12, true))];
        let bytes = PageAllocator::<TwoCpus>::metadata_bytes(map, &config).unwrap();
        let allocator = Box::leak(Box::new(PageAllocator::new()));
        allocator.init_simulated(map, &config, vec![MaybeUninit::uninit(); bytes].leak()).unwrap();
        let shared = SharedFrame::new(allocator, allocator.alloc(Gfp::HIGHUSER_MOVABLE).unwrap());
        Self { allocator, shared }
    }

    /// Nothing is lost, nothing was freed wrongly.
    fn check(&self, held: u64) {
        let stats = self.allocator.stats();
        assert_eq!((stats.free, stats.bad_frees), (FRAMES - held, 0));
        assert_eq!(self.allocator.check(), Ok(()));
    }
}

/// Runs on a thread with the stack that booting needs.
fn with_stack<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    #[cfg(loom)]
    return thread::Builder::new().stack_size(1 << 18).spawn(work).unwrap().join().unwrap();
    #[cfg(not(loom))]
    return work();
}

/// Two CPUs do this at the same time; returns both results.
fn both<R: Send + 'static>(machine: &Arc<Machine>, work: [fn(&Machine) -> R; 2]) -> [R; 2] {
    let mut cpu = 0;
    let threads = work.map(|work| {
        let (machine, number) = (machine.clone(), cpu);
        cpu += 1;
        thread::spawn(move || {
            CPU.with(|current| current.set(number));
            work(&machine)
        })
    });
    threads.map(|thread| thread.join().unwrap())
}

/// Every interleaving; without loom, one.
fn explore(model: impl Fn() + Send + Sync + 'static) {
    #[cfg(loom)]
    {
        let mut builder = loom::model::Builder::new();
        let bound = std::env::var("LOOM_MAX_PREEMPTIONS").ok().and_then(|bound| bound.parse().ok());
        builder.preemption_bound = Some(bound.unwrap_or(2));
        // Booting is a long way, and the same in each execution.
        builder.max_branches = 100_000;
        builder.check(model);
    }
    #[cfg(not(loom))]
    model();
}

#[test]
fn the_last_of_two_holders_frees_the_frame() {
    static FIRST: AtomicUsize = AtomicUsize::new(0);
    static SECOND: AtomicUsize = AtomicUsize::new(0);
    explore(|| {
        let machine = Arc::new(with_stack(Machine::boot));
        assert!(machine.shared.try_get());
        let last = both(&machine, [|m| m.shared.put(), |m| m.shared.put()]);
        FIRST.fetch_add(last[0].into(), Ordering::Relaxed);
        SECOND.fetch_add(last[1].into(), Ordering::Relaxed);
        assert!(last[0] != last[1]);
        machine.check(0);
    });
    // Under loom each has been the last; otherwise one of them.
    let [first, second] = [&FIRST, &SECOND].map(|count| count.load(Ordering::Relaxed));
    println!("{first} executions in which CPU 0 was the last, {second} in which CPU 1 was");
    assert!(first + second > 0 && (!cfg!(loom) || (first > 0 && second > 0)));
}

/// A lookup beside the last put, and an allocation that may get the frame at once.
#[test]
fn a_lookup_never_gets_a_frame_that_has_been_freed() {
    static FOUND: AtomicUsize = AtomicUsize::new(0);
    static GONE: AtomicUsize = AtomicUsize::new(0);
    explore(|| {
        let machine = Arc::new(with_stack(Machine::boot));
        let [_, found] = both(
            &machine,
            [
                |m| {
                    m.shared.put();
                    // The next owner of the frame, perhaps.
                    drop(m.allocator.alloc(Gfp::HIGHUSER_MOVABLE).unwrap());
                    false
                },
                |m| {
                    let found = m.shared.try_get();
                    if found {
                        m.shared.put();
                    }
                    found
                },
            ],
        );
        (if found { &FOUND } else { &GONE }).fetch_add(1, Ordering::Relaxed);
        machine.check(0);
    });
    let [found, gone] = [&FOUND, &GONE].map(|count| count.load(Ordering::Relaxed));
    println!("{found} executions in which the frame was found, {gone} in which it was gone");
    assert!(found + gone > 0 && (!cfg!(loom) || (found > 0 && gone > 0)));
}

/// One CPU has the other's lists emptied while that one frees onto them: nothing stays behind.
#[test]
fn a_drain_beside_the_last_put_loses_nothing() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    explore(|| {
        let machine = Arc::new(with_stack(Machine::boot));
        let [_, asked] =
            both(&machine, [|m| m.shared.put(), |m| m.allocator.drain_cpu(CpuId::new(0)) == Ok(Drain::Requested)]);
        ASKED.fetch_add(asked.into(), Ordering::Relaxed);
        machine.check(0);
        // CPU 0 is here again, and answers.
        machine.allocator.handle_kick();
        assert_eq!(machine.allocator.drain_cpu(CpuId::new(0)), Ok(Drain::Done));
        machine.check(0);
        assert_eq!(machine.allocator.stats().listed, 0);
    });
    let asked = ASKED.load(Ordering::Relaxed);
    println!("{asked} executions in which the other CPU had yet to answer");
    assert!(asked > 0 || !cfg!(loom));
}

/// The bug that such code usually has: a lookup that counts up from 0 frees the frame a second time.
#[test]
#[cfg(loom)]
#[should_panic(expected = "the frame was freed twice")]
fn a_lookup_without_the_test_is_found_out() {
    explore(|| {
        let machine = Arc::new(with_stack(Machine::boot));
        both(
            &machine,
            [
                |m| m.shared.put(),
                |m| {
                    m.shared.get_blindly();
                    m.shared.put()
                },
            ],
        );
    });
}
