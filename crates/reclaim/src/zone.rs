//! A zone as reclaim sees it.

use pageblock_frame::trace::CompactResult;
use pageblock_frame::{AllocFlags, NodeId, Order, ZoneKind};

/// A zone's watermarks, in frames, without boost.
///
/// ```
/// // DMA32 of a machine of 8 GiB in Linux 3.16
/// let marks = pageblock_reclaim::Marks { min: 1071, low: 1338, high: 1606 };
/// assert!(marks.min < marks.low && marks.low < marks.high);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marks {
    /// Below it only requests with access to reserves are served.
    pub min: u64,
    /// Below it kswapd is woken.
    pub low: u64,
    /// Up to it kswapd works.
    pub high: u64,
}

/// A question to a zone: would a block of `order` leave it more than `mark` frames, and keeps from requests
/// limited to zone `limit`?
///
/// ```
/// use pageblock_frame::{Order, ZoneKind};
/// use pageblock_reclaim::MarkTest;
/// let test = MarkTest::new(Order::ZERO, 1606, ZoneKind::Normal);
/// assert_eq!((test.extra, test.flags.bits()), (0, 0));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MarkTest {
    /// Size of the block.
    pub order: Order,
    /// Frames that must remain, boost included if it is meant to count.
    pub mark: u64,
    /// Zone with the reserve that counts: the highest zone that the request may use. [`ZoneKind::Dma`] means that no
    /// reserve does.
    pub limit: ZoneKind,
    /// Which reserves the request may touch.
    pub flags: AllocFlags,
    /// Frames that are to be counted as if they were free (what reclaim might still free).
    pub extra: u64,
}

impl MarkTest {
    /// Asks with no access to reserves and nothing on top of what is free.
    #[must_use]
    pub const fn new(order: Order, mark: u64, limit: ZoneKind) -> Self {
        Self { order, mark, limit, flags: AllocFlags::empty(), extra: 0 }
    }
}

/// Facts of a zone that reclaim needs. The facade implements it for a name of its own around the buddy's zone.
///
/// Every answer may be out of date when it arrives: nothing is locked between two calls. Implementations take no lock
/// of the caller's, and do not call back into reclaim.
///
/// ```
/// use pageblock_frame::{NodeId, ZoneKind};
/// use pageblock_reclaim::{MarkTest, Marks, ReclaimZone, WithBoost};
/// /// 100 frames, of which 20 are free; nothing is reserved.
/// struct Small;
/// impl ReclaimZone for Small {
///     fn node(&self) -> NodeId { NodeId::new(0) }
///     fn kind(&self) -> ZoneKind { ZoneKind::Normal }
///     fn managed(&self) -> u64 { 100 }
///     fn present(&self) -> u64 { 100 }
///     fn free(&self) -> u64 { 20 }
///     fn marks(&self) -> Marks { Marks { min: 8, low: 10, high: 12 } }
///     fn boost(&self) -> u64 { 4 }
///     fn subtract_boost(&self, _frames: u64) {}
///     fn watermark_ok(&self, test: &MarkTest) -> bool {
///         self.free() + test.extra >= test.mark + test.order.frames()
///     }
/// }
/// assert_eq!(Small.with_boost(), Marks { min: 12, low: 14, high: 16 });
/// ```
pub trait ReclaimZone {
    /// Node that the zone belongs to.
    fn node(&self) -> NodeId;

    /// Which addresses it holds.
    fn kind(&self) -> ZoneKind;

    /// Frames that the allocator manages. Zones that manage none are passed over everywhere.
    fn managed(&self) -> u64;

    /// Frames that exist in it.
    fn present(&self) -> u64;

    /// Free frames now (`NR_FREE_PAGES`). Reclaim goes by this, not by the claim of an owner.
    fn free(&self) -> u64;

    /// Its watermarks, without boost.
    fn marks(&self) -> Marks;

    /// Rise of all watermarks for the moment, in frames (`watermark_boost`).
    fn boost(&self) -> u64;

    /// Lowers the boost by `frames`, at most to 0, in one step that cannot lose a boost added meanwhile (Linux: under
    /// the zone lock).
    fn subtract_boost(&self, frames: u64);

    /// The watermark test (`zone_watermark_ok_safe()`).
    fn watermark_ok(&self, test: &MarkTest) -> bool;

    /// Whether compaction could make a block of `order` here (`compaction_suitable()`): [`CompactResult::Success`]
    /// there is one already, [`CompactResult::Continue`] it is worth trying, [`CompactResult::Skipped`] too little is
    /// free. `None`: there is no compaction.
    fn compaction_suitable(&self, _order: Order, _limit: ZoneKind) -> Option<CompactResult> {
        None
    }
}

/// Watermarks as all but reclaim's own arithmetic sees them.
///
/// ```
/// # use pageblock_frame::{NodeId, ZoneKind};
/// # use pageblock_reclaim::{MarkTest, Marks, ReclaimZone};
/// # struct Empty;
/// # impl ReclaimZone for Empty {
/// #     fn node(&self) -> NodeId { NodeId::new(0) }
/// #     fn kind(&self) -> ZoneKind { ZoneKind::Normal }
/// #     fn managed(&self) -> u64 { 0 }
/// #     fn present(&self) -> u64 { 0 }
/// #     fn free(&self) -> u64 { 0 }
/// #     fn marks(&self) -> Marks { Marks::default() }
/// #     fn boost(&self) -> u64 { 512 }
/// #     fn subtract_boost(&self, _: u64) {}
/// #     fn watermark_ok(&self, _: &MarkTest) -> bool { false }
/// # }
/// use pageblock_reclaim::WithBoost;
/// assert_eq!(Empty.with_boost().high, 512);
/// ```
pub trait WithBoost: ReclaimZone {
    /// The watermarks, each raised by the boost.
    fn with_boost(&self) -> Marks {
        let (marks, boost) = (self.marks(), self.boost());
        let raise = |mark: u64| mark.saturating_add(boost);
        Marks { min: raise(marks.min), low: raise(marks.low), high: raise(marks.high) }
    }
}

impl<Z: ReclaimZone + ?Sized> WithBoost for Z {}

impl<Z: ReclaimZone + ?Sized> ReclaimZone for &Z {
    fn node(&self) -> NodeId {
        (**self).node()
    }

    fn kind(&self) -> ZoneKind {
        (**self).kind()
    }

    fn managed(&self) -> u64 {
        (**self).managed()
    }

    fn present(&self) -> u64 {
        (**self).present()
    }

    fn free(&self) -> u64 {
        (**self).free()
    }

    fn marks(&self) -> Marks {
        (**self).marks()
    }

    fn boost(&self) -> u64 {
        (**self).boost()
    }

    fn subtract_boost(&self, frames: u64) {
        (**self).subtract_boost(frames);
    }

    fn watermark_ok(&self, test: &MarkTest) -> bool {
        (**self).watermark_ok(test)
    }

    fn compaction_suitable(&self, order: Order, limit: ZoneKind) -> Option<CompactResult> {
        (**self).compaction_suitable(order, limit)
    }
}
