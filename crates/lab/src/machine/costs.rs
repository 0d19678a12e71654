//! Costs of operations, in nanoseconds of simulated time, each with its reason. Nothing else in the machine is a matter
//! of time.
//!
//! Instruction counts are those of Linux 6.1 as measured (`438 + 255` for an order-0 pair, and so on), or estimates of
//! the same kind, at three instructions a nanosecond. Costs that Linux does not have are not invented: the host time of
//! the real crates is not looked at.

/// Instructions that a CPU gets through in a nanosecond: 3 GHz, one a cycle.
const INSTRUCTIONS_PER_NS: u64 = 3;

const fn instructions(count: u64) -> u64 {
    count / INSTRUCTIONS_PER_NS
}

/// One microsecond.
pub(crate) const MICROSECOND: u64 = 1_000;
/// One millisecond.
pub(crate) const MILLISECOND: u64 = 1_000_000;
/// One second.
pub(crate) const SECOND: u64 = 1_000_000_000;

/// One frame allocated and freed, buddy lists included: 1.2 k instructions a full trip; half of it at each end.
pub(crate) const ALLOC: u64 = instructions(600);
/// The other half.
pub(crate) const FREE: u64 = instructions(600);
/// One block of order 9 allocated: through a per-CPU list 486 instructions, from the zone 8.9 k; the series' kernels
/// have the latter only.
pub(crate) const ALLOC_HUGE: u64 = instructions(8_900);
/// One page fault besides its frame: exception, walk, entry, LRU vector; about 1500 instructions.
pub(crate) const FAULT: u64 = instructions(1_500);
/// Zeroing a page, at 10 GB/s: the rate of one core of 2013.
pub(crate) const ZERO_PAGE: u64 = 400;
/// Copying a page, at 5 GB/s: reads and writes.
pub(crate) const COPY_PAGE: u64 = 800;
/// A page found in the cache and handed to `read()`: lookup 300 instructions, then the copy.
pub(crate) const CACHE_HIT: u64 = instructions(300) + COPY_PAGE;
/// `open()` and `close()`, path walk included: about 6 k instructions.
pub(crate) const OPEN: u64 = instructions(6_000);
/// `fork()` and `exec()` without the page faults: about a millisecond in all, most of it page tables.
pub(crate) const EXEC: u64 = MILLISECOND;

/// One frame looked at by the migrate scanner: flags, references, LRU lock now and then; about 45 instructions.
pub(crate) const SCAN_SOURCE: u64 = instructions(45);
/// One frame looked at by the free scanner: a page flag and an order; about 20 instructions.
pub(crate) const SCAN_TARGET: u64 = instructions(20);
/// One page moved: unmapped with a TLB flush on other CPUs (2 microseconds), copied, mapped again.
pub(crate) const MIGRATE: u64 = 2 * MICROSECOND + COPY_PAGE;
/// One page looked at by reclaim: isolation, reverse map, references; about 1200 instructions.
pub(crate) const RECLAIM_SCAN: u64 = instructions(1_200);
/// One kernel object looked at by a shrinker: about 300 instructions.
pub(crate) const SHRINK_OBJECT: u64 = instructions(300);
/// One object allocated or freed in a slab: about 120 instructions.
pub(crate) const SLAB_OBJECT: u64 = instructions(120);

/// Moving the head over a third of the disk, which is the mean of random places: 8.5 ms for a desktop disk of 2013; and
/// to the next track.
pub(crate) const SEEK_THIRD: u64 = 8_500 * MICROSECOND;
/// See there.
pub(crate) const SEEK_TRACK: u64 = MILLISECOND;
/// A third of a disk of 1 TB, in pages.
pub(crate) const DISK_THIRD: u64 = 1_000_000_000_000 / 3 / 4096;
/// Waiting for the platter: half a turn at 7200 a minute.
pub(crate) const HALF_TURN: u64 = 4_170 * MICROSECOND;
/// Both within 16 MiB: track to track 1 ms and half a turn, less the time that the drive's own queue saves.
pub(crate) const SEEK_NEAR: u64 = 3_000 * MICROSECOND;
/// One page read or written where the head is, at 120 MB/s.
pub(crate) const DISK_PAGE: u64 = 4096 * SECOND / 120_000_000;
/// Pages that count as near.
pub(crate) const NEAR_PAGES: u64 = (16 << 20) / 4096;

/// A request for reading at any place of a flash disk of 2016, when four readers ask at a time: 40,000 a second of one
/// page each, as the data sheets of disks with a serial port say for short queues; and a page of it, at 500 MB/s.
/// Writing is taken to be as fast as on the other disk: Fragmentation avoidance and stalls (2018) says that 48 GiB were
/// written in less than half of 16 minutes.
pub(crate) const FLASH_READ: u64 = 17 * MICROSECOND;
/// See there.
pub(crate) const FLASH_PAGE: u64 = 4096 * SECOND / 500_000_000;

/// Time that a reader has the disk for itself (CFQ's `slice_sync`), and all writing (`slice_async`).
pub(crate) const SLICE_READ: u64 = 100 * MILLISECOND;
/// See there.
pub(crate) const SLICE_WRITE: u64 = 40 * MILLISECOND;
/// Time within which each of several readers gets its turn (`target_latency`).
pub(crate) const SLICE_ROUND: u64 = 300 * MILLISECOND;
/// For how long the disk waits for a reader's next request (`slice_idle`), and the shortest slice, which is twice that.
pub(crate) const SLICE_IDLE: u64 = 8 * MILLISECOND;
/// See there.
pub(crate) const SLICE_LEAST: u64 = 2 * SLICE_IDLE;

/// The scheduler's tick: 250 a second, as in the series' kernels.
pub(crate) const TICK: u64 = 4 * MILLISECOND;
/// Time for which a task runs before others that wait for its CPU get their turn (`sched_min_granularity` for eight
/// CPUs).
pub(crate) const TIME_SLICE: u64 = 3 * MILLISECOND;
/// How often the write-back thread looks (`dirty_writeback_centisecs`).
pub(crate) const WRITEBACK_INTERVAL: u64 = 5 * SECOND;
/// Age at which a dirty page is written whatever its number (`dirty_expire_centisecs`).
pub(crate) const DIRTY_EXPIRE: u64 = 30 * SECOND;
/// Time from a change of the file system's own pages until they are written where they belong: five seconds to the
/// commit, then as other dirty pages.
pub(crate) const JOURNAL_HOLD: u64 = 5 * SECOND + DIRTY_EXPIRE;
/// How often XFS writes its log whatever has changed (`xfssyncd_centisecs`).
pub(crate) const LOG_PERIOD: u64 = 30 * SECOND;
/// Percent of the memory that can be dirtied from which the write-back thread writes (`dirty_background_ratio`).
pub(crate) const DIRTY_BACKGROUND: u64 = 10;
/// Percent from which writers wait (`dirty_ratio`).
pub(crate) const DIRTY_LIMIT: u64 = 20;
/// Thousandths around which writers are kept: midway between free running, which ends midway between the two
/// ratios above, and the limit (`balance_dirty_pages()` since 3.2).
pub(crate) const DIRTY_SETPOINT: u64 = (DIRTY_LIMIT * 3 + DIRTY_BACKGROUND) * 10 / 4;
/// Pages that the write-back thread hands to the disk at once: 1 MiB, between which reads get their turn.
pub(crate) const WRITEBACK_CHUNK: usize = 256;
/// Requests that wait at a disk at most (`nr_requests`), and how many are done before a task goes on that has met this
/// limit (`wake_batch`).
pub(crate) const DISK_REQUESTS: usize = 256;
/// See there.
pub(crate) const DISK_BATCH: usize = 8;
/// Longest time that a writer over the limit is held at once (`MAX_PAUSE`, HZ / 5).
pub(crate) const WRITER_PAUSE: u64 = 200 * MILLISECOND;
/// Pages of a read-ahead window at most: 128 KiB (`VM_MAX_READAHEAD`).
pub(crate) const READAHEAD: u32 = 32;
