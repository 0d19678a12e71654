//! The owner of a frame, for code that wants it moved: the space's or the cache's.

use pageblock_frame::migration::{Migrate, MigrateMode, Move, MoveError, PutBack, Refusal};
use pageblock_frame::{Order, Pfn};

use crate::cache::CACHE;
use crate::space::SPACE;

/// All that can be moved.
pub struct Owners;

/// Owner of a frame that is lent, or about to be.
fn owner(pfn: Pfn) -> &'static dyn Migrate {
    if CACHE.owns(pfn) { &CACHE } else { &SPACE }
}

// SAFETY: every call goes to the cache or the space, which keep the promises for their own frames.
unsafe impl Migrate for Owners {
    fn isolate(&self, pfn: Pfn, order: Order, mode: MigrateMode) -> Result<(), Refusal> {
        owner(pfn).isolate(pfn, order, mode)
    }

    fn migrate(&self, from: Pfn, to: Pfn, order: Order, mode: MigrateMode) -> Result<(), MoveError> {
        owner(from).migrate(from, to, order, mode)
    }

    /// Frames of one owner go to it together: the space shoots translations down once for all.
    fn migrate_batch(&self, moves: &mut [Move], mode: MigrateMode) {
        for run in moves.chunk_by_mut(|a, b| CACHE.owns(a.from) == CACHE.owns(b.from)) {
            if let Some(first) = run.first() {
                owner(first.from).migrate_batch(run, mode);
            }
        }
    }

    fn put_back(&self, pfn: Pfn, order: Order) -> PutBack {
        owner(pfn).put_back(pfn, order)
    }
}
