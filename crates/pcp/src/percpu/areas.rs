//! The areas of all CPUs for one zone, and the ways to them.

use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use pageblock_frame::sync::{PerCpuPtr, Pinned};
use pageblock_frame::{CpuId, Pfn, Platform, StateTable};

use super::busy::{self, StoreTag};
use super::guard::{LocalGuard, OfflineGuard};
use super::table::{AreaTable, AreaTableRef, Store};
use super::{Area, ComeOnline, CpuLists, Signals};
use crate::list::{LISTS, List};
use crate::tune::Tune;

/// How many areas there are, and how large.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// CPUs that have an area.
    pub(crate) cpus: usize,
    /// Blocks that each list has room for.
    pub(crate) capacities: [u16; LISTS],
}

/// The areas of all CPUs for one zone. See the [module](super).
pub(crate) struct Areas<'m, P> {
    store: Store<'m>,
    platform: PhantomData<fn() -> P>,
}

// SAFETY: 1. The three words of an area are atomics. 2. Its lists are reached through guards only: a `LocalGuard` needs
// the CPU's own pinned code, which is one thread at a time by `Platform`'s promise, and the busy flag clear; an
// `OfflineGuard` needs that the owner has left with the flag set, and a won compare-and-exchange.
unsafe impl<P> Sync for Areas<'_, P> {}
// SAFETY: as above; nothing here belongs to the thread that made it.
unsafe impl<P> Send for Areas<'_, P> {}

impl<P> fmt::Debug for Areas<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Areas").field("cpus", &self.store.cpus()).finish_non_exhaustive()
    }
}

impl<'m, P: Platform> Areas<'m, P> {
    /// Bytes that [`carve`](Self::carve) takes at most, whatever the alignment of the bytes it takes from.
    #[cfg(not(loom))]
    pub(crate) const fn bytes(layout: &Layout) -> usize {
        Store::bytes(layout, P::MAX_CPUS)
    }

    /// Cuts the areas off raw bytes, with empty lists. `origin` is the frame of the table's first state. `None`
    /// if the bytes do not suffice, or for more CPUs than the platform has.
    #[cfg(not(loom))]
    pub(crate) fn carve(
        layout: &Layout,
        (origin, states): (Pfn, StateTable<'m>),
        tune: &Tune,
        carver: &mut pageblock_frame::Carver<'m>,
    ) -> Option<Self> {
        let tag = StoreTag::of::<P>(states.start());
        let store = Store::carve((layout, P::MAX_CPUS), (origin.as_u64(), states), (tune, tag), carver)?;
        Some(Self { store, platform: PhantomData })
    }

    /// The same inside a model, on the heap.
    #[cfg(loom)]
    pub(crate) fn model(layout: &Layout, (origin, states): (Pfn, StateTable<'m>), tune: Tune) -> Self {
        let tag = StoreTag::of::<P>(states.start());
        let store = Store::new((layout, P::MAX_CPUS), (origin.as_u64(), states), (tune, tag));
        Self { store, platform: PhantomData }
    }

    /// Number of CPUs that have an area.
    #[inline(always)]
    pub(crate) fn cpus(&self) -> usize {
        self.store.cpus()
    }

    /// Pins the caller and lets it into its CPU's area. `None` if code of this CPU is inside already (this is an
    /// interrupt), if the CPU is offline, or if it has no area.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Option<LocalGuard<'_, P>> {
        enter(self.store.table()?)
    }

    fn area(&self, cpu: CpuId) -> Option<&Area> {
        // SAFETY: it lives as long as the store; its changing parts are in cells.
        Some(unsafe { self.store.area(cpu.index())?.as_ref() })
    }

    /// A CPU's lists, for counting from afar: nothing but `len`, `frames_held` and `popped` may be called.
    fn seen(&self, cpu: CpuId) -> Option<CpuLists<'_>> {
        self.store.lists(cpu.index())
    }

    /// Sets signals for a CPU. Returns those that were set before, or `None` if the CPU has no area.
    pub(crate) fn signal(&self, cpu: CpuId, signals: Signals) -> Option<Signals> {
        Some(self.area(cpu)?.signal(signals))
    }

    /// Withdraws signals.
    pub(crate) fn withdraw(&self, cpu: CpuId, signals: Signals) {
        if let Some(area) = self.area(cpu) {
            area.withdraw(signals);
        }
    }

    /// The signals that a CPU has not answered, or `None` if it has no area.
    pub(crate) fn signals(&self, cpu: CpuId) -> Option<Signals> {
        Some(self.area(cpu)?.waiting())
    }

    /// Blocks on one list of a CPU, as they were a moment ago.
    pub(crate) fn len(&self, cpu: CpuId, list: List) -> u32 {
        self.seen(cpu).map_or(0, |lists| lists.len(list))
    }

    /// Frames on all lists of a CPU, as they were a moment ago.
    pub(crate) fn frames_held(&self, cpu: CpuId) -> u64 {
        self.seen(cpu).map_or(0, |lists| lists.frames_held())
    }

    /// Frames that a CPU has popped since boot, as they were a moment ago; 0 for one without an area.
    pub(crate) fn popped_frames(&self, cpu: CpuId) -> u64 {
        let Some(lists) = self.seen(cpu) else { return 0 };
        List::places().fold(0, |sum: u64, list| sum.wrapping_add(lists.popped(list) << list.order().as_u8()))
    }

    /// Makes a CPU that will never run again, or not before it calls [`come_online`](Self::come_online), count as
    /// offline.
    ///
    /// # Safety
    /// The CPU executes nothing that uses this value, and will not until then; all it did happened before this call.
    pub(crate) unsafe fn declare_offline(&self, cpu: CpuId) {
        if let Some(area) = self.area(cpu) {
            area.declare_offline();
        }
    }

    /// Lets the caller into the area of an offline CPU. `None` if the CPU is not offline, or another guard is out.
    pub(crate) fn take_over(&self, cpu: CpuId) -> Option<OfflineGuard<'_>> {
        let lists = self.seen(cpu)?;
        lists.area().take().then(|| OfflineGuard::new(lists))
    }

    /// Takes this CPU's area back after [`LocalGuard::go_offline`]; waits at most `spins` rounds for a guard to be
    /// dropped.
    pub(crate) fn come_online(&self, spins: u32) -> ComeOnline {
        let pinned = Pinned::<P>::new();
        self.seen(pinned.cpu())
            .map_or(ComeOnline::WasOnline, |lists| lists.area().come_online(StoreTag::of::<P>(lists.states()), spins))
    }
}

/// Pins the caller, finds its CPU's area in the table, and sets its busy flag.
#[inline(always)]
fn enter<'a, P: Platform>(table: AreaTable<'a>) -> Option<LocalGuard<'a, P>> {
    let cpu = P::pin();
    // SAFETY: 1. `pin` returns a CPU below `MAX_CPUS`, which is the table's length. 2. The area is that CPU's, or an
    // absent one.
    let area = unsafe { table.area(cpu.index()) };
    // SAFETY: as above, and absent ones cannot be entered.
    let entered = unsafe { area.cast::<busy::BusyFlag>().as_ref().enter() };
    if !entered {
        // SAFETY: ends the `pin` of this entry, once.
        unsafe { P::unpin() };
        return None;
    }
    // SAFETY: it comes from the table and has been entered.
    Some(LocalGuard::new(unsafe { table.lists(area) }))
}

/// The shortest way into areas: set once, then entered without knowing anything else.
pub(crate) struct AreaRef<P> {
    table: AreaTableRef,
    platform: PhantomData<fn() -> P>,
}

// SAFETY: as for `Areas`, to which it refers.
unsafe impl<P> Sync for AreaRef<P> {}
// SAFETY: as for `Areas`.
unsafe impl<P> Send for AreaRef<P> {}

impl<P> fmt::Debug for AreaRef<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AreaRef").finish_non_exhaustive()
    }
}

impl<P: Platform> AreaRef<P> {
    pageblock_frame::const_unless_model! {
        /// Leads nowhere.
        pub(crate) const fn new() -> Self {
            Self { table: AreaTableRef::new(P::MAX_CPUS), platform: PhantomData }
        }
    }

    /// Leads to these areas, from now on. Only the first call counts.
    pub(crate) fn set(&self, areas: &'static Areas<'static, P>) {
        if let Some(table) = areas.store.table() {
            self.table.set(table, None);
        }
    }

    /// The same, and the word that the platform keeps for each CPU ([`Platform::CPU_WORD`]) may lead there too. There
    /// is one such word a CPU: if several stores are set so, the first that the CPU enters has it.
    pub(crate) fn set_for_words(&self, areas: &'static Areas<'static, P>) {
        if let Some(table) = areas.store.table() {
            self.table.set(table, P::CPU_WORD.then(|| areas.store.tag()));
        }
    }

    /// As [`Areas::enter`]; `None` before [`set`](Self::set) too.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Option<LocalGuard<'_, P>> {
        if !P::CPU_WORD {
            return enter(self.table.get(P::MAX_CPUS)?);
        }
        let _ = P::pin();
        let tag = self.table.tag();
        // SAFETY: `cpu_word` returns this CPU's, to which we are pinned.
        let area = unsafe { busy::enter_by_word(P::cpu_word(), tag) };
        if let Some(area) = area {
            // SAFETY: it has that tag.
            return Some(LocalGuard::new(unsafe { self.table.lists_by(area, tag) }));
        }
        let area = self.enter_by_table()?;
        // SAFETY: it is in the table, since it has been entered.
        Some(LocalGuard::new(unsafe { self.table.lists(area) }))
    }

    /// The word has not led to the area, or it is busy. The caller has pinned itself; if it is not let in, that has
    /// been ended.
    #[cold]
    #[inline(never)]
    fn enter_by_table(&self) -> Option<NonNull<Area>> {
        let guard = self.table.get(P::MAX_CPUS).and_then(enter::<P>);
        // SAFETY: `enter` has pinned the caller once more, unless it refused; this ends the `pin` of `enter` or of the
        // caller.
        unsafe { P::unpin() };
        let area = guard.map(LocalGuard::stay)?;
        if self.table.has_tag() && P::cpu_word() == PerCpuPtr::new() {
            // SAFETY: the area is this CPU's, to which the caller is pinned, and lives for ever.
            unsafe { P::set_cpu_word(busy::word_to(area)) };
        }
        Some(area)
    }
}
