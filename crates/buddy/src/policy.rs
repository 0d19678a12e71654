//! How migrate types fall back on one another, as values.

use pageblock_frame::{MigrateType, Order};

/// When a whole pageblock changes hands, and which victim is chosen: the switches of Linux's fallback code.
///
/// ```
/// use pageblock_buddy::Policy;
/// assert!(Policy::linux_6_1().claim_counts_compatible);
/// assert!(!Policy::linux_3_13().smallest_for_movable);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// A movable request that cannot claim a pageblock takes the smallest sufficient victim rather than the largest
    /// (Linux 4.12; before, always the largest).
    pub smallest_for_movable: bool,
    /// Used frames of a type compatible with the request count towards claiming the pageblock (4.9; before, only free
    /// ones).
    pub claim_counts_compatible: bool,
    /// Unmovable requests try to claim the pageblock whatever the victim's order (4.x; before, only reclaimable ones
    /// did).
    pub unmovable_claims: bool,
    /// A victim of several pageblocks changes type as a whole (all Linux versions); otherwise only as many
    /// pageblocks as the request needs.
    pub claim_whole_run: bool,
    /// The high-order atomic reserve exists (4.4).
    pub highatomic: bool,
    /// A type that cannot move goes to a whole pageblock rather than on in one that it mixed into, and when it took the
    /// last, the compaction thread is asked to empty another ([`Zone::take_short`](crate::Zone::take_short)). Linux has
    /// the aim since 6.15 (`vm.defrag_mode`), by other means.
    pub keep_whole: bool,
    /// A type that took from a pageblock without claiming it goes on in that one, without another mixing, for as long
    /// as it can serve. Otherwise (all Linux versions up to 6.9) it gets the frames that Linux moves to its lists then,
    /// and a frame freed there goes to the pageblock's own type: where the claim was tried all that was free in the
    /// pageblock, else the rest of the block taken from.
    pub goes_on: bool,
    /// A request claims a pageblock, tried from the largest free block down, or else takes the smallest block that
    /// serves and leaves the rest where it is (Linux 6.15; before, the largest victim was claimed or taken from).
    pub claims_or_steals: bool,
}

impl Policy {
    /// Linux 6.1.
    #[must_use]
    pub const fn linux_6_1() -> Self {
        Self {
            smallest_for_movable: true,
            claim_counts_compatible: true,
            unmovable_claims: true,
            claim_whole_run: true,
            highatomic: true,
            keep_whole: false,
            goes_on: false,
            claims_or_steals: false,
        }
    }

    /// Linux 6.18.
    ///
    /// ```
    /// use pageblock_buddy::Policy;
    /// assert_eq!(Policy { claims_or_steals: false, ..Policy::linux_6_18() }, Policy::linux_6_1());
    /// ```
    #[must_use]
    pub const fn linux_6_18() -> Self {
        Self { claims_or_steals: true, ..Self::linux_6_1() }
    }

    /// Linux 3.13.
    #[must_use]
    pub const fn linux_3_13() -> Self {
        Self {
            smallest_for_movable: false,
            claim_counts_compatible: false,
            unmovable_claims: false,
            claim_whole_run: true,
            highatomic: false,
            keep_whole: false,
            goes_on: false,
            claims_or_steals: false,
        }
    }

    /// The default: Linux 6.1's rules, whole pageblocks kept for types that cannot move, and one pageblock mixed before
    /// the next.
    #[must_use]
    pub const fn new() -> Self {
        Self { keep_whole: true, goes_on: true, ..Self::linux_6_1() }
    }

    /// True if a request may take over the pageblock of a victim of this order (`can_steal_fallback()`).
    #[must_use]
    pub(crate) const fn can_claim(&self, victim: u32, wanted: MigrateType) -> bool {
        victim >= Order::saturating(9).as_u8() as u32 / 2
            || matches!(wanted, MigrateType::Reclaimable)
            || (self.unmovable_claims && matches!(wanted, MigrateType::Unmovable))
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::new()
    }
}

/// The types that a request turns to when its own has nothing, in order (`fallbacks[]`).
#[must_use]
pub(crate) const fn fallbacks(wanted: MigrateType) -> [MigrateType; 2] {
    use MigrateType::{Movable, Reclaimable, Unmovable};
    match wanted {
        Reclaimable => [Unmovable, Movable],
        Movable => [Reclaimable, Unmovable],
        _ => [Reclaimable, Movable],
    }
}
