//! Several CPUs on one thread, interleaved in an order that a seed decides: a run is repeated by its seed.
//!
//! Each task is a coroutine. It runs until the scheduler lets another CPU go on, puts another task on the CPU, or
//! begins an interrupt on top of it. That can happen at each *point*: every call of the [`Machine`]'s platform is one,
//! and under `cfg(interleave)` every access to an atomic and every attempt to take a lock. Interleavings are
//! sequentially consistent; the effects of weaker memory are for the models.

use core::ptr::NonNull;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

use generator::{Gn, LocalGenerator, Scope};
use pageblock_frame::migration::Migrate;
use pageblock_frame::reclaim::Reclaim;
use pageblock_frame::sync::PerCpuPtr;
use pageblock_frame::{CpuId, Hooks, IrqState, NodeId, Platform};
use rand::{RngExt, SeedableRng, TryRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// CPUs of the machine.
pub const CPUS: usize = 4;
/// Points without [`progress`] after which a run counts as stuck.
const PATIENCE: u64 = 30_000_000;
/// Words of a task's stack.
const STACK: usize = 1 << 15;

/// The services of the machine: set before the allocator is initialised.
#[derive(Clone, Copy, Default)]
pub struct Services {
    /// Moves memory.
    pub migrator: Option<&'static (dyn Migrate + Sync)>,
    /// Gives memory up.
    pub reclaimer: Option<&'static (dyn Reclaim + Sync)>,
    /// Memory nodes; CPUs are on each in turn.
    pub nodes: usize,
}

/// Parts of a run.
pub struct Plan<'a> {
    /// Decides the order.
    pub seed: u64,
    /// Decide before the seed does, as long as there are any: a fuzzer's bytes.
    pub choices: Vec<u8>,
    /// At least as many as [`CPUS`].
    pub tasks: Vec<Box<dyn FnOnce() + 'a>>,
    /// Runs on top of tasks.
    pub interrupt: Rc<dyn Fn(Interrupt)>,
}

impl core::fmt::Debug for Plan<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Plan").field("seed", &self.seed).field("tasks", &self.tasks.len()).finish_non_exhaustive()
    }
}

impl core::fmt::Debug for Services {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Services").field("nodes", &self.nodes).finish_non_exhaustive()
    }
}

/// Why a CPU is interrupted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interrupt {
    /// A device.
    Device,
    /// [`Hooks::kick`].
    Kick,
}

/// Chosen numbers, and random ones when there are no more.
struct Choices {
    chosen: std::vec::IntoIter<u8>,
    rest: Xoshiro256PlusPlus,
}

impl TryRng for Choices {
    type Error = core::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        // The high bits decide of a small range.
        self.chosen.next().map_or_else(|| self.rest.try_next_u32(), |byte| Ok(u32::from(byte) * 0x0101_0101))
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        self.chosen.next().map_or_else(|| self.rest.try_next_u64(), |byte| Ok(u64::from(byte) * 0x0101_0101_0101_0101))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
        self.rest.try_fill_bytes(bytes)
    }
}

/// One CPU.
#[derive(Clone, Copy, Debug)]
struct Cpu {
    task: usize,
    pins: usize,
    irqs_off: usize,
    handlers: usize,
    kicked: bool,
    /// It does not go on before this point, as a virtual CPU with a host that does something else.
    asleep_until: u64,
    word: PerCpuPtr,
}

/// A run.
struct Run {
    random: Choices,
    /// Points between two decisions, roughly.
    pace: u32,
    interrupt: Rc<dyn Fn(Interrupt)>,
    cpus: [Cpu; CPUS],
    /// Tasks that no CPU runs.
    waiting: Vec<usize>,
    reclaims: Vec<bool>,
    tasks_left: usize,
    last_progress: u64,
}

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
    static SERVICES: Cell<Services> = const { Cell::new(Services { migrator: None, reclaimer: None, nodes: 1 }) };
    /// Points until the next decision.
    static LEFT: Cell<u32> = const { Cell::new(u32::MAX) };
    static POINTS: Cell<u64> = const { Cell::new(0) };
    /// Nanoseconds that the clock was put forward, since nothing is gained by waiting here.
    static WAITED: Cell<u64> = const { Cell::new(0) };
    /// How the task that runs now gets back to the scheduler.
    static SCOPE: Cell<*mut ()> = const { Cell::new(core::ptr::null_mut()) };
    static RUN: RefCell<Option<Run>> = const { RefCell::new(None) };
}

/// The scheduler's action at a point.
enum Decision {
    GoOn,
    Interrupt(Rc<dyn Fn(Interrupt)>, Interrupt),
    Leave,
}

impl Run {
    fn decide(&mut self, here: usize) -> Decision {
        let pace = self.pace;
        let next = match self.random.random_range(0..8u32) {
            0..=2 => self.random.random_range(0..4),
            3..=6 => self.random.random_range(0..pace),
            _ => self.random.random_range(0..pace * 8),
        };
        LEFT.set(next);
        POINTS.set(POINTS.get() + 1 + u64::from(next));
        let now = POINTS.get();
        assert!(now - self.last_progress < PATIENCE, "no operation has ended for {PATIENCE} points");
        let cpu = &mut self.cpus[here];
        if cpu.irqs_off == 0 && cpu.handlers < 2 && self.tasks_left > 0 {
            let handler = &self.interrupt;
            if cpu.kicked && self.random.random_range(0..2) == 0 {
                cpu.kicked = false;
                return Decision::Interrupt(handler.clone(), Interrupt::Kick);
            }
            if self.random.random_range(0..(1000 / pace).max(6)) == 0 {
                return Decision::Interrupt(handler.clone(), Interrupt::Device);
            }
        }
        if cpu.irqs_off == 0 && cpu.handlers == 0 && cpu.pins == 0 && self.random.random_range(0..3) == 0 {
            let at = self.random.random_range(0..self.waiting.len().max(1));
            if let Some(waiting) = self.waiting.get_mut(at) {
                core::mem::swap(waiting, &mut cpu.task);
                return Decision::Leave;
            }
        }
        if self.random.random_range(0..64) == 0 {
            cpu.asleep_until = now + u64::from(self.random.random_range(0..pace * 64));
        }
        self.choose_cpu(now)
    }

    /// The task to go on: the current CPU's, or if that has ended, another's.
    fn next(&mut self, is_done: impl Fn(usize) -> bool) -> Option<usize> {
        let here = CURRENT.get();
        if is_done(self.cpus[here].task)
            && let Some(at) = self.waiting.iter().position(|&task| !is_done(task))
        {
            self.cpus[here].task = self.waiting.swap_remove(at);
        }
        let busy = (0..CPUS).map(|i| (here + i) % CPUS).find(|&cpu| !is_done(self.cpus[cpu].task))?;
        CURRENT.set(busy);
        Some(self.cpus[busy].task)
    }

    fn choose_cpu(&mut self, now: u64) -> Decision {
        let first = self.random.random_range(0..CPUS);
        let awake = (0..CPUS).map(|i| (first + i) % CPUS).find(|&cpu| self.cpus[cpu].asleep_until <= now);
        let next = awake.unwrap_or(first);
        if next == CURRENT.get() {
            return Decision::GoOn;
        }
        CURRENT.set(next);
        Decision::Leave
    }
}

/// Lets the scheduler decide whether the CPU goes on.
#[inline]
pub fn point() {
    match LEFT.get() {
        0 => decide(),
        left => LEFT.set(left - 1),
    }
}

/// A point at which the scheduler decides: where a task waits for another.
pub fn pass() {
    LEFT.set(0);
    point();
}

#[cold]
fn decide() {
    let here = CURRENT.get();
    let decision = RUN.with_borrow_mut(|run| run.as_mut().map(|run| run.decide(here)));
    match decision {
        None => LEFT.set(u32::MAX),
        Some(Decision::GoOn) => {}
        Some(Decision::Leave) => leave(),
        Some(Decision::Interrupt(handler, kind)) => {
            on_this(|cpu| cpu.handlers += 1);
            handler(kind);
            on_this(|cpu| cpu.handlers -= 1);
        }
    }
}

#[expect(unsafe_code, reason = "the allocator does not hand a coroutine's scope down to the platform")]
fn leave() {
    let scope = SCOPE.get().cast::<Scope<'_, '_, (), ()>>();
    // SAFETY: `go` set it to the scope of the task that runs now, which lives as long as the task; nothing else refers
    // to it.
    unsafe { scope.as_mut() }.unwrap_or_else(|| unreachable!("outside a task")).yield_with(());
}

/// The CPU that executes this: a task stays on it while it is pinned.
fn on_this<R>(action: impl FnOnce(&mut Cpu) -> R) -> R {
    let here = CURRENT.get();
    RUN.with_borrow_mut(|run| action(&mut run.as_mut().unwrap_or_else(|| unreachable!("outside a run")).cpus[here]))
}

/// Says that the machine gets on.
pub fn progress() {
    RUN.with_borrow_mut(|run| run.iter_mut().for_each(|run| run.last_progress = POINTS.get()));
}

/// Points that this thread's run has had.
#[must_use]
pub fn points() -> u64 {
    POINTS.get()
}

/// A number below `limit`, of the run's own randomness.
#[must_use]
pub fn random(limit: usize) -> usize {
    RUN.with_borrow_mut(|run| run.as_mut().map_or(0, |run| run.random.random_range(0..limit)))
}

/// The CPU that executes this; another one a moment later, if the caller is not pinned.
#[must_use]
pub fn this_cpu() -> usize {
    CURRENT.get()
}

/// Sets the services of this thread's machine.
pub fn set_services(services: Services) {
    SERVICES.set(services);
}

/// Makes this thread CPU `cpu`. Between runs only.
pub fn become_cpu(cpu: usize) {
    assert!(cpu < CPUS && RUN.with_borrow(|run| run.as_ref().is_none_or(|run| run.tasks_left == 0)));
    CURRENT.set(cpu);
}

/// Runs the tasks to their ends, then `after` with CPUs that do nothing any more.
///
/// # Panics
/// If a task does, or nothing gets on.
pub fn run<R>(plan: Plan<'_>, after: impl FnOnce() -> R) -> R {
    let Plan { seed, choices, tasks, interrupt } = plan;
    assert!(tasks.len() >= CPUS, "each CPU has a task");
    #[cfg(interleave)]
    pageblock_frame::sync::at_each_point(point);
    let mut random = Choices { chosen: choices.into_iter(), rest: Xoshiro256PlusPlus::seed_from_u64(seed) };
    let pace = 4 << random.random_range(0..8u32);
    let cpu =
        Cpu { task: 0, pins: 0, irqs_off: 0, handlers: 0, kicked: false, asleep_until: 0, word: PerCpuPtr::new() };
    let run = Run {
        random,
        pace,
        interrupt,
        cpus: core::array::from_fn(|task| Cpu { task, ..cpu }),
        waiting: (CPUS..tasks.len()).collect(),
        reclaims: vec![false; tasks.len()],
        tasks_left: tasks.len(),
        last_progress: 0,
    };
    RUN.set(Some(run));
    CURRENT.set(0);
    POINTS.set(0);
    LEFT.set(0);
    let _end = End;
    let task = |task: Box<dyn FnOnce()>| {
        Gn::<()>::new_scoped_opt_local(STACK, move |mut scope| {
            SCOPE.set((&raw mut scope).cast());
            live(task);
        })
    };
    go(tasks.into_iter().map(task).collect());
    LEFT.set(u32::MAX);
    after()
}

/// A task, and then the idle CPU that answers kicks.
fn live(task: Box<dyn FnOnce() + '_>) {
    task();
    RUN.with_borrow_mut(|run| run.iter_mut().for_each(|run| run.tasks_left -= 1));
    while RUN.with_borrow(|run| run.as_ref().is_some_and(|run| run.tasks_left > 0)) {
        pass();
    }
}

fn go(mut tasks: Vec<LocalGenerator<'_, (), ()>>) {
    let mut scopes = vec![core::ptr::null_mut(); tasks.len()];
    loop {
        let next = RUN.with_borrow_mut(|run| run.as_mut().and_then(|run| run.next(|task| tasks[task].is_done())));
        let Some(task) = next else { break };
        SCOPE.set(scopes[task]);
        // A task that has failed leaves the others where they are: unwinding them would make calls of its own.
        let resumed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| tasks[task].resume()));
        if let Err(failure) = resumed {
            core::mem::forget(tasks);
            std::panic::resume_unwind(failure);
        }
        scopes[task] = SCOPE.get();
    }
}

/// Ends the run, also where it fails.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        LEFT.set(u32::MAX);
        RUN.set(None);
    }
}

/// The machine of this thread's run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Machine<const WORDS: bool, const HARDENED: bool>;

// SAFETY: 1. The CPU is the one that the scheduler lets run. A task leaves it at points only where the CPU's `pins` are
// 0.
// 2. The scheduler begins no interrupt on a CPU with `irqs_off` above 0. 3. Nothing is behind the frames. 4. Each CPU
//    has a
// word of its own.
#[expect(unsafe_code, reason = "the seam of a hosted platform; its promises are stated above")]
unsafe impl<const WORDS: bool, const HARDENED: bool> Platform for Machine<WORDS, HARDENED> {
    const MAX_CPUS: usize = CPUS;
    const HAS_MEMORY: bool = false;
    const HARDENED: bool = HARDENED;
    const CPU_WORD: bool = WORDS;

    fn phys_to_virt(_: u64) -> NonNull<u8> {
        NonNull::dangling()
    }

    fn node_of(cpu: CpuId) -> NodeId {
        NodeId::new((cpu.index() % SERVICES.get().nodes.max(1)) as u8)
    }

    fn pin() -> CpuId {
        point();
        pinned(|pins| pins + 1);
        CpuId::new(CURRENT.get() as u32)
    }

    unsafe fn unpin() {
        pinned(|pins| pins - 1);
        point();
    }

    fn cpu_word() -> PerCpuPtr {
        RUN.with_borrow(|run| run.as_ref().map_or(PerCpuPtr::new(), |run| run.cpus[CURRENT.get()].word))
    }

    unsafe fn set_cpu_word(word: PerCpuPtr) {
        RUN.with_borrow_mut(|run| run.iter_mut().for_each(|run| run.cpus[CURRENT.get()].word = word));
    }

    fn irq_save() -> IrqState {
        point();
        let before = RUN.with_borrow_mut(|run| {
            run.as_mut().map_or(0, |run| {
                let off = &mut run.cpus[CURRENT.get()].irqs_off;
                core::mem::replace(off, *off + 1)
            })
        });
        IrqState::new(before)
    }

    unsafe fn irq_restore(state: IrqState) {
        RUN.with_borrow_mut(|run| {
            run.iter_mut().for_each(|run| {
                let off = &mut run.cpus[CURRENT.get()].irqs_off;
                assert_eq!(*off, state.bits() + 1, "interrupt states are restored in reverse order");
                *off = state.bits();
            })
        });
        point();
    }

    fn hooks() -> impl Hooks {
        Self
    }
}

fn pinned(change: impl Fn(usize) -> usize) {
    RUN.with_borrow_mut(|run| {
        run.iter_mut().for_each(|run| {
            let pins = &mut run.cpus[CURRENT.get()].pins;
            *pins = change(*pins);
        })
    });
}

impl<const WORDS: bool, const HARDENED: bool> Hooks for Machine<WORDS, HARDENED> {
    fn now(&self) -> u64 {
        POINTS.get() * 1000 + WAITED.get()
    }

    fn kick(&self, cpu: CpuId) -> bool {
        RUN.with_borrow_mut(|run| {
            run.as_mut().is_some_and(|run| {
                run.cpus[cpu.index()].kicked |= run.tasks_left > 0;
                run.tasks_left > 0
            })
        })
    }

    fn wait_until(&self, _: NodeId, deadline: u64) {
        WAITED.set(WAITED.get() + deadline.saturating_sub(self.now()));
        pass();
    }

    fn migrator(&self) -> Option<&'static (dyn Migrate + Sync)> {
        SERVICES.get().migrator
    }

    fn reclaimer(&self) -> Option<&'static (dyn Reclaim + Sync)> {
        SERVICES.get().reclaimer
    }

    fn enter_reclaim(&self) -> bool {
        reclaims(|flag| !core::mem::replace(flag, true))
    }

    fn leave_reclaim(&self) {
        reclaims(|flag| core::mem::replace(flag, false));
    }
}

/// The flag of the task that this CPU runs.
fn reclaims(change: impl FnOnce(&mut bool) -> bool) -> bool {
    RUN.with_borrow_mut(|run| {
        run.as_mut().is_none_or(|run| {
            let task = run.cpus[CURRENT.get()].task;
            change(&mut run.reclaims[task])
        })
    })
}
