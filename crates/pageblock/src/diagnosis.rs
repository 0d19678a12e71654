//! Work of the features `page_owner` and `poison` on each block that is handed out or taken back. Without them: none.

use pageblock_frame::{Gfp, Order, Pfn, PfnRange, Platform};

use crate::PageAllocator;

#[cfg(feature = "poison")]
mod poison;
#[cfg(feature = "poison")]
pub use poison::PoisonDamage;

/// Memory of the features about an allocator.
#[cfg(any(feature = "page_owner", feature = "poison"))]
#[derive(Debug)]
pub(crate) struct Diagnosis {
    #[cfg(feature = "page_owner")]
    pub(crate) tracking: crate::page_owner::Tracking,
    #[cfg(feature = "poison")]
    pub(crate) damage: poison::Damage,
}

#[cfg(any(feature = "page_owner", feature = "poison"))]
impl Diagnosis {
    pageblock_frame::const_unless_model! {
        pub(crate) const fn new() -> Self {
            Self {
                #[cfg(feature = "page_owner")]
                tracking: crate::page_owner::Tracking::new(),
                #[cfg(feature = "poison")]
                damage: poison::Damage::new(),
            }
        }
    }
}

impl<P: Platform> PageAllocator<P> {
    /// A block has been taken for a caller, and is about to be handed out.
    #[cfg_attr(feature = "page_owner", track_caller)]
    #[inline(always)]
    #[cfg_attr(not(feature = "poison"), expect(unused_variables, reason = "no feature asks"))]
    pub(crate) fn taken(&self, pfn: Pfn, order: Order, gfp: Gfp) {
        #[cfg(feature = "page_owner")]
        self.diagnosis.tracking.note::<P>(pfn);
        #[cfg(feature = "poison")]
        self.look_for_damage(PfnRange::from_len(pfn, order.frames()), gfp);
    }

    /// A run has been taken, in whatever blocks.
    #[cfg_attr(feature = "page_owner", track_caller)]
    #[inline(always)]
    #[cfg_attr(not(feature = "page_owner"), expect(unused_variables, reason = "no feature asks"))]
    pub(crate) fn taken_run(&self, run: PfnRange) {
        #[cfg(feature = "page_owner")]
        {
            self.diagnosis.tracking.note::<P>(run.start);
            self.diagnosis.tracking.copy(run.start, run);
        }
    }

    /// A block is about to be freed by a caller that says that it owns it.
    #[inline(always)]
    #[cfg_attr(not(feature = "poison"), expect(unused_variables, reason = "no feature asks"))]
    pub(crate) fn leaving(&self, pfn: Pfn, order: Order) {
        #[cfg(feature = "poison")]
        self.poison(pfn, order);
    }
}
