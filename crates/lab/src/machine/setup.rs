//! Parts of a machine.

use pageblock::{Config, Region, RegionKind, ZoneLimits};
use pageblock_frame::{Order, PAGE_SIZE, PAGEBLOCK_FRAMES, Pfn};

use pageblock_reclaim::ShrinkConfig;

use super::costs;
use super::disk::Drive;
use super::objects::Shrinking;
use super::owner::{LruScope, MemoryConfig};

/// A machine before it boots.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Memory, allocator and lists.
    pub(crate) memory: MemoryConfig,
    /// How LRU lists are scanned.
    pub(crate) shrink: ShrinkConfig,
    /// Nanoseconds for which a file system's journal holds its pages; 0, the default, for no such thing.
    pub(crate) journal_hold: u64,
    /// The file system is XFS: inodes have log items, and are read through buffers.
    pub(crate) is_xfs: bool,
    /// The log of XFS is written this often, in nanoseconds.
    pub(crate) log_period: u64,
    /// How many kernel objects shrinkers look at.
    pub(crate) shrinking: Shrinking,
    /// The disk.
    pub(crate) drive: Drive,
    /// Age at which dirty pages are written, in nanoseconds.
    pub(crate) dirty_expire: u64,
    /// CPUs, up to 64.
    pub(crate) cpus: u32,
    /// Of the machine's dice.
    pub(crate) seed: u64,
    /// Files are read ahead while their reader goes on. Without it a reader waits for its whole window.
    pub(crate) reads_ahead: bool,
    /// Dentries and inodes are marked by their second use, as since Linux 3.18, rather than by their first.
    pub(crate) marks_second_use: bool,
}

impl Setup {
    /// 64 MiB and one CPU, for tests of a part.
    #[cfg(test)]
    pub(crate) fn small() -> Self {
        Self::new(64 << 20, 1, pageblock::Config::new(), LruScope::Node)
    }

    /// One node of `bytes` without holes, in the zones that `allocator` says, with swap of half its size.
    pub(crate) fn new(bytes: u64, cpus: u32, allocator: Config, lru: LruScope) -> Self {
        let regions = vec![Region::new(0u64, bytes, RegionKind::Usable)];
        let mut memory = MemoryConfig::new(regions, allocator.cpus(cpus as usize));
        memory.lru = lru;
        memory.swap = bytes / PAGE_SIZE / 2;
        let shrink = if lru == LruScope::Zone { ShrinkConfig::linux_3_13() } else { ShrinkConfig::linux_6_1() };
        Self {
            memory,
            shrink,
            journal_hold: 0,
            is_xfs: false,
            log_period: costs::LOG_PERIOD,
            shrinking: if lru == LruScope::Zone { Shrinking::ByScan } else { Shrinking::Proportional },
            drive: Drive::Spinning,
            dirty_expire: costs::DIRTY_EXPIRE,
            cpus,
            seed: 1,
            reads_ahead: false,
            marks_second_use: false,
        }
    }

    /// With these dice.
    pub(crate) fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }
}

/// Zones of a machine with `bytes` of memory: DMA of 16 MiB, or of a 64th of a small machine's; DMA32 of this many
/// thousandths of the rest.
pub(crate) fn zones_of(bytes: u64, dma32: u64) -> ZoneLimits {
    let frames = bytes / PAGE_SIZE;
    let whole = |frames: u64| frames / PAGEBLOCK_FRAMES * PAGEBLOCK_FRAMES;
    // Zones begin where blocks of the largest order do.
    let most = Order::MAX.frames();
    let dma = (frames / 64 / most * most).clamp(most, (16 << 20) / PAGE_SIZE);
    let low = dma + whole((frames - dma) * dma32 / 1000);
    ZoneLimits { dma_end: Some(Pfn::new(dma)), dma32_end: Some(Pfn::new(low)), ..ZoneLimits::single() }
}
