//! One CPU's own stacks of frames: what per-CPU page lists are made of.
//!
//! Each CPU has an *area*: a few stacks of zone-relative frame numbers, a value of its owner's, and three words that
//! make it safe to share:
//!
//! | word | written by | meaning |
//! |---|---|---|
//! | `gate` | the owner only | shut while someone on this CPU works in the area; an interrupt that finds it so stays out |
//! | `open` | anyone | the number of frames that may be touched: all, or 0 while a signal waits to be answered |
//! | `signals` | anyone | what the others want of the owner, one bit each |
//!
//! The owner's way in and out ([`CpuStacks::enter`]) is a plain store each, with compiler fences: no lock, no atomic
//! read-modify-write, no fence instruction. That a frame number must be checked against the length of the state table
//! anyway is what makes signals free: the check is made against `open`, and fails while there is one.
//!
//! # Who may work in an area
//! * The code that is pinned to its CPU ([`Platform::pin`]), one at a time (`gate`).
//! * Once the owner has left for good ([`Inside::go_offline`], which keeps the gate shut): one [`Taken`] at a time, by a
//!   compare and exchange in `signals`, until the owner comes back ([`CpuStacks::come_online`]).
//!
//! Under the model checker the stacks are tracked cells, and two owners at once are a reported race.

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use super::{AtomicU8, AtomicU32, Ordering, Pinned, compiler_fence};
use crate::{CpuId, Order, Pfn, Platform, TypeBits};

mod gate;
mod given;
#[cfg(loom)]
mod model;
#[cfg(not(loom))]
mod real;
#[cfg(not(loom))]
mod table;
mod view;

pub use gate::CpuWord;
pub use view::View;

use gate::{Gate, Key};
#[cfg(loom)]
use model::{Body, Store, Table, TableRef};
#[cfg(not(loom))]
use real::{Body, Store};
#[cfg(not(loom))]
use table::{Table, TableRef};

/// Stacks that each CPU has: one for each migrate type and order. Most have no room.
pub const STACKS: usize = 64;
/// The signal that the owner has left for good.
pub const SIGNAL_OFFLINE: u32 = 1 << 31;
/// The signal that someone works in the area of an owner who has left.
const SIGNAL_TAKEN: u32 = 1 << 30;

/// One of the [`STACKS`] stacks of each CPU.
///
/// ```
/// use pageblock_frame::sync::StackId;
/// use pageblock_frame::{MigrateType, Order, TypeBits};
/// let id = StackId::of(Order::new(2).unwrap(), TypeBits::of(MigrateType::Reclaimable));
/// assert_eq!(id.index(), 10);
/// assert_eq!(StackId::new(10), Some(id));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StackId {
    /// A multiple of [`UNIT`](Self::UNIT), below [`STACKS`] times that: the distance of the stack's head from the first.
    offset: u32,
}

impl StackId {
    /// What offsets are multiples of: a head's size, and the unit of type bits.
    const UNIT: u32 = 16;

    /// Stack number `index`, if it is below [`STACKS`].
    #[must_use]
    #[inline(always)]
    pub const fn new(index: usize) -> Option<Self> {
        if index < STACKS { Some(Self { offset: index as u32 * Self::UNIT }) } else { None }
    }

    /// The stack for an order and a type: four an order.
    #[must_use]
    #[inline(always)]
    pub const fn of(order: Order, bits: TypeBits) -> Self {
        Self { offset: order.index() as u32 * (4 * Self::UNIT) + bits.get() }
    }

    /// The number, below [`STACKS`].
    #[must_use]
    #[inline(always)]
    pub const fn index(self) -> usize {
        (self.offset / Self::UNIT) as usize % STACKS
    }
}

/// One CPU's area. What follows it in memory is the stacks' slots.
#[repr(C, align(128))]
struct Area<T> {
    gate: Gate,
    open: AtomicU32,
    signals: AtomicU32,
    frames: u32,
    body: Body<T>,
}

/// The stacks of all CPUs for one table of state bytes. See the [module](self).
///
/// ```
/// use core::mem::MaybeUninit;
/// use core::ptr::NonNull;
/// use pageblock_frame::sync::{CpuStacks, STACKS, StackId, AtomicU8};
/// use pageblock_frame::{Carver, Pfn, Platform, StateTable};
/// struct Host;
/// // SAFETY: one CPU, one thread, no memory asked for.
/// unsafe impl Platform for Host {
///     const MAX_CPUS: usize = 1;
///     fn phys_to_virt(_: u64) -> NonNull<u8> { NonNull::dangling() }
/// }
/// let states = [const { AtomicU8::new(0) }; 8];
/// let table = (Pfn::new(0), StateTable::new(&states));
/// let capacities = [4; STACKS];
/// let mut raw = vec![MaybeUninit::uninit(); CpuStacks::<(), Host>::bytes(1, &capacities)];
/// let carver = &mut Carver::new(&mut raw);
/// let stacks = CpuStacks::<(), Host>::carve(1, &capacities, table, (), carver).unwrap();
/// let inside = stacks.enter().unwrap();
/// assert!(stacks.enter().is_none()); // as an interrupt would find it
/// let stack = StackId::new(0).unwrap();
/// assert!(inside.push(stack, 7) && inside.push(stack, 3));
/// assert_eq!(inside.pop(stack).map(|(frame, _state)| frame), Some(3));
/// assert_eq!(inside.len(stack), 1);
/// ```
pub struct CpuStacks<'m, T, P> {
    store: Store<'m, T>,
    platform: PhantomData<fn() -> P>,
}

// SAFETY: 1. `gate`, `open` and `signals` are atomics. 2. The stacks and the value are reached through `Inside` and `Taken`
// only; the first needs the CPU's own pinned code, which is one thread at a time by `Platform`'s promise, and the gate
// open; the second needs that the owner has left with the gate shut, and a won compare and exchange. 3. So the value moves
// between threads, which is why it must be `Send`, and is never shared.
unsafe impl<T: Send, P> Sync for CpuStacks<'_, T, P> {}
// SAFETY: as above; nothing here belongs to the thread that made it.
unsafe impl<T: Send, P> Send for CpuStacks<'_, T, P> {}

impl<T, P> fmt::Debug for CpuStacks<'_, T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CpuStacks").field("cpus", &self.store.cpus()).finish_non_exhaustive()
    }
}

impl<'m, T: Copy, P: Platform> CpuStacks<'m, T, P> {
    /// Bytes that [`carve`](Self::carve) takes at most, whatever the alignment of what it takes from.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn bytes(cpus: usize, capacities: &[u32; STACKS]) -> usize {
        Store::<T>::bytes((cpus, P::MAX_CPUS, capacities))
    }

    /// Cuts the areas of `cpus` CPUs off raw bytes, each with empty stacks of these capacities (in frames) and the value
    /// `value`. `origin` is the frame whose state is the table's first. `None` if the bytes do not suffice, or for more CPUs than
    /// the platform has.
    #[cfg(not(loom))]
    pub fn carve(
        cpus: usize,
        capacities: &[u32; STACKS],
        (origin, states): (Pfn, crate::StateTable<'m>),
        value: T,
        carver: &mut crate::Carver<'m>,
    ) -> Option<Self> {
        let shape = (cpus, P::MAX_CPUS, capacities);
        let key = Key::of::<P>(states.start());
        let store = Store::carve(shape, (origin.as_u64(), states), (value, key), carver)?;
        Some(Self { store, platform: PhantomData })
    }

    /// The same inside a model, on the heap.
    #[cfg(loom)]
    #[must_use]
    pub fn model(
        cpus: usize,
        capacities: &[u32; STACKS],
        (origin, states): (Pfn, crate::StateTable<'m>),
        value: T,
    ) -> Self {
        let shape = (cpus, P::MAX_CPUS, capacities);
        let key = Key::of::<P>(states.start());
        Self { store: Store::new(shape, (origin.as_u64(), states), (value, key)), platform: PhantomData }
    }

    /// Number of CPUs that have an area.
    #[must_use]
    #[inline(always)]
    pub fn cpus(&self) -> usize {
        self.store.cpus()
    }

    /// Pins the caller and lets it into its CPU's area. `None` if someone on this CPU is in there already (this is an
    /// interrupt), if the CPU is offline, or if it has no area.
    #[inline(always)]
    pub fn enter(&self) -> Option<Inside<'_, T, P>> {
        enter(self.store.table()?)
    }

    /// Sets signals for a CPU: it fails every [`View::pop`] and [`View::frame`] until it has answered. Returns the signals
    /// that were set before, or `None` if the CPU has no area.
    pub fn signal(&self, cpu: CpuId, signals: u32) -> Option<u32> {
        let view = self.store.view(cpu.index())?;
        // Release: what the caller did before is seen by the owner who answers. Acquire: if the owner has answered before, its
        // `open` store is ordered before the next line's (see `View::answer`).
        let before = view.area().signals.fetch_or(signals, Ordering::AcqRel);
        view.area().open.store(0, Ordering::Relaxed);
        Some(before)
    }

    /// Withdraws signals. The owner notices at its next operation.
    pub fn withdraw(&self, cpu: CpuId, signals: u32) {
        if let Some(view) = self.store.view(cpu.index()) {
            view.area().signals.fetch_and(!signals, Ordering::AcqRel);
        }
    }

    /// The signals that a CPU has not answered, or `None` if it has no area. What the owner did before it answered
    /// happened before this call returns without the signal.
    #[must_use]
    pub fn signals(&self, cpu: CpuId) -> Option<u32> {
        Some(self.store.view(cpu.index())?.area().signals.load(Ordering::Acquire))
    }

    /// Frames on one stack of a CPU, as they were a moment ago.
    #[must_use]
    pub fn held(&self, cpu: CpuId, stack: StackId) -> u32 {
        self.store.view(cpu.index()).map_or(0, |view| view.len(stack))
    }

    /// Makes a CPU that will never run again, or not before it calls [`come_online`](Self::come_online), count as offline.
    ///
    /// # Safety
    /// The CPU executes nothing that uses this value, and will not until then; all it did happened before this call.
    pub unsafe fn declare_offline(&self, cpu: CpuId) {
        if let Some(view) = self.store.view(cpu.index()) {
            view.area().gate.shut();
            view.area().signals.fetch_or(SIGNAL_OFFLINE, Ordering::AcqRel);
        }
    }

    /// Lets the caller into the area of an offline CPU. `None` if the CPU is not offline, or someone else is in there.
    pub fn take_over(&self, cpu: CpuId) -> Option<Taken<'_, T>> {
        let view = self.store.view(cpu.index())?;
        let signals = &view.area().signals;
        let mut seen = signals.load(Ordering::Relaxed);
        loop {
            if seen & (SIGNAL_OFFLINE | SIGNAL_TAKEN) != SIGNAL_OFFLINE {
                return None;
            }
            // Acquire: what the owner and the taker before did to the area happened before. Pairs with the releases in
            // `go_offline` and in `Taken`'s drop.
            match signals.compare_exchange(seen, seen | SIGNAL_TAKEN, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(Taken { view }),
                Err(now) => seen = now,
            }
        }
    }

    /// Takes this CPU's area back after [`Inside::go_offline`]; waits for a taker to leave. False if the CPU was not
    /// offline.
    pub fn come_online(&self) -> bool {
        let pinned = Pinned::<P>::new();
        self.store.view(pinned.cpu().index()).is_some_and(|view| view.come_online(Key::of::<P>(view.states)))
    }
}

/// Pins the caller, finds its CPU's area in the table, and marks it busy.
#[inline(always)]
fn enter<'a, T, P: Platform>(table: Table<'a, T>) -> Option<Inside<'a, T, P>> {
    let cpu = P::pin();
    // SAFETY: 1. `pin` returns a CPU below `MAX_CPUS`, which is the table's length. 2. The area is that CPU's, or an absent one.
    let area = unsafe { table.area(cpu.index()) };
    // SAFETY: as above, and absent ones cannot be entered.
    let entered = unsafe { area.cast::<Gate>().as_ref().enter() };
    if !entered {
        // SAFETY: ends the `pin` of this entry, once.
        unsafe { P::unpin() };
        return None;
    }
    // SAFETY: it comes from the table and has been entered.
    Some(Inside::new(unsafe { table.view(area) }))
}

/// The shortest way into areas: set once, then entered without knowing anything else.
///
/// ```
/// # use core::ptr::NonNull;
/// use pageblock_frame::sync::CpuStacksRef;
/// # struct Host;
/// # // SAFETY: one CPU, one thread, no memory asked for.
/// # unsafe impl pageblock_frame::Platform for Host {
/// #     const MAX_CPUS: usize = 1;
/// #     fn phys_to_virt(_: u64) -> NonNull<u8> { NonNull::dangling() }
/// # }
/// assert!(CpuStacksRef::<(), Host>::new().enter().is_none()); // not set yet
/// ```
pub struct CpuStacksRef<T: 'static, P> {
    table: TableRef<T>,
    platform: PhantomData<fn() -> P>,
}

// SAFETY: as for `CpuStacks`, to which it refers.
unsafe impl<T: Send, P> Sync for CpuStacksRef<T, P> {}
// SAFETY: as for `CpuStacks`.
unsafe impl<T: Send, P> Send for CpuStacksRef<T, P> {}

impl<T, P> fmt::Debug for CpuStacksRef<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CpuStacksRef").finish_non_exhaustive()
    }
}

impl<T: Copy, P: Platform> CpuStacksRef<T, P> {
    crate::const_unless_model! {
        /// Leads nowhere.
        #[must_use]
        pub const fn new() -> Self {
            Self { table: TableRef::new(P::MAX_CPUS), platform: PhantomData }
        }
    }

    /// Leads to these stacks, from now on. Only the first call counts.
    pub fn set(&self, stacks: &'static CpuStacks<'static, T, P>) {
        if let Some(table) = stacks.store.table() {
            self.table.set(table, None);
        }
    }

    /// The same, and what the platform keeps for each CPU ([`Platform::CPU_WORD`]) may lead there too. There is one such word a CPU: if
    /// several stacks are set so, the first that the CPU enters has it.
    pub fn set_for_words(&self, stacks: &'static CpuStacks<'static, T, P>) {
        if let Some(table) = stacks.store.table() {
            let words = P::CPU_WORD && gate::may_have_words::<T>();
            self.table.set(table, words.then(|| stacks.store.key()));
        }
    }

    /// As [`CpuStacks::enter`]; `None` before [`set`](Self::set) too.
    #[inline(always)]
    pub fn enter(&self) -> Option<Inside<'_, T, P>> {
        if !P::CPU_WORD {
            return enter(self.table.get(P::MAX_CPUS)?);
        }
        let _ = P::pin();
        let key = self.table.key();
        // SAFETY: 1. `cpu_word` returns this CPU's, to which we are pinned. 2. Only areas of one type of value are given to words, by
        // `may_have_words`, so that what the word leads to is of `T` if a table of `T` has its key.
        let area = unsafe { P::cpu_word().enter(key) };
        if let Some(area) = area {
            // SAFETY: it has that key.
            return Some(Inside::new(unsafe { self.table.view_by(area, key) }));
        }
        let area = self.enter_by_table()?;
        // SAFETY: it is in the table, since it has been entered.
        Some(Inside::new(unsafe { self.table.view(area) }))
    }

    /// The word has not led to the area, or it is busy. The caller has pinned itself; if it is not let in, that has been ended.
    #[cold]
    #[inline(never)]
    fn enter_by_table(&self) -> Option<NonNull<Area<T>>> {
        let inside = self.table.get(P::MAX_CPUS).and_then(enter::<T, P>);
        // `enter` has pinned the caller once more, unless it let nobody in.
        // SAFETY: ends the `pin` of this entry, once.
        unsafe { P::unpin() };
        let area = inside.map(Inside::stay)?;
        if self.table.has_key() && P::cpu_word() == CpuWord::new() {
            P::set_cpu_word(CpuWord::to(area));
        }
        Some(area)
    }
}

impl<T: Copy, P: Platform> Default for CpuStacksRef<T, P> {
    fn default() -> Self {
        Self::new()
    }
}

/// A CPU's own code, in its area. Leaves when dropped.
#[derive(Debug)]
pub struct Inside<'a, T, P: Platform> {
    view: View<'a, T>,
    platform: PhantomData<fn() -> P>,
}

impl<'a, T, P: Platform> Inside<'a, T, P> {
    /// The gate has just been shut.
    #[inline(always)]
    fn new(view: View<'a, T>) -> Self {
        // An interrupt must find the mark before anything that it protects has changed.
        compiler_fence(Ordering::SeqCst);
        Self { view, platform: PhantomData }
    }

    /// As [`View::push`].
    #[inline(always)]
    pub fn push(&self, stack: StackId, index: u32) -> bool {
        if P::CPU_WORD { self.view.push_quickly(stack, index) } else { self.view.push(stack, index) }
    }

    /// Its area, which it does not leave.
    fn stay(self) -> NonNull<Area<T>> {
        let area = self.view.area;
        core::mem::forget(self);
        area
    }

    /// Leaves for good: until [`CpuStacks::come_online`] the area belongs to whoever [takes](CpuStacks::take_over) it,
    /// and [`CpuStacks::enter`] fails on this CPU.
    pub fn go_offline(self) {
        // The gate stays shut. Release: what was done in the area is seen by the taker.
        self.view.area().signals.fetch_or(SIGNAL_OFFLINE, Ordering::Release);
        core::mem::forget(self);
        // SAFETY: ends the `pin` of this entry, once.
        unsafe { P::unpin() };
    }
}

impl<T, P: Platform> Drop for Inside<'_, T, P> {
    #[inline(always)]
    fn drop(&mut self) {
        // All that the mark protects is done before an interrupt finds it gone.
        compiler_fence(Ordering::SeqCst);
        self.view.area().gate.leave(Key::of::<P>(self.view.states));
        // SAFETY: ends the `pin` of this entry, once.
        unsafe { P::unpin() };
    }
}

impl<'a, T, P: Platform> Deref for Inside<'a, T, P> {
    type Target = View<'a, T>;

    #[inline(always)]
    fn deref(&self) -> &View<'a, T> {
        &self.view
    }
}

impl<T, P: Platform> DerefMut for Inside<'_, T, P> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.view
    }
}

/// Another CPU's code, in the area of a CPU that is offline. Leaves when dropped.
#[derive(Debug)]
pub struct Taken<'a, T> {
    view: View<'a, T>,
}

impl<T> Drop for Taken<'_, T> {
    fn drop(&mut self) {
        // Release: what was done in the area is seen by whoever comes next.
        self.view.area().signals.fetch_and(!SIGNAL_TAKEN, Ordering::Release);
    }
}

impl<'a, T> Deref for Taken<'a, T> {
    type Target = View<'a, T>;

    fn deref(&self) -> &View<'a, T> {
        &self.view
    }
}

impl<T> DerefMut for Taken<'_, T> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.view
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
