//! Shortage and fragmentation of a zone: wake-ups that are owed to the background threads, and counts.

use pageblock_buddy::{Zone, ZoneEvents};
use pageblock_frame::{AllocFlags, Hooks, Order, PAGEBLOCK_ORDER, Platform};

use crate::PageAllocator;
use crate::inner::Inner;
use crate::slowpath::wake_kswapd;

/// Wakes the reclaim thread if the zone has been boosted since the last wake-up, and the compaction thread if it has no
/// whole pageblock left for types that cannot move, where the request may wake them: the node may be balanced, so that
/// nothing else would. Called with no lock held and outside the per-CPU list.
#[inline(always)]
pub(crate) fn tell<P: Platform>(inner: &'static Inner<P>, zone: &'static Zone<'static>, flags: AllocFlags) {
    if zone.is_boosted() {
        wake_for_boost(inner, zone, flags);
    }
    if zone.is_short() {
        wake_for_block(inner, zone, flags);
    }
}

/// Movable pages will make room for a whole pageblock.
#[cold]
fn wake_for_block<P: Platform>(inner: &Inner<P>, zone: &Zone<'_>, flags: AllocFlags) {
    if flags.contains(AllocFlags::KSWAPD)
        && zone.take_short()
        && P::hooks().migrator().is_some()
        && let Some(kcompactd) = inner.kcompactds.get(zone.node().index())
    {
        kcompactd.wake::<P>(PAGEBLOCK_ORDER, zone.kind());
    }
}

#[cold]
fn wake_for_boost<P: Platform>(inner: &'static Inner<P>, zone: &'static Zone<'static>, flags: AllocFlags) {
    // As posted, every mixing woke it, permitted or not.
    let may_wake = flags.contains(AllocFlags::KSWAPD) || zone.boost_rule().is_posted();
    if may_wake && zone.take_boosted() {
        wake_kswapd(inner, zone, Order::ZERO, zone.kind());
    }
}

impl<P: Platform> PageAllocator<P> {
    /// Mixings of migrate types and boosts of all zones since boot. Takes each zone lock for a moment.
    ///
    /// ```
    /// # use pageblock::{Config, Gfp, PageAllocator, Region};
    /// # use pageblock::hosted::Simulated;
    /// # let frames = PageAllocator::<Simulated>::new();
    /// # let storage = vec![core::mem::MaybeUninit::uninit(); 1 << 20].leak();
    /// # frames.init_simulated([Region::from((0, 16 << 20, true))], &Config::new(), storage).unwrap();
    /// // All pageblocks are movable at boot: the first other request claims one, as a whole.
    /// let frame = frames.alloc(Gfp::KERNEL).unwrap();
    /// let events = frames.events();
    /// assert_eq!((events.claims, events.fragmenting()), (1, 0));
    /// ```
    #[must_use]
    pub fn events(&self) -> ZoneEvents {
        self.zones().fold(ZoneEvents::default(), |sum, zone| sum.plus(&zone.events()))
    }
}
