//! The high-order atomic reserve: pageblocks that are kept for requests of higher orders that cannot wait.

use pageblock_frame::sync::Ordering;
use pageblock_frame::trace::Event;
use pageblock_frame::{Hooks, MigrateType, PAGEBLOCK_FRAMES, Pfn, Platform};

use crate::free_area::FreeAreaId;
use crate::ones::Ones;
use crate::region::BLOCK_SHIFT;
use crate::zone::{Place, Zone};

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

impl Zone<'_> {
    /// Most frames that the high-order atomic reserve may hold before it takes another pageblock.
    pub(crate) fn highatomic_limit(&self) -> u64 {
        self.managed() / 100 + PAGEBLOCK_FRAMES
    }

    /// Puts the pageblock that holds `pfn` into the high-order atomic reserve, if the reserve may grow and the
    /// pageblock is of an ordinary type (`reserve_highatomic_pageblock()`, Linux 4.4). True if it did.
    pub fn reserve_highatomic<P: Platform>(&self, pfn: Pfn) -> bool {
        if !self.policy.highatomic || self.highatomic() >= self.highatomic_limit() {
            return false;
        }
        let place = self.index_of(pfn).and_then(|index| self.lock_at::<P>(index));
        let Some(Place { mut region, index }) = place else { return false };
        let block = index >> BLOCK_SHIFT;
        let done = region.blocks.get(block).is_some_and(|b| b.migrate_type().is_ordinary());
        if done {
            region.set_type(block, MigrateType::HighAtomic);
        }
        self.publish(&mut region);
        drop(region);
        if done {
            P::hooks().trace(&Event::HighAtomic { pfn, reserved: true });
        }
        done
    }

    /// Takes one pageblock with something free out of the high-order atomic reserve and gives it to `migrate_type`
    /// (`unreserve_highatomic_pageblock()`). Unless forced, the last one stays. True if it did.
    pub fn unreserve_highatomic<P: Platform>(&self, force: Unreserve, migrate_type: MigrateType) -> bool {
        // Another type is not a request's; of isolated ones there is a count.
        if !migrate_type.is_ordinary() || force == Unreserve::ButOne && self.highatomic() <= PAGEBLOCK_FRAMES {
            return false;
        }
        let has_some = |top| self.summary.regions(FreeAreaId::new(MigrateType::HighAtomic, top));
        for number in Ones((0..=FreeAreaId::WHOLE).fold(0, |regions, top| regions | has_some(top))) {
            let Some(mut region) = self.lock::<P>(number) else { continue };
            let Some(block) = region.reserve_to_shrink() else { continue };
            region.set_type(block, migrate_type);
            let pfn = region.pfn_of(block << BLOCK_SHIFT);
            self.publish(&mut region);
            drop(region);
            P::hooks().trace(&Event::HighAtomic { pfn, reserved: false });
            return true;
        }
        false
    }

    /// Frames in pageblocks of the high-order atomic reserve.
    #[must_use]
    pub fn highatomic(&self) -> u64 {
        self.highatomic.load(Ordering::Relaxed)
    }
}
