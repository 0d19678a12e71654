//! Every CPU's pagevecs.

use core::fmt;

use pageblock_frame::sync::{Lock, Pinned};
use pageblock_frame::{Pfn, Platform};

use crate::pagevec::Pagevecs;
use crate::set::Lrus;

/// The pagevecs of all CPUs, in storage that the kernel gives: one element a CPU.
///
/// A CPU's lock is taken by that CPU, and by others only to drain it, so it is hardly ever waited for.
///
/// ```
/// # use core::ptr::NonNull;
/// # use pageblock_frame::{Descriptor, Pfn, Platform};
/// # struct Kernel;
/// # // SAFETY: one CPU, no interrupts; nothing is mapped, and nothing is asked to be.
/// # unsafe impl Platform for Kernel {
/// #     const MAX_CPUS: usize = 1;
/// #     fn phys_to_virt(_pa: u64) -> NonNull<u8> { NonNull::dangling() }
/// # }
/// use pageblock_frame::sync::{Lock, Pinned};
/// use pageblock_lru::{Batch, Lru, LruList, Lrus, Pagevecs, PerCpu};
/// let table = [const { Descriptor::new() }; 4];
/// table[0].store_refs(1);
/// let sets = [Lru::new(Pfn::new(0), &table)];
/// let lrus = Lrus::new(&sets).unwrap();
/// let storage = [Lock::new(Pagevecs::<15>::new())];
/// let cpus = PerCpu::new(&storage);
/// cpus.with::<Kernel, _>(|vecs| vecs.push(Batch::Add, Pfn::new(0), lrus, &mut |_| ()));
/// cpus.drain_all(lrus, &mut |_| ());
/// assert_eq!(sets[0].frames(LruList::InactiveAnon), 1);
/// ```
#[derive(Clone, Copy)]
pub struct PerCpu<'a, const N: usize = 15> {
    cpus: &'a [Lock<Pagevecs<N>>],
}

impl<const N: usize> fmt::Debug for PerCpu<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerCpu").field("cpus", &self.cpus.len()).finish()
    }
}

impl<'a, const N: usize> PerCpu<'a, N> {
    /// Over this storage: element `i` is CPU `i`'s.
    #[must_use]
    pub const fn new(cpus: &'a [Lock<Pagevecs<N>>]) -> Self {
        Self { cpus }
    }

    /// Runs `work` with this CPU's pagevecs, pinned to the CPU. `None` if the storage has no element for it.
    pub fn with<P: Platform, R>(self, work: impl FnOnce(&mut Pagevecs<N>) -> R) -> Option<R> {
        let pinned = Pinned::<P>::new();
        self.cpus.get(pinned.cpu().index()).map(|vecs| work(&mut vecs.lock()))
    }

    /// Empties the pagevecs of every CPU. Mirrors `lru_add_drain_all()`.
    pub fn drain_all(self, lrus: Lrus<'_, '_>, free: &mut impl FnMut(Pfn)) {
        for vecs in self.cpus {
            vecs.lock().drain(lrus, free);
        }
    }
}
