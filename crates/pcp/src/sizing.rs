//! How many blocks move at once and how many may stay: Linux's formulas.

/// Frames that move between a list and the zone at once, for a zone with so many managed frames (`zone_batchsize()`,
/// Linux 4.20 and later): 63 for zones of 1 GiB and more.
///
/// ```
/// use pageblock_pcp::batch;
/// let mib = |mib: u64| mib << 8;
/// assert_eq!([16, 32, 64, 128, 256, 512, 1024, 4096].map(|m| batch(mib(m), 256)), [1, 1, 3, 7, 15, 31, 63, 63]);
/// assert_eq!(batch(mib(1024), 128), 31); // the cap of 512 KiB of older kernels
/// ```
#[must_use]
pub const fn batch(managed: u64, cap: u64) -> u32 {
    let part = if managed / 1024 < cap { managed / 1024 } else { cap };
    let quarter = if part / 4 == 0 { 1 } else { part / 4 };
    let rounded = 1u64 << (63 - (quarter + quarter / 2).leading_zeros());
    if rounded - 1 == 0 { 1 } else { (rounded - 1) as u32 }
}

/// Frames that a CPU's lists may hold together (`zone_highsize()`, Linux 5.14): the zone's low watermark, or a
/// `fraction`th of its frames, divided among the CPUs; at least four batches.
///
/// ```
/// assert_eq!(pageblock_pcp::high(3048, 8, 63), 381);
/// assert_eq!(pageblock_pcp::high(100, 8, 63), 252);
/// ```
#[must_use]
pub const fn high(total: u64, cpus: u32, batch: u32) -> u32 {
    let cpus = if cpus == 0 { 1 } else { cpus };
    let share = total / cpus as u64;
    let share = if share > u32::MAX as u64 { u32::MAX } else { share as u32 };
    if share < 4 * batch { 4 * batch } else { share }
}

/// Most frames that self-tuning lets a CPU's lists hold (Linux 6.7): an eighth of the zone, divided among the CPUs.
///
/// ```
/// assert_eq!(pageblock_pcp::high_max(1 << 20, 4, 63), 32768);
/// ```
#[must_use]
pub const fn high_max(managed: u64, cpus: u32, batch: u32) -> u32 {
    high(managed / 8, cpus, batch)
}

/// The sizes of one zone's lists, in frames.
///
/// ```
/// use pageblock_pcp::{PcpConfig, Sizes};
/// let sizes = PcpConfig::linux_6_1().sizes(1 << 20, 3048, 8);
/// assert_eq!((sizes.batch, sizes.high), (63, 381));
/// assert_eq!(sizes, Sizes { batch: 63, high: 381, high_max: 381 });
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Blocks that move at once, in single frames; 1 to 1024.
    pub batch: u32,
    /// Frames that a CPU's lists hold together before some go back.
    pub high: u32,
    /// Bound to which self-tuning may raise `high`.
    pub high_max: u32,
}
