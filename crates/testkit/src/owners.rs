//! A hosted machine with owners of memory, [`Migrate`] and [`Reclaim`], that the test brings.
//!
//! Owners are the thread's: this thread's calls see the owners set by [`install`], until the guard is dropped, so that
//! tests which run side by side do not meet. A thread that is to be kswapd or kcompactd installs them too.

use core::ptr::NonNull;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

use pageblock_frame::migration::{Interrupt, IsolateRequest, Migrate, MigrateMode, Move, MoveError, PutBack, Refusal};
use pageblock_frame::reclaim::{Reclaim, Shrink, Shrunk};
use pageblock_frame::trace::Event;
use pageblock_frame::{CpuId, Gfp, Hooks, IrqState, NodeId, Order, Pfn, Platform, ZoneKind};

use crate::host::Host;

/// Owners that move memory and that give it up.
#[derive(Clone, Default)]
pub struct Owners {
    /// Moves it.
    pub migrator: Option<Arc<dyn Migrate + Send + Sync>>,
    /// Gives it up.
    pub reclaimer: Option<Arc<dyn Reclaim + Send + Sync>>,
}

impl core::fmt::Debug for Owners {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (migrates, reclaims) = (self.migrator.is_some(), self.reclaimer.is_some());
        f.debug_struct("Owners").field("migrates", &migrates).field("reclaims", &reclaims).finish()
    }
}

/// Calls of the allocator to this thread's platform.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Calls {
    /// [`Hooks::wake_kswapd`].
    pub wake_kswapd: u64,
    /// [`Hooks::wake_kcompactd`].
    pub wake_kcompactd: u64,
    /// [`Hooks::wait_until`].
    pub waits: u64,
    /// [`Hooks::wake_waiters`].
    pub wake_waiters: u64,
    /// [`Hooks::enter_reclaim`] that was refused.
    pub recursions: u64,
}

thread_local! {
    static OWNERS: RefCell<Owners> = RefCell::default();
    static CALLS: Cell<Calls> = Cell::default();
    static RECLAIMS: Cell<bool> = const { Cell::new(false) };
}

/// Takes the thread's owners back when dropped.
#[derive(Debug)]
#[must_use = "the owners are gone when this is dropped"]
pub struct Installed {
    before: Owners,
}

/// Makes these the thread's owners, and forgets its calls.
///
/// ```
/// use pageblock_frame::{Hooks, Platform};
/// use pageblock_testkit::movables::Movables;
/// use pageblock_testkit::owners::{Owned, Owners, install};
/// type Machine = Owned<0>;
/// assert!(Machine::hooks().migrator().is_none());
/// let owners = Owners { migrator: Some(std::sync::Arc::new(Movables::new())), reclaimer: None };
/// let installed = install(owners);
/// assert!(Machine::hooks().migrator().is_some() && Machine::hooks().reclaimer().is_none());
/// drop(installed);
/// assert!(Machine::hooks().migrator().is_none());
/// ```
pub fn install(owners: Owners) -> Installed {
    CALLS.set(Calls::default());
    Installed { before: OWNERS.replace(owners) }
}

impl Drop for Installed {
    fn drop(&mut self) {
        OWNERS.replace(core::mem::take(&mut self.before));
    }
}

/// Calls of this thread's allocators since [`install`].
#[must_use]
pub fn calls() -> Calls {
    CALLS.get()
}

fn count(change: impl FnOnce(&mut Calls)) {
    let mut calls = CALLS.get();
    change(&mut calls);
    CALLS.set(calls);
}

/// Machine number `N` with the thread's owners. With `FLAG` the thread notes that it reclaims, as a task of a
/// kernel does; without it the allocator has to find out itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Owned<const N: usize, const FLAG: bool = true>;

// SAFETY: all that is promised is promised by `Host<N>`, to which these calls go.
#[expect(unsafe_code, reason = "the seam of a hosted platform; its promises are those of another")]
unsafe impl<const N: usize, const FLAG: bool> Platform for Owned<N, FLAG> {
    const MAX_CPUS: usize = Host::<N>::MAX_CPUS;
    const HAS_MEMORY: bool = false;

    fn phys_to_virt(pa: u64) -> NonNull<u8> {
        Host::<N>::phys_to_virt(pa)
    }

    fn pin() -> CpuId {
        Host::<N>::pin()
    }

    unsafe fn unpin() {
        // SAFETY: the caller's promise is passed on.
        unsafe { Host::<N>::unpin() };
    }

    fn irq_save() -> IrqState {
        Host::<N>::irq_save()
    }

    unsafe fn irq_restore(state: IrqState) {
        // SAFETY: the caller's promise is passed on.
        unsafe { Host::<N>::irq_restore(state) };
    }

    fn hooks() -> impl Hooks {
        Self
    }
}

impl<const N: usize, const FLAG: bool> Hooks for Owned<N, FLAG> {
    fn now(&self) -> u64 {
        Host::<N>::hooks().now()
    }

    fn wake_kswapd(&self, _node: NodeId) {
        count(|calls| calls.wake_kswapd += 1);
    }

    fn wake_kcompactd(&self, _node: NodeId) {
        count(|calls| calls.wake_kcompactd += 1);
    }

    fn wait_until(&self, _node: NodeId, _deadline: u64) {
        count(|calls| calls.waits += 1);
    }

    fn wake_waiters(&self, _node: NodeId) {
        count(|calls| calls.wake_waiters += 1);
    }

    fn migrator(&self) -> Option<&'static (dyn Migrate + Sync)> {
        OWNERS.with_borrow(|owners| owners.migrator.is_some()).then_some(&TheThreads)
    }

    fn reclaimer(&self) -> Option<&'static (dyn Reclaim + Sync)> {
        OWNERS.with_borrow(|owners| owners.reclaimer.is_some()).then_some(&TheThreads)
    }

    fn enter_reclaim(&self) -> bool {
        if FLAG && RECLAIMS.replace(true) {
            count(|calls| calls.recursions += 1);
            return false;
        }
        true
    }

    fn leave_reclaim(&self) {
        RECLAIMS.set(false);
    }

    fn trace(&self, event: &Event) {
        Host::<N>::hooks().trace(event);
    }
}

/// Passes every call on to the thread's owners.
struct TheThreads;

fn migrator() -> Option<Arc<dyn Migrate + Send + Sync>> {
    OWNERS.with_borrow(|owners| owners.migrator.clone())
}

fn reclaimer() -> Option<Arc<dyn Reclaim + Send + Sync>> {
    OWNERS.with_borrow(|owners| owners.reclaimer.clone())
}

#[expect(unsafe_code, reason = "a migrator\'s answers give frames away")]
// SAFETY: every call goes to the thread's migrator; without one it refuses.
unsafe impl Migrate for TheThreads {
    fn isolate(&self, pfn: Pfn, order: Order, mode: MigrateMode) -> Result<(), Refusal> {
        migrator().map_or(Err(Refusal::Unknown), |owner| owner.isolate(pfn, order, mode))
    }

    fn migrate(&self, from: Pfn, to: Pfn, order: Order, mode: MigrateMode) -> Result<(), MoveError> {
        migrator().map_or(Err(MoveError::Failed), |owner| owner.migrate(from, to, order, mode))
    }

    fn put_back(&self, pfn: Pfn, order: Order) -> PutBack {
        migrator().map_or(PutBack::Kept, |owner| owner.put_back(pfn, order))
    }

    fn isolate_batch(&self, requests: &mut [IsolateRequest], mode: MigrateMode) {
        if let Some(owner) = migrator() {
            owner.isolate_batch(requests, mode);
        }
    }

    fn migrate_batch(&self, moves: &mut [Move], mode: MigrateMode) {
        if let Some(owner) = migrator() {
            owner.migrate_batch(moves, mode);
        }
    }

    fn too_many_isolated(&self) -> bool {
        migrator().is_some_and(|owner| owner.too_many_isolated())
    }

    fn interrupt(&self) -> Interrupt {
        migrator().map_or(Interrupt::None, |owner| owner.interrupt())
    }
}

impl Reclaim for TheThreads {
    fn shrink(&self, round: &Shrink) -> Shrunk {
        reclaimer().map_or(Shrunk::default(), |owner| owner.shrink(round))
    }

    fn reclaimable(&self, node: NodeId, zone: ZoneKind) -> u64 {
        reclaimer().map_or(0, |owner| owner.reclaimable(node, zone))
    }

    fn out_of_memory(&self, order: Order, limit: ZoneKind, gfp: Gfp) -> bool {
        reclaimer().is_some_and(|owner| owner.out_of_memory(order, limit, gfp))
    }

    fn is_dying(&self) -> bool {
        reclaimer().is_some_and(|owner| owner.is_dying())
    }
}
