//! How much of other caches goes when pages go.

use pageblock_frame::reclaim::{Actor, DEF_PRIORITY};
use pageblock_frame::{Gfp, NodeId};

/// Work of a round on the lists, for caches that shrink in proportion.
///
/// ```
/// use pageblock_frame::reclaim::Actor;
/// use pageblock_frame::{Gfp, NodeId};
/// use pageblock_reclaim::Slab;
/// let slab = Slab {
///     node: NodeId::new(0), actor: Actor::Direct, gfp: Gfp::KERNEL, priority: 10, scanned: 50, eligible: 999,
/// };
/// assert_eq!(slab.share(4096), 8); // a 1024th, twice: objects cost two seeks
/// assert_eq!(slab.share_3_13(4000), 400); // as 50 to 1000, twice
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slab {
    /// Where.
    pub node: NodeId,
    /// The actor.
    pub actor: Actor,
    /// Actions allowed.
    pub gfp: Gfp,
    /// How hard to look.
    pub priority: u8,
    /// Frames of the lists that were looked at.
    pub scanned: u64,
    /// Frames of the lists that could have been.
    pub eligible: u64,
}

impl Slab {
    /// Objects to look at of so many that could be freed, by the priority (since 4.16), for objects of the usual cost.
    #[must_use]
    pub const fn share(&self, freeable: u64) -> u64 {
        let priority = if self.priority > DEF_PRIORITY { DEF_PRIORITY } else { self.priority };
        (freeable >> priority).saturating_mul(2)
    }

    /// The same before: by the part of the lists that was looked at.
    #[must_use]
    pub const fn share_3_13(&self, freeable: u64) -> u64 {
        let share = self.scanned as u128 * 2 * freeable as u128 / (self.eligible as u128 + 1);
        if share > u64::MAX as u128 { u64::MAX } else { share as u64 }
    }
}
