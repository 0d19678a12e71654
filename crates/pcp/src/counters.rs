//! What went through the lists and past them.

use pageblock_frame::sync::{AtomicU64, Ordering, SIGNAL_OFFLINE};
use pageblock_frame::{CpuId, Order, Platform};

use crate::lists::PcpLists;

/// Counts of the slow way: all CPUs together.
#[derive(Debug)]
pub(crate) struct Past {
    /// Frames that the zone gave, rather than a list.
    given: AtomicU64,
    /// Operations that found this CPU's lists in use.
    busy: AtomicU64,
}

impl Past {
    pub(crate) fn new() -> Self {
        Self { given: AtomicU64::new(0), busy: AtomicU64::new(0) }
    }

    pub(crate) fn count_given(&self, order: Order) {
        self.given.fetch_add(order.frames(), Ordering::Relaxed);
    }
}

impl<P: Platform> PcpLists<'_, P> {
    /// Frames that were handed out since boot, through the lists or past them.
    #[must_use]
    pub fn given(&self) -> u64 {
        let cpus = (0..self.cpus() as u32).map(CpuId::new);
        let listed = cpus.fold(0u64, |sum, cpu| sum.wrapping_add(self.stacks.given(cpu)));
        listed.wrapping_add(self.past.given.load(Ordering::Relaxed))
    }

    /// Operations that found this CPU's lists in use, and went to the zone instead: interrupts on top of an allocation or a
    /// free. Many of them would mean that the lists do not do their work.
    #[must_use]
    pub fn met_busy(&self) -> u64 {
        self.past.busy.load(Ordering::Relaxed)
    }

    /// The caller was not let in. Offline CPUs, and those without lists, are not busy.
    #[cold]
    pub(crate) fn note_busy(&self) {
        let cpu = Self::own_cpu();
        if self.stacks.signals(cpu).is_some_and(|signals| signals & SIGNAL_OFFLINE == 0) {
            self.past.busy.fetch_add(1, Ordering::Relaxed);
        }
    }
}
