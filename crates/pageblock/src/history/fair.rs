//! The fair-zone policy's walk: which zone's turn it is, and when which zones begin anew (Linux 3.12 to 4.7; see
//! `pageblock_buddy::FairPolicy`).

use pageblock_buddy::{FairPolicy, Zone};
use pageblock_frame::{AllocFlags, NodeId, Pfn, Platform};

use crate::request::Request;

impl<P: Platform> Request<P> {
    /// [`AllocFlags::FAIR`] if the first attempt is to look which zone's turn it is.
    pub(crate) fn fair_flag(&self) -> AllocFlags {
        let takes_part = match self.inner.history.settings.fair {
            FairPolicy::Off => false,
            FairPolicy::SeriesV4R8 => {
                let mut zones = self.zones().map(Zone::node);
                let first = zones.next();
                first.is_some() && first == zones.next()
            }
            _ => true,
        };
        if takes_part { AllocFlags::FAIR } else { AllocFlags::empty() }
    }

    /// The zone may not serve a pass with these flags: its turn is over.
    #[inline]
    pub(crate) fn out_of_turn(&self, zone: &Zone<'_>, flags: AllocFlags) -> bool {
        flags.contains(AllocFlags::FAIR) && zone.fair_is_over(self.inner.history.settings.fair)
    }

    /// An allocation is charged, also one from a list.
    #[inline]
    pub(crate) fn charge_fair(&self, zone: &Zone<'_>, frames: u64) {
        if !P::SMALL_CODE && self.inner.history.settings.fair.is_on() {
            zone.charge_fair(frames, self.inner.history.settings.fair);
        }
    }

    /// The first attempt: a pass over the zones that have their turn, and another if none of them serves.
    #[cold]
    pub(crate) fn walk_fair(&self, flags: AllocFlags) -> Option<Pfn> {
        let local = self.zones().next().map(Zone::node);
        let only = if self.inner.history.settings.fair == FairPolicy::Linux3_12 { None } else { local };
        if let Some(pfn) = self.walk_zones(flags, only) {
            return Some(pfn);
        }
        let again = match self.inner.history.settings.fair {
            // The slow path resets, after it has woken kswapd.
            FairPolicy::Off | FairPolicy::Linux3_12 | FairPolicy::Linux3_13 => false,
            FairPolicy::Linux3_15 => {
                self.reset_fair(local);
                true
            }
            // If no zone was passed over, only other nodes are a reason to look again.
            _ => self.reset_depleted(local) || self.inner.nodes.len() > 1,
        };
        if again { self.walk(flags.difference(AllocFlags::FAIR)) } else { None }
    }

    /// All zones of the list begin anew, or those of one node.
    fn reset_fair(&self, only: Option<NodeId>) {
        let concerned = |zone: &&Zone<'_>| only.is_none_or(|node| zone.node() == node);
        self.zones().filter(concerned).for_each(Zone::reset_fair);
    }

    /// If the turn of some of the node's zones was over, they begin anew, and the others with them. True if so.
    fn reset_depleted(&self, local: Option<NodeId>) -> bool {
        let policy = self.inner.history.settings.fair;
        let is_local = |zone: &&Zone<'_>| Some(zone.node()) == local;
        let mut found = false;
        for zone in self.zones().filter(is_local).filter(|zone| zone.fair_is_over(policy)) {
            found = true;
            zone.reset_fair();
        }
        if found && policy != FairPolicy::SeriesV4R8 {
            self.reset_fair(local);
        }
        found
    }

    /// Where the slow path begins, with the wakes of kswapd: up to 3.14 this is where turns begin anew.
    pub(crate) fn reset_fair_in_slowpath(&self) {
        match self.inner.history.settings.fair {
            FairPolicy::Linux3_12 => self.reset_fair(None),
            FairPolicy::Linux3_13 => self.reset_fair(self.zones().next().map(Zone::node)),
            _ => {}
        }
    }
}
