//! Poison on free, and its check on allocation (`page_poison`): a write to freed memory is found out.

use core::fmt;

use pageblock_frame::sync::{AtomicU64, Ordering};
use pageblock_frame::{Gfp, Order, Pfn, PfnRange, Platform, poison, poison_damage};

use crate::PageAllocator;

/// The count, and the first byte that was found; no address while the count is 0.
#[derive(Debug)]
pub(crate) struct Damage {
    blocks: AtomicU64,
    first: AtomicU64,
}

impl Damage {
    pageblock_frame::const_unless_model! {
        pub(crate) const fn new() -> Self {
            Self { blocks: AtomicU64::new(0), first: AtomicU64::new(u64::MAX) }
        }
    }
}

/// Free memory that was written to. Feature `poison`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PoisonDamage {
    /// Blocks in which it was found, when they were allocated the next time.
    pub blocks: u64,
    /// The physical address of the first word that was found.
    pub first: u64,
}

impl fmt::Display for PoisonDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} blocks were written to while they were free, the first at {:#x}", self.blocks, self.first)
    }
}

impl<P: Platform> PageAllocator<P> {
    /// Blocks that were written to while they were free, as far as they have been allocated since. A frame that was
    /// overwritten from its first byte to its last is not noticed.
    #[must_use]
    pub fn poison_damage(&self) -> Option<PoisonDamage> {
        let damage = &self.diagnosis.damage;
        let blocks = damage.blocks.load(Ordering::Relaxed);
        (blocks > 0).then(|| PoisonDamage { blocks, first: damage.first.load(Ordering::Relaxed) })
    }

    /// Fills a block with poison if the allocator, too, holds that it is the caller's.
    pub(super) fn poison(&self, pfn: Pfn, order: Order) {
        if P::HAS_MEMORY && self.order_of(pfn) == Some(order) {
            // SAFETY: the caller of the free says that nothing uses the block, and the state byte does not contradict.
            #[expect(unsafe_code, reason = "the frames of a block that is being freed")]
            unsafe {
                poison::<P>(PfnRange::from_len(pfn, order.frames()));
            }
        }
    }

    /// Counts a block with damaged poison. One that was asked for zeroed has been overwritten.
    pub(super) fn look_for_damage(&self, block: PfnRange, gfp: Gfp) {
        if !P::HAS_MEMORY || gfp.contains(Gfp::ZERO) {
            return;
        }
        // SAFETY: the block has just been taken, and nothing has a pointer into it yet.
        #[expect(unsafe_code, reason = "the allocator's own frames")]
        let found = unsafe { poison_damage::<P>(block) };
        let Some(offset) = found else { return };
        let damage = &self.diagnosis.damage;
        let first = block.start.phys() + offset;
        let _ = damage.first.compare_exchange(u64::MAX, first, Ordering::Relaxed, Ordering::Relaxed);
        damage.blocks.fetch_add(1, Ordering::Relaxed);
    }
}
