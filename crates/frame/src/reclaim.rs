//! Getting memory back: the seam between the allocator, which knows how much is short and where, and the owner, which
//! can give memory up.

use core::fmt;

use crate::{Gfp, NodeId, Order, ZoneKind};

/// Priority at which reclaim begins (`DEF_PRIORITY`): of each list, its 4096th part is looked at. At 0 it is all of it.
pub const DEF_PRIORITY: u8 = 12;
/// Frames that one round of reclaim is after (`SWAP_CLUSTER_MAX`).
pub const RECLAIM_CLUSTER: u64 = 32;

/// The actor that reclaims.
///
/// ```
/// use pageblock_frame::reclaim::Actor;
/// assert_eq!(Actor::Kswapd.to_string(), "kswapd");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Actor {
    /// The node's background thread.
    Kswapd,
    /// A task that wants memory itself.
    Direct,
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(if *self == Self::Kswapd { "kswapd" } else { "direct" })
    }
}

/// One round of reclaim (`struct scan_control`).
///
/// ```
/// use pageblock_frame::reclaim::{Actor, RECLAIM_CLUSTER, Shrink};
/// use pageblock_frame::{Gfp, NodeId, ZoneKind};
/// let round = Shrink::direct(NodeId::new(0), ZoneKind::Normal, Gfp::KERNEL);
/// assert_eq!((round.actor, round.frames, round.priority), (Actor::Direct, RECLAIM_CLUSTER, 12));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shrink {
    /// Where.
    pub node: NodeId,
    /// The one zone with the lists to shrink (Linux before 4.8), or `None`: the node's.
    pub zone: Option<ZoneKind>,
    /// Frames of higher zones do not help the request.
    pub limit: ZoneKind,
    /// Frames that would do.
    pub frames: u64,
    /// How hard to look, from [`DEF_PRIORITY`] down to 0.
    pub priority: u8,
    /// Order of the block that is wanted in the end.
    pub order: Order,
    /// The actor.
    pub actor: Actor,
    /// Actions allowed: [`Gfp::IO`] start writing, [`Gfp::FS`] enter file systems.
    pub gfp: Gfp,
    /// False while boosted watermarks are the only reason: nothing is written back, unmapped or swapped out.
    pub may_write: bool,
}

impl Shrink {
    /// The first round of a task that reclaims for itself.
    #[must_use]
    pub const fn direct(node: NodeId, limit: ZoneKind, gfp: Gfp) -> Self {
        Self {
            node,
            zone: None,
            limit,
            frames: RECLAIM_CLUSTER,
            priority: DEF_PRIORITY,
            order: Order::ZERO,
            actor: Actor::Direct,
            gfp,
            may_write: true,
        }
    }
}

/// Result of a round.
///
/// ```
/// use pageblock_frame::reclaim::Shrunk;
/// let total = Shrunk { scanned: 40, freed: 30 } + Shrunk { scanned: 2, freed: 1 };
/// assert_eq!(total, Shrunk { scanned: 42, freed: 31 });
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Shrunk {
    /// Frames looked at.
    pub scanned: u64,
    /// Frames that went back to the allocator.
    pub freed: u64,
}

impl core::ops::Add for Shrunk {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { scanned: self.scanned.saturating_add(other.scanned), freed: self.freed.saturating_add(other.freed) }
    }
}

/// Pages of files in a zone, in frames.
///
/// ```
/// use pageblock_frame::reclaim::FilePages;
/// let clean = FilePages { all: 100, ..FilePages::default() };
/// assert_eq!(clean.dirty, 0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FilePages {
    /// On the LRU lists that reclaim looks at, dirty or not.
    pub all: u64,
    /// Dirty, or on their way to the disk.
    pub dirty: u64,
}

/// An owner of memory that can be given up. The allocator holds **no lock** and has interrupts on in every call, so
/// each may wait as long as its flags allow, and free to the allocator; its own requests meanwhile carry
/// [`Gfp::MEMALLOC`], which never reclaims.
///
/// # An owner that breaks the contract
/// It can make requests fail. The allocator believes its own count of free frames, not the answer: rounds that claim
/// progress where there is none are bounded, and a call that re-enters reclaim is refused.
///
/// ```
/// use pageblock_frame::reclaim::{Reclaim, Shrink, Shrunk};
/// use pageblock_frame::{NodeId, ZoneKind, Gfp};
/// /// Owns nothing that could be given up.
/// struct Miser;
/// impl Reclaim for Miser {
///     fn shrink(&self, _: &Shrink) -> Shrunk { Shrunk::default() }
/// }
/// assert_eq!(Miser.shrink(&Shrink::direct(NodeId::new(0), ZoneKind::Normal, Gfp::KERNEL)).freed, 0);
/// assert_eq!(Miser.reclaimable(NodeId::new(0), ZoneKind::Normal), 0);
/// ```
pub trait Reclaim {
    /// Looks for frames to free, about [`Shrink::frames`] of them, and says how many were found.
    fn shrink(&self, round: &Shrink) -> Shrunk;

    /// Frames of a zone that further rounds might free, for the decision whether to go on (`zone_reclaimable_pages()`).
    fn reclaimable(&self, _node: NodeId, _zone: ZoneKind) -> u64 {
        0
    }

    /// Pages of files in a zone, for the limit on dirty ones: asked by requests with [`Gfp::WRITE`] only, once for
    /// each zone that they look at. An owner that does not say has no limit.
    fn file_pages(&self, _node: NodeId, _zone: ZoneKind) -> FilePages {
        FilePages::default()
    }

    /// The last resort, when nothing else is left to free: gives up something large for a block of `order` (Linux
    /// kills a process). True if memory will be free soon because of it, and the request should try again; it asks a
    /// few times at most.
    fn out_of_memory(&self, _order: Order, _limit: ZoneKind, _gfp: Gfp) -> bool {
        false
    }

    /// True if the caller is being killed and should stop waiting for memory.
    fn is_dying(&self) -> bool {
        false
    }
}
