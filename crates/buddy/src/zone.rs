//! A zone: its regions, data that can be read without a lock, and the operations on single pageblocks.

use pageblock_frame::sync::{AtomicU32, AtomicU64, Interrupts, IrqGuard, Lock, Ordering};
use pageblock_frame::{
    MAX_PFN, MigrateType, NodeId, Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, Pageblock, Pfn, PfnRange, Platform,
    StateTable, StateView, ZoneKind,
};

use crate::boost::BoostRule;
use crate::error::{IsolateError, ZoneError};
use crate::fallback::StolenBlocks;
use crate::policy::Policy;
use crate::region::{BLOCK_SHIFT, Region};
use crate::reservations::CpuReservations;
use crate::storage::{Shape, ZoneStorage, base_of};
use crate::summary::Summary;
use crate::watermark::Marks;

/// Parts of a zone.
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
    /// (`vm.fragment_stall_order`, *Fragmentation avoidance*, 2018); 0: none are.
    pub stall_order: u8,
}

impl ZoneConfig {
    /// A zone with the default policy and largest order; nothing is boosted or refused.
    #[must_use]
    pub const fn new(kind: ZoneKind, node: NodeId, span: PfnRange) -> Self {
        Self { kind, node, span, max_order: Order::MAX, policy: Policy::new(), boost: BoostRule::off(), stall_order: 0 }
    }

    /// Refuses impossible zones.
    fn check(&self) -> Result<(), ZoneError> {
        if self.span.is_empty() {
            return Err(ZoneError::EmptySpan);
        }
        // Numbers of frames and pageblocks are of 32 bits, also those of the ends of blocks.
        let most = u64::from(u32::MAX) - Order::LIMIT.frames();
        if self.span.end.as_u64() > MAX_PFN
            || self.span.end.as_u64() - base_of(self.span, self.max_order).as_u64() > most
        {
            return Err(ZoneError::TooHigh);
        }
        if self.max_order < PAGEBLOCK_ORDER {
            return Err(ZoneError::MaxOrder);
        }
        Ok(())
    }
}

/// A zone of pageblocks. Shared between CPUs; its locks are inside, one a region.
///
/// | field | legal values | changed by |
/// |---|---|---|
/// | `regions` | the invariants of `Region` | the holder of a region's lock |
/// | `summary` | the contents of the regions' free areas, exact while a region's lock is free | the holder of a region's lock |
/// | `free`, `free_cma`, `highatomic`, `whole` | sums over the regions, up to changes that are not published yet | the same |
/// | `opened`, `opened_end` | 0 to the number of frames; only grow | the holder of a region's lock |
/// | `present`, `managed` | sums over the regions | the CPU that releases memory |
/// | `reservations`, `stolen` | any: each is looked at again under its region's lock | any CPU |
/// | `marks` | any; readers may see a mix of old and new | the CPU that recomputes watermarks; a boost |
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
/// // SAFETY: the numbers are only looked at; there is no memory behind them.
/// assert_eq!(unsafe { zone.release(span) }, Ok(2048));
///
/// let huge = zone.alloc::<Host>(Order::new(9).unwrap(), MigrateType::Movable, AllocFlags::empty()).unwrap();
/// assert_eq!(zone.free_frames(), 2048 - 512);
/// // SAFETY: the block was allocated above, and nothing uses it.
/// unsafe {
///     assert!(zone.free::<Host>(huge, Order::ZERO).is_err()); // wrong order: refused, nothing changed
///     assert_eq!(zone.free::<Host>(huge, Order::new(9).unwrap()), Ok(()));
/// }
/// assert_eq!(zone.check(), Ok(()));
/// ```
#[derive(Debug)]
pub struct Zone<'m> {
    kind: ZoneKind,
    node: NodeId,
    span: PfnRange,
    base: Pfn,
    max_order: Order,
    pub(crate) states: StateTable<'m>,
    regions: &'m [Lock<Region<'m>>],
    /// log2 of the frames in a region.
    region_shift: u32,
    pub(crate) summary: &'m Summary,
    pub(crate) policy: Policy,
    /// A mixing below this order is refused to requests with
    /// [`AllocFlags::FRAGMENT_STALL`](pageblock_frame::AllocFlags::FRAGMENT_STALL).
    pub(crate) stall_order: u32,
    /// From which pageblock each CPU's lists refill.
    pub(crate) reservations: CpuReservations<'m>,
    /// From which pageblock of another type each ordinary type takes without another mixing.
    pub(crate) stolen: StolenBlocks,
    /// How interrupts are turned off while a lock is held by a caller that does not name the platform.
    interrupts: Interrupts,
    free: AtomicU64,
    pub(crate) free_cma: AtomicU64,
    pub(crate) highatomic: AtomicU64,
    /// Wholly free pageblocks.
    whole: AtomicU64,
    /// All frames below this one have been opened.
    opened: AtomicU32,
    /// No frame from this one on has been.
    opened_end: AtomicU32,
    pub(crate) present: AtomicU64,
    pub(crate) managed: AtomicU64,
    pub(crate) marks: Marks,
    boost: BoostRule,
}

/// A locked region, and a frame in it.
pub(crate) struct Place<'z, 'm, P: Platform> {
    pub(crate) region: IrqGuard<'z, Region<'m>, P>,
    /// The frame's index in the region.
    pub(crate) index: u32,
}

impl<'m> Zone<'m> {
    /// A zone in which no frame belongs to the allocator yet; [`release`](Self::release) gives it some. `P` is the
    /// platform of all that use the zone.
    ///
    /// # Errors
    /// [`ZoneError`] for an empty span, frame numbers above 2^32, a largest order below the pageblock order, or storage
    /// made for another span.
    pub fn new<P: Platform>(config: ZoneConfig, storage: ZoneStorage<'m>) -> Result<Self, ZoneError> {
        config.check()?;
        let ZoneConfig { kind, node, span, max_order, boost, policy, stall_order } = config;
        if storage.span != span || storage.max_order != max_order {
            return Err(ZoneError::Storage);
        }
        Ok(Self {
            kind,
            node,
            span,
            base: base_of(span, max_order),
            max_order,
            states: storage.states,
            regions: storage.regions,
            region_shift: Shape::of(span, max_order).region_shift(),
            summary: storage.summary,
            policy,
            stall_order: u32::from(stall_order),
            reservations: storage.reservations,
            stolen: StolenBlocks::new(),
            interrupts: Interrupts::of::<P>(),
            free: AtomicU64::new(0),
            free_cma: AtomicU64::new(0),
            highatomic: AtomicU64::new(0),
            whole: AtomicU64::new(0),
            opened: AtomicU32::new(0),
            opened_end: AtomicU32::new(0),
            present: AtomicU64::new(0),
            managed: AtomicU64::new(0),
            marks: Marks::new(),
            boost,
        })
    }

    /// Adds a region's changes to the zone's totals and to its summary: the last act of each holder of the
    /// region's lock.
    #[inline]
    pub(crate) fn publish(&self, region: &mut Region<'_>) {
        let free = region.totals.free.wrapping_sub(region.published.free);
        if free != 0 {
            self.free.fetch_add(free, Ordering::Relaxed);
        }
        if region.has_unusable {
            self.publish_unusable(region);
        }
        region.published = region.totals;
        if region.blocks.opened_end() != region.published_opened {
            self.publish_opened(region);
        }
        if region.free_area.members() != region.published_members || region.free_area.whole() != region.published_whole
        {
            self.publish_members(region);
        }
    }

    #[cold]
    fn publish_unusable(&self, region: &Region<'_>) {
        let (now, before) = (region.totals, region.published);
        self.free_cma.fetch_add(now.free_cma.wrapping_sub(before.free_cma), Ordering::Relaxed);
        self.highatomic.fetch_add(now.highatomic.wrapping_sub(before.highatomic), Ordering::Relaxed);
    }

    #[cold]
    fn publish_opened(&self, region: &mut Region<'_>) {
        region.published_opened = region.blocks.opened_end();
        let end = (region.offset + (region.published_opened << BLOCK_SHIFT)).min(self.states.len() as u32);
        // Relaxed: says only how far it is of use to look.
        self.opened_end.fetch_max(end, Ordering::Relaxed);
    }

    /// All frames below this index have been opened, so that their state bytes may be read by a CPU that has called
    /// this. It grows, by one pageblock a call at least, as long as there are opened ones above.
    #[inline]
    #[must_use]
    pub fn opened_frames<P: Platform>(&self) -> u32 {
        // Acquire: pairs with the release in `open_more`.
        let opened = self.opened.load(Ordering::Acquire);
        if opened < self.opened_end.load(Ordering::Relaxed) { self.open_more::<P>(opened) } else { opened }
    }

    /// All frames below `opened` have been opened, and some above.
    #[cold]
    #[inline(never)]
    fn open_more<P: Platform>(&self, opened: u32) -> u32 {
        let Some(Place { mut region, .. }) = self.lock_at::<P>(opened) else { return opened };
        if region.offset as usize + region.blocks.opened_frames() <= opened as usize {
            region.blocks.open_next();
        }
        let now = region.offset + region.blocks.opened_frames() as u32;
        self.publish(&mut region);
        // Release: a CPU that reads the number sees all writes that this CPU has seen. Regions below have been
        // opened before.
        self.opened.fetch_max(now, Ordering::AcqRel).max(now)
    }

    #[inline(never)]
    fn publish_members(&self, region: &mut Region<'_>) {
        let (now, before) = (region.free_area.members(), region.published_members);
        if now != before {
            region.published_members = now;
            self.summary.update(region.offset >> self.region_shift, before, now);
        }
        let whole = u64::from(region.free_area.whole()).wrapping_sub(u64::from(region.published_whole));
        if whole != 0 {
            region.published_whole = region.free_area.whole();
            self.whole.fetch_add(whole, Ordering::Relaxed);
        }
    }

    /// A region, locked, with interrupts off.
    #[inline]
    pub(crate) fn lock<P: Platform>(&self, region: u32) -> Option<IrqGuard<'_, Region<'m>, P>> {
        Some(self.regions.get(region as usize)?.lock_irq::<P>())
    }

    /// log2 of the frames in a region.
    pub(crate) const fn region_shift(&self) -> u32 {
        self.region_shift
    }

    /// The number of the region that a frame is in.
    #[inline]
    pub(crate) const fn region_of(&self, index: u32) -> u32 {
        index.wrapping_shr(self.region_shift)
    }

    /// The lock of the region that a frame is in.
    #[inline]
    pub(crate) fn region_lock(&self, index: u32) -> Option<&'m Lock<Region<'m>>> {
        self.regions.get(self.region_of(index) as usize)
    }

    /// The region that a frame is in, locked, with interrupts off.
    #[inline]
    pub(crate) fn lock_at<P: Platform>(&self, index: u32) -> Option<Place<'_, 'm, P>> {
        let region = self.region_lock(index)?.lock_irq::<P>();
        let index = index.wrapping_sub(region.offset);
        Some(Place { region, index })
    }

    /// Runs `action` on each region in turn, locked and with interrupts off, for callers that do not name the platform.
    pub(crate) fn each_region(&self, mut action: impl FnMut(&mut Region<'m>)) {
        for region in 0..self.regions.len() as u32 {
            self.locked(region, &mut action);
        }
    }

    /// Runs `action` on one region, locked and with interrupts off.
    pub(crate) fn locked<R>(&self, region: u32, action: impl FnOnce(&mut Region<'m>) -> R) -> Option<R> {
        let lock = self.regions.get(region as usize)?;
        Some(self.interrupts.off(|| action(&mut lock.lock())))
    }

    /// Shows each pageblock with its number, up to four of them with interrupts off. `visit` must not call the
    /// allocator.
    pub fn for_each_pageblock(&self, mut visit: impl FnMut(u32, &Pageblock)) {
        const STEP: u32 = 4;
        let blocks = self.states.len().div_ceil(PAGEBLOCK_FRAMES as usize) as u32;
        for first in (0..blocks).step_by(STEP as usize) {
            self.locked(self.region_of(first << BLOCK_SHIFT), |region| {
                let offset = region.offset >> BLOCK_SHIFT;
                for number in first..first + STEP {
                    if let Some(b) = region.blocks.get(number - offset) {
                        visit(number, b);
                    }
                }
            });
        }
    }

    /// Wholly free pageblocks, without a lock.
    #[must_use]
    pub fn whole_blocks(&self) -> u64 {
        self.whole.load(Ordering::Relaxed)
    }

    /// True if wholly free pageblocks are many enough for one more to be opened rather than shared.
    pub(crate) fn has_many_whole(&self) -> bool {
        const MANY: u64 = 8;
        self.whole_blocks() * MANY * PAGEBLOCK_FRAMES >= self.states.len() as u64
    }

    /// True if fewer than a quarter of the pageblocks are wholly free: blocks that are kept from the zone then cost
    /// others of those.
    #[must_use]
    #[inline]
    pub fn is_short_of_whole(&self) -> bool {
        const QUARTER: u64 = 4;
        self.whole_blocks() * QUARTER * PAGEBLOCK_FRAMES < self.states.len() as u64
    }

    /// The zone-relative index of a frame, if the zone spans it.
    #[must_use]
    #[inline]
    pub fn index_of(&self, pfn: Pfn) -> Option<u32> {
        self.span.contains(pfn).then(|| (pfn.as_u64() - self.base.as_u64()) as u32)
    }

    /// The frame with this zone-relative index.
    #[must_use]
    #[inline]
    pub fn pfn_of(&self, index: u32) -> Pfn {
        Pfn::new(self.base.as_u64() + u64::from(index))
    }

    /// Withholds the pageblock that holds `pfn` from allocation; its free frames no longer count as free.
    ///
    /// # Errors
    /// [`IsolateError`]; nothing has changed.
    pub fn isolate_block<P: Platform>(&self, pfn: Pfn) -> Result<(), IsolateError> {
        self.on_pageblock::<P>(pfn, Region::isolate)
    }

    /// Gives an isolated pageblock back to allocation, as the type it had.
    ///
    /// # Errors
    /// [`IsolateError`]; nothing has changed.
    pub fn unisolate_block<P: Platform>(&self, pfn: Pfn) -> Result<(), IsolateError> {
        self.on_pageblock::<P>(pfn, Region::unisolate)
    }

    /// Changes the migrate type of the pageblock that holds `pfn` (`set_pageblock_migratetype()`).
    ///
    /// # Errors
    /// [`IsolateError`] for a frame outside, or an isolated pageblock, which only un-isolation may change.
    pub fn set_block_type<P: Platform>(&self, pfn: Pfn, migrate_type: MigrateType) -> Result<(), IsolateError> {
        self.on_pageblock::<P>(pfn, |region, block| region.retype(block, migrate_type))
    }

    /// Purpose of the pageblock that holds `pfn` (`get_pageblock_migratetype()`); `None` outside the zone.
    #[must_use]
    pub fn block_type(&self, pfn: Pfn) -> Option<MigrateType> {
        let index = self.index_of(pfn)?;
        let of = |region: &mut Region<'m>| {
            let block = (index - region.offset) >> BLOCK_SHIFT;
            region.blocks.get(block).map(|b| b.migrate_type())
        };
        self.locked(self.region_of(index), of).flatten()
    }

    fn on_pageblock<P: Platform>(
        &self,
        pfn: Pfn,
        action: impl FnOnce(&mut Region<'m>, u32) -> Result<(), IsolateError>,
    ) -> Result<(), IsolateError> {
        let index = self.index_of(pfn).ok_or(IsolateError::OutOfRange)?;
        let Place { mut region, index } = self.lock_at::<P>(index).ok_or(IsolateError::OutOfRange)?;
        let done = action(&mut region, index >> BLOCK_SHIFT);
        self.publish(&mut region);
        done
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

    /// States of the frames, by zone-relative index.
    #[must_use]
    #[inline]
    pub const fn states(&self) -> StateView<'m> {
        self.states.view()
    }

    /// The frames' state bytes, by zone-relative index, for writing.
    ///
    /// # Safety
    /// 1. A frame's byte is written only on behalf of the frame's holder.
    /// 2. The written state is true: the frame heads a block of this order, and the holder has all of it.
    #[must_use]
    #[expect(unsafe_code, reason = "the caller's word for what it writes")]
    #[inline]
    pub const unsafe fn state_table(&self) -> StateTable<'m> {
        self.states
    }

    /// Free frames outside isolated pageblocks, without the lock.
    #[must_use]
    #[inline]
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
}
