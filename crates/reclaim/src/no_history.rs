//! The module `history` without the feature of that name: today's answer to each of its questions.

use pageblock_frame::ZoneKind;

use crate::config::ReclaimConfig;
use crate::zone::Marks;

impl ReclaimConfig {
    pub(crate) const fn by_zone(&self) -> bool {
        false
    }

    pub(crate) const fn limit_in_round(&self, _end: ZoneKind, requested: ZoneKind) -> ZoneKind {
        requested
    }

    pub(crate) const fn judged_limit(&self, requested: ZoneKind) -> ZoneKind {
        requested
    }

    pub(crate) const fn gap(&self, _marks: Marks, _managed: u64) -> u64 {
        0
    }

    pub(crate) const fn any_zone_is_enough(&self) -> bool {
        true
    }

    pub(crate) const fn tracks_unreclaimable(&self) -> bool {
        false
    }

    pub(crate) const fn compacts(&self) -> bool {
        false
    }

    pub(crate) const fn retries_for_ever(&self) -> bool {
        false
    }

    pub(crate) const fn retries_until_all_unreclaimable(&self) -> bool {
        false
    }
}
