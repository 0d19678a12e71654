//! Events of a zone: mixings of migrate types by order and by type, boosts. Kept under the zone lock, on its slow
//! path.

use pageblock_frame::sync::Ordering;
use pageblock_frame::trace::Fallback;
use pageblock_frame::{MigrateType, Order};

use crate::Zone;

/// Types that requests have.
const TYPES: usize = MigrateType::PCP_COUNT;

/// Counts since boot. All wrap.
///
/// ```
/// let events = pageblock_buddy::ZoneEvents::default();
/// assert_eq!((events.fragmenting(), events.boosts), (0, 0));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ZoneEvents {
    /// Requests served from another type's pageblock, by the order of the free block that was taken from
    /// (`mm_page_alloc_extfrag`).
    pub fallbacks: [u64; Order::COUNT],
    /// The same by type: `by_type[wanted][from]`, unmovable, movable, reclaimable.
    pub by_type: [[u64; TYPES]; TYPES],
    /// Those of them in which the pageblock changed its type.
    pub claims: u64,
    /// Mixings that were refused, so that their request might stall (`FRAGMENT_STALL`).
    pub refused: u64,
    /// Times that the watermarks were boosted, also at the cap.
    pub boosts: u64,
}

impl ZoneEvents {
    pub(crate) const fn new() -> Self {
        Self { fallbacks: [0; Order::COUNT], by_type: [[0; TYPES]; TYPES], claims: 0, refused: 0, boosts: 0 }
    }

    /// Mixings within a pageblock: fallbacks below the pageblock order, the extfrag events of *Fragmentation avoidance
    /// and stalls*.
    #[must_use]
    pub fn fragmenting(&self) -> u64 {
        self.below(pageblock_frame::PAGEBLOCK_ORDER)
    }

    /// Fallbacks in which the free block was smaller than `order`.
    #[must_use]
    pub fn below(&self, order: Order) -> u64 {
        self.fallbacks.iter().take(usize::from(order.as_u8())).fold(0, |sum, n| sum.wrapping_add(*n))
    }

    /// Both together, for the zones of a machine.
    #[must_use]
    pub fn plus(mut self, other: &Self) -> Self {
        let add = |to: &mut u64, n: &u64| *to = to.wrapping_add(*n);
        self.fallbacks.iter_mut().zip(&other.fallbacks).for_each(|(to, n)| add(to, n));
        self.by_type.as_flattened_mut().iter_mut().zip(other.by_type.as_flattened()).for_each(|(to, n)| add(to, n));
        add(&mut self.claims, &other.claims);
        add(&mut self.refused, &other.refused);
        add(&mut self.boosts, &other.boosts);
        self
    }

    pub(crate) fn note(&mut self, fallback: &Fallback) {
        let order = usize::from(fallback.fallback_order.as_u8());
        let types = (fallback.wanted.index(), fallback.from.index());
        let by_order = self.fallbacks.get_mut(order);
        let by_type = self.by_type.get_mut(types.0).and_then(|row| row.get_mut(types.1));
        for slot in by_order.into_iter().chain(by_type) {
            *slot = slot.wrapping_add(1);
        }
        self.claims = self.claims.wrapping_add(u64::from(fallback.change_ownership));
    }
}

impl Zone<'_> {
    /// The zone's counts since boot. Takes the zone lock.
    #[must_use]
    pub fn events(&self) -> ZoneEvents {
        let mut sum = ZoneEvents::default();
        self.each_region(|region| sum = sum.plus(&region.events));
        sum.boosts = self.marks.boosts.load(Ordering::Relaxed);
        sum.refused = self.marks.refused.load(Ordering::Relaxed);
        sum
    }
}
