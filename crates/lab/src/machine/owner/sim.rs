//! The platform of simulated machines: static functions that reach the machine which the thread has entered.

use core::ptr::NonNull;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pageblock_frame::migration::{Interrupt, IsolateRequest, Migrate, MigrateMode, Move, MoveError, PutBack, Refusal};
use pageblock_frame::reclaim::{FilePages, Reclaim, Shrink, Shrunk};
use pageblock_frame::trace::Event;
use pageblock_frame::{CpuId, NodeId, Order, Pfn, Platform, ZoneKind};

use super::holder::Name;
use super::memory::Memory;

/// Reactions of the machine around a [`Memory`] to the allocator's calls. Called with no borrow held, and may
/// allocate and free, but for [`trace`](Hooks::trace). Without hooks nothing happens, and no actor waits.
pub(crate) trait Hooks {
    /// Makes the node's reclaim thread run soon.
    fn wake_kswapd(&self, _node: NodeId) {}
    /// Makes the node's compaction thread run soon.
    fn wake_kcompactd(&self, _node: NodeId) {}
    /// Lets simulated time pass until `deadline` in nanoseconds, or until waiters of the node are woken.
    fn wait_until(&self, _node: NodeId, _deadline: u64) {}
    /// Ends the waits of others on the node.
    fn wake_waiters(&self, _node: NodeId) {}
    /// Makes that CPU call the allocator's `handle_kick`; false if nothing does.
    fn kick(&self, _cpu: CpuId) -> bool {
        false
    }
    /// Learns of an event. Must not allocate or free.
    fn trace(&self, _event: &Event) {}
    /// True if the current task is being killed.
    fn is_dying(&self) -> bool {
        false
    }
    /// Asked between two batches of a compaction: whether the CPU is wanted by others.
    fn is_crowded(&self) -> bool {
        false
    }
    /// Reclaims in a way of its own; `None`: as [`Memory`] does.
    fn shrink(&self, _round: &Shrink) -> Option<Shrunk> {
        None
    }
    /// A page of a file is in memory from now on, but on no list yet; it will be written, not read, if `written`.
    fn enters(&self, _pfn: Pfn, _name: Name, _written: bool) {}
    /// Pages of files in a zone, for the limit on dirty ones.
    fn file_pages(&self, _node: NodeId, _zone: ZoneKind) -> FilePages {
        FilePages::default()
    }
}

/// Number of CPUs that a machine can have.
const CPUS: usize = 64;

thread_local! {
    static CURRENT: RefCell<Option<Rc<Memory>>> = const { RefCell::new(None) };
    /// Whether the current machine wants events: looked at on every operation.
    static TRACED: Cell<bool> = const { Cell::new(false) };
    /// Whether the current machine moves pages, and gives them up: asked at boot, too.
    static ABLE: Cell<(bool, bool)> = const { Cell::new((false, false)) };
    static CPU: Cell<u32> = const { Cell::new(0) };
    static NOW: Cell<u64> = const { Cell::new(0) };
    static RECLAIMING: Cell<bool> = const { Cell::new(false) };
    /// Node of each CPU of the machine that is being built.
    static NODES: RefCell<Vec<NodeId>> = const { RefCell::new(Vec::new()) };
}

/// The platform. One thread plays all CPUs of its machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sim;

impl Sim {
    /// From now on the thread is this CPU of its machine. CPUs are numbered from 0, below 64.
    pub(crate) fn set_cpu(cpu: CpuId) {
        CPU.set((cpu.index() % CPUS) as u32);
    }

    /// Sets the simulated time, in nanoseconds.
    pub(crate) fn set_now(nanoseconds: u64) {
        NOW.set(nanoseconds);
    }

    /// The current task frees memory for itself, or no longer. A switch of tasks saves and restores it.
    pub(crate) fn set_reclaiming(reclaiming: bool) {
        RECLAIMING.set(reclaiming);
    }

    /// Whether the current task frees memory for itself.
    pub(crate) fn is_reclaiming() -> bool {
        RECLAIMING.get()
    }

    /// Boots a machine: meanwhile the platform says which node each CPU is on, and which pages can move or go.
    pub(super) fn boot<R>(nodes: &[NodeId], able: (bool, bool), build: impl FnOnce() -> R) -> R {
        NODES.set(nodes.to_vec());
        let before = ABLE.replace(able);
        let built = build();
        ABLE.set(before);
        built
    }

    /// Whether the current machine's hooks want events.
    pub(super) fn set_traced(traced: bool) {
        TRACED.set(traced);
    }
}

/// The thread is on a machine until this is dropped; then it is back where it was before, CPU and time included.
#[derive(Debug)]
#[must_use = "the thread leaves the machine when this is dropped"]
pub(crate) struct Entered {
    before: Option<Rc<Memory>>,
    traced: bool,
    able: (bool, bool),
    cpu: u32,
    now: u64,
    reclaiming: bool,
}

impl Entered {
    pub(super) fn new(memory: Rc<Memory>) -> Self {
        let traced = TRACED.replace(memory.wants_events());
        let able = ABLE.replace(memory.able());
        Self {
            before: CURRENT.replace(Some(memory)),
            traced,
            able,
            cpu: CPU.replace(0),
            now: NOW.replace(0),
            reclaiming: RECLAIMING.replace(false),
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        // The machine may be dropped with this, hence after the borrow has ended.
        let left = CURRENT.replace(self.before.take());
        TRACED.set(self.traced);
        ABLE.set(self.able);
        CPU.set(self.cpu);
        NOW.set(self.now);
        RECLAIMING.set(self.reclaiming);
        drop(left);
    }
}

/// The current machine; no borrow remains.
fn current() -> Option<Rc<Memory>> {
    CURRENT.with_borrow(Clone::clone)
}

fn with_hooks(action: impl FnOnce(&dyn Hooks)) {
    if let Some(hooks) = current().and_then(|memory| memory.hooks()) {
        action(&*hooks);
    }
}

// SAFETY: 1. The number is below `CPUS`, and only the thread itself changes it, between operations of the allocator; a
// machine is not `Send`, so that all its CPUs are one thread, which cannot be preempted by itself. 2. There are no
// interrupts.
// 3. Nothing is behind the frames, and no frame is touched: metadata is in storage, and zeroing does nothing.
#[expect(unsafe_code, reason = "the seam of a simulated platform; its promises are stated above")]
unsafe impl Platform for Sim {
    const MAX_CPUS: usize = CPUS;
    const HAS_MEMORY: bool = false;

    fn phys_to_virt(_pa: u64) -> NonNull<u8> {
        NonNull::dangling()
    }

    fn node_of(cpu: CpuId) -> NodeId {
        NODES.with_borrow(|nodes| nodes.get(cpu.index()).copied().unwrap_or_default())
    }

    fn pin() -> CpuId {
        CpuId::new(CPU.get())
    }

    fn hooks() -> impl pageblock_frame::Hooks {
        Self
    }
}

impl pageblock_frame::Hooks for Sim {
    fn now(&self) -> u64 {
        NOW.get()
    }

    fn kick(&self, cpu: CpuId) -> bool {
        current().and_then(|memory| memory.hooks()).is_some_and(|hooks| hooks.kick(cpu))
    }

    fn wake_kswapd(&self, node: NodeId) {
        with_hooks(|hooks| hooks.wake_kswapd(node));
    }

    fn wake_kcompactd(&self, node: NodeId) {
        with_hooks(|hooks| hooks.wake_kcompactd(node));
    }

    fn wait_until(&self, node: NodeId, deadline: u64) {
        with_hooks(|hooks| hooks.wait_until(node, deadline));
    }

    fn wake_waiters(&self, node: NodeId) {
        with_hooks(|hooks| hooks.wake_waiters(node));
    }

    fn migrator(&self) -> Option<&'static (dyn Migrate + Sync)> {
        ABLE.get().0.then_some(&Seam as _)
    }

    fn reclaimer(&self) -> Option<&'static (dyn Reclaim + Sync)> {
        ABLE.get().1.then_some(&Seam as _)
    }

    fn enter_reclaim(&self) -> bool {
        !RECLAIMING.replace(true)
    }

    fn leave_reclaim(&self) {
        RECLAIMING.set(false);
    }

    fn trace(&self, event: &Event) {
        if TRACED.get() {
            with_hooks(|hooks| hooks.trace(event));
        }
    }
}

/// The owner of the thread's current machine, for uses that need one that lives for ever.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seam;

#[expect(unsafe_code, reason = "a migrator\'s answers give frames away")]
// SAFETY: every call goes to the current machine's memory, which keeps the promises; without one it refuses.
unsafe impl Migrate for Seam {
    fn isolate(&self, pfn: Pfn, order: Order, mode: MigrateMode) -> Result<(), Refusal> {
        current().map_or(Err(Refusal::Unknown), |memory| memory.isolate(pfn, order, mode))
    }

    fn migrate(&self, from: Pfn, to: Pfn, order: Order, mode: MigrateMode) -> Result<(), MoveError> {
        current().map_or(Err(MoveError::Failed), |memory| memory.migrate(from, to, order, mode))
    }

    fn put_back(&self, pfn: Pfn, order: Order) -> PutBack {
        current().map_or(PutBack::Kept, |memory| memory.put_back(pfn, order))
    }

    fn isolate_batch(&self, requests: &mut [IsolateRequest], mode: MigrateMode) {
        if let Some(memory) = current() {
            memory.isolate_batch(requests, mode);
        }
    }

    fn migrate_batch(&self, moves: &mut [Move], mode: MigrateMode) {
        if let Some(memory) = current() {
            memory.migrate_batch(moves, mode);
        }
    }

    fn interrupt(&self) -> Interrupt {
        let Some(hooks) = current().and_then(|memory| memory.hooks()) else { return Interrupt::None };
        if hooks.is_dying() {
            return Interrupt::Fatal;
        }
        if hooks.is_crowded() { Interrupt::Reschedule } else { Interrupt::None }
    }
}

impl Reclaim for Seam {
    fn shrink(&self, round: &Shrink) -> Shrunk {
        let Some(memory) = current() else { return Shrunk::default() };
        let other = memory.hooks().and_then(|hooks| hooks.shrink(round));
        other.unwrap_or_else(|| memory.shrink(round))
    }

    fn reclaimable(&self, node: NodeId, zone: ZoneKind) -> u64 {
        current().map_or(0, |memory| memory.reclaimable(node, zone))
    }

    fn file_pages(&self, node: NodeId, zone: ZoneKind) -> FilePages {
        let hooks = current().and_then(|memory| memory.hooks());
        hooks.map_or(FilePages::default(), |hooks| hooks.file_pages(node, zone))
    }

    fn is_dying(&self) -> bool {
        current().and_then(|memory| memory.hooks()).is_some_and(|hooks| hooks.is_dying())
    }
}
