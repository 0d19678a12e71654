//! Whether a request that reclaimed in vain, or not enough, tries once more: rules for the allocator's slow path.

use pageblock_frame::reclaim::Reclaim;
use pageblock_frame::{AllocFlags, COSTLY_ORDER, Gfp, Order, ZoneKind};

use crate::config::ReclaimConfig;
use crate::direct::Progress;
use crate::zone::{MarkTest, ReclaimZone, WithBoost};

/// Passes of direct reclaim in a row without progress, after which a request gives up (`MAX_RECLAIM_RETRIES`).
pub const MAX_RECLAIM_RETRIES: u32 = 16;
/// Claims of progress in a row, while free frames do not grow, after which a claim is refused.
const MAX_UNCONFIRMED: u32 = 64;

/// Whether a request's size and flags permit several passes of direct reclaim. `reclaimed` counts the frames that its
/// passes freed so far.
///
/// Before 4.7 requests up to the costly order went on for ever, and larger ones if they asked to be repeated
/// (`__GFP_REPEAT`, now [`Gfp::RETRY_MAYFAIL`]) and had not freed their size yet.
///
/// ```
/// use pageblock_frame::{Gfp, Order};
/// use pageblock_reclaim::{ReclaimConfig, may_retry};
/// let huge = Order::new(9).unwrap();
/// assert!(may_retry(&ReclaimConfig::linux_6_1(), Order::ZERO, Gfp::KERNEL, 0));
/// assert!(!may_retry(&ReclaimConfig::linux_6_1(), huge, Gfp::KERNEL, 0));
/// assert!(may_retry(&ReclaimConfig::linux_3_13(), huge, Gfp::KERNEL | Gfp::RETRY_MAYFAIL, 511));
/// assert!(!may_retry(&ReclaimConfig::linux_3_13(), huge, Gfp::KERNEL | Gfp::RETRY_MAYFAIL, 512));
/// ```
#[must_use]
pub const fn may_retry(config: &ReclaimConfig, order: Order, gfp: Gfp, reclaimed: u64) -> bool {
    if gfp.contains(Gfp::NORETRY) {
        return false;
    }
    if gfp.contains(Gfp::NOFAIL) || order.as_u8() <= COSTLY_ORDER.as_u8() {
        return true;
    }
    gfp.contains(Gfp::RETRY_MAYFAIL) && (!config.retries_for_ever() || reclaimed < order.frames())
}

/// A request's passes of direct reclaim (`should_reclaim_retry()`).
///
/// ```
/// use pageblock_reclaim::{MAX_RECLAIM_RETRIES, Progress, Retries};
/// use pageblock_frame::Order;
/// let mut retries = Retries::new();
/// let nothing = Progress::default();
/// let passes = (0..).take_while(|_| retries.count(Order::ZERO, &nothing)).count();
/// assert_eq!(passes as u32, MAX_RECLAIM_RETRIES);
/// let some = Progress { reclaimed: 32, confirmed: true, ..nothing };
/// assert!(retries.count(Order::ZERO, &some)); // begins anew
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Retries {
    no_progress: u32,
    unconfirmed: u32,
}

impl Retries {
    /// None so far.
    #[must_use]
    pub const fn new() -> Self {
        Self { no_progress: 0, unconfirmed: 0 }
    }

    /// Passes in a row without progress (`no_progress_loops`).
    #[must_use]
    pub const fn no_progress(&self) -> u32 {
        self.no_progress
    }

    /// Counts a pass; false once there were too many in vain. Costly orders make no progress that counts: that frames
    /// were freed says little about a large block.
    pub const fn count(&mut self, order: Order, progress: &Progress) -> bool {
        if progress.confirmed {
            self.unconfirmed = 0;
        } else {
            self.unconfirmed = self.unconfirmed.saturating_add(1);
        }
        let credible = progress.confirmed || self.unconfirmed <= MAX_UNCONFIRMED;
        if progress.is_some() && credible && order.as_u8() <= COSTLY_ORDER.as_u8() {
            self.no_progress = 0;
        } else {
            self.no_progress = self.no_progress.saturating_add(1);
        }
        self.no_progress <= MAX_RECLAIM_RETRIES
    }

    /// Counts a pass, and says whether another makes sense: there were not too many in vain, and in some zone the
    /// request could be served if all that is reclaimable were free. If not, the last resort is the high-order atomic
    /// reserve, and then failure.
    ///
    /// Where requests retry for ever (`retries_for_ever`), they do while passes make progress: the next resort
    /// then, in Linux, is the killing of a process.
    ///
    /// Whether the request's flags permit it at all is [`may_retry`]'s to say.
    pub fn again<Z: ReclaimZone>(
        &mut self,
        config: &ReclaimConfig,
        zonelist: &[Z],
        owner: &dyn Reclaim,
        attempt: &Attempt,
    ) -> bool {
        let counted = self.count(attempt.order, &attempt.progress);
        if attempt.progress.refused || attempt.progress.dying {
            return false;
        }
        if config.retries_for_ever() && attempt.order <= COSTLY_ORDER {
            return attempt.progress.is_some();
        }
        counted
            && zonelist.iter().filter(|zone| zone.kind() <= attempt.limit && zone.managed() > 0).any(|zone| {
                // An owner cannot free more than there is.
                let extra = owner.reclaimable(zone.node(), zone.kind()).min(zone.managed());
                let mark = zone.with_boost().min;
                zone.watermark_ok(&MarkTest {
                    extra,
                    flags: attempt.flags,
                    ..MarkTest::new(attempt.order, mark, attempt.limit)
                })
            })
    }
}

/// A pass and its request.
///
/// ```
/// use pageblock_frame::{AllocFlags, Order, ZoneKind};
/// use pageblock_reclaim::{Attempt, Progress};
/// let attempt = Attempt {
///     order: Order::ZERO, limit: ZoneKind::Normal, flags: AllocFlags::empty(), progress: Progress::default(),
/// };
/// assert!(!attempt.progress.is_some());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attempt {
    /// Size of the block that is wanted.
    pub order: Order,
    /// Highest zone that would do.
    pub limit: ZoneKind,
    /// Zones that the request may touch.
    pub flags: AllocFlags,
    /// Result of the pass.
    pub progress: Progress,
}
