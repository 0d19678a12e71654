//! One zone's lists on all CPUs, and the fast path.

use core::fmt;

use pageblock_buddy::{FreeError, Zone};
use pageblock_frame::sync::{
    AtomicBool, AtomicU8, AtomicU32, CpuStacks, CpuStacksRef, Inside, Lock, Ordering, StackId,
};
use pageblock_frame::{CpuId, MigrateType, Order, Pfn, PfnRange, Platform, StateByte, TypeBits};

use crate::config::{PcpConfig, Tuning};
use crate::counters::Past;
use crate::drain::{SIGNAL_ACCOUNT, SIGNAL_RESIZE};
#[cfg(loom)]
use crate::list::List;
use crate::sizing::Sizes;
use crate::tune::Tune;

/// One zone's per-CPU lists.
///
/// | field | legal values | who may change it |
/// |---|---|---|
/// | `stacks` | see [`CpuStacks`] | each CPU its own, by the rules there |
/// | `batch`, `high`, `high_max` | [`Sizes`] | whoever recomputes watermarks; read without lock, perhaps mixed |
/// | `reclaiming` | – | reclaim of the zone |
/// | `isolations` | number of isolations under way | [`PcpLists::begin_isolation`] and its end |
/// | `past` | counts | whoever goes past the lists |
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
/// # zone.release(span).unwrap();
/// use pageblock_pcp::{PcpConfig, PcpLists};
/// let config = PcpConfig::default();
/// let mut raw = vec![MaybeUninit::uninit(); PcpLists::<Host>::bytes(&config, span, 1)];
/// let lists = PcpLists::<Host>::carve(config, &zone, 1, &mut Carver::new(&mut raw)).unwrap();
///
/// assert_eq!(lists.alloc(Order::ZERO, MigrateType::Movable), None); // nothing on the list yet
/// let pfn = lists.alloc_slow(&zone, Order::ZERO, MigrateType::Movable, AllocFlags::empty()).unwrap();
/// assert_eq!(lists.free(&zone, pfn, Order::ZERO), Ok(()));
/// assert!(lists.free(&zone, pfn, Order::ZERO).is_err()); // on a list: freed twice
/// assert_eq!(lists.alloc(Order::ZERO, MigrateType::Movable), Some(pfn)); // the fast path
/// assert_eq!(lists.free(&zone, pfn, Order::ZERO), Ok(()));
/// assert_eq!(zone.free_frames() + lists.frames(), 1 << 16);
/// lists.drain_all(&zone);
/// assert_eq!((zone.free_frames(), lists.frames()), (1 << 16, 0));
/// ```
pub struct PcpLists<'m, P: Platform> {
    pub(crate) stacks: CpuStacks<'m, Tune, P>,
    base: Pfn,
    pub(crate) config: PcpConfig,
    batch: AtomicU32,
    high: AtomicU32,
    high_max: AtomicU32,
    pub(crate) reclaiming: AtomicBool,
    pub(crate) isolations: Lock<u32>,
    pub(crate) past: Past,
}

impl<P: Platform> fmt::Debug for PcpLists<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PcpLists").field("stacks", &self.stacks).field("config", &self.config).finish_non_exhaustive()
    }
}

impl<'m, P: Platform> PcpLists<'m, P> {
    /// Bytes that [`carve`](Self::carve) takes at most for a zone with this span on `cpus` CPUs.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn bytes(config: &PcpConfig, span: PfnRange, cpus: u32) -> usize {
        CpuStacks::<Tune, P>::bytes(Self::cpus_with_room(config, span, cpus), &config.capacities(span, cpus))
    }

    /// All CPUs, or none if their lists would take more than a quarter of a byte a frame.
    #[cfg(not(loom))]
    const fn cpus_with_room(config: &PcpConfig, span: PfnRange, cpus: u32) -> usize {
        let bytes = CpuStacks::<Tune, P>::bytes(cpus as usize, &config.capacities(span, cpus));
        if bytes as u64 <= span.len() / 4 { cpus as usize } else { 0 }
    }

    /// Cuts the lists of `cpus` CPUs for a zone off raw bytes; `None`, with nothing taken, if they do not suffice. A zone
    /// so small that they would take more than a quarter of a byte a frame gets none, and all goes to the zone. Batch and high
    /// are those of a zone without watermarks until [`set_sizes`](Self::set_sizes).
    #[cfg(not(loom))]
    pub fn carve(
        config: PcpConfig,
        zone: &Zone<'m>,
        cpus: u32,
        carver: &mut pageblock_frame::Carver<'m>,
    ) -> Option<Self> {
        let capacities = config.capacities(zone.span(), cpus);
        let sizes = config.sizes(zone.managed(), zone.watermarks().low, cpus);
        let cpus = Self::cpus_with_room(&config, zone.span(), cpus);
        let stacks = CpuStacks::carve(cpus, &capacities, (zone.pfn_of(0), zone.states()), Tune::new(sizes), carver)?;
        Some(Self::over(stacks, config, zone.pfn_of(0), sizes))
    }

    /// None: lists inside a model are not carved.
    #[must_use]
    #[cfg(loom)]
    pub const fn bytes(_: &PcpConfig, _: PfnRange, _: u32) -> usize {
        0
    }

    /// As [`model`](Self::model), with room for two blocks on each list.
    #[cfg(loom)]
    pub fn carve(config: PcpConfig, zone: &Zone<'m>, cpus: u32, _: &mut pageblock_frame::Carver<'m>) -> Option<Self> {
        Some(Self::model(config, zone, cpus, 2))
    }

    /// Lists inside a model, with room for `room` blocks each.
    #[cfg(loom)]
    #[must_use]
    pub fn model(config: PcpConfig, zone: &Zone<'m>, cpus: u32, room: u32) -> Self {
        let sizes = config.sizes(zone.managed(), zone.watermarks().low, cpus);
        let capacities =
            core::array::from_fn(|stack| room * u32::from(List::all(config.set).any(|list| list.index() == stack)));
        let stacks = CpuStacks::model(cpus as usize, &capacities, (zone.pfn_of(0), zone.states()), Tune::new(sizes));
        Self::over(stacks, config, zone.pfn_of(0), sizes)
    }

    fn over(stacks: CpuStacks<'m, Tune, P>, config: PcpConfig, base: Pfn, sizes: Sizes) -> Self {
        let lists = Self {
            base,
            config,
            batch: AtomicU32::new(sizes.batch),
            high: AtomicU32::new(sizes.high),
            high_max: AtomicU32::new(sizes.high_max),
            reclaiming: AtomicBool::new(false),
            isolations: Lock::new(0),
            past: Past::new(),
            stacks,
        };
        // Where all lists are counted together no operation may pass unseen.
        let signal = if config.tuning == Tuning::Bounded { SIGNAL_RESIZE } else { SIGNAL_ACCOUNT };
        for cpu in 0..lists.stacks.cpus() {
            lists.stacks.signal(CpuId::new(cpu as u32), signal);
        }
        lists
    }

    /// The configuration that the lists were made with.
    #[must_use]
    pub const fn config(&self) -> &PcpConfig {
        &self.config
    }

    /// The stacks below, for declaring a dead CPU offline.
    #[must_use]
    pub const fn stacks(&self) -> &CpuStacks<'m, Tune, P> {
        &self.stacks
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

    /// Takes a block from this CPU's list. `None` if the list is empty, the CPU has been signalled, or this is an interrupt
    /// on top of a list operation: then [`alloc_slow`](Self::alloc_slow), after whatever tests the caller makes before it goes to the
    /// zone.
    #[inline(always)]
    pub fn alloc(&self, order: Order, migrate_type: MigrateType) -> Option<Pfn> {
        pop(&self.stacks.enter()?, order, migrate_type)
    }

    /// Puts a block on this CPU's list if nothing speaks against it: it is of the zone and allocated with exactly this order, such
    /// blocks have lists, and nobody has signalled. False, with nothing changed, if something does.
    #[inline(always)]
    pub fn free_fast(&self, zone: &Zone<'_>, pfn: Pfn, order: Order) -> bool {
        let Some(inside) = self.stacks.enter() else { return false };
        push(inside, pfn, order, || Some((self, zone)))
    }

    /// Takes back a block with exactly the order with which it was handed out.
    ///
    /// # Errors
    /// [`FreeError`] says what the frame is instead; nothing has changed.
    #[inline(always)]
    pub fn free(&self, zone: &Zone<'_>, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        if self.free_fast(zone, pfn, order) {
            return Ok(());
        }
        self.free_slow(zone, pfn, order)
    }
}

/// Takes a block off this CPU's list.
#[inline(always)]
fn pop<P: Platform>(inside: &Inside<'_, Tune, P>, order: Order, migrate_type: MigrateType) -> Option<Pfn> {
    let (index, state) = inside.pop(StackId::of(order, TypeBits::of(migrate_type)))?;
    state.store(StateByte::allocated(order, migrate_type).raw(), Ordering::Relaxed);
    Some(Pfn::new(inside.origin().wrapping_add(u64::from(index))))
}

/// Puts a block on this CPU's list, or says why not by false, with nothing changed. `owner` is called if the list is full.
#[inline(always)]
fn push<'z, 'l: 'z, 'n: 'z, P: Platform>(
    inside: Inside<'_, Tune, P>,
    pfn: Pfn,
    order: Order,
    owner: impl FnOnce() -> Option<(&'z PcpLists<'l, P>, &'z Zone<'n>)>,
) -> bool {
    let index = pfn.as_u64().wrapping_sub(inside.origin());
    let Some(byte) = inside.frame(index) else { return false };
    // Relaxed: the frame's holder is the caller; anyone else who frees it is what this check finds.
    let state = StateByte::from_raw(byte.load(Ordering::Relaxed));
    let Some(bits) = state.allocated_as(order) else { return false };
    if !claim::<P>(byte, state) {
        return false;
    }
    if inside.push(StackId::of(order, bits), index as u32) {
        return true;
    }
    overflow(inside, (index as u32, order), byte, owner)
}

/// The list is full. The block is marked as listed.
#[cold]
#[inline(never)]
fn overflow<'z, 'l: 'z, 'n: 'z, P: Platform>(
    mut inside: Inside<'_, Tune, P>,
    (index, order): (u32, Order),
    byte: &AtomicU8,
    owner: impl FnOnce() -> Option<(&'z PcpLists<'l, P>, &'z Zone<'n>)>,
) -> bool {
    let Some((lists, zone)) = owner() else {
        byte.store(StateByte::from_raw(byte.load(Ordering::Relaxed)).listed_again().raw(), Ordering::Relaxed);
        return false;
    };
    lists.make_room(zone, &mut inside, index, order);
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
pub struct PcpRef<P: Platform>(CpuStacksRef<Tune, P>);

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
            Self(CpuStacksRef::new())
        }
    }

    /// Leads to these lists from now on.
    pub fn set(&self, lists: &'static PcpLists<'static, P>) {
        self.0.set(&lists.stacks);
    }

    /// The same, and the words that the platform may keep ([`Platform::CPU_WORD`]) lead there too.
    pub fn set_for_words(&self, lists: &'static PcpLists<'static, P>) {
        self.0.set_for_words(&lists.stacks);
    }

    /// As [`PcpLists::alloc`].
    #[inline(always)]
    pub fn alloc(&self, order: Order, migrate_type: MigrateType) -> Option<Pfn> {
        pop(&self.0.enter()?, order, migrate_type)
    }

    /// As [`PcpLists::free_fast`]; `owner`, the lists and their zone, is called if the list is full.
    #[inline(always)]
    pub fn free(
        &self,
        pfn: Pfn,
        order: Order,
        owner: impl FnOnce() -> Option<(&'static PcpLists<'static, P>, &'static Zone<'static>)>,
    ) -> bool {
        self.0.enter().is_some_and(|inside| push(inside, pfn, order, owner))
    }
}

impl<P: Platform> Default for PcpRef<P> {
    fn default() -> Self {
        Self::new()
    }
}

/// Turns an allocated block's state into a listed one's. False if someone else did meanwhile, which only
/// [`Platform::HARDENED`] finds out.
#[inline(always)]
pub(crate) fn claim<P: Platform>(byte: &AtomicU8, state: StateByte) -> bool {
    if P::HARDENED {
        let listed = state.listed_again().raw();
        // Relaxed: it decides who owns the frame, and publishes nothing.
        return byte.compare_exchange(state.raw(), listed, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    }
    // Read again, so that the compiler makes one instruction of it.
    let state = StateByte::from_raw(byte.load(Ordering::Relaxed));
    byte.store(state.listed_again().raw(), Ordering::Relaxed);
    true
}
