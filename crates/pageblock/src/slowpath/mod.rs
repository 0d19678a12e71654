//! When the first attempt fails: a ladder of measures, one function a rung.
//!
//! ```text
//! wake_threads       background reclaim and compaction are told, on every node of the zonelist
//! first_attempt      again, down to the min watermark and the reserves that the flags open
//! drain_own_lists    the free blocks that this CPU keeps to itself go back, and again
//! whole_pageblock    memory is moved until a pageblock is free, for a type that cannot move and has nothing left
//! mix_if_plenty      again with mixing migrate types, where memory is not short
//! compact            memory is moved until there is a block
//! without_watermarks again with everything, for callers that free memory by using it (MEMALLOC)
//! cannot_wait        a caller that may not wait gives up here
//! cannot_reclaim     a caller in the middle of reclaim gives up here
//! reclaim            owners give memory up
//! drain_all_lists    the free blocks that the other CPUs keep go back, too
//! may_mix            again with mixing migrate types, for requests that refrained from it so far
//! unreserve          a pageblock of the high-order atomic reserve is given to the rest, and again
//! out_of_memory      owners give up something large
//! must_not_fail      again with half of the min reserve (NOFAIL)
//! at_last            again, whatever that mixes, and with the watermarks' boost
//! ```
//!
//! The order of the rungs: `linux_6_1.rs` reads as `__alloc_pages_slowpath()` of its time (and, with the feature
//! `history`,
//! `history/linux_3_13.rs`); `alone.rs` is the rest of them on a platform where no hook moves memory or gives
//! it up, and then the rest is not linked.
//!
//! # Invariants
//! 1. No lock is held and interrupts are as the caller had them when a migrator is called.
//! 2. A request without [`Gfp::DIRECT_RECLAIM`], or with [`Gfp::MEMALLOC`], calls none.
//! 3. Each rung makes a bounded number of calls, and each ladder a bounded number of rounds.

mod alone;
mod attempts;
mod compact;
#[cfg(feature = "history")]
#[path = "../history/linux_3_13.rs"]
mod linux_3_13;
mod linux_6_1;
mod lists;
mod oom;
mod reclaim;
mod retry;
mod scope;
mod wake;
mod whole;

use core::ops::ControlFlow;

use pageblock_compaction::Priority;
use pageblock_frame::trace::CompactResult;
use pageblock_frame::{AllocFlags, COSTLY_ORDER, Gfp, Hooks, Pfn, Platform};

use crate::error::AllocError;
use crate::request::Request;
use reclaim::Reclaimed;

pub(crate) use lists::{LastDrain, SPINS, drain_lists, drain_zones, is_refused_again};
pub(crate) use scope::{Depth, ReclaimScope};
pub(crate) use wake::wake_kswapd;

/// Result of a rung: `Break` with the block, or with the reason why there is none; `Continue` with the next rung.
type Step = ControlFlow<Result<Pfn, AllocError>>;

/// The block, or the next rung.
fn got(pfn: Option<Pfn>) -> Step {
    pfn.map_or(Step::Continue(()), |pfn| Step::Break(Ok(pfn)))
}

/// There will be no block.
const fn give_up(error: AllocError) -> Step {
    Step::Break(Err(error))
}

/// A request on the ladder.
#[derive(Debug)]
struct Climb<P: Platform> {
    request: Request<P>,
    /// How determined the next compaction is.
    priority: Priority,
    /// Result of the last one.
    compacted: CompactResult,
    /// Successful compactions without a block in the end.
    compactions: u32,
    /// Result of direct reclaim for it so far.
    reclaim: Reclaimed,
    /// Times that the last resort was asked for, or hoped for.
    emergencies: u32,
    /// Reclaim and compaction were tried, so that mixing migrate types is allowed. Only ever set, by
    /// [`may_mix`](attempts::may_mix).
    mixes: bool,
}

/// Rounds that a request makes at most, whatever it is told of progress.
const MOST_ROUNDS: u32 = 256;

impl<P: Platform> Climb<P> {
    /// Permissions of an attempt on the ladder.
    fn flags(&self) -> AllocFlags {
        let flags = self.request.slow_flags();
        if self.mixes { flags.difference(AllocFlags::NOFRAGMENT) } else { flags }
    }

    /// The request still avoids mixing migrate types.
    fn refrains(&self) -> bool {
        self.request.avoids_mixing() && !self.mixes
    }

    const fn has(&self, flags: Gfp) -> bool {
        self.request.gfp.contains(flags)
    }

    /// Memory may be moved for the request: blocks in the way may have to be written first.
    const fn may_compact(&self) -> bool {
        self.has(self.request.inner.history.compaction_needs())
    }

    fn is_costly(&self) -> bool {
        self.request.order > COSTLY_ORDER
    }
}

/// True where nothing moves memory or gives it up: all that can be had is there already.
fn nothing_else_helps<P: Platform>() -> bool {
    P::hooks().migrator().is_none() && P::hooks().reclaimer().is_none()
}

/// Climbs until a rung has the block, or says that there will be none.
#[cold]
pub(crate) fn climb<P: Platform>(request: &Request<P>) -> Result<Pfn, AllocError> {
    let mut request = *request;
    if request.gfp.contains(Gfp::ATOMIC_BIT | Gfp::DIRECT_RECLAIM) {
        // A contradiction: a caller that may reclaim can wait.
        request.gfp.remove(Gfp::ATOMIC_BIT);
    }
    let mut climb = Climb {
        request,
        priority: Priority::SyncLight,
        compacted: CompactResult::Skipped,
        compactions: 0,
        reclaim: Reclaimed::default(),
        emergencies: 0,
        mixes: false,
    };
    let error = match ladder(&mut climb) {
        Step::Break(Ok(pfn)) => return Ok(pfn),
        Step::Break(Err(error)) => error,
        Step::Continue(()) => AllocError::OutOfMemory,
    };
    climb.request.at_last().ok_or(error)
}

/// The rungs in their order.
fn ladder<P: Platform>(climb: &mut Climb<P>) -> Step {
    if nothing_else_helps::<P>() {
        return alone::climb(climb);
    }
    #[cfg(feature = "history")]
    if climb.request.inner.history.old_slow_path() {
        return linux_3_13::climb(climb);
    }
    linux_6_1::climb(climb)
}
