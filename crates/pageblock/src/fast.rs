//! The shortest way to a per-CPU list: references that need no search.

use core::fmt;

use pageblock_frame::sync::OnceRef;
use pageblock_frame::{Gfp, Order, Pfn, Platform, const_unless_model};
use pageblock_pcp::{BlockKind, PcpLists, PcpRef};

use crate::inner::{Inner, PLACE_BITS};

/// Number of values of the flags that decide the zone.
const PLACES: usize = PLACE_BITS as usize + 1;

/// Where most requests and most frees end up, set once at boot.
///
/// | field | legal values |
/// |---|---|
/// | `alloc` | for each value of the flags that decide the zone the lists of the zone that is tried first; none before boot, for flags that make no sense, on machines of several nodes, where that depends on the CPU, and under the fair-zone policy |
/// | `free`, `lists` | the largest zone's lists |
pub(crate) struct FastPaths<P: Platform> {
    alloc: [PcpRef<P>; PLACES],
    free: PcpRef<P>,
    lists: OnceRef<PcpLists<'static, P>>,
}

impl<P: Platform> fmt::Debug for FastPaths<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FastPaths").field("free", &self.free).finish_non_exhaustive()
    }
}

impl<P: Platform> FastPaths<P> {
    const_unless_model! {
        pub(crate) const fn new() -> Self {
            Self {
                #[cfg(not(loom))]
                alloc: [const { PcpRef::new() }; PLACES],
                #[cfg(loom)]
                alloc: core::array::from_fn(|_| PcpRef::new()),
                free: PcpRef::new(),
                lists: OnceRef::new(),
            }
        }
    }

    /// Once, at boot.
    pub(crate) fn set(&self, inner: &'static Inner<P>) {
        if let Some(largest) = inner.spans.first()
            && let Some(zone) = inner.zone(largest.zone)
            && let Some(lists) = inner.lists_of(zone)
        {
            // The caller does this once, so that nothing was there before.
            let _ = self.lists.set(lists);
            self.free.set_for_words(lists);
        }
        if inner.history.zones_take_turns() {
            // Every request asks which zone's turn it is, and is charged.
            return;
        }
        let [node] = inner.nodes else { return };
        for (bits, place) in self.alloc.iter().enumerate() {
            let preferred = node.preferred(Gfp::from_bits_retain(bits as u32));
            if let Some(lists) = inner.lists().get(usize::from(preferred)) {
                match self.lists.get() {
                    Some(largest) if core::ptr::eq(largest, lists) => place.set_for_words(lists),
                    _ => place.set(lists),
                }
            }
        }
    }

    /// From the list of this CPU. Watermarks do not matter to blocks that have left the zone already.
    #[inline(always)]
    pub(crate) fn alloc(&self, order: Order, gfp: Gfp) -> Option<Pfn> {
        if !P::PER_CPU_LISTS {
            return None;
        }
        self.alloc[(gfp.bits() & PLACE_BITS) as usize].alloc(order, gfp.migrate_type())
    }

    /// To the list of this CPU. False, with nothing changed, if there is more to it.
    ///
    /// # Safety
    /// As [`PcpLists::free`].
    #[expect(unsafe_code, reason = "the caller's word that it holds the block")]
    #[inline(always)]
    pub(crate) unsafe fn free(&self, pfn: Pfn, order: Order) -> bool {
        // SAFETY: the caller's promise is passed on; `lists` was set together with `free`.
        P::PER_CPU_LISTS && unsafe { self.free.free(pfn, order, || self.lists.get()) }
    }

    /// The same for a block of known kind.
    ///
    /// # Safety
    /// As [`PcpLists::free`].
    #[expect(unsafe_code, reason = "the caller's word that it holds the block")]
    #[inline(always)]
    pub(crate) unsafe fn free_kind(&self, pfn: Pfn, kind: BlockKind) -> bool {
        // SAFETY: as above.
        P::PER_CPU_LISTS && unsafe { self.free.free_kind(pfn, kind, || self.lists.get()) }
    }
}
