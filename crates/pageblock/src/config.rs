//! What an allocator is told at boot, as one value.

use core::ops::Range;

use pageblock_buddy::{BoostRule, Distances, FairPolicy, Policy, Reserves, WatermarkRule};
use pageblock_compaction::Config as CompactionConfig;
use pageblock_frame::{Order, PAGEBLOCK_ORDER, ZoneKind};
use pageblock_memmap::{PhysRange, ZoneLimits};
use pageblock_pcp::PcpConfig;
use pageblock_reclaim::Config as ReclaimConfig;

use crate::dirty::DirtyLimit;
use crate::error::ConfigError;

/// Most ranges that [`Config::reserve`] takes.
pub const MAX_RESERVATIONS: usize = 32;

/// Whether requests go to another zone rather than mix migrate types in a pageblock.
///
/// ```
/// use pageblock::{Config, ZoneSpreading};
/// let config = Config::linux_6_1();
/// assert_eq!(config.spreading(ZoneSpreading::On), config);
/// assert_ne!(Config::new().spreading(ZoneSpreading::On), Config::new());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ZoneSpreading {
    /// The first attempt steals whole pageblocks at most, and tries lower zones of the node before it mixes
    /// (`ALLOC_NOFRAGMENT`, Linux 5.0).
    On,
    /// The same in every attempt, until reclaim and compaction have been tried once; nodes further away come before mixing, too
    /// (`vm.defrag_mode`, Linux 6.15). On a platform that can neither reclaim nor compact this is [`On`](Self::On).
    Throughout,
    /// The first zone above its watermark serves, whatever that mixes.
    Off,
}

/// The order in which a request takes its measures when the first attempt fails.
///
/// ```
/// use pageblock::{Config, SlowPath};
/// assert_eq!(Config::new().slow_path(SlowPath::Linux3_13).slow_path(SlowPath::Linux6_1), Config::new());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlowPath {
    /// Compaction asynchronously before everything else, for every high order; then reclaim; then, for orders that are not costly,
    /// again and again; compaction synchronously at last. A request without [`Gfp::KSWAPD_RECLAIM`](crate::Gfp) gives up as
    /// soon as compaction is deferred or contended (the huge pages of that time).
    Linux3_13,
    /// Compaction first only where reclaim would be of little use; then rounds of reclaim and compaction, the latter with
    /// rising determination, for as long as either promises something.
    Linux6_1,
}

/// How the allocator is to behave. A `const` builder: every method returns the changed configuration; nothing is
/// checked before [`PageAllocator::init`](crate::PageAllocator::init), which refuses values out of range by name.
///
/// ```
/// use pageblock::Config;
/// use pageblock_memmap::ZoneLimits;
/// const CONFIG: Config = Config::new()
///     .reserve(0x10_0000..0x38_0000) // the kernel image
///     .reserve_low(0x10_0000)
///     .zones(ZoneLimits::single())
///     .min_free_kbytes(Some(1024));
/// assert_eq!(CONFIG.check(), Ok(()));
/// assert!(CONFIG.watermark_scale_factor(5000).check().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Config {
    pub(crate) reserved: [PhysRange; MAX_RESERVATIONS],
    pub(crate) reservations: usize,
    pub(crate) low: u64,
    pub(crate) limits: ZoneLimits,
    pub(crate) movable_share: u8,
    pub(crate) cpus: Option<usize>,
    pub(crate) max_order: Order,
    pub(crate) policy: Policy,
    pub(crate) reserves: Reserves,
    pub(crate) spreading: ZoneSpreading,
    pub(crate) boost: BoostRule,
    pub(crate) stall_order: u8,
    pub(crate) fair: FairPolicy,
    pub(crate) dirty_limit: DirtyLimit,
    /// Patches of the series of 2018 that a preset asked for.
    pub(crate) patches: u8,
    pub(crate) pcp: Option<PcpConfig>,
    pub(crate) compaction: Option<CompactionConfig>,
    pub(crate) reclaim: ReclaimConfig,
    pub(crate) slow_path: SlowPath,
    /// `None` if the table that was given is none.
    pub(crate) distances: Option<Distances>,
}

impl Config {
    /// The best known of everything: x86-64's zones, Linux 6.1's watermarks and fallback.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            reserved: [PhysRange::new(pageblock_frame::PhysAddr::new(0), pageblock_frame::PhysAddr::new(0));
                MAX_RESERVATIONS],
            reservations: 0,
            low: 0,
            limits: ZoneLimits::x86_64(),
            movable_share: 0,
            cpus: None,
            max_order: Order::MAX,
            policy: Policy::new(),
            reserves: Reserves::new(),
            spreading: ZoneSpreading::Throughout,
            boost: BoostRule { factor: BOOST_FACTOR, ..BoostRule::new() },
            stall_order: 0,
            fair: FairPolicy::Off,
            dirty_limit: DirtyLimit::new(),
            patches: 0,
            pcp: Some(PcpConfig::new()),
            compaction: Some(CompactionConfig::new()),
            reclaim: ReclaimConfig::linux_6_1(),
            slow_path: SlowPath::Linux6_1,
            distances: Some(Distances::new()),
        }
    }

    /// Keeps every frame that these bytes touch from the allocator: kernel image, initial ramdisk, page tables of the loader. May
    /// be called up to [`MAX_RESERVATIONS`] times.
    #[must_use]
    pub const fn reserve(mut self, bytes: Range<u64>) -> Self {
        if self.reservations < MAX_RESERVATIONS {
            self.reserved[self.reservations] =
                PhysRange::new(pageblock_frame::PhysAddr::new(bytes.start), pageblock_frame::PhysAddr::new(bytes.end));
        }
        self.reservations += 1;
        self
    }

    /// Keeps the frames below this address, in bytes, from the allocator. x86 kernels keep the low 1 MiB. Default: 0.
    #[must_use]
    pub const fn reserve_low(mut self, bytes: u64) -> Self {
        self.low = bytes;
        self
    }

    /// Where zones begin and end (`movablecore=` and `kernelcore=` in frames are in there). Default: x86-64's.
    #[must_use]
    pub const fn zones(mut self, limits: ZoneLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Percent of all memory that goes to Movable zones (`movablecore=N%`), 0 to 99; with 0, what [`zones`](Self::zones) says
    /// counts. Default: 0.
    #[must_use]
    pub const fn movable_share(mut self, percent: u8) -> Self {
        self.movable_share = percent;
        self
    }

    /// Number of CPUs that will be online, 1 to [`Platform::MAX_CPUS`](pageblock_frame::Platform::MAX_CPUS). Default: that.
    #[must_use]
    pub const fn cpus(mut self, cpus: usize) -> Self {
        self.cpus = Some(cpus);
        self
    }

    /// Largest order that can be allocated, inclusive (`MAX_PAGE_ORDER`), 9 to 15. Default: 10.
    #[must_use]
    pub const fn max_order(mut self, order: Order) -> Self {
        self.max_order = order;
        self
    }

    /// How migrate types fall back on one another.
    #[must_use]
    pub const fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// `vm.min_free_kbytes`, in KiB; `None`, the default, computes it from the size of memory.
    #[must_use]
    pub const fn min_free_kbytes(mut self, kbytes: Option<u64>) -> Self {
        self.reserves.min_free_kbytes = kbytes;
        self
    }

    /// `vm.watermark_scale_factor`, in ten-thousandths of a zone, 1 to 3000. Default: 10.
    #[must_use]
    pub const fn watermark_scale_factor(mut self, ten_thousandths: u64) -> Self {
        self.reserves.watermark_scale_factor = ten_thousandths;
        self
    }

    /// By which rule low and high watermarks follow from min.
    #[must_use]
    pub const fn watermark_rule(mut self, rule: WatermarkRule) -> Self {
        self.reserves.rule = rule;
        self
    }

    /// `vm.lowmem_reserve_ratio`, by kind of zone, up to 2^31 - 1; 0 keeps nothing back. Default: 256, 256, 32, 0.
    #[must_use]
    pub const fn lowmem_reserve_ratio(mut self, ratios: [u64; ZoneKind::COUNT]) -> Self {
        self.reserves.lowmem_reserve_ratio = ratios;
        self
    }

    /// Whether requests go to another zone, reclaim and compact rather than mix migrate types. Default: [`ZoneSpreading::Throughout`], which
    /// is [`On`](ZoneSpreading::On), as in Linux, where the platform can neither reclaim nor compact.
    #[must_use]
    pub const fn spreading(mut self, spreading: ZoneSpreading) -> Self {
        self.spreading = spreading;
        self
    }

    /// `vm.watermark_boost_factor` and its arithmetic: a mixing raises the zone's watermarks by a pageblock, so that kswapd frees more,
    /// up to so many ten-thousandths of the high watermark; 0 to 2^31 - 1, 0 for no boost. Default: 60,000; Linux's is 15,000. Without a
    /// [`Hooks::reclaimer`](pageblock_frame::Hooks::reclaimer) nothing could free more, and nothing is boosted.
    #[must_use]
    pub const fn watermark_boost(mut self, rule: BoostRule) -> Self {
        self.boost = rule;
        self
    }

    /// `vm.fragment_stall_order` (seed 002, 2018 series, patch 4; never merged): a movable request that may wait does so once, for at
    /// most 20 ms, before it takes from a free block of another type that is smaller than this order. 0 to one more than
    /// [`max_order`](Self::max_order); 0, the default, for never; 4 is what the patch sets. Without effect under
    /// [`ZoneSpreading::Throughout`], which reclaims and compacts instead.
    #[must_use]
    pub const fn fragment_stall_order(mut self, order: u8) -> Self {
        self.stall_order = order;
        self
    }

    /// The fair-zone policy (Linux 3.12 to 4.7, seed 003): a node's zones serve in proportion to their sizes. Every allocation is charged, so
    /// that none takes the shortest way to its list. Default: off.
    #[must_use]
    pub const fn fair_zones(mut self, policy: FairPolicy) -> Self {
        self.fair = policy;
        self
    }

    /// How much may be dirty where a request with [`Gfp::WRITE`](crate::Gfp::WRITE) is served at once (`vm.dirty_ratio` where it bounds
    /// allocation). Takes effect where the platform has a [`reclaimer`](pageblock_frame::Hooks::reclaimer) that says what is dirty.
    /// Default: a fifth of each node's, as in Linux.
    #[must_use]
    pub const fn dirty_limit(mut self, limit: DirtyLimit) -> Self {
        self.dirty_limit = limit;
        self
    }

    /// The per-CPU lists; `None` for none. Default: [`PcpConfig::new`].
    ///
    /// The lists of a small zone are short: they are halved until those of all CPUs take no more than a quarter of a byte a frame.
    #[must_use]
    pub const fn per_cpu_lists(mut self, lists: Option<PcpConfig>) -> Self {
        self.pcp = lists;
        self
    }

    /// How zones are compacted; `None` for not at all. Takes effect where the platform has a
    /// [`migrator`](pageblock_frame::Hooks::migrator). Default: [`pageblock_compaction::Config::new`].
    #[must_use]
    pub const fn compaction(mut self, compaction: Option<CompactionConfig>) -> Self {
        self.compaction = compaction;
        self
    }

    /// How memory is reclaimed, where the platform has a [`reclaimer`](pageblock_frame::Hooks::reclaimer).
    #[must_use]
    pub const fn reclaim(mut self, reclaim: ReclaimConfig) -> Self {
        self.reclaim = reclaim;
        self
    }

    /// What a request does, and in which order, when its first attempt fails.
    #[must_use]
    pub const fn slow_path(mut self, form: SlowPath) -> Self {
        self.slow_path = form;
        self
    }

    /// Distances between nodes, row by row (ACPI SLIT). Default: 10 to the same node, 20 to any other.
    #[must_use]
    pub const fn distances(mut self, table: &[u8]) -> Self {
        self.distances = Distances::from_table(table);
        self
    }

    /// Refuses values out of range.
    ///
    /// # Errors
    /// [`ConfigError`] names the first.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.reservations > MAX_RESERVATIONS {
            return Err(ConfigError::TooManyReservations { given: self.reservations });
        }
        if self.movable_share > 99 {
            return Err(ConfigError::MovableShare { given: self.movable_share });
        }
        if self.cpus == Some(0) {
            return Err(ConfigError::Cpus { given: 0 });
        }
        if self.max_order < PAGEBLOCK_ORDER {
            return Err(ConfigError::MaxOrder { given: self.max_order });
        }
        if !(1..=3000).contains(&self.reserves.watermark_scale_factor) {
            return Err(ConfigError::WatermarkScaleFactor { given: self.reserves.watermark_scale_factor });
        }
        if let Some(given) = self.reserves.min_free_kbytes.filter(|given| *given > MOST_MIN_FREE_KBYTES) {
            return Err(ConfigError::MinFreeKbytes { given });
        }
        self.check_fragmentation()?;
        if let Some(given) = self.dirty_limit.fault() {
            return Err(ConfigError::DirtyLimit { given });
        }
        for (zone, given) in ZoneKind::ALL.into_iter().zip(self.reserves.lowmem_reserve_ratio) {
            if given > i32::MAX as u64 {
                return Err(ConfigError::LowmemReserveRatio { zone, given });
            }
        }
        if let Some(pcp) = self.pcp {
            pcp.check()?;
        }
        if self.distances.is_none() {
            return Err(ConfigError::Distances);
        }
        Ok(self.limits.check()?)
    }

    fn check_fragmentation(&self) -> Result<(), ConfigError> {
        if self.boost.factor > MOST_BOOST_FACTOR {
            return Err(ConfigError::WatermarkBoostFactor { given: self.boost.factor });
        }
        let most = self.max_order.as_u8() + 1;
        if self.stall_order > most {
            return Err(ConfigError::FragmentStallOrder { given: self.stall_order, most });
        }
        if self.patches > MOST_PATCHES {
            return Err(ConfigError::Patches { given: self.patches });
        }
        Ok(())
    }
}

/// With Linux's 15,000 the cap is soon reached. Zone spreading, cache that streams through 1 GiB, kernel objects that come in bursts:
/// 1,245 mixings in 1.8 million allocations, 1,017 with this, for 0.4 % more frames reclaimed; with three times the bursts, 3,650 and 1,923,
/// for 0.2 %. More than this gains nothing.
const BOOST_FACTOR: u64 = 60_000;
/// Linux keeps the value in an `int`.
const MOST_MIN_FREE_KBYTES: u64 = i32::MAX as u64;
/// The same.
const MOST_BOOST_FACTOR: u64 = i32::MAX as u64;
/// Patches of the series of 2018.
const MOST_PATCHES: u8 = 4;

impl Default for Config {
    fn default() -> Self {
        Self::new()
    }
}
