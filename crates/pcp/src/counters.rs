//! Traffic through the lists and past them.

use pageblock_frame::sync::{AtomicU64, Ordering};
use pageblock_frame::{CpuId, Order, Platform};

use crate::lists::PcpLists;

/// Counts of the slow way: all CPUs together.
#[derive(Debug)]
pub(crate) struct BypassCounters {
    /// Frames that the zone gave, rather than a list.
    given: AtomicU64,
    /// Operations that found this CPU's lists in use.
    busy: AtomicU64,
}

impl BypassCounters {
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
        let listed = cpus.fold(0u64, |sum, cpu| sum.wrapping_add(self.areas.popped_frames(cpu)));
        listed.wrapping_add(self.bypass.given.load(Ordering::Relaxed))
    }

    /// Operations that found this CPU's lists in use, and went to the zone instead: interrupts on top of an allocation
    /// or a free. Many of them would mean that the lists do not do their work.
    ///
    /// ```
    /// # use core::{mem::MaybeUninit, ptr::NonNull};
    /// # use pageblock_buddy::{Zone, ZoneConfig, ZoneStorage};
    /// # use pageblock_frame::{AllocFlags, Carver, MigrateType, NodeId, Order, Pfn, PfnRange, ZoneKind};
    /// # use pageblock_pcp::{PcpConfig, PcpLists};
    /// # struct Host;
    /// # // SAFETY: one CPU, one thread, no memory asked for.
    /// # unsafe impl pageblock_frame::Platform for Host {
    /// #     const MAX_CPUS: usize = 1;
    /// #     fn phys_to_virt(_: u64) -> NonNull<u8> { NonNull::dangling() }
    /// # }
    /// # let span = PfnRange::new(Pfn::new(0), Pfn::new(1 << 16));
    /// # let mut raw = vec![MaybeUninit::uninit(); ZoneStorage::bytes(span, Order::MAX)];
    /// # let storage = ZoneStorage::carve(span, Order::MAX, &mut Carver::new(&mut raw)).unwrap();
    /// # let zone = Zone::new::<Host>(ZoneConfig::new(ZoneKind::Normal, NodeId::new(0), span), storage).unwrap();
    /// # // SAFETY: there is no memory behind the numbers.
    /// # unsafe { zone.release(span) }.unwrap();
    /// # let config = PcpConfig::default();
    /// # let mut raw = vec![MaybeUninit::uninit(); PcpLists::<Host>::bytes(&config, span, 1)];
    /// # let lists = PcpLists::<Host>::carve(config, &zone, 1, &mut Carver::new(&mut raw)).unwrap();
    /// let take = || lists.alloc_slow(Order::ZERO, MigrateType::Movable, AllocFlags::empty()).unwrap();
    /// let interrupted = lists.enter(); // in the middle of an operation
    /// let pfn = take();
    /// assert_eq!((lists.met_busy(), lists.frames()), (1, 0)); // from the zone
    /// // SAFETY: the block was allocated above, and nothing uses it.
    /// assert_eq!(unsafe { lists.free(pfn, Order::ZERO) }, Ok(()));
    /// assert_eq!((lists.met_busy(), lists.given()), (2, 1));
    /// drop(interrupted);
    /// take();
    /// assert_eq!((lists.met_busy(), lists.given()), (2, 2)); // through the list
    /// ```
    #[must_use]
    pub fn met_busy(&self) -> u64 {
        self.bypass.busy.load(Ordering::Relaxed)
    }

    /// The caller was not let in. Offline CPUs, and those without lists, are not busy.
    #[cold]
    pub(crate) fn count_busy(&self) {
        let cpu = Self::own_cpu();
        if self.areas.signals(cpu).is_some_and(|signals| !signals.is_offline()) {
            self.bypass.busy.fetch_add(1, Ordering::Relaxed);
        }
    }
}
