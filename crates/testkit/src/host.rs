//! A hosted machine: CPUs are threads, events are recorded, interrupts are counted.
//!
//! [`Host<N>`] is the platform; each `N` below [`MACHINES`] is a machine of its own, so that tests which run side by
//! side in one process share no CPU. [`Quiet`] is a machine with one CPU and free platform calls, for benches
//! and single-threaded tests. [`Stored`] keeps an allocator together with the storage that its metadata lives in.

use core::mem::{ManuallyDrop, MaybeUninit};
use core::ops::Deref;
use core::ptr::NonNull;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::{Cell, RefCell};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pageblock_frame::trace::Event;
use pageblock_frame::{CpuId, Hooks, IrqState, Platform};

/// Number of machines that one process can have.
pub const MACHINES: usize = 64;
/// CPUs of each machine.
pub const CPUS: usize = 64;

/// The CPUs of each machine that some thread is.
static CLAIMED: [Mutex<u64>; MACHINES] = [const { Mutex::new(0) }; MACHINES];

thread_local! {
    /// Which CPU this thread is, on each machine.
    static CURRENT: [Cell<Option<u32>>; MACHINES] = const { [const { Cell::new(None) }; MACHINES] };
    /// CPUs that this thread took without being told, to be given up when it ends.
    static IMPLICIT: RefCell<Vec<Claim>> = const { RefCell::new(Vec::new()) };
    static PINS: Cell<u32> = const { Cell::new(0) };
    static IRQ_DEPTH: Cell<usize> = const { Cell::new(0) };
    static EVENTS: RefCell<Option<Vec<Event>>> = const { RefCell::new(None) };
    static STARTED: Instant = Instant::now();
}

fn claimed(machine: usize) -> MutexGuard<'static, u64> {
    CLAIMED[machine].lock().unwrap_or_else(PoisonError::into_inner)
}

/// A CPU of a machine, taken until dropped.
#[derive(Debug)]
struct Claim {
    machine: usize,
    cpu: u32,
}

impl Claim {
    fn take(machine: usize, cpu: u32) -> Option<Self> {
        let mut mask = claimed(machine);
        let free = cpu < CPUS as u32 && *mask & (1 << cpu) == 0;
        free.then(|| {
            *mask |= 1 << cpu;
            Self { machine, cpu }
        })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        *claimed(self.machine) &= !(1 << self.cpu);
    }
}

/// Machine number `N`: the CPU is the thread's, taken on first use and given up when the thread ends.
///
/// # Panics
/// [`pin`](Platform::pin) panics if more than [`CPUS`] threads use the machine at once.
///
/// ```
/// use pageblock_frame::{CpuId, Platform};
/// use pageblock_testkit::host::Host;
/// type Machine = Host<7>;
/// let cpu = Machine::on_cpu(3, || {
///     let cpu = Machine::pin();
///     // SAFETY: ends the line above.
///     unsafe { Machine::unpin() };
///     cpu
/// });
/// assert_eq!(cpu, Some(CpuId::new(3)));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Host<const N: usize>;

impl<const N: usize> Host<N> {
    const IN_RANGE: () = assert!(N < MACHINES);

    /// Runs `action` as CPU `cpu`, whatever CPU the thread is otherwise. `None`, with nothing run, if there is no such
    /// CPU or another thread is it.
    pub fn on_cpu<R>(cpu: u32, action: impl FnOnce() -> R) -> Option<R> {
        let () = Self::IN_RANGE;
        let before = Self::current();
        if before == Some(cpu) {
            return Some(action());
        }
        let claim = Claim::take(N, cpu)?;
        CURRENT.with(|current| current[N].set(Some(cpu)));
        let restore = Restore { machine: N, before };
        let result = action();
        drop(restore);
        drop(claim);
        Some(result)
    }

    fn current() -> Option<u32> {
        CURRENT.with(|current| current[N].get())
    }

    #[cold]
    fn join() -> u32 {
        let () = Self::IN_RANGE;
        let claim = (0..CPUS as u32).find_map(|cpu| Claim::take(N, cpu));
        let Some(claim) = claim else { panic!("machine {N} has only {CPUS} CPUs") };
        let cpu = claim.cpu;
        CURRENT.with(|current| current[N].set(Some(cpu)));
        IMPLICIT.with(|implicit| implicit.borrow_mut().push(claim));
        cpu
    }
}

/// Puts the thread back on its CPU, also when the action panics.
struct Restore {
    machine: usize,
    before: Option<u32>,
}

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.with(|current| current[self.machine].set(self.before));
    }
}

/// True if every pin has had its unpin, and every saved interrupt state was restored, on this thread.
#[must_use]
pub fn is_balanced() -> bool {
    PINS.get() == 0 && IRQ_DEPTH.get() == 0
}

/// Runs `action` and returns the events that this thread's allocators emitted meanwhile.
///
/// ```
/// use pageblock_frame::{Hooks, Order, Pfn, Platform, trace::Event};
/// use pageblock_testkit::host::{Host, record};
/// let free = Event::Free { pfn: Pfn::new(5), order: Order::ZERO };
/// let (answer, events) = record(|| {
///     Host::<0>::hooks().trace(&free);
///     42
/// });
/// assert_eq!((answer, events), (42, vec![free]));
/// ```
pub fn record<R>(action: impl FnOnce() -> R) -> (R, Vec<Event>) {
    EVENTS.with(|events| *events.borrow_mut() = Some(Vec::new()));
    let result = action();
    let events = EVENTS.with(|events| events.borrow_mut().take());
    (result, events.unwrap_or_default())
}

// SAFETY: 1. A CPU number is claimed by one thread at a time, under a mutex, and is below `CPUS`; a thread keeps it
// until it ends or leaves `on_cpu`, neither of which can happen between `pin` and `unpin` of one call. 2. There are no
// interrupts: no code runs on a thread but its own. 3. `phys_to_virt` points to nothing, as documented; code that needs
// memory behind the frames uses a platform of its own.
#[expect(unsafe_code, reason = "the seam of a hosted platform; its promises are stated above")]
unsafe impl<const N: usize> Platform for Host<N> {
    const MAX_CPUS: usize = CPUS;
    const HAS_MEMORY: bool = false;

    fn phys_to_virt(_pa: u64) -> NonNull<u8> {
        NonNull::dangling()
    }

    fn pin() -> CpuId {
        PINS.set(PINS.get() + 1);
        CpuId::new(Self::current().unwrap_or_else(Self::join))
    }

    unsafe fn unpin() {
        PINS.set(PINS.get() - 1);
    }

    fn irq_save() -> IrqState {
        IrqState::new(IRQ_DEPTH.replace(IRQ_DEPTH.get() + 1))
    }

    unsafe fn irq_restore(state: IrqState) {
        let state = state.bits();
        debug_assert_eq!(IRQ_DEPTH.get(), state + 1, "interrupt states must be restored in reverse order");
        IRQ_DEPTH.set(state);
    }

    fn hooks() -> impl Hooks {
        Self
    }
}

impl<const N: usize> Hooks for Host<N> {
    fn now(&self) -> u64 {
        STARTED.with(|started| started.elapsed().as_nanos() as u64)
    }

    fn trace(&self, event: &Event) {
        EVENTS.with(|events| {
            if let Some(events) = events.borrow_mut().as_mut() {
                events.push(*event);
            }
        });
    }
}

/// One CPU, no interrupts, no clock, nothing behind the frames: every call compiles to nothing.
///
/// ```
/// use pageblock_frame::{CpuId, Platform};
/// assert_eq!(pageblock_testkit::host::Quiet::pin(), CpuId::new(0));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

// SAFETY: 1. There is one CPU, and a user of this platform calls an allocator from one thread only, or an allocator
// with all its state behind its locks (a zone), where the CPU number does not matter. 2. There are no interrupts.
// 3. Nothing is behind the frames, as documented.
#[expect(unsafe_code, reason = "the seam of a hosted platform; its promises are stated above")]
unsafe impl Platform for Quiet {
    const MAX_CPUS: usize = 1;
    const HAS_MEMORY: bool = false;

    #[inline(always)]
    fn phys_to_virt(_pa: u64) -> NonNull<u8> {
        NonNull::dangling()
    }
}

/// A value together with the bytes that it borrows for ever; they are freed after it is dropped.
///
/// ```
/// use core::mem::MaybeUninit;
/// use pageblock_frame::Carver;
/// use pageblock_testkit::host::Stored;
/// // SAFETY: nothing but the value keeps the storage.
/// let stored = unsafe { Stored::new(64, |bytes| Carver::new(bytes).take::<u32>(4)) };
/// assert_eq!(stored.as_deref(), Some(&[0; 4][..]));
/// ```
#[derive(Debug)]
pub struct Stored<T> {
    value: ManuallyDrop<T>,
    bytes: NonNull<u8>,
    layout: Layout,
}

impl<T> Stored<T> {
    /// Allocates `bytes` bytes, aligned to 128 and not initialised, and builds the value over them.
    ///
    /// # Safety
    /// Nothing that borrows from the storage may be used after the `Stored` is dropped: neither something that `build`
    /// put elsewhere, nor something copied out of the value.
    #[expect(unsafe_code, reason = "the seam that lets a test own an allocator and its storage at once")]
    pub unsafe fn new(bytes: usize, build: impl FnOnce(&'static mut [MaybeUninit<u8>]) -> T) -> Self {
        let layout = match Layout::from_size_align(bytes.max(1), 128) {
            Ok(layout) => layout,
            Err(error) => panic!("{bytes} bytes of storage: {error}"),
        };
        // SAFETY: the layout's size is not 0.
        let raw = unsafe { alloc(layout) };
        let Some(start) = NonNull::new(raw) else { handle_alloc_error(layout) };
        // SAFETY: the bytes are allocated, aligned for bytes, exclusively ours, and need no initialisation; they are
        // freed only by `drop`, after the value; the caller promises that nothing else keeps the slice.
        let slice = unsafe { core::slice::from_raw_parts_mut(start.as_ptr().cast::<MaybeUninit<u8>>(), bytes) };
        Self { value: ManuallyDrop::new(build(slice)), bytes: start, layout }
    }
}

impl<T> Deref for Stored<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Drop for Stored<T> {
    #[expect(unsafe_code, reason = "frees what `new` allocated, in the right order")]
    fn drop(&mut self) {
        // SAFETY: the value is dropped once, here, and not used again.
        unsafe { ManuallyDrop::drop(&mut self.value) };
        // SAFETY: allocated by `new` with this layout; the value, the only user, is gone.
        unsafe { dealloc(self.bytes.as_ptr(), self.layout) };
    }
}

// SAFETY: the bytes are owned like a `Box`'s; their content is reached through the value only.
#[expect(unsafe_code, reason = "a raw pointer to owned bytes")]
unsafe impl<T: Send> Send for Stored<T> {}
// SAFETY: a shared `Stored` gives out `&T` only.
#[expect(unsafe_code, reason = "a raw pointer to owned bytes")]
unsafe impl<T: Sync> Sync for Stored<T> {}

#[cfg(test)]
mod tests {
    use super::*;
    use pageblock_frame::sync::Pinned;
    use std::collections::HashSet;
    use std::sync::Barrier;

    #[test]
    fn threads_are_different_cpus() {
        type Machine = Host<60>;
        let barrier = Barrier::new(8);
        let cpus: HashSet<CpuId> = std::thread::scope(|scope| {
            let spawn = |_| {
                scope.spawn(|| {
                    let cpu = Pinned::<Machine>::new().cpu();
                    barrier.wait();
                    cpu
                })
            };
            let threads: Vec<_> = (0..8).map(spawn).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(cpus.len(), 8);
        assert_eq!(*claimed(60), 0, "CPUs must be given up when threads end");
    }

    #[test]
    fn a_cpu_has_one_thread() {
        type Machine = Host<61>;
        let refused =
            Machine::on_cpu(5, || std::thread::scope(|s| s.spawn(|| Machine::on_cpu(5, || ())).join().unwrap()));
        assert_eq!(refused, Some(None));
        assert_eq!(Machine::on_cpu(64, || ()), None);
        assert!(is_balanced());
    }

    #[test]
    fn storage_is_freed_after_the_value() {
        struct Reads(&'static mut [MaybeUninit<u8>]);
        impl Drop for Reads {
            fn drop(&mut self) {
                self.0.fill(MaybeUninit::new(7)); // under Miri or a sanitizer: still allocated
            }
        }
        #[expect(unsafe_code, reason = "the test's own use of the seam")]
        // SAFETY: only the value keeps the slice.
        let stored = unsafe { Stored::new(1000, Reads) };
        assert_eq!(stored.0.len(), 1000);
        assert_eq!(stored.0.as_ptr().align_offset(128), 0);
    }
}
