//! The limit on dirty pages: pages that will be written go where there is room for more dirty ones.
//!
//! Reclaim that meets a list of dirty pages must wait for the disk. So a request that says [`Gfp::WRITE`] passes over
//! zones which have their share of dirty pages already. It passes over watermark, turn and limit alike: if no zone has
//! all three, the slow path wakes kswapd and then ignores the limit, for only writing brings a zone below it, and
//! write-back does not know of zones.
//!
//! How many pages are files', and dirty, the owner says ([`Reclaim::file_pages`]); without an owner there is no limit.
//! Requests without the flag are not asked.
//!
//! [`Reclaim::file_pages`]: pageblock_frame::reclaim::Reclaim::file_pages

use pageblock_buddy::Zone;
use pageblock_frame::{AllocFlags, Gfp, Hooks, Platform};

use crate::inner::Inner;
use crate::request::Request;

/// How much of the memory that pages of files could have may be dirty before requests with [`Gfp::WRITE`] go elsewhere.
///
/// ```
/// use pageblock::{Config, ConfigError, DirtyLimit};
/// assert_eq!(DirtyLimit::default(), DirtyLimit::Nodes { percent: 20 });
/// let none = Config::new().dirty_limit(DirtyLimit::Zones { percent: 0 });
/// assert_eq!(none.check(), Err(ConfigError::DirtyLimit { given: 0 }));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DirtyLimit {
    /// None (before Linux 3.3).
    Off,
    /// For each zone (3.3 to 4.7), in percent of its free frames and pages of files, less its reserve.
    Zones {
        /// `vm.dirty_ratio`, 1 to 100.
        percent: u8,
    },
    /// For each node (since 4.8): the sum over its zones.
    Nodes {
        /// `vm.dirty_ratio`, 1 to 100.
        percent: u8,
    },
}

impl Default for DirtyLimit {
    fn default() -> Self {
        Self::new()
    }
}

impl DirtyLimit {
    /// Linux 6.1's.
    #[must_use]
    pub const fn new() -> Self {
        Self::Nodes { percent: 20 }
    }

    /// A share that is none.
    pub(crate) const fn fault(self) -> Option<u8> {
        match self {
            Self::Zones { percent } | Self::Nodes { percent } if percent == 0 || percent > 100 => Some(percent),
            _ => None,
        }
    }
}

/// True if a request with these flags has to look at the limit: it cannot take the shortest way to a list.
#[inline(always)]
pub(crate) fn is_limited<P: Platform>(gfp: Gfp) -> bool {
    !P::SMALL_CODE && gfp.contains(Gfp::WRITE) && P::hooks().reclaimer().is_some()
}

impl<P: Platform> Request<P> {
    /// [`AllocFlags::DIRTY_LIMIT`] if the first attempt is to look at it.
    pub(crate) fn dirty_flag(&self) -> AllocFlags {
        let looks = is_limited::<P>(self.gfp) && self.inner.dirty_limit != DirtyLimit::Off;
        if looks { AllocFlags::DIRTY_LIMIT } else { AllocFlags::empty() }
    }

    /// The zone may not serve a pass with these flags: it has its share of dirty pages (`zone_dirty_ok()`,
    /// `node_dirty_ok()`).
    #[inline]
    pub(crate) fn is_too_dirty(&self, zone: &Zone<'_>, flags: AllocFlags) -> bool {
        flags.contains(AllocFlags::DIRTY_LIMIT) && is_over_limit(self.inner, zone)
    }
}

#[cold]
fn is_over_limit<P: Platform>(inner: &Inner<P>, zone: &Zone<'_>) -> bool {
    let Some(owner) = P::hooks().reclaimer() else { return false };
    let (mut dirty, mut room) = (0u64, 0u64);
    let mut add = |zone: &Zone<'_>| {
        let files = owner.file_pages(zone.node(), zone.kind());
        dirty = dirty.saturating_add(files.dirty);
        room = room.saturating_add(zone.free_frames().saturating_sub(kept_back(zone)).saturating_add(files.all));
    };
    let percent = match inner.dirty_limit {
        DirtyLimit::Off => return false,
        DirtyLimit::Zones { percent } => {
            add(zone);
            percent
        }
        DirtyLimit::Nodes { percent } => {
            inner.zones_of(zone.node()).for_each(add);
            percent
        }
    };
    u128::from(dirty) * 100 > u128::from(room) * u128::from(percent)
}

/// Frames of a zone that requests for pages of files do not get: its high watermark, and the most that it keeps from
/// any (`totalreserve_pages`).
fn kept_back(zone: &Zone<'_>) -> u64 {
    let reserve = zone.lowmem_reserve().into_iter().max().unwrap_or(0);
    reserve.saturating_add(zone.watermarks().high).min(zone.managed())
}
