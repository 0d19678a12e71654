//! Models of code that uses the allocator: run under the model checker `loom` with `--cfg loom`, and once with real
//! threads without.
//!
//! A model boots an allocator of a few frames, lets CPUs work at the same time, and says which branches it has met.
//! Under loom it is executed in every interleaving; a branch that no execution met is a failure, since such a model
//! proves nothing.
//!
//! ```
//! use pageblock::{Gfp, PageAllocator, hosted::model::{Cpus, Model}};
//! fn alloc(frames: &&'static PageAllocator<Cpus>) -> bool {
//!     frames.alloc(Gfp::KERNEL).is_ok()
//! }
//! Model::that_meets(&["both had a frame"]).explore(|run| {
//!     assert_eq!(run.cpus(run.boot(8), [alloc, alloc]), [true, true]);
//!     run.met("both had a frame");
//! });
//! ```

use core::cell::{Cell, RefCell};
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use std::boxed::Box;
use std::string::String;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::vec::Vec;

#[cfg(loom)]
use loom::thread;
#[cfg(not(loom))]
use std::{thread, thread_local};

use crate::{Config, CpuId, PageAllocator, PcpConfig, Platform, Region, Sizing, ZoneLimits};

#[cfg(loom)]
loom::thread_local! {
    static CPU: Cell<Option<u32>> = Cell::new(None);
}
#[cfg(not(loom))]
thread_local! {
    static CPU: Cell<Option<u32>> = const { Cell::new(None) };
}

/// One model runs at a time, so that one thread is a CPU.
static RUNNING: Mutex<()> = Mutex::new(());

/// Words of a thread's stack under loom: initialisation and `check` need more than loom's own.
#[cfg(loom)]
const STACK: usize = 1 << 18;

/// The CPUs of a model: its own thread is CPU 0, and [`Run::cpus`] starts the others. Frames are numbers.
#[derive(Clone, Copy, Debug)]
pub struct Cpus;

// SAFETY: 1. One model runs at a time, and gives each of its threads another number; other threads have none, and
// panic. 2. There are no interrupts. 3. There is no memory.
#[expect(unsafe_code, reason = "the seam of a model's platform; its promises are stated above")]
unsafe impl Platform for Cpus {
    const MAX_CPUS: usize = 4;
    /// Of two frees of one block at the same instant one is refused.
    const HARDENED: bool = true;
    const HAS_MEMORY: bool = false;

    fn phys_to_virt(_: u64) -> NonNull<u8> {
        NonNull::dangling()
    }

    fn pin() -> CpuId {
        match CPU.with(Cell::get) {
            Some(cpu) => CpuId::new(cpu),
            None => panic!("CPUs of a model are started by `Run::cpus`"),
        }
    }
}

/// How often a branch was met.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Branch {
    /// Its name.
    pub name: &'static str,
    /// Times that it was met, in all executions together.
    pub times: u64,
}

/// Counts of an exploration.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Explored {
    /// Executions: under loom every interleaving within its bounds, else 1.
    pub executions: u64,
    /// The branches that the model said it meets.
    pub branches: Vec<Branch>,
}

impl core::fmt::Display for Explored {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} executions", self.executions)?;
        self.branches.iter().try_for_each(|branch| write!(f, "; {}: {}", branch.name, branch.times))
    }
}

/// A model, before it is explored.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    branches: &'static [&'static str],
    preemptions: usize,
}

impl Model {
    /// A model that is about these branches: [`explore`](Self::explore) fails if one is never met under loom.
    #[must_use]
    pub const fn that_meets(branches: &'static [&'static str]) -> Self {
        Self { branches, preemptions: 2 }
    }

    /// How often loom takes the CPU from a thread that could go on, in one execution. The environment's
    /// `LOOM_MAX_PREEMPTIONS` is stronger. Default: 2, which finds nearly everything.
    #[must_use]
    pub const fn preemptions(mut self, most: usize) -> Self {
        self.preemptions = most;
        self
    }

    /// Executes the model in every interleaving; without `--cfg loom` once. Prints and returns the branches met.
    ///
    /// # Panics
    /// If an execution does, if an allocator is not sound at the end of one, or if a branch was never met under loom.
    pub fn explore(self, model: impl Fn(&Run) + Send + Sync + 'static) -> Explored {
        let alone = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let branches = self.branches.iter().map(|&name| Branch { name, times: 0 }).collect();
        let found = Arc::new(Mutex::new(Explored { executions: 0, branches }));
        let counted = found.clone();
        self.execute(move || {
            let run = Run { found: counted.clone(), booted: RefCell::default() };
            model(&run);
            run.end();
        });
        drop(alone);
        let explored = locked(&found).clone();
        std::println!("{explored}");
        let missing: Vec<_> = explored.branches.iter().filter(|branch| branch.times == 0).collect();
        assert!(!cfg!(loom) || missing.is_empty(), "no execution met {missing:?}");
        explored
    }

    #[cfg(loom)]
    fn execute(self, model: impl Fn() + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = builder.preemption_bound.or(Some(self.preemptions));
        // Booting is a long way, and the same in each execution.
        builder.max_branches = builder.max_branches.max(100_000);
        let model = Arc::new(model);
        builder.check(move || {
            let model = model.clone();
            join(spawn(0, move || model()));
        });
    }

    #[cfg(not(loom))]
    fn execute(self, model: impl Fn() + Send + Sync + 'static) {
        let _ = self.preemptions;
        join(spawn(0, model));
    }
}

fn locked(found: &Mutex<Explored>) -> MutexGuard<'_, Explored> {
    found.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a thread that is a CPU.
fn spawn<R: Send + 'static>(cpu: u32, work: impl FnOnce() -> R + Send + 'static) -> thread::JoinHandle<R> {
    let builder = thread::Builder::new();
    #[cfg(loom)]
    let builder = builder.stack_size(STACK);
    let started = builder.spawn(move || {
        CPU.with(|current| current.set(Some(cpu)));
        work()
    });
    match started {
        Ok(thread) => thread,
        Err(error) => panic!("no thread for CPU {cpu}: {error}"),
    }
}

fn join<R>(thread: thread::JoinHandle<R>) -> R {
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// A CPU's thread, which has ended when this is dropped.
struct Started<R>(Option<thread::JoinHandle<R>>);

impl<R> Drop for Started<R> {
    fn drop(&mut self) {
        // Loom ends an execution that panics by itself.
        #[cfg(not(loom))]
        self.0.take().into_iter().for_each(|thread| _ = thread.join());
    }
}

/// One execution of a model; its own thread is CPU 0.
#[derive(Debug)]
pub struct Run {
    found: Arc<Mutex<Explored>>,
    booted: RefCell<Vec<&'static PageAllocator<Cpus>>>,
}

impl Run {
    /// An allocator of this many frames, all free: one zone, no watermarks, lists of two blocks.
    ///
    /// # Panics
    /// If that is no machine: with no frames, or with very many.
    #[must_use]
    pub fn boot(&self, frames: u64) -> &'static PageAllocator<Cpus> {
        let lists = PcpConfig { sizing: Sizing::Fixed { batch: 1, high: 2 }, ..PcpConfig::new() };
        self.boot_with(frames, &Config::new().per_cpu_lists(Some(lists)))
    }

    /// The same with another configuration; it has one zone and no watermarks all the same.
    ///
    /// # Panics
    /// If that is no machine.
    #[must_use]
    pub fn boot_with(&self, frames: u64, config: &Config) -> &'static PageAllocator<Cpus> {
        let config = config.zones(ZoneLimits::single()).min_free_kbytes(Some(0));
        let map = [Region::from((0, frames << 12, true))];
        let allocator: &'static PageAllocator<Cpus> = Box::leak(Box::new(PageAllocator::new()));
        let booted = PageAllocator::<Cpus>::metadata_bytes(map, &config).and_then(|bytes| {
            let storage = Box::leak(Box::<[MaybeUninit<u8>]>::from_iter((0..bytes).map(|_| MaybeUninit::uninit())));
            allocator.init_simulated(map, &config, storage)
        });
        if let Err(error) = booted {
            panic!("{frames} frames: {error}");
        }
        self.booted.borrow_mut().push(allocator);
        allocator
    }

    /// CPUs 0, 1, … do this at the same time to a state that they share; returns all results. This thread is CPU 0 and
    /// does the first.
    ///
    /// # Panics
    /// If one of them does, or with more CPUs than four.
    pub fn cpus<S, R, const N: usize>(&self, state: S, work: [fn(&S) -> R; N]) -> [R; N]
    where
        S: Send + Sync + 'static,
        R: Send + 'static,
    {
        assert!(N <= Cpus::MAX_CPUS, "a model has at most {} CPUs", Cpus::MAX_CPUS);
        let state = Arc::new(state);
        let mut cpu = 0;
        // Should one panic, here or there, the others are waited for: a CPU that still ran would be two in the next
        // model.
        let mut started = work.map(|work| {
            cpu += 1;
            let state = state.clone();
            Started((cpu > 1).then(|| spawn(cpu - 1, move || work(&state))))
        });
        let mut first = work.first().map(|work| work(&state));
        started.each_mut().map(|thread| match thread.0.take() {
            Some(thread) => join(thread),
            // CPU 0 has no thread but this.
            None => first.take().unwrap_or_else(|| unreachable!("CPU 0 is the first")),
        })
    }

    /// Counts a branch of the model.
    ///
    /// # Panics
    /// If the model does not say that it is about this branch.
    pub fn met(&self, branch: &str) {
        let mut found = locked(&self.found);
        match found.branches.iter_mut().find(|one| one.name == branch) {
            Some(one) => one.times += 1,
            None => panic!("the model is not about {:?}", String::from(branch)),
        }
    }

    fn end(&self) {
        locked(&self.found).executions += 1;
        for allocator in self.booted.take() {
            assert_eq!(allocator.check(), Ok(()));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::OnceLock;

    /// Otherwise a thread would still be CPU 1 of the last model when the next one has another.
    #[test]
    fn a_model_that_panics_waits_for_its_cpus() {
        static ENDED: OnceLock<()> = OnceLock::new();
        let model = |run: &Run| {
            let fails: fn(&()) = |()| std::panic::resume_unwind(Box::new("injected"));
            run.cpus(
                (),
                [fails, |()| {
                    thread::sleep(std::time::Duration::from_millis(50));
                    ENDED.get_or_init(|| ());
                }],
            );
        };
        assert!(std::panic::catch_unwind(|| Model::that_meets(&[]).explore(model)).is_err());
        assert!(ENDED.get().is_some());
    }
}
