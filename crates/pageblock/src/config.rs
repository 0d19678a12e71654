//! The configuration of an allocator, as one value.

use core::ops::Range;

#[cfg(feature = "history")]
use pageblock_buddy::FairPolicy;
use pageblock_buddy::{BoostRule, Distances, Policy, Reserves, WatermarkRule};
use pageblock_compaction::CompactionConfig;
use pageblock_frame::{Order, PAGEBLOCK_ORDER, ZoneKind};
use pageblock_memmap::{PhysRange, ZoneLimits};
use pageblock_pcp::PcpConfig;
use pageblock_reclaim::ReclaimConfig;

use crate::dirty::DirtyLimit;
use crate::error::ConfigError;
use crate::history::Settings;
#[cfg(feature = "history")]
use crate::history::SlowPath;

/// Most ranges that [`Config::reserve`] takes.
pub const MAX_RESERVATIONS: usize = 32;

/// Whether requests go to another zone rather than mix migrate types in a pageblock.
///
/// ```
/// use pageblock::{Config, ZoneSpreading};
/// let linux = Config::linux_6_1();
/// assert_eq!(linux.spreading(ZoneSpreading::On), linux);
/// assert_ne!(Config::new().spreading(ZoneSpreading::On), Config::new());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ZoneSpreading {
    /// The first attempt steals whole pageblocks at most, and tries lower zones of the node before it mixes
    /// (`ALLOC_NOFRAGMENT`, Linux 5.0).
    On,
    /// The same in every attempt, until reclaim and compaction have been tried once; nodes further away come before
    /// mixing, too (`vm.defrag_mode`, Linux 6.15). On a platform that can neither reclaim nor compact this is
    /// [`On`](Self::On).
    Throughout,
    /// The first zone above its watermark serves, whatever that mixes.
    Off,
}

/// A setting for [`Config::experiment`]: how a mechanism works, rather than how much of it a machine is to have.
///
/// ```
/// use pageblock::{Config, Experiment, Policy};
/// let linux = Config::new().experiment(Experiment::Policy(Policy::linux_6_1()));
/// assert_ne!(linux, Config::new());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Experiment {
    /// How migrate types fall back on one another.
    Policy(Policy),
    /// By which rule low and high watermarks follow from min.
    WatermarkRule(WatermarkRule),
    /// The boost of watermarks, with its arithmetic.
    Boost(BoostRule),
    /// How zones are compacted. Takes effect where the platform has a [`migrator`](pageblock_frame::Hooks::migrator).
    Compaction(CompactionConfig),
    /// How memory is reclaimed, where the platform has a [`reclaimer`](pageblock_frame::Hooks::reclaimer).
    Reclaim(ReclaimConfig),
    /// The fair-zone policy (Linux 3.12 to 4.7): a node's zones serve in proportion to their sizes. Every allocation is
    /// charged, so that none takes the shortest way to its list. Default: off.
    #[cfg(feature = "history")]
    FairZones(FairPolicy),
    /// `vm.fragment_stall_order` (*Fragmentation avoidance and stalls*, patch 4; never merged): a movable request that
    /// may wait does so once, for at most 20 ms, before it takes from a free block of another type that is smaller than
    /// this order. 0 to one more than
    /// [`max_order`](Config::max_order); 0, the default, for never; the patch sets 4. Without effect under
    /// [`ZoneSpreading::Throughout`], which reclaims and compacts instead.
    #[cfg(feature = "history")]
    StallOrder(u8),
    /// The longest stall in nanoseconds. The patch as posted has `HZ/50`, 20 ms; the version before it had `HZ/10`.
    #[cfg(feature = "history")]
    StallLimit(u64),
    /// The order of the slow path's measures.
    #[cfg(feature = "history")]
    SlowPath(SlowPath),
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
    pub(crate) dirty_limit: DirtyLimit,
    pub(crate) history: Settings,
    pub(crate) pcp: Option<PcpConfig>,
    pub(crate) compaction: Option<CompactionConfig>,
    pub(crate) reclaim: ReclaimConfig,
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
            boost: BoostRule::with_factor(BOOST_FACTOR),
            dirty_limit: DirtyLimit::new(),
            history: Settings::new(),
            pcp: Some(PcpConfig::new()),
            compaction: Some(CompactionConfig::new()),
            reclaim: ReclaimConfig::linux_6_1(),
            distances: Some(Distances::new()),
        }
    }

    /// As Linux 6.1.
    #[must_use]
    pub const fn linux_6_1() -> Self {
        Self {
            policy: Policy::linux_6_1(),
            spreading: ZoneSpreading::On,
            pcp: Some(PcpConfig::linux_6_1()),
            boost: BoostRule::new(),
            compaction: Some(CompactionConfig::linux_6_1()),
            ..Self::new()
        }
    }

    /// Keeps every frame that these bytes touch from the allocator: kernel image, initial ramdisk, page tables of the
    /// loader. May be called up to [`MAX_RESERVATIONS`] times.
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

    /// Percent of all memory that goes to Movable zones (`movablecore=N%`), 0 to 99; with 0, [`zones`](Self::zones)
    /// decides. Default: 0.
    #[must_use]
    pub const fn movable_share(mut self, percent: u8) -> Self {
        self.movable_share = percent;
        self
    }

    /// Number of CPUs that will be online, 1 to [`Platform::MAX_CPUS`](pageblock_frame::Platform::MAX_CPUS). Default:
    /// that.
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

    /// `vm.lowmem_reserve_ratio`, by kind of zone, up to 2^31 - 1; 0 keeps nothing back. Default: 256, 256, 32, 0.
    #[must_use]
    pub const fn lowmem_reserve_ratio(mut self, ratios: [u64; ZoneKind::COUNT]) -> Self {
        self.reserves.lowmem_reserve_ratio = ratios;
        self
    }

    /// Whether requests go to another zone, reclaim and compact rather than mix migrate types. Default:
    /// [`ZoneSpreading::Throughout`], which is [`On`](ZoneSpreading::On), as in Linux, where the platform can neither
    /// reclaim nor compact.
    #[must_use]
    pub const fn spreading(mut self, spreading: ZoneSpreading) -> Self {
        self.spreading = spreading;
        self
    }

    /// `vm.watermark_boost_factor`: a mixing raises the zone's watermarks by a pageblock, so that kswapd frees more, up
    /// to so many ten-thousandths of the high watermark; 0 to 2^31 - 1, 0 for no boost. Default: 60,000; Linux's is
    /// 15,000. Without a
    /// [`Hooks::reclaimer`](pageblock_frame::Hooks::reclaimer) nothing could free more, and nothing is boosted.
    #[must_use]
    pub const fn watermark_boost_factor(mut self, ten_thousandths: u64) -> Self {
        self.boost.factor = ten_thousandths;
        self
    }

    /// How much may be dirty where a request with [`Gfp::WRITE`](crate::Gfp::WRITE) is served at once (`vm.dirty_ratio`
    /// where it bounds allocation). Takes effect where the platform has a
    /// [`reclaimer`](pageblock_frame::Hooks::reclaimer) that counts dirty pages. Default: a fifth of each node's, as in
    /// Linux.
    #[must_use]
    pub const fn dirty_limit(mut self, limit: DirtyLimit) -> Self {
        self.dirty_limit = limit;
        self
    }

    /// The per-CPU lists; `None` for none. Default: [`PcpConfig::new`].
    ///
    /// The lists of a small zone are short: they are halved until those of all CPUs take no more than a quarter of a
    /// byte a frame.
    #[must_use]
    pub const fn per_cpu_lists(mut self, lists: Option<PcpConfig>) -> Self {
        self.pcp = lists;
        self
    }

    /// Zones are not compacted, though the platform has a [`migrator`](pageblock_frame::Hooks::migrator).
    #[must_use]
    pub const fn without_compaction(mut self) -> Self {
        self.compaction = None;
        self
    }

    /// `vm.compaction_proactiveness`, 0 to 100: how eagerly the compaction thread works ahead of requests; 0 for never.
    /// Default: 40; Linux's is 20.
    #[must_use]
    pub const fn compaction_proactiveness(mut self, percent: u8) -> Self {
        if let Some(compaction) = &mut self.compaction {
            compaction.proactiveness = percent;
        }
        self
    }

    /// A setting that no kernel changes: to compare mechanisms, or to reproduce a published figure.
    #[must_use]
    pub const fn experiment(mut self, setting: Experiment) -> Self {
        match setting {
            Experiment::Policy(policy) => self.policy = policy,
            Experiment::WatermarkRule(rule) => self.reserves.rule = rule,
            Experiment::Boost(rule) => self.boost = rule,
            Experiment::Compaction(compaction) => self.compaction = Some(compaction),
            Experiment::Reclaim(reclaim) => self.reclaim = reclaim,
            #[cfg(feature = "history")]
            Experiment::FairZones(policy) => self.history.fair = policy,
            #[cfg(feature = "history")]
            Experiment::StallOrder(order) => self.history.stall_order = order,
            #[cfg(feature = "history")]
            Experiment::StallLimit(limit) => self.history.stall_limit = limit,
            #[cfg(feature = "history")]
            Experiment::SlowPath(form) => self.history.slow_path = form,
        }
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
        self.history.check(self.max_order)
    }
}

/// With Linux's 15,000 the cap is soon reached. Zone spreading, cache that streams through 1 GiB, kernel objects that
/// come in bursts: 1,245 mixings in 1.8 million allocations, 1,017 with this, for 0.4 % more frames reclaimed; with
/// three times the bursts, 3,650 and 1,923, for 0.2 %. More than this gains nothing.
const BOOST_FACTOR: u64 = 60_000;
/// Linux keeps the value in an `int`.
const MOST_MIN_FREE_KBYTES: u64 = i32::MAX as u64;
/// The same.
const MOST_BOOST_FACTOR: u64 = i32::MAX as u64;

impl Default for Config {
    fn default() -> Self {
        Self::new()
    }
}
