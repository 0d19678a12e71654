//! `MLOCKED` of pages that several areas may lock.

use pageblock_frame::{DescFlags, Descriptor, Pfn};
use pageblock_lru::{Lru, LruEvent, frames_of};

use crate::table::AddressSpace;

/// Sets the `MLOCKED` of a page, just cleared here, again if another area locks the page. True if so.
///
/// That area may be unlocked between the question and the flag, find the flag clear, and leave the page to us: so the
/// question is asked again. (Linux holds the page-table lock of the other mapping over question and flag.)
pub(crate) fn relock_if_shared<S: AddressSpace>(space: &S, lru: &Lru<'_>, pfn: Pfn, page: &Descriptor) -> bool {
    while space.locked_by_any(pfn) {
        relock(lru, page);
        if space.locked_by_any(pfn) {
            return true; // an unlock after this question finds the flag set
        }
        let before = page.clear_flags(DescFlags::MLOCKED);
        if before.contains(DescFlags::MLOCKED) {
            lru.counters().add_mlocked(-(frames_of(before) as i64));
            lru.counters().count(LruEvent::Munlocked, frames_of(before));
        }
    }
    false
}

/// Sets a page's `MLOCKED` and counts it, if it is not set.
pub(crate) fn relock(lru: &Lru<'_>, page: &Descriptor) -> bool {
    let before = page.set_flags(DescFlags::MLOCKED);
    if before.contains(DescFlags::MLOCKED) {
        return false;
    }
    lru.counters().add_mlocked(frames_of(before) as i64);
    lru.counters().count(LruEvent::Mlocked, frames_of(before));
    true
}
