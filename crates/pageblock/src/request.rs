//! One request on its way to a zone: the walk along the zonelist.

use pageblock_buddy::{Zone, Zonelist};
use pageblock_frame::trace::Event;
use pageblock_frame::{AllocFlags, Gfp, Hooks, MigrateType, NodeId, Order, Pfn, PfnRange, Platform, ZoneKind};

use crate::config::ZoneSpreading;
use crate::error::AllocError;
use crate::inner::{Inner, NO_ZONE, NodeEntry};
use crate::{pressure, slowpath};

/// Requests for whole pageblocks first: the preferred node is looked at twice.
const MIXING: AllocFlags = AllocFlags::NOFRAGMENT.union(AllocFlags::FRAGMENT_STALL);

/// A checked request, and its zones.
#[derive(Debug)]
pub(crate) struct Request<P: Platform> {
    pub(crate) order: Order,
    pub(crate) gfp: Gfp,
    pub(crate) migrate_type: MigrateType,
    /// The highest zone that may serve.
    pub(crate) limit: ZoneKind,
    pub(crate) inner: &'static Inner<P>,
    /// The zones in the order in which they are tried.
    pub(crate) list: &'static Zonelist,
}

impl<P: Platform> Clone for Request<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for Request<P> {}

impl<P: Platform> Request<P> {
    /// Checks the flags and the order.
    pub(crate) fn new(
        inner: &'static Inner<P>,
        node: &'static NodeEntry,
        order: Order,
        gfp: Gfp,
    ) -> Result<Self, AllocError> {
        if node.preferred(gfp) == NO_ZONE {
            gfp.check()?;
            return Err(AllocError::OutOfMemory);
        }
        if order > inner.max_order {
            return Err(AllocError::OrderTooLarge { largest: inner.max_order });
        }
        let limit = gfp.zone_limit()?;
        let list = if gfp.contains(Gfp::THISNODE) { &node.node.this_node } else { &node.node.fallback };
        Ok(Self { order, gfp, migrate_type: gfp.migrate_type(), limit, inner, list })
    }

    /// The first attempt, then the ladder. The work owed to the block is left to the caller, which makes its handle
    /// first.
    #[inline]
    pub(crate) fn run(&self) -> Result<Pfn, AllocError> {
        if slowpath::is_refused_again(self) {
            return Err(AllocError::OutOfMemory);
        }
        match self.walk(self.fast_flags()) {
            Some(pfn) => Ok(pfn),
            None => slowpath::climb(self),
        }
    }

    /// The zone of the preferred node that can give this many frames and stay above its low watermark.
    pub(crate) fn bulk_zone(&self, frames: usize) -> Option<&'static Zone<'static>> {
        let flags = self.fast_flags();
        let node = self.zones().next()?.node();
        let mut zones = self.zones().take_while(|zone| zone.node() == node);
        zones.find(|zone| {
            let mark = zone.mark_for(flags).saturating_add(frames as u64 + self.inner.committed_in(zone));
            zone.frames_ok(Order::ZERO, mark, self.limit, flags) && !self.is_too_dirty(zone, flags)
        })
    }

    /// The zones that may serve, in order.
    pub(crate) fn zones(&self) -> impl Iterator<Item = &'static Zone<'static>> + use<P> {
        let inner = self.inner;
        self.list.up_to(self.limit).filter_map(move |entry| inner.zone(entry.zone))
    }

    /// The flags of the first attempt, which stops at the low watermark (`prepare_alloc_pages()`).
    pub(crate) fn fast_flags(&self) -> AllocFlags {
        if P::SMALL_CODE {
            return self.gfp.fast_alloc_flags();
        }
        let flags = self.gfp.fast_alloc_flags() | self.fair_flag() | self.dirty_flag();
        if self.may_spread() { flags | AllocFlags::NOFRAGMENT } else { flags }
    }

    /// The flags of the slow path's attempts, down to the min watermark (`gfp_to_alloc_flags()`).
    pub(crate) fn slow_flags(&self) -> AllocFlags {
        let flags = self.gfp.slow_alloc_flags(self.order);
        if self.avoids_mixing() { flags | AllocFlags::NOFRAGMENT } else { flags }
    }

    /// Mixing is avoided until reclaim and compaction have been tried, on a platform that has either, and the last
    /// attempt after them.
    pub(crate) fn avoids_mixing(&self) -> bool {
        !P::SMALL_CODE
            && (P::hooks().reclaimer().is_some() || P::hooks().migrator().is_some())
            && self.inner.spreading == ZoneSpreading::Throughout
    }

    /// Spreading over zones makes sense if the preferred zone is Normal and there is a DMA32 below it on its node
    /// (`alloc_flags_nofragment()`).
    fn may_spread(&self) -> bool {
        if self.inner.spreading == ZoneSpreading::Off {
            return false;
        }
        if self.avoids_mixing() {
            return true;
        }
        let mut zones = self.zones();
        let preferred = zones.next();
        preferred.is_some_and(|zone| {
            zone.kind() == ZoneKind::Normal
                && zones.any(|other| other.kind() == ZoneKind::Dma32 && other.node() == zone.node())
        })
    }

    /// Walks the zonelist and takes the block from the first zone that may and can serve
    /// (`get_page_from_freelist()`).
    #[inline]
    pub(crate) fn walk(&self, flags: AllocFlags) -> Option<Pfn> {
        const DETOURS: AllocFlags = AllocFlags::FAIR.union(MIXING).union(AllocFlags::DIRTY_LIMIT);
        if !P::SMALL_CODE && flags.intersects(DETOURS) {
            self.walk_picky(flags)
        } else {
            self.pass::<false>(flags, None)
        }
    }

    /// The same for an attempt that leaves out zones first.
    #[inline(never)]
    fn walk_picky(&self, flags: AllocFlags) -> Option<Pfn> {
        if flags.contains(AllocFlags::FAIR) {
            return self.walk_fair(flags);
        }
        if self.avoids_mixing() || !flags.intersects(MIXING) {
            // Other nodes are worth it, too, and so are reclaim and compaction.
            return self.walk_zones(flags, None);
        }
        // Only the preferred node is worth a detour; then again with mixing allowed.
        let local = self.zones().next().map(Zone::node);
        self.walk_zones(flags, local).or_else(|| {
            if flags.contains(AllocFlags::FRAGMENT_STALL) {
                self.stall();
            }
            self.walk_zones(flags.difference(MIXING), None)
        })
    }

    /// Nothing else has helped: no request fails for the sake of pure pageblocks, or of a boost, which kswapd
    /// is to free and not a reserve.
    #[cold]
    pub(crate) fn at_last(&self) -> Option<Pfn> {
        if P::SMALL_CODE {
            return None;
        }
        let avoided = self.avoids_mixing() || self.zones().any(|zone| zone.boost() > 0);
        if !avoided {
            return None;
        }
        self.walk_zones(self.slow_flags().difference(AllocFlags::NOFRAGMENT) | AllocFlags::UNBOOSTED, None)
    }

    /// One pass over the zones, those of one node if `only` says so.
    #[inline(never)]
    pub(crate) fn walk_zones(&self, flags: AllocFlags, only: Option<NodeId>) -> Option<Pfn> {
        self.pass::<true>(flags, only)
    }

    /// The same, in two copies: without `PICKY`, all zones may serve.
    #[inline(always)]
    fn pass<const PICKY: bool>(&self, flags: AllocFlags, only: Option<NodeId>) -> Option<Pfn> {
        for zone in self.zones() {
            if PICKY && only.is_some_and(|node| node != zone.node()) {
                return None;
            }
            if PICKY && (self.out_of_turn(zone, flags) || self.is_too_dirty(zone, flags)) {
                continue;
            }
            if !flags.contains(AllocFlags::NO_WATERMARKS) && !self.above_watermark(zone, flags)
                || !self.inner.leaves_commitments(zone, self.order.frames())
            {
                continue;
            }
            let taken = self.inner.alloc_from(zone, (self.order, self.migrate_type), flags);
            let taken = taken.map(|pfn| Underway { inner: self.inner, pfn, order: self.order });
            pressure::tell(self.inner, zone, flags);
            if let Some(block) = taken {
                self.charge_fair(zone, self.order.frames());
                if flags.contains(AllocFlags::HIGHATOMIC) {
                    zone.reserve_highatomic::<P>(block.pfn);
                }
                return Some(block.arrived());
            }
        }
        None
    }

    /// The zone stays above its watermark and keeps its reserve from requests that could go higher
    /// (`zone_watermark_fast()`).
    fn above_watermark(&self, zone: &Zone<'_>, flags: AllocFlags) -> bool {
        let mark = zone.mark_for(flags);
        if !zone.frames_ok(self.order, mark, self.limit, flags) {
            return self.above_unboosted(zone, flags);
        }
        // Whether there is a block of the order at all, the zone finds out itself; but for a caller that cannot wait it
        // would look into the high-order atomic reserve, which this caller may not use.
        let reserve_would_serve = flags.contains(AllocFlags::NON_BLOCK)
            && self.order > Order::ZERO
            && !flags.intersects(AllocFlags::HIGHATOMIC | AllocFlags::OOM);
        !reserve_would_serve || zone.highatomic() == 0 || zone.has_block(self.order, flags)
    }

    /// A single frame for a caller that cannot wait need not leave the boost alone, nor need any caller in the last
    /// attempt.
    fn above_unboosted(&self, zone: &Zone<'_>, flags: AllocFlags) -> bool {
        let at_min = !flags.intersects(AllocFlags::WMARK_LOW | AllocFlags::WMARK_HIGH);
        let atomic = self.order == Order::ZERO && self.gfp.contains(Gfp::ATOMIC_BIT);
        (atomic || flags.contains(AllocFlags::UNBOOSTED))
            && at_min
            && zone.boost() > 0
            && zone.frames_ok(self.order, zone.watermarks().min, self.limit, flags)
    }
}

/// A block that has been taken and has no handle yet. Freed if a hook unwinds meanwhile.
pub(crate) struct Underway<P: Platform> {
    pub(crate) inner: &'static Inner<P>,
    pub(crate) pfn: Pfn,
    pub(crate) order: Order,
}

impl<P: Platform> Underway<P> {
    /// Hands the block on: hooks come later, or there is a handle.
    #[inline(always)]
    pub(crate) fn arrived(self) -> Pfn {
        core::mem::ManuallyDrop::new(self).pfn
    }
}

impl<P: Platform> Drop for Underway<P> {
    fn drop(&mut self) {
        // SAFETY: it was taken here, and nothing else knows of it.
        #[expect(unsafe_code, reason = "the allocator's own block")]
        let _ = unsafe { self.inner.free(self.pfn, self.order) };
    }
}

/// Work owed to a block that is about to be handed out (`prep_new_page()`).
#[inline(always)]
pub(crate) fn prepare<P: Platform>(pfn: Pfn, order: Order, gfp: Gfp) {
    zero_if_asked::<P>(PfnRange::from_len(pfn, order.frames()), gfp);
    P::hooks().trace(&Event::Alloc { pfn, order, gfp, migrate_type: gfp.migrate_type() });
}

/// Zeroes frames that were asked for so, and have just been taken.
#[inline(always)]
pub(crate) fn zero_if_asked<P: Platform>(frames: PfnRange, gfp: Gfp) {
    if P::HAS_MEMORY && gfp.contains(Gfp::ZERO) {
        // SAFETY: the frames have just been taken, and no other code has seen them yet.
        #[expect(unsafe_code, reason = "the allocator's own frames")]
        unsafe {
            P::zero_frames(frames);
        }
    }
}
