//! A zone: its lock, what can be read without the lock, and the operations that others call.

use pageblock_frame::sync::{AtomicU64, Interrupts, IrqGuard, Lock, Ordering};
use pageblock_frame::trace::Event;
use pageblock_frame::{
    Hooks, MAX_PFN, MigrateType, NodeId, Order, PAGEBLOCK_ORDER, Pageblock, Pfn, PfnRange, Platform, StateByte,
    StateTable, ZoneKind,
};

use crate::Violation;
use crate::boost::BoostRule;
use crate::core::{BLOCK_SHIFT, ZoneCore};
use crate::error::{AllocAtError, IsolateError, ZoneError};
use crate::policy::Policy;
use crate::storage::{ZoneStorage, base_of, blocks_of, states_of};
use crate::watermark::Marks;

/// What a zone is made of.
///
/// ```
/// use pageblock_buddy::ZoneConfig;
/// use pageblock_frame::{NodeId, Order, Pfn, PfnRange, ZoneKind};
/// let span = PfnRange::new(Pfn::new(0x1000), Pfn::new(0x9000));
/// let config = ZoneConfig::new(ZoneKind::Dma32, NodeId::new(0), span);
/// assert_eq!(config.max_order, Order::MAX);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneConfig {
    /// Which addresses it holds.
    pub kind: ZoneKind,
    /// The memory node it belongs to.
    pub node: NodeId,
    /// First frame and end, holes included.
    pub span: PfnRange,
    /// Largest order it can serve, at least the pageblock order.
    pub max_order: Order,
    /// How migrate types fall back on one another.
    pub policy: Policy,
    /// Whether and how far mixing them raises the watermarks.
    pub boost: BoostRule,
    /// Mixings that take from a free block below this order are refused to requests that may stall first
    /// (`vm.fragment_stall_order`, seed 002); 0: none are.
    pub stall_order: u8,
}

impl ZoneConfig {
    /// A zone with the default policy and largest order; nothing is boosted or refused.
    #[must_use]
    pub const fn new(kind: ZoneKind, node: NodeId, span: PfnRange) -> Self {
        Self { kind, node, span, max_order: Order::MAX, policy: Policy::new(), boost: BoostRule::off(), stall_order: 0 }
    }

    /// Refuses what no zone can be.
    fn check(&self) -> Result<(), ZoneError> {
        if self.span.is_empty() {
            return Err(ZoneError::EmptySpan);
        }
        if self.span.end.as_u64() > MAX_PFN {
            return Err(ZoneError::TooHigh);
        }
        if self.max_order < PAGEBLOCK_ORDER {
            return Err(ZoneError::MaxOrder);
        }
        Ok(())
    }
}

/// How far the high-order atomic reserve is emptied; see [`Zone::unreserve_highatomic`].
///
/// ```
/// assert_ne!(pageblock_buddy::Unreserve::Last, pageblock_buddy::Unreserve::ButOne);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreserve {
    /// One pageblock stays.
    ButOne,
    /// The last one may go too.
    Last,
}

/// A zone of pageblocks. Shared between CPUs; the zone lock is inside.
///
/// | field | legal values | who may change it |
/// |---|---|---|
/// | `core` | the invariants of [`ZoneCore`] | the lock's holder |
/// | `free`, `free_cma`, `highatomic`, `present`, `managed` | the core's, or what they were a moment ago | the lock's holder |
/// | `marks` | any; readers may see a mix of old and new | whoever recomputes watermarks, and the lock's holder (boost) |
///
/// ```
/// # use core::mem::MaybeUninit;
/// use pageblock_buddy::{Zone, ZoneConfig, ZoneStorage};
/// use pageblock_frame::{AllocFlags, Carver, MigrateType, NodeId, Order, Pfn, PfnRange, ZoneKind};
/// # use core::ptr::NonNull;
/// # struct Host;
/// # // SAFETY: one thread, no memory asked for.
/// # unsafe impl pageblock_frame::Platform for Host {
/// #     const MAX_CPUS: usize = 1;
/// #     fn phys_to_virt(_: u64) -> NonNull<u8> { NonNull::dangling() }
/// # }
/// let span = PfnRange::new(Pfn::new(0), Pfn::new(2048));
/// let config = ZoneConfig::new(ZoneKind::Normal, NodeId::new(0), span);
/// let mut raw = vec![MaybeUninit::uninit(); ZoneStorage::bytes(span, config.max_order)];
/// let storage = ZoneStorage::carve(span, config.max_order, &mut Carver::new(&mut raw)).unwrap();
/// let zone = Zone::new::<Host>(config, storage).unwrap();
/// assert_eq!(zone.release(span), Ok(2048));
///
/// let huge = zone.alloc::<Host>(Order::new(9).unwrap(), MigrateType::Movable, AllocFlags::empty()).unwrap();
/// assert_eq!(zone.free_frames(), 2048 - 512);
/// assert!(zone.free::<Host>(huge, Order::ZERO).is_err()); // wrong order: refused, nothing changed
/// assert_eq!(zone.free::<Host>(huge, Order::new(9).unwrap()), Ok(()));
/// assert_eq!(zone.check(), Ok(()));
/// ```
#[derive(Debug)]
pub struct Zone<'m> {
    kind: ZoneKind,
    node: NodeId,
    span: PfnRange,
    base: Pfn,
    max_order: Order,
    states: StateTable<'m>,
    pub(crate) core: Lock<ZoneCore<'m>>,
    /// How interrupts are turned off while somebody holds the lock who does not name the platform.
    interrupts: Interrupts,
    free: AtomicU64,
    pub(crate) free_cma: AtomicU64,
    pub(crate) highatomic: AtomicU64,
    present: AtomicU64,
    managed: AtomicU64,
    pub(crate) marks: Marks,
    boost: BoostRule,
}

impl<'m> Zone<'m> {
    /// A zone in which no frame belongs to the allocator yet; [`release`](Self::release) gives it some. `P` is the platform of all
    /// who use the zone.
    ///
    /// # Errors
    /// [`ZoneError`] for an empty span, frame numbers above 2^32, a largest order below the pageblock order, or storage
    /// made for another span.
    pub fn new<P: Platform>(config: ZoneConfig, storage: ZoneStorage<'m>) -> Result<Self, ZoneError> {
        config.check()?;
        let ZoneConfig { kind, node, span, max_order, boost, .. } = config;
        if storage.blocks.len() != blocks_of(span, max_order) || storage.states.len() != states_of(span, max_order) {
            return Err(ZoneError::Storage);
        }
        storage.blocks.fill(Pageblock::empty(MigrateType::Movable));
        let (base, states) = (base_of(span, max_order), storage.states);
        Ok(Self {
            kind,
            node,
            span,
            base,
            max_order,
            states,
            core: Lock::new(ZoneCore::new(&config, base, storage)),
            interrupts: Interrupts::of::<P>(),
            free: AtomicU64::new(0),
            free_cma: AtomicU64::new(0),
            highatomic: AtomicU64::new(0),
            present: AtomicU64::new(0),
            managed: AtomicU64::new(0),
            marks: Marks::new(),
            boost,
        })
    }

    /// Gives frames to the allocator: at boot, or when memory is added. They start out free, in movable pageblocks.
    /// Returns how many there were.
    ///
    /// # Errors
    /// [`ZoneError::OutOfRange`] for frames outside the zone, [`ZoneError::Overlap`] if one of them belongs to the
    /// allocator already. Nothing has changed then.
    pub fn release(&self, range: PfnRange) -> Result<u64, ZoneError> {
        if range.is_empty() {
            return Ok(0);
        }
        if range.start < self.span.start || range.end > self.span.end {
            return Err(ZoneError::OutOfRange(range));
        }
        self.locked(|core| {
            core.release(range)?;
            self.managed.store(core.managed, Ordering::Relaxed);
            self.present.store(core.present, Ordering::Relaxed);
            self.publish(core);
            Ok(range.len())
        })
    }

    /// Records frames that exist but are not the allocator's (`reserved`), or that do not exist, so that a wrong free of
    /// one is named. Frames that belong to the allocator are left alone.
    pub fn mark_absent(&self, range: PfnRange, reserved: bool) {
        let range = range.intersect(self.span);
        let state = if reserved { StateByte::RESERVED } else { StateByte::HOLE };
        self.locked(|core| {
            core.absent_marked = true;
            for pfn in range.start.as_u64()..range.end.as_u64() {
                let index = (pfn - self.base.as_u64()) as u32;
                let unmanaged = core.blocks.get((index >> BLOCK_SHIFT) as usize).is_none_or(|b| b.managed == 0);
                if self.states.get(index) == StateByte::INSIDE
                    && (unmanaged || core.none_free(index, 1) && self.states.head_of(index).is_none())
                {
                    self.states.set(index, state);
                    core.present += u64::from(reserved);
                }
            }
            self.present.store(core.present, Ordering::Relaxed);
        });
    }

    #[inline(always)]
    pub(crate) fn publish_free(&self, core: &ZoneCore<'_>) {
        self.free.store(core.free, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn publish(&self, core: &ZoneCore<'_>) {
        self.publish_free(core);
        if core.has_unusable {
            self.publish_unusable(core);
        }
    }

    #[cold]
    fn publish_unusable(&self, core: &ZoneCore<'_>) {
        self.free_cma.store(core.free_cma, Ordering::Relaxed);
        self.highatomic.store(core.highatomic, Ordering::Relaxed);
    }

    /// Runs `action` with the lock held and interrupts off, for callers that do not name the platform.
    pub(crate) fn locked<R>(&self, action: impl FnOnce(&mut ZoneCore<'m>) -> R) -> R {
        self.interrupts.off(|| action(&mut self.core.lock()))
    }

    #[inline(always)]
    pub(crate) fn lock<P: Platform>(&self) -> IrqGuard<'_, ZoneCore<'m>, P> {
        self.core.lock_irq::<P>()
    }

    /// The zone-relative index of a frame, if the zone spans it.
    #[must_use]
    #[inline(always)]
    pub fn index_of(&self, pfn: Pfn) -> Option<u32> {
        self.span.contains(pfn).then(|| (pfn.as_u64() - self.base.as_u64()) as u32)
    }

    /// The frame with this zone-relative index.
    #[must_use]
    #[inline(always)]
    pub fn pfn_of(&self, index: u32) -> Pfn {
        Pfn::new(self.base.as_u64() + u64::from(index))
    }

    /// Hands out the block at a given place.
    ///
    /// # Errors
    /// [`AllocAtError`]; nothing has changed.
    pub fn alloc_at<P: Platform>(&self, pfn: Pfn, order: Order) -> Result<(), AllocAtError> {
        if !pfn.is_aligned(order) || order > self.max_order {
            return Err(AllocAtError::Misaligned);
        }
        let last = pfn.add(order.frames() - 1);
        let (Some(index), Some(_)) = (self.index_of(pfn), self.index_of(last)) else {
            return Err(AllocAtError::OutOfRange);
        };
        let mut core = self.lock::<P>();
        if !core.take_at(index, u32::from(order.as_u8())) {
            return Err(AllocAtError::Busy);
        }
        let migrate_type =
            core.blocks.get((index >> BLOCK_SHIFT) as usize).map_or(MigrateType::Movable, |b| b.migrate_type);
        self.states.set(index, StateByte::allocated(order, migrate_type));
        self.publish(&core);
        Ok(())
    }

    /// Withholds the pageblock that holds `pfn` from allocation; what is free in it no longer counts as free.
    ///
    /// # Errors
    /// [`IsolateError`]; nothing has changed.
    pub fn isolate_block<P: Platform>(&self, pfn: Pfn) -> Result<(), IsolateError> {
        let index = self.index_of(pfn).ok_or(IsolateError::OutOfRange)?;
        let mut core = self.lock::<P>();
        let done = core.isolate(index >> BLOCK_SHIFT);
        self.publish(&core);
        done
    }

    /// Gives an isolated pageblock back to allocation, as the type it had.
    ///
    /// # Errors
    /// [`IsolateError`]; nothing has changed.
    pub fn unisolate_block<P: Platform>(&self, pfn: Pfn) -> Result<(), IsolateError> {
        let index = self.index_of(pfn).ok_or(IsolateError::OutOfRange)?;
        let mut core = self.lock::<P>();
        let done = core.unisolate(index >> BLOCK_SHIFT);
        self.publish(&core);
        done
    }

    /// Puts the pageblock that holds `pfn` into the high-order atomic reserve, if the reserve may grow and the pageblock is
    /// of an ordinary type (`reserve_highatomic_pageblock()`, Linux 4.4). True if it did.
    pub fn reserve_highatomic<P: Platform>(&self, pfn: Pfn) -> bool {
        let Some(index) = self.index_of(pfn) else { return false };
        let mut core = self.lock::<P>();
        let done = core.reserve_highatomic(index >> BLOCK_SHIFT);
        self.publish(&core);
        drop(core);
        if done {
            P::hooks().trace(&Event::HighAtomic { pfn, reserved: true });
        }
        done
    }

    /// Takes one pageblock with something free out of the high-order atomic reserve and gives it to `migrate_type`
    /// (`unreserve_highatomic_pageblock()`). Unless forced, the last one stays. True if it did.
    pub fn unreserve_highatomic<P: Platform>(&self, force: Unreserve, migrate_type: MigrateType) -> bool {
        let mut core = self.lock::<P>();
        let block = core.unreserve_highatomic(force == Unreserve::Last, migrate_type);
        self.publish(&core);
        drop(core);
        let Some(block) = block else { return false };
        P::hooks().trace(&Event::HighAtomic { pfn: self.pfn_of(block << BLOCK_SHIFT), reserved: false });
        true
    }

    /// Frames in pageblocks of the high-order atomic reserve.
    #[must_use]
    pub fn highatomic(&self) -> u64 {
        self.highatomic.load(Ordering::Relaxed)
    }

    /// Changes the migrate type of the pageblock that holds `pfn` (`set_pageblock_migratetype()`).
    ///
    /// # Errors
    /// [`IsolateError`] for a frame outside, or an isolated pageblock, which only un-isolation may change.
    pub fn set_block_type<P: Platform>(&self, pfn: Pfn, migrate_type: MigrateType) -> Result<(), IsolateError> {
        let index = self.index_of(pfn).ok_or(IsolateError::OutOfRange)?;
        let mut core = self.lock::<P>();
        let done = core.retype(index >> BLOCK_SHIFT, migrate_type);
        self.publish(&core);
        done
    }

    /// Recomputes everything that is kept beside the free maps and the state bytes. For tests: it holds the lock for long.
    ///
    /// # Errors
    /// The first [`Violation`].
    pub fn check(&self) -> Result<(), Violation> {
        self.locked(|core| {
            let published = [(&self.free, core.free, "free"), (&self.present, core.present, "present")];
            for (published, found, what) in published {
                let kept = published.load(Ordering::Relaxed);
                if kept != found {
                    return Err(Violation::Total { what, kept, found });
                }
            }
            core.check()
        })
    }

    /// Which addresses the zone holds.
    #[must_use]
    pub const fn kind(&self) -> ZoneKind {
        self.kind
    }

    /// The node it belongs to.
    #[must_use]
    pub const fn node(&self) -> NodeId {
        self.node
    }

    /// First frame and end, holes included.
    #[must_use]
    pub const fn span(&self) -> PfnRange {
        self.span
    }

    /// The frame with zone-relative index 0.
    #[must_use]
    pub const fn base(&self) -> Pfn {
        self.base
    }

    /// Largest order it can serve.
    #[must_use]
    pub const fn max_order(&self) -> Order {
        self.max_order
    }

    /// Whether and how far mixing raises the watermarks.
    #[must_use]
    pub const fn boost_rule(&self) -> BoostRule {
        self.boost
    }

    /// The frames' state bytes, by zone-relative index.
    #[must_use]
    #[inline(always)]
    pub const fn states(&self) -> StateTable<'m> {
        self.states
    }

    /// Free frames outside isolated pageblocks, without the lock.
    #[must_use]
    #[inline(always)]
    pub fn free_frames(&self) -> u64 {
        self.free.load(Ordering::Relaxed)
    }

    /// Frames that belong to the allocator, free or not.
    #[must_use]
    pub fn managed(&self) -> u64 {
        self.managed.load(Ordering::Relaxed)
    }

    /// Frames that exist: managed or reserved.
    #[must_use]
    pub fn present(&self) -> u64 {
        self.present.load(Ordering::Relaxed)
    }

    /// Looks at the zone's state with the lock held and interrupts off. The closure must be short, and must not call the allocator.
    pub fn inspect<R>(&self, look: impl FnOnce(&ZoneCore<'m>) -> R) -> R {
        self.locked(|core| look(core))
    }
}
