//! The counters of `/proc/vmstat`.

use core::fmt;

use pageblock_compaction::CompactionVmStat as Compaction;
use pageblock_frame::sync::{AtomicU64, Ordering};
use pageblock_frame::{Order, Platform, ZoneKind};
use pageblock_pcp::PcpLists;
use pageblock_reclaim::ReclaimVmStat as Reclaim;

use crate::PageAllocator;
use crate::inner::Inner;

macro_rules! vmstat {
    ($($(#[$meta:meta])* $name:ident,)*) => {
        /// An allocator's counters since boot, with Linux's names where Linux counts the same. Displays as
        /// `/proc/vmstat` does, one name and number a line.
        ///
        /// ```
        /// # use pageblock::{Config, Gfp, Order, PageAllocator, Region};
        /// # use pageblock::hosted::Simulated;
        /// # let frames = PageAllocator::<Simulated>::new();
        /// # let storage = vec![core::mem::MaybeUninit::uninit(); 1 << 20].leak();
        /// # frames.init_simulated([Region::from((0, 64 << 20, true))], &Config::new(), storage).unwrap();
        /// let block = frames.alloc_order(Order::new(2).unwrap(), Gfp::KERNEL).unwrap();
        /// let vmstat = frames.vmstat();
        /// assert_eq!((vmstat.pgalloc_dma32, vmstat.pgfree), (4, 0));
        /// drop(block);
        /// assert_eq!(frames.vmstat().pgfree, 4);
        /// assert!(frames.vmstat().to_string().contains("pgalloc_dma32 4\n"));
        /// ```
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[non_exhaustive]
        pub struct VmStat {
            $($(#[$meta])* pub $name: u64,)*
        }

        impl VmStat {
            /// Names and numbers, in the order of the file.
            #[must_use]
            pub const fn rows(&self) -> [(&'static str, u64); { [$(stringify!($name)),*].len() }] {
                [$((stringify!($name), self.$name)),*]
            }

            /// The difference since `before`, which was read earlier; `nr_` rows, which are no counters, stay as they
            /// are.
            #[must_use]
            pub fn since(&self, before: &Self) -> Self {
                let less = |name: &str, now: u64, then: u64| {
                    if name.starts_with("nr_") { now } else { now.wrapping_sub(then) }
                };
                Self { $($name: less(stringify!($name), self.$name, before.$name),)* }
            }
        }
    };
}

vmstat! {
    /// Free frames, without those on per-CPU lists.
    nr_free_pages,
    /// Of these, frames of CMA pageblocks.
    nr_free_cma,
    /// Frames on per-CPU lists (not in Linux).
    nr_pcp_pages,
    /// Frames handed out from DMA zones.
    pgalloc_dma,
    /// Frames handed out from DMA32 zones.
    pgalloc_dma32,
    /// Frames handed out from Normal zones.
    pgalloc_normal,
    /// Frames handed out from Movable zones.
    pgalloc_movable,
    /// Requests limited to DMA that began to reclaim for themselves.
    allocstall_dma,
    /// The same limited to DMA32.
    allocstall_dma32,
    /// The same limited to Normal.
    allocstall_normal,
    /// The same that could use every zone.
    allocstall_movable,
    /// Frames that came back: those handed out less those held now, which is exact while nothing is being moved.
    pgfree,
    /// Frames that kswapd freed.
    pgsteal_kswapd,
    /// Frames that requests freed for themselves.
    pgsteal_direct,
    /// Frames that kswapd looked at.
    pgscan_kswapd,
    /// Frames that requests looked at.
    pgscan_direct,
    /// Requests that waited for kswapd because the reserve was nearly used up.
    pgscan_direct_throttle,
    /// Naps of kswapd that a request cut short.
    kswapd_low_wmark_hit_quickly,
    /// Naps of kswapd after which a node was out of balance again.
    kswapd_high_wmark_hit_quickly,
    /// Runs of kswapd.
    pageoutrun,
    /// Times that an owner gave up something large as the last resort.
    oom_kill,
    /// Requests that waited rather than mix migrate types (*Fragmentation avoidance and stalls*, patch 4; never merged;
    /// counted with the feature `history`).
    fragment_stall,
    /// Frames moved by compaction.
    pgmigrate_success,
    /// Frames that were lent to compaction and not moved.
    pgmigrate_fail,
    /// Frames that migrate scanners looked at.
    compact_migrate_scanned,
    /// Frames that free scanners looked at.
    compact_free_scanned,
    /// Frames that both took out.
    compact_isolated,
    /// Requests that compacted for themselves.
    compact_stall,
    /// Of these, those that got no block.
    compact_fail,
    /// Of these, those that got one.
    compact_success,
    /// Times that kcompactd set to work.
    compact_daemon_wake,
    /// Frames that its migrate scanner looked at.
    compact_daemon_migrate_scanned,
    /// Frames that its free scanner looked at.
    compact_daemon_free_scanned,
    /// Requests served from a pageblock of another type (`mm_page_alloc_extfrag` events; no counter in Linux).
    extfrag,
    /// Of these, those that mixed types within a pageblock.
    extfrag_fragmenting,
    /// Of these, those from a free block of up to the costly order.
    extfrag_severe,
    /// Times that watermarks were boosted (no counter in Linux).
    watermark_boost,
    /// Times that per-CPU lists were emptied because a request, compaction or an isolation needed their blocks
    /// (no counter in Linux).
    pcp_drain,
    /// Operations that found this CPU's lists in use and went past them: interrupts on top of others (no counter in
    /// Linux).
    pcp_busy,
    /// Requests that were refused because they came from within reclaim (no counter in Linux).
    reclaim_recursion,
}

impl fmt::Display for VmStat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rows().iter().try_for_each(|(name, number)| writeln!(f, "{name} {number}"))
    }
}

impl VmStat {
    fn of<P: Platform>(inner: &Inner<P>, held: u64) -> Self {
        let mut stat = Self { ..Self::default() };
        let [dma, dma32, normal, movable] = ZoneKind::ALL.map(|kind| inner.given(kind));
        (stat.pgalloc_dma, stat.pgalloc_dma32, stat.pgalloc_normal, stat.pgalloc_movable) =
            (dma, dma32, normal, movable);
        stat.pgfree = [dma, dma32, normal, movable].iter().fold(0, |sum: u64, n| sum.wrapping_add(*n));
        stat.pgfree = stat.pgfree.saturating_sub(held);
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &inner.counters;
        [stat.allocstall_dma, stat.allocstall_dma32, stat.allocstall_normal, stat.allocstall_movable] =
            counters.allocstall.each_ref().map(load);
        (stat.oom_kill, stat.pcp_drain, stat.reclaim_recursion) =
            (load(&counters.oom_kill), load(&counters.drains), load(&counters.recursions));
        for zone in inner.zones {
            stat.nr_free_pages += zone.free_frames();
            stat.nr_free_cma += zone.free_cma();
        }
        for lists in inner.lists() {
            stat.nr_pcp_pages += PcpLists::frames(lists);
            stat.pcp_busy += lists.met_busy();
        }
        stat.fragment_stall = inner.history.stall_count();
        stat
    }

    const fn add_reclaim(&mut self, sum: &Reclaim) {
        self.pgsteal_kswapd = sum.steal_kswapd;
        self.pgsteal_direct = sum.steal_direct;
        self.pgscan_kswapd = sum.scan_kswapd;
        self.pgscan_direct = sum.scan_direct;
        self.pgscan_direct_throttle = sum.throttled;
        self.kswapd_low_wmark_hit_quickly = sum.low_hit_quickly;
        self.kswapd_high_wmark_hit_quickly = sum.high_hit_quickly;
        self.pageoutrun = sum.pageoutrun;
    }

    const fn add_compaction(&mut self, sum: &Compaction) {
        self.pgmigrate_success = sum.migrate_success;
        self.pgmigrate_fail = sum.migrate_fail;
        self.compact_migrate_scanned = sum.migrate_scanned;
        self.compact_free_scanned = sum.free_scanned;
        self.compact_isolated = sum.isolated;
        self.compact_stall = sum.stall;
        self.compact_fail = sum.fail;
        self.compact_success = sum.success;
        self.compact_daemon_wake = sum.daemon_wake;
        self.compact_daemon_migrate_scanned = sum.daemon_migrate_scanned;
        self.compact_daemon_free_scanned = sum.daemon_free_scanned;
    }
}

impl<P: Platform> PageAllocator<P> {
    /// The counters since boot; all zeroes before initialisation. Takes each zone lock for a moment.
    #[must_use]
    pub fn vmstat(&self) -> VmStat {
        let Ok(inner) = self.inner() else { return VmStat::default() };
        let stats = self.stats();
        let mut stat = VmStat::of(inner, stats.managed.saturating_sub(stats.free));
        let mut reclaim = Reclaim::default();
        inner.kswapds.iter().for_each(|kswapd| reclaim.add(&kswapd.vmstat()));
        stat.add_reclaim(&reclaim);
        let mut compaction = Compaction::default();
        inner.compactors.iter().for_each(|compactor| compaction.add(&compactor.vmstat()));
        stat.add_compaction(&compaction);
        let events = self.events();
        stat.extfrag = events.fallbacks.iter().fold(0, |sum, n| sum.wrapping_add(*n));
        stat.extfrag_fragmenting = events.fragmenting();
        stat.extfrag_severe = events.below(Order::saturating(pageblock_frame::COSTLY_ORDER.as_u8() + 1));
        stat.watermark_boost = events.boosts;
        stat
    }
}
