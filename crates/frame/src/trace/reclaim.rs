//! Reclaim, as events that print as Linux's tracepoints do.

use core::fmt;

use crate::{Gfp, NodeId, Order};

/// One thing that reclaim did. Displays as the name and the text of Linux 6.1's tracepoint, flags as a number.
///
/// ```
/// use pageblock_frame::trace::ReclaimEvent;
/// use pageblock_frame::{NodeId, Order};
/// let event = ReclaimEvent::KswapdWake { node: NodeId::new(0), order: Order::new(9).unwrap() };
/// assert_eq!(event.to_string(), "mm_vmscan_kswapd_wake: nid=0 order=9");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ReclaimEvent {
    /// The reclaim thread begins a run.
    KswapdWake {
        /// Its node.
        node: NodeId,
        /// Order of the blocks that are wanted.
        order: Order,
    },
    /// The reclaim thread goes to sleep.
    KswapdSleep {
        /// Its node.
        node: NodeId,
    },
    /// A task begins to reclaim for itself.
    DirectBegin {
        /// Order of the block that it wants.
        order: Order,
        /// The request's flags.
        gfp: Gfp,
    },
    /// It is done.
    DirectEnd {
        /// Frames freed.
        reclaimed: u64,
    },
}

impl ReclaimEvent {
    /// The tracepoint's name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::KswapdWake { .. } => "mm_vmscan_kswapd_wake",
            Self::KswapdSleep { .. } => "mm_vmscan_kswapd_sleep",
            Self::DirectBegin { .. } => "mm_vmscan_direct_reclaim_begin",
            Self::DirectEnd { .. } => "mm_vmscan_direct_reclaim_end",
        }
    }
}

impl fmt::Display for ReclaimEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name())?;
        match self {
            Self::KswapdWake { node, order } => write!(f, "nid={node} order={order}"),
            Self::KswapdSleep { node } => write!(f, "nid={node}"),
            Self::DirectBegin { order, gfp } => write!(f, "order={order} gfp_flags={:#x}", gfp.bits()),
            Self::DirectEnd { reclaimed } => write!(f, "nr_reclaimed={reclaimed}"),
        }
    }
}
