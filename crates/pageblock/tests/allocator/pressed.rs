//! A machine whose background reclaim is a script: tests see every wake and every wait, and say what the reclaim does.

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;

use pageblock::{NodeId, Platform, ZoneKind};
use pageblock_frame::Hooks;
use pageblock_frame::reclaim::{FilePages, Reclaim, Shrink, Shrunk};

thread_local! {
    static WAKES: Cell<usize> = const { Cell::new(0) };
    static WAITS: RefCell<Vec<(NodeId, u64)>> = const { RefCell::new(Vec::new()) };
    static CLOCK: Cell<u64> = const { Cell::new(1_000_000_000) };
    /// What happens while a request waits; returns how long it took, in nanoseconds.
    static MEANWHILE: RefCell<Option<Box<dyn FnMut() -> u64>>> = const { RefCell::new(None) };
    /// Who gives memory up.
    static OWNER: RefCell<Option<Owner>> = const { RefCell::new(None) };
    /// What the owner says of pages of files.
    static FILES: RefCell<Option<Files>> = const { RefCell::new(None) };
    static RECLAIMING: Cell<bool> = const { Cell::new(false) };
}

/// The platform: one CPU a thread.
#[derive(Debug)]
pub(crate) struct Pressed;

// SAFETY: each thread is a machine of its own with one CPU and no interrupts; no memory is behind the frames.
unsafe impl Platform for Pressed {
    const MAX_CPUS: usize = 1;
    const HAS_MEMORY: bool = false;

    fn phys_to_virt(_: u64) -> NonNull<u8> {
        NonNull::dangling()
    }

    fn hooks() -> impl Hooks {
        Self
    }
}

impl Hooks for Pressed {
    fn now(&self) -> u64 {
        CLOCK.get()
    }

    fn wake_kswapd(&self, _: NodeId) {
        WAKES.set(WAKES.get() + 1);
    }

    fn wait_until(&self, node: NodeId, deadline: u64) {
        WAITS.with_borrow_mut(|waits| waits.push((node, deadline.saturating_sub(CLOCK.get()))));
        let mut script = MEANWHILE.take();
        let took = script.as_mut().map_or(deadline.saturating_sub(CLOCK.get()), |script| script());
        MEANWHILE.set(script);
        CLOCK.set(CLOCK.get() + took);
    }

    fn reclaimer(&self) -> Option<&'static (dyn Reclaim + Sync)> {
        Some(&Scripted)
    }

    fn enter_reclaim(&self) -> bool {
        !RECLAIMING.replace(true)
    }

    fn leave_reclaim(&self) {
        RECLAIMING.set(false);
    }

    fn trace(&self, event: &pageblock_frame::trace::Event) {
        pageblock_testkit::host::Host::<63>::hooks().trace(event);
    }
}

/// The same where the kernel has a reclaim thread of its own making: it is woken whenever a zone is below its mark.
#[derive(Debug)]
pub(crate) struct OwnThread;

// SAFETY: as above.
unsafe impl Platform for OwnThread {
    const MAX_CPUS: usize = 1;
    const HAS_MEMORY: bool = false;

    fn phys_to_virt(_: u64) -> NonNull<u8> {
        NonNull::dangling()
    }

    fn hooks() -> impl Hooks {
        Self
    }
}

impl Hooks for OwnThread {
    fn wake_kswapd(&self, node: NodeId) {
        Pressed::hooks().wake_kswapd(node);
    }
}

/// What the test says is given up: nothing, if it says nothing.
struct Scripted;

type Files = Box<dyn Fn(NodeId, ZoneKind) -> FilePages>;
type Owner = Box<dyn FnMut(&Shrink) -> Shrunk>;

impl Reclaim for Scripted {
    fn shrink(&self, round: &Shrink) -> Shrunk {
        let mut owner = OWNER.take();
        let shrunk = owner.as_mut().map_or(Shrunk::default(), |owner| owner(round));
        OWNER.set(owner);
        shrunk
    }

    fn reclaimable(&self, _: NodeId, _: ZoneKind) -> u64 {
        OWNER.with_borrow(|owner| if owner.is_some() { u64::from(u32::MAX) } else { 0 })
    }

    fn file_pages(&self, node: NodeId, zone: ZoneKind) -> FilePages {
        FILES.with_borrow(|files| files.as_ref().map_or(FilePages::default(), |files| files(node, zone)))
    }
}

/// From now on this is what the owner says of pages of files.
pub(crate) fn files(files: impl Fn(NodeId, ZoneKind) -> FilePages + 'static) {
    FILES.set(Some(Box::new(files)));
}

/// From now on this is what memory is given up by.
pub(crate) fn owner(owner: impl FnMut(&Shrink) -> Shrunk + 'static) {
    OWNER.set(Some(Box::new(owner)));
}

/// kswapd's wakes since the last call.
pub(crate) fn wakes() -> usize {
    WAKES.take()
}

/// Nodes on which requests waited since the last call, and for how long they were ready to.
pub(crate) fn waits() -> Vec<(NodeId, u64)> {
    WAITS.take()
}

/// From now on nothing happens during a wait, and nothing is given up or a file's.
pub(crate) fn nothing_meanwhile() {
    drop((MEANWHILE.take(), OWNER.take(), FILES.take()));
}

/// From now on this happens during a wait; the closure says how long it took. Without it, waits last until their
/// deadline.
pub(crate) fn meanwhile(script: impl FnMut() -> u64 + 'static) {
    MEANWHILE.set(Some(Box::new(script)));
}
