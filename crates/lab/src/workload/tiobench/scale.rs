//! The published machine, scaled: zones in the same proportion, and watermarks that keep the dead band.
//!
//! On 8 GiB the allocator stops in DMA32 at low + reserve = 1338 + 4960 frames, and kswapd without class zone acts
//! below high = 1606, or 2944 with the gap. So the zone is frozen because reserve > high - low, with and without the
//! gap. Watermarks go with the root of memory and the reserve with memory itself: on a small machine Linux's own
//! watermarks would be too large for that. There they are as large as the condition permits.

use pageblock_buddy::min_free_kbytes;
use pageblock_frame::PAGE_SIZE;

use super::variant::Variant;
use crate::machine::{Setup, zones_of};
use crate::workload::options::Hardware;

/// Thousandths of memory in DMA32: the series' 37.6 %.
const DMA32: u64 = 376;
/// CPUs of a desktop of 2014.
const CPUS: u32 = 4;
/// Default of `lowmem_reserve_ratio` for DMA32.
const RESERVE_RATIO: u64 = 256;

/// A machine that follows a variant's rules.
pub(crate) fn setup(bytes: u64, variant: Variant, hardware: Hardware, seed: u64) -> Setup {
    let limits = zones_of(bytes, hardware.dma32_or(DMA32));
    let config = variant.config().zones(limits).min_free_kbytes(Some(min_free(bytes)));
    let setup = Setup::new(bytes, hardware.cpus_or(CPUS), config, variant.lru()).seed(seed);
    Setup { shrink: variant.shrink(), ..setup }
}

/// `min_free_kbytes`, in KiB: Linux's, but so little that 1.5 times DMA32's min, which is batch and gap, stays a fifth
/// below its reserve.
pub(crate) fn min_free(bytes: u64) -> u64 {
    let frames = bytes / PAGE_SIZE;
    let reserve = frames * (1000 - DMA32) / 1000 / RESERVE_RATIO;
    let most_dma32 = reserve * 8 / 15;
    let most = most_dma32 * 1000 / DMA32 * (PAGE_SIZE >> 10);
    min_free_kbytes(bytes >> 10).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use pageblock::ZoneKind;

    #[test]
    fn the_dead_band_is_there_at_every_size() {
        for mib in [128, 256, 512, 1024] {
            let machine = Machine::boot(&setup(mib << 20, Variant::Linux316, Hardware::default(), 1)).unwrap();
            let zone = |kind| machine.memory().allocator().zones().find(|zone| zone.kind() == kind).unwrap();
            let (dma32, normal) = (zone(ZoneKind::Dma32), zone(ZoneKind::Normal));
            let share = dma32.managed() as f64 / (dma32.managed() + normal.managed()) as f64;
            assert!((0.37..0.42).contains(&share), "{share}");
            let marks = dma32.watermarks();
            let gap = marks.low.min(dma32.managed().div_ceil(100));
            let reserve = dma32.lowmem_reserve()[ZoneKind::Normal.index()];
            assert!(reserve > marks.high - marks.low + gap, "{mib} MiB: {reserve}, {marks:?}");
        }
        assert_eq!(min_free(8 << 30), 11585);
    }
}
