//! Zones as a kernel sees them: figures and reports, and no way to their frames.

use core::fmt::{self, Display};

use pageblock_buddy::{BoostRule, FreeCounts, Violation, Watermarks, Zone, ZoneEvents};
use pageblock_frame::{FrameState, MigrateType, NodeId, Order, Pfn, PfnRange, Platform, StateByte, ZoneKind};

use crate::PageAllocator;

/// One zone, to be looked at. Frames are taken and freed through the [`PageAllocator`] only, which knows of the per-CPU
/// lists in front of the zone.
///
/// ```
/// # use pageblock::{Config, PageAllocator, Region};
/// # use pageblock::hosted::Simulated;
/// # let frames = PageAllocator::<Simulated>::new();
/// # let storage = vec![core::mem::MaybeUninit::uninit(); 1 << 20].leak();
/// # frames.init_simulated([Region::from((0, 32 << 20, true))], &Config::new(), storage).unwrap();
/// let mut zones = frames.zones();
/// let dma = zones.next().unwrap();
/// assert_eq!((dma.kind().name(), dma.managed(), dma.free_frames()), ("DMA", 4096, 4096));
/// assert_eq!(zones.next().unwrap().span().start, dma.span().end);
/// ```
///
/// The view has no door to the zone's frames:
///
/// ```compile_fail,E0599
/// # use pageblock::{Order, PageAllocator, Pfn};
/// # use pageblock::hosted::Simulated;
/// # fn f(frames: &PageAllocator<Simulated>) {
/// for zone in frames.zones() {
///     let _ = zone.free::<Simulated>(Pfn::new(7), Order::ZERO);
/// }
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct ZoneView {
    zone: &'static Zone<'static>,
}

impl ZoneView {
    pub(crate) const fn new(zone: &'static Zone<'static>) -> Self {
        Self { zone }
    }

    /// Which addresses the zone holds.
    #[must_use]
    pub const fn kind(self) -> ZoneKind {
        self.zone.kind()
    }

    /// The node it belongs to.
    #[must_use]
    pub const fn node(self) -> NodeId {
        self.zone.node()
    }

    /// First frame and end, holes included.
    #[must_use]
    pub const fn span(self) -> PfnRange {
        self.zone.span()
    }

    /// Largest order it can serve.
    #[must_use]
    pub const fn max_order(self) -> Order {
        self.zone.max_order()
    }

    /// Frames that are the allocator's, free or held.
    #[must_use]
    pub fn managed(self) -> u64 {
        self.zone.managed()
    }

    /// Frames that exist: managed or reserved.
    #[must_use]
    pub fn present(self) -> u64 {
        self.zone.present()
    }

    /// Free frames, without those on per-CPU lists and in isolated pageblocks.
    #[must_use]
    pub fn free_frames(self) -> u64 {
        self.zone.free_frames()
    }

    /// Min, low and high.
    #[must_use]
    pub fn watermarks(self) -> Watermarks {
        self.zone.watermarks()
    }

    /// Frames kept from requests that could be served by a higher zone, by the highest that could.
    #[must_use]
    pub fn lowmem_reserve(self) -> [u64; ZoneKind::COUNT] {
        self.zone.lowmem_reserve()
    }

    /// Frames by which the watermarks are raised at this moment.
    #[must_use]
    pub fn boost(self) -> u64 {
        self.zone.boost()
    }

    /// Whether and how far mixing raises the watermarks.
    #[must_use]
    pub const fn boost_rule(self) -> BoostRule {
        self.zone.boost_rule()
    }

    /// Frames in pageblocks of the high-order atomic reserve.
    #[must_use]
    pub fn highatomic(self) -> u64 {
        self.zone.highatomic()
    }

    /// Free blocks by order and type, pageblocks by type. Holds the zone's lock while it walks all pageblocks.
    #[must_use]
    pub fn counts(self) -> FreeCounts {
        self.zone.counts()
    }

    /// Free blocks by order, of all types (`nr_free`).
    #[must_use]
    pub fn free_blocks(self) -> [u64; Order::COUNT] {
        self.zone.free_blocks()
    }

    /// The migrate type of the pageblock that a frame is in; `None` for a frame outside the span.
    #[must_use]
    pub fn block_type(self, pfn: Pfn) -> Option<MigrateType> {
        self.zone.block_type(pfn)
    }

    /// The state of a frame to its holder; `None` for a frame outside the span.
    #[must_use]
    pub fn state_of(self, pfn: Pfn) -> Option<FrameState> {
        Some(self.zone.states().get(self.zone.index_of(pfn)?).decode())
    }

    /// Mixings of migrate types and boosts since boot.
    #[must_use]
    pub fn events(self) -> ZoneEvents {
        self.zone.events()
    }

    /// The zone's line of `/proc/buddyinfo`.
    #[must_use]
    pub fn buddyinfo(self) -> impl Display {
        self.zone.buddyinfo()
    }

    /// The zone's lines of the first table of `/proc/pagetypeinfo`.
    #[must_use]
    pub fn pagetypeinfo(self) -> impl Display {
        self.zone.pagetypeinfo()
    }

    /// The zone's line of the second table of `/proc/pagetypeinfo`.
    #[must_use]
    pub fn blocktypeinfo(self) -> impl Display {
        self.zone.blocktypeinfo()
    }

    /// The zone's paragraph of `/proc/zoneinfo`.
    #[must_use]
    pub fn zoneinfo(self) -> impl Display {
        self.zone.zoneinfo()
    }

    /// The zone's line of debugfs' `extfrag/unusable_index`.
    #[must_use]
    pub fn unusable_index(self) -> impl Display {
        self.zone.unusable_index()
    }

    /// The zone's line of debugfs' `extfrag/extfrag_index`.
    #[must_use]
    pub fn extfrag_index(self) -> impl Display {
        self.zone.extfrag_index()
    }

    /// Recomputes all that is kept beside the free maps and the state bytes. For tests: it holds the zone's lock for
    /// long.
    ///
    /// # Errors
    /// The first [`Violation`].
    pub fn check(self) -> Result<(), Violation> {
        self.zone.check()
    }
}

impl fmt::Debug for ZoneView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZoneView").field("kind", &self.kind()).field("node", &self.node()).finish_non_exhaustive()
    }
}

impl PartialEq for ZoneView {
    /// Whether both are the same zone.
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self.zone, other.zone)
    }
}

impl Eq for ZoneView {}

impl<P: Platform> PageAllocator<P> {
    /// The zones, by node and then by kind; none before initialisation.
    pub fn zones(&self) -> impl ExactSizeIterator<Item = ZoneView> + Clone + use<P> {
        self.inner().map_or(&[][..], |inner| inner.zones).iter().map(ZoneView::new)
    }

    /// The zones themselves, for a laboratory that studies or tunes them from inside.
    ///
    /// # Safety
    /// Nothing is taken, freed, split, released, isolated or marked through the reference behind the back of the
    /// per-CPU lists and of the frames' holders, and no state byte is written but by its frame's holder.
    #[must_use]
    #[expect(unsafe_code, reason = "frames freed behind the allocator's back can be handed out twice")]
    pub unsafe fn raw_zones(&self) -> &'static [Zone<'static>] {
        self.inner().map_or(&[], |inner| inner.zones)
    }

    /// The zone that has a frame, be it reserved; `None` for a frame that is in no zone, or a hole in one.
    #[must_use]
    pub fn zone_of(&self, pfn: Pfn) -> Option<ZoneView> {
        let zone = self.inner().ok()?.zone_of(pfn)?;
        let index = zone.index_of(pfn)?;
        (zone.states().get(index) != StateByte::HOLE).then_some(ZoneView::new(zone))
    }
}
