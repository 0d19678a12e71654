//! Unlocking the pages of an area.

use pageblock_frame::{DescFlags, Pfn};
use pageblock_lru::{LruEvent, Lrus, frames_of};

use crate::context::Context;
use crate::span::Span;
use crate::table::AddressSpace;

/// Unlocks the pages that `span` maps; its areas are marked unlocked already. A page that another locked area maps
/// stays locked.
///
/// Absent and special entries are passed over, and so is a huge entry that reaches beyond `span`
/// ([`AddressSpace::mark`] splits those).
pub fn munlock_pages<S: AddressSpace, const N: usize>(space: &S, span: Span, context: &mut Context<'_, '_, N>) {
    #[cfg(feature = "history")]
    if !context.steps.runs {
        return crate::history::unlock(space, span, context);
    }
    crate::runs::munlock(space, span, context);
}

/// Clears the `MLOCKED` of a page that loses its last mapping in a locked area (exit, truncation): the caller holds a
/// reference. Mirrors `clear_page_mlock()` (3.12).
pub fn clear_mlocked(lrus: Lrus<'_, '_>, pfn: Pfn) {
    let Some(lru) = lrus.of(pfn) else { return };
    let (Some(index), Some(page)) = (lru.index_of(pfn), lru.page(pfn)) else { return };
    let before = page.clear_flags(DescFlags::MLOCKED);
    if !before.contains(DescFlags::MLOCKED) {
        return;
    }
    let frames = frames_of(before);
    lru.counters().add_mlocked(-(frames as i64));
    lru.counters().count(LruEvent::Cleared, frames);
    // Off its list it will find its place when it is put back.
    lru.hold().refresh(index);
}
