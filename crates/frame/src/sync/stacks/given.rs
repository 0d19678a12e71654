//! How much a CPU has handed out: counted where it happens, read from anywhere.

use super::{CpuStacks, Ordering, View};
use crate::{CpuId, Platform};

impl<T> View<'_, T> {
    /// Counts frames that the owner hands out. Only the owner writes the count, so that it takes no read-modify-write that
    /// others could see.
    #[inline(always)]
    pub fn count_given(&self, frames: u64) {
        let given = &self.area().given;
        // Read again, so that the compiler makes one instruction of it.
        given.store(given.load(Ordering::Relaxed).wrapping_add(frames), Ordering::Relaxed);
    }
}

impl<T: Copy, P: Platform> CpuStacks<'_, T, P> {
    /// Frames that a CPU has handed out since boot, as they were a moment ago; 0 for one without an area.
    #[must_use]
    pub fn given(&self, cpu: CpuId) -> u64 {
        self.store.view(cpu.index()).map_or(0, |view| view.area().given.load(Ordering::Relaxed))
    }
}
