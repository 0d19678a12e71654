//! One zone's lists on all CPUs, and the fast path.

use core::fmt;

use pageblock_buddy::{FreeError, Zone};
use pageblock_frame::sync::{AtomicBool, AtomicU8, AtomicU32, Lock, Ordering};
use pageblock_frame::{CpuId, MigrateType, Order, Pfn, PfnRange, Platform, StateByte};

use crate::config::{PcpConfig, Tuning};
use crate::counters::BypassCounters;
#[cfg(loom)]
use crate::depot::BATCH;
use crate::depot::{Capacity, Depot};
#[cfg(loom)]
use crate::list::LISTS;
use crate::list::{BlockKind, List};
use crate::percpu::{AreaRef, Areas, Layout, LocalGuard, Signals};
use crate::sizing::Sizes;
use crate::tune::Tune;

/// One zone's per-CPU lists.
///
/// | field | legal values | changed by |
/// |---|---|---|
/// | `areas` | see the module `percpu` | each CPU its own, by the rules there |
/// | `depot` | see the module `depot` | every CPU, by the rules there |
/// | `zone`, `base`, `config` | the zone, its first frame | – |
/// | `batch`, `high`, `high_max` | [`Sizes`] | the caller that recomputes watermarks; read without lock, perhaps mixed |
/// | `reclaiming` | – | reclaim of the zone |
/// | `wants_large` | a large request found nothing, and few pageblocks have been whole since | that request; the CPU that finds many whole |
/// | `isolations` | number of isolations under way | [`PcpLists::begin_isolation`] and its end |
/// | `bypass` | counts | operations that go past the lists |
///
/// ```
/// # use core::{mem::MaybeUninit, ptr::NonNull};
/// # use pageblock_buddy::{Zone, ZoneConfig, ZoneStorage};
/// # use pageblock_frame::{AllocFlags, Carver, MigrateType, NodeId, Order, Pfn, PfnRange, ZoneKind};
/// # struct Host;
/// # // SAFETY: one CPU, one thread, no memory asked for.
/// # unsafe impl pageblock_frame::Platform for Host {
/// #     const MAX_CPUS: usize = 1;
/// #     fn phys_to_virt(_: u64) -> NonNull<u8> { NonNull::dangling() }
/// # }
/// # let span = PfnRange::new(Pfn::new(0), Pfn::new(1 << 16));
/// # let mut raw = vec![MaybeUninit::uninit(); ZoneStorage::bytes(span, Order::MAX)];
/// # let storage = ZoneStorage::carve(span, Order::MAX, &mut Carver::new(&mut raw)).unwrap();
/// # let zone = Zone::new::<Host>(ZoneConfig::new(ZoneKind::Normal, NodeId::new(0), span), storage).unwrap();
/// # // SAFETY: there is no memory behind the numbers.
/// # unsafe { zone.release(span) }.unwrap();
/// use pageblock_pcp::{PcpConfig, PcpLists};
/// let config = PcpConfig::default();
/// let mut raw = vec![MaybeUninit::uninit(); PcpLists::<Host>::bytes(&config, span, 1)];
/// let lists = PcpLists::<Host>::carve(config, &zone, 1, &mut Carver::new(&mut raw)).unwrap();
///
/// assert_eq!(lists.alloc(Order::ZERO, MigrateType::Movable), None); // nothing on the list yet
/// let pfn = lists.alloc_slow(Order::ZERO, MigrateType::Movable, AllocFlags::empty()).unwrap();
/// // SAFETY: the block was allocated above, and nothing uses it.
/// unsafe {
///     assert_eq!(lists.free(pfn, Order::ZERO), Ok(()));
///     assert!(lists.free(pfn, Order::ZERO).is_err()); // on a list: freed twice
/// }
/// assert_eq!(lists.alloc(Order::ZERO, MigrateType::Movable), Some(pfn)); // the fast path
/// // SAFETY: as above.
/// assert_eq!(unsafe { lists.free(pfn, Order::ZERO) }, Ok(()));
/// assert_eq!(zone.free_frames() + lists.frames(), 1 << 16);
/// lists.drain_all();
/// assert_eq!((zone.free_frames(), lists.frames()), (1 << 16, 0));
/// ```
pub struct PcpLists<'m, P: Platform> {
    pub(crate) areas: Areas<'m, P>,
    pub(crate) depot: Depot<'m>,
    pub(crate) zone: &'m Zone<'m>,
    base: Pfn,
    pub(crate) config: PcpConfig,
    batch: AtomicU32,
    high: AtomicU32,
    high_max: AtomicU32,
    pub(crate) reclaiming: AtomicBool,
    pub(crate) wants_large: AtomicBool,
    pub(crate) isolations: Lock<u32>,
    pub(crate) bypass: BypassCounters,
}

impl<P: Platform> fmt::Debug for PcpLists<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PcpLists").field("areas", &self.areas).field("config", &self.config).finish_non_exhaustive()
    }
}

impl<'m, P: Platform> PcpLists<'m, P> {
    /// Bytes that [`carve`](Self::carve) takes at most for a zone with this span on `cpus` CPUs.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn bytes(config: &PcpConfig, span: PfnRange, cpus: u32) -> usize {
        Areas::<P>::bytes(&Self::layout(config, span, cpus)) + Depot::bytes(&Self::depot_capacity(config, span, cpus))
    }

    /// Lists as Linux has them exchange nothing.
    #[cfg(not(loom))]
    const fn depot_capacity(config: &PcpConfig, span: PfnRange, cpus: u32) -> Capacity {
        Capacity::new(if matches!(config.tuning, Tuning::Bounded) { span.len() } else { 0 }, cpus)
    }

    /// The lists' capacities, halved until their bytes fit: a quarter of a byte a frame. Where even the shortest lists
    /// do not fit, which takes less than some 3 MiB a CPU, there are the shortest.
    #[cfg(not(loom))]
    const fn layout(config: &PcpConfig, span: PfnRange, cpus: u32) -> Layout {
        let mut layout = Layout { cpus: cpus as usize, capacities: config.capacities(span, cpus) };
        let mut halvings = 0;
        while halvings < 8 && Areas::<P>::bytes(&layout) as u64 > span.len() / 4 {
            let mut list = 0;
            while list < layout.capacities.len() {
                layout.capacities[list] = layout.capacities[list].div_ceil(2);
                list += 1;
            }
            halvings += 1;
        }
        layout
    }

    /// Cuts the lists of `cpus` CPUs for a zone off raw bytes; `None`, with nothing taken, if they do not suffice, or
    /// for a configuration that [`PcpConfig::check`] refuses. Batch and high are those of a zone without watermarks
    /// until [`set_sizes`](Self::set_sizes).
    #[cfg(not(loom))]
    pub fn carve(
        config: PcpConfig,
        zone: &'m Zone<'m>,
        cpus: u32,
        carver: &mut pageblock_frame::Carver<'m>,
    ) -> Option<Self> {
        config.check().ok()?;
        let sizes = config.sizes(zone.managed(), zone.watermarks().low, cpus);
        let layout = Self::layout(&config, zone.span(), cpus);
        // SAFETY: the lists write the bytes of blocks that they hold, and of those that a free gives them.
        #[expect(unsafe_code, reason = "lists write the states of what they hold")]
        let states = unsafe { zone.state_table() };
        let areas = Areas::carve(&layout, (zone.pfn_of(0), states), &Tune::new(sizes), carver)?;
        let depot = Depot::carve(Self::depot_capacity(&config, zone.span(), cpus), carver)?;
        Some(Self::over((areas, depot), config, zone, sizes))
    }

    /// None: lists inside a model are not carved.
    #[must_use]
    #[cfg(loom)]
    pub const fn bytes(_: &PcpConfig, _: PfnRange, _: u32) -> usize {
        0
    }

    /// As [`model`](Self::model), with room for two blocks on each list.
    #[cfg(loom)]
    pub fn carve(
        config: PcpConfig,
        zone: &'m Zone<'m>,
        cpus: u32,
        _: &mut pageblock_frame::Carver<'m>,
    ) -> Option<Self> {
        Some(Self::model(config, zone, cpus, 2))
    }

    /// Lists inside a model, with room for `room` blocks each.
    #[cfg(loom)]
    #[must_use]
    pub fn model(config: PcpConfig, zone: &'m Zone<'m>, cpus: u32, room: u16) -> Self {
        let sizes = config.sizes(zone.managed(), zone.watermarks().low, cpus);
        let mut capacities = [0; LISTS];
        List::all(config.set).for_each(|list| capacities[list.index()] = room);
        let layout = Layout { cpus: cpus as usize, capacities };
        // SAFETY: the lists write the bytes of blocks that they hold, and of those that a free gives them.
        #[expect(unsafe_code, reason = "lists write the states of what they hold")]
        let states = unsafe { zone.state_table() };
        let areas = Areas::model(&layout, (zone.pfn_of(0), states), Tune::new(sizes));
        let depot = Depot::model(Capacity::model(4, 2 * BATCH as u32));
        Self::over((areas, depot), config, zone, sizes)
    }

    fn over((areas, depot): (Areas<'m, P>, Depot<'m>), config: PcpConfig, zone: &'m Zone<'m>, sizes: Sizes) -> Self {
        let lists = Self {
            depot,
            base: zone.pfn_of(0),
            zone,
            config,
            batch: AtomicU32::new(sizes.batch),
            high: AtomicU32::new(sizes.high),
            high_max: AtomicU32::new(sizes.high_max),
            reclaiming: AtomicBool::new(false),
            wants_large: AtomicBool::new(false),
            isolations: Lock::new(0),
            bypass: BypassCounters::new(),
            areas,
        };
        // Where all lists are counted together no operation may pass unseen.
        let signal = if config.tuning == Tuning::Bounded { Signals::RESIZE } else { Signals::ACCOUNT };
        for cpu in 0..lists.areas.cpus() {
            lists.areas.signal(CpuId::new(cpu as u32), signal);
        }
        lists
    }

    /// The zone.
    #[must_use]
    pub const fn zone(&self) -> &'m Zone<'m> {
        self.zone
    }

    /// The configuration that the lists were made with.
    #[must_use]
    pub const fn config(&self) -> &PcpConfig {
        &self.config
    }

    /// Batch and high as they are.
    #[must_use]
    pub fn sizes(&self) -> Sizes {
        Sizes {
            batch: self.batch.load(Ordering::Relaxed),
            high: self.high.load(Ordering::Relaxed),
            high_max: self.high_max.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn store_sizes(&self, sizes: Sizes) {
        self.batch.store(sizes.batch, Ordering::Relaxed);
        self.high.store(sizes.high, Ordering::Relaxed);
        self.high_max.store(sizes.high_max, Ordering::Relaxed);
    }

    /// The frame with this zone-relative index.
    #[inline(always)]
    pub(crate) fn pfn_of(&self, index: u32) -> Pfn {
        Pfn::new(self.base.as_u64().wrapping_add(u64::from(index)))
    }

    /// The zone-relative index of a frame; nonsense, but no index of the zone, for frames below it.
    #[inline(always)]
    pub(crate) fn index_of(&self, pfn: Pfn) -> u64 {
        pfn.as_u64().wrapping_sub(self.base.as_u64())
    }

    /// Takes a block from this CPU's list. `None` if the list is empty, the CPU has been signalled, or this is an
    /// interrupt on top of a list operation: then [`alloc_slow`](Self::alloc_slow), after whatever tests the caller
    /// makes before it goes to the zone.
    #[inline(always)]
    pub fn alloc(&self, order: Order, migrate_type: MigrateType) -> Option<Pfn> {
        let list = List::place(order, migrate_type)?;
        pop(&self.areas.enter()?, list, StateByte::allocated(order, migrate_type))
    }

    /// Puts a block on this CPU's list if nothing speaks against it: it is of the zone and allocated with exactly this
    /// order, as movable or unmovable, such blocks have lists, and no signal waits. False, with nothing changed, if
    /// something does.
    ///
    /// # Safety
    /// As [`free`](Self::free).
    #[expect(unsafe_code, reason = "the caller's word that it holds the block")]
    #[inline(always)]
    pub unsafe fn free_fast(&self, pfn: Pfn, order: Order) -> bool {
        let Some(guard) = self.areas.enter() else { return false };
        push(guard, (pfn, order), || Some(self))
    }

    /// Takes back a block with exactly the order with which it was handed out.
    ///
    /// # Errors
    /// [`FreeError`] names the frame's state instead; nothing has changed.
    ///
    /// # Safety
    /// 1. If the block is allocated, the caller holds it: it was handed out to the caller, and has not been given back.
    /// 2. Nothing uses its frames any more.
    #[expect(unsafe_code, reason = "the caller's word that it holds the block")]
    #[inline(always)]
    pub unsafe fn free(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        // SAFETY: the caller's promise is passed on.
        unsafe { if self.free_fast(pfn, order) { Ok(()) } else { self.free_slow(pfn, order) } }
    }
}

/// Takes a block off this CPU's list. `state` is the new state of its head.
#[inline(always)]
fn pop<P: Platform>(guard: &LocalGuard<'_, P>, list: List, state: StateByte) -> Option<Pfn> {
    let (index, byte) = guard.lists().pop(list)?;
    byte.store(state.raw(), Ordering::Relaxed);
    Some(Pfn::new(guard.lists().origin().wrapping_add(u64::from(index))))
}

/// Puts a block of either common type on this CPU's list, or says why not by false, with nothing changed. `owner` is
/// called if the list is full.
///
/// The list follows from the type that is tried, not from the state byte: the push need not wait until the byte has
/// come.
#[inline(always)]
fn push<'l, 'm: 'l, P: Platform>(
    guard: LocalGuard<'_, P>,
    (pfn, order): (Pfn, Order),
    owner: impl FnOnce() -> Option<&'l PcpLists<'m, P>>,
) -> bool {
    let index = pfn.as_u64().wrapping_sub(guard.lists().origin());
    let Some(byte) = guard.lists().frame(index) else { return false };
    // Relaxed: the frame's holder is the caller; this check finds any other that frees it.
    let state = StateByte::from_raw(byte.load(Ordering::Relaxed));
    let movable = Freed { index: index as u32, order, migrate_type: MigrateType::Movable };
    if state == movable.allocated() {
        return push_checked(guard, movable, byte, owner);
    }
    let unmovable = Freed { migrate_type: MigrateType::Unmovable, ..movable };
    state == unmovable.allocated() && push_checked(guard, unmovable, byte, owner)
}

/// The same for a block of known kind.
#[inline(always)]
fn push_kind<'l, 'm: 'l, P: Platform>(
    guard: LocalGuard<'_, P>,
    pfn: Pfn,
    kind: BlockKind,
    owner: impl FnOnce() -> Option<&'l PcpLists<'m, P>>,
) -> bool {
    let BlockKind { list, allocated } = kind;
    let index = pfn.as_u64().wrapping_sub(guard.lists().origin());
    let Some(byte) = guard.lists().frame(index) else { return false };
    // Relaxed: as in `push`.
    if byte.load(Ordering::Relaxed) != allocated.raw() || !claim::<P>(byte, allocated) {
        return false;
    }
    let index = index as u32;
    let freed = || Freed { index, order: list.order(), migrate_type: list.migrate_type() };
    guard.lists().push(list, index) || overflow(guard, freed(), byte, owner)
}

/// Marks a block as listed. False if another CPU did meanwhile, which only [`Platform::HARDENED`] finds out.
#[inline(always)]
pub(crate) fn claim<P: Platform>(byte: &AtomicU8, allocated: StateByte) -> bool {
    let listed = allocated.listed_again().raw();
    if P::HARDENED {
        // Relaxed: it decides which free owns the frame, and publishes nothing.
        return byte.compare_exchange(allocated.raw(), listed, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    }
    byte.store(listed, Ordering::Relaxed);
    true
}

/// A block on its way to a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Freed {
    pub(crate) index: u32,
    pub(crate) order: Order,
    pub(crate) migrate_type: MigrateType,
}

impl Freed {
    #[inline(always)]
    pub(crate) const fn allocated(self) -> StateByte {
        StateByte::allocated(self.order, self.migrate_type)
    }
}

/// The state byte says that the block is allocated as `freed` has it.
#[inline(always)]
fn push_checked<'l, 'm: 'l, P: Platform>(
    guard: LocalGuard<'_, P>,
    freed: Freed,
    byte: &AtomicU8,
    owner: impl FnOnce() -> Option<&'l PcpLists<'m, P>>,
) -> bool {
    let Some(list) = List::place(freed.order, freed.migrate_type) else { return false };
    if !claim::<P>(byte, freed.allocated()) {
        return false;
    }
    guard.lists().push(list, freed.index) || overflow(guard, freed, byte, owner)
}

/// The list is full. The block is marked as listed.
#[cold]
#[inline(never)]
fn overflow<'l, 'm: 'l, P: Platform>(
    mut guard: LocalGuard<'_, P>,
    freed: Freed,
    byte: &AtomicU8,
    owner: impl FnOnce() -> Option<&'l PcpLists<'m, P>>,
) -> bool {
    let Some(lists) = owner() else {
        byte.store(freed.allocated().raw(), Ordering::Relaxed);
        return false;
    };
    lists.make_room(guard.lists_mut(), freed);
    true
}

/// A way to one zone's lists that knows nothing but where they are: for the first look of a request or a free.
///
/// ```
/// # use core::ptr::NonNull;
/// # struct Host;
/// # // SAFETY: one CPU, one thread, no memory asked for.
/// # unsafe impl pageblock_frame::Platform for Host {
/// #     const MAX_CPUS: usize = 1;
/// #     fn phys_to_virt(_: u64) -> NonNull<u8> { NonNull::dangling() }
/// # }
/// use pageblock_frame::{MigrateType, Order};
/// use pageblock_pcp::PcpRef;
/// static WAY: PcpRef<Host> = PcpRef::new();
/// assert_eq!(WAY.alloc(Order::ZERO, MigrateType::Movable), None); // leads nowhere yet
/// ```
pub struct PcpRef<P: Platform>(AreaRef<P>);

impl<P: Platform> fmt::Debug for PcpRef<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PcpRef").field(&self.0).finish()
    }
}

impl<P: Platform> PcpRef<P> {
    pageblock_frame::const_unless_model! {
        /// Leads nowhere.
        #[must_use]
        pub const fn new() -> Self {
            Self(AreaRef::new())
        }
    }

    /// Leads to these lists from now on.
    pub fn set(&self, lists: &'static PcpLists<'static, P>) {
        self.0.set(&lists.areas);
    }

    /// The same, and the words that the platform may keep ([`Platform::CPU_WORD`]) lead there too.
    pub fn set_for_words(&self, lists: &'static PcpLists<'static, P>) {
        self.0.set_for_words(&lists.areas);
    }

    /// As [`PcpLists::alloc`].
    #[inline(always)]
    pub fn alloc(&self, order: Order, migrate_type: MigrateType) -> Option<Pfn> {
        let list = List::place(order, migrate_type)?;
        pop(&self.0.enter()?, list, StateByte::allocated(order, migrate_type))
    }

    /// As [`PcpLists::free_fast`]; `owner`, the lists, is called if the list is full.
    ///
    /// # Safety
    /// 1. As [`PcpLists::free`].
    /// 2. `owner` returns the lists that this leads to, or none.
    #[expect(unsafe_code, reason = "the caller's word that it holds the block")]
    #[inline(always)]
    pub unsafe fn free(
        &self,
        pfn: Pfn,
        order: Order,
        owner: impl FnOnce() -> Option<&'static PcpLists<'static, P>>,
    ) -> bool {
        self.0.enter().is_some_and(|guard| push(guard, (pfn, order), owner))
    }

    /// The same for a block that was allocated as one of this kind.
    ///
    /// # Safety
    /// As [`free`](Self::free).
    #[expect(unsafe_code, reason = "the caller's word that it holds the block")]
    #[inline(always)]
    pub unsafe fn free_kind(
        &self,
        pfn: Pfn,
        kind: BlockKind,
        owner: impl FnOnce() -> Option<&'static PcpLists<'static, P>>,
    ) -> bool {
        self.0.enter().is_some_and(|guard| push_kind(guard, pfn, kind, owner))
    }
}

impl<P: Platform> Default for PcpRef<P> {
    fn default() -> Self {
        Self::new()
    }
}
