//! Owners of memory that can be given up: [`Cache`] frees as many frames as asked, and breaks its word where it is told
//! to.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use pageblock_frame::reclaim::{Reclaim, Shrink, Shrunk};
use pageblock_frame::{Gfp, NodeId, Order, Pfn, ZoneKind};

/// Faults of an owner, or at the wrong time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// None: it frees as many frames as asked, of those it has.
    None,
    /// Frees nothing, and says so.
    Nothing,
    /// Frees everything.
    Everything,
    /// Frees nothing, and says that it freed much.
    Boast,
    /// Frees, and says that it freed nothing.
    Modest,
    /// Says that it looked at, and freed, all that numbers can say.
    Absurd,
    /// Allocates in the middle, without saying that it may use the reserve.
    Reenter,
    /// Is told to end.
    Die,
}

impl Fault {
    /// Every fault.
    pub const ALL: &[Self] = &[
        Self::None,
        Self::Nothing,
        Self::Everything,
        Self::Boast,
        Self::Modest,
        Self::Absurd,
        Self::Reenter,
        Self::Die,
    ];
}

/// How often the owner was called.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Calls {
    /// [`Reclaim::shrink`].
    pub shrink: u64,
    /// [`Reclaim::out_of_memory`].
    pub out_of_memory: u64,
    /// Calls of [`Reclaim::shrink`] from within another.
    pub nested: u64,
}

/// The owner's use of the allocator.
pub trait Allocator: Send + Sync {
    /// Takes a frame back.
    fn free(&self, pfn: Pfn);

    /// Allocates in the middle of reclaim, and gives it back.
    fn reenter(&self);
}

/// A cache of frames, oldest first, that gives them up.
///
/// ```
/// use pageblock_frame::reclaim::{Reclaim, Shrink};
/// use pageblock_frame::{Gfp, NodeId, Pfn, ZoneKind};
/// use pageblock_testkit::caches::{Allocator, Cache};
/// struct Nowhere;
/// impl Allocator for Nowhere {
///     fn free(&self, _: Pfn) {}
///     fn reenter(&self) {}
/// }
/// let cache = Cache::new(vec![]);
/// cache.over(Nowhere);
/// (0..100).for_each(|n| cache.keep(Pfn::new(n)));
/// let round = Shrink::direct(NodeId::new(0), ZoneKind::Normal, Gfp::KERNEL);
/// assert_eq!((cache.shrink(&round).freed, cache.len()), (32, 68));
/// ```
#[derive(Default)]
pub struct Cache {
    pages: Mutex<VecDeque<Pfn>>,
    script: Mutex<Vec<Fault>>,
    calls: Mutex<Calls>,
    inside: Mutex<u64>,
    /// Frames that the last resort gives up.
    hoard: Mutex<Vec<Pfn>>,
    dying: Mutex<bool>,
    allocator: OnceLock<Box<dyn Allocator>>,
}

impl core::fmt::Debug for Cache {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Cache").field("pages", &self.len()).field("calls", &self.calls()).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cache {
    /// An empty cache that breaks its word as scripted, one fault a call from the end, and is honest when the script
    /// has ended.
    #[must_use]
    pub fn new(script: Vec<Fault>) -> Self {
        Self { script: Mutex::new(script), ..Self::default() }
    }

    /// Where frames go and come from. Once.
    pub fn over(&self, allocator: impl Allocator + 'static) {
        let _ = self.allocator.set(Box::new(allocator));
    }

    /// Takes a frame over.
    pub fn keep(&self, pfn: Pfn) {
        lock(&self.pages).push_back(pfn);
    }

    /// Takes a frame over that only the last resort gives up.
    pub fn hoard(&self, pfn: Pfn) {
        lock(&self.hoard).push(pfn);
    }

    /// Frames kept, hoarded ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        lock(&self.pages).len() + lock(&self.hoard).len()
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives a frame up for the caller to free.
    pub fn pop(&self) -> Option<Pfn> {
        lock(&self.pages).pop_front()
    }

    /// How often it was called.
    #[must_use]
    pub fn calls(&self) -> Calls {
        *lock(&self.calls)
    }

    fn free(&self, frames: usize) -> u64 {
        let mut freed = 0;
        // No lock is held while the allocator works: it may call back.
        while freed < frames
            && let Some(pfn) = self.pop()
        {
            if let Some(allocator) = self.allocator.get() {
                allocator.free(pfn);
            }
            freed += 1;
        }
        freed as u64
    }

    fn follow(&self, fault: Fault, wanted: usize) -> Shrunk {
        let honest = |freed| Shrunk { scanned: freed, freed };
        match fault {
            Fault::None => honest(self.free(wanted)),
            Fault::Nothing => Shrunk { scanned: 32, freed: 0 },
            Fault::Everything => honest(self.free(usize::MAX)),
            Fault::Boast => Shrunk { scanned: 1000, freed: 1000 },
            Fault::Modest => {
                self.free(wanted);
                Shrunk::default()
            }
            Fault::Absurd => Shrunk { scanned: u64::MAX, freed: u64::MAX },
            Fault::Reenter => {
                if let Some(allocator) = self.allocator.get() {
                    allocator.reenter();
                }
                honest(self.free(wanted))
            }
            Fault::Die => {
                *lock(&self.dying) = true;
                Shrunk::default()
            }
        }
    }
}

impl Reclaim for Cache {
    fn shrink(&self, round: &Shrink) -> Shrunk {
        *lock(&self.inside) += 1;
        {
            let mut calls = lock(&self.calls);
            calls.shrink += 1;
            calls.nested += u64::from(*lock(&self.inside) > 1);
        }
        let fault = lock(&self.script).pop().unwrap_or(Fault::None);
        let shrunk = self.follow(fault, round.frames.min(1 << 20) as usize);
        *lock(&self.inside) -= 1;
        shrunk
    }

    fn reclaimable(&self, _node: NodeId, _zone: ZoneKind) -> u64 {
        lock(&self.pages).len() as u64
    }

    fn out_of_memory(&self, _order: Order, _limit: ZoneKind, _gfp: Gfp) -> bool {
        lock(&self.calls).out_of_memory += 1;
        let hoard = core::mem::take(&mut *lock(&self.hoard));
        let any = !hoard.is_empty();
        for pfn in hoard {
            if let Some(allocator) = self.allocator.get() {
                allocator.free(pfn);
            }
        }
        any
    }

    fn is_dying(&self) -> bool {
        core::mem::take(&mut *lock(&self.dying))
    }
}
