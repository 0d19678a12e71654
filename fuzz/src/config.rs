//! Configuration values: each is refused by name, or makes an allocator that works.

use std::mem::MaybeUninit;

use arbitrary::{Result, Unstructured};
use pageblock::{Config, Gfp, ListSet, Order, PageAllocator, PcpConfig, Pfn, Region, Sizing, Tuning, ZoneLimits};
use pageblock_testkit::host::{Quiet, Stored};

fn lists(u: &mut Unstructured<'_>) -> Result<PcpConfig> {
    let (_, preset) = *u.choose(&PcpConfig::PRESETS)?;
    let sizing = match u.int_in_range(0..=4u8)? {
        0 => Sizing::Fixed { batch: small_or_any(u)?, high: small_or_any(u)? },
        1 => Sizing::Batches(small_or_any(u)?),
        2 => Sizing::Fraction(small_or_any(u)?),
        _ => preset.sizing,
    };
    let (_, other) = *u.choose(&PcpConfig::PRESETS)?;
    let set = *u.choose(&[ListSet::OrderZero, ListSet::Shared, preset.set])?;
    let tuning = *u.choose(&[Tuning::Batch, Tuning::SelfTuned, Tuning::Bounded, preset.tuning])?;
    let (refill, when_short) = (other.refill, other.when_short);
    Ok(PcpConfig { set, sizing, refill, when_short, tuning, call_limit: small_or_any(u)?, room: small_or_any(u)? })
}

fn small_or_any(u: &mut Unstructured<'_>) -> Result<u32> {
    if u.ratio(3, 4)? { u.int_in_range(0..=300) } else { u.arbitrary() }
}

fn config(u: &mut Unstructured<'_>) -> Result<Config> {
    let pfn = |u: &mut Unstructured<'_>| Ok(u.arbitrary::<bool>()?.then_some(Pfn::new(u.arbitrary::<u16>()?.into())));
    let limits = ZoneLimits { dma_end: pfn(u)?, dma32_end: pfn(u)?, ..ZoneLimits::single() };
    let lists = if u.ratio(4, 5)? { Some(lists(u)?) } else { None };
    let base = *u.choose(&[Config::new(), Config::linux_6_1()])?;
    Ok(base
        .zones(limits)
        .movable_share(u.arbitrary()?)
        .cpus(usize::from(u.arbitrary::<u8>()? % 5))
        .max_order(Order::saturating(u.arbitrary::<u8>()? % 16))
        .min_free_kbytes(u.arbitrary::<Option<u32>>()?.map(u64::from))
        .watermark_scale_factor(small_or_any(u)?.into())
        .lowmem_reserve_ratio([small_or_any(u)?.into(), 256, small_or_any(u)?.into(), 0])
        .watermark_boost_factor(small_or_any(u)?.into())
        .compaction_proactiveness(u.arbitrary()?)
        .reserve(u.arbitrary::<u32>()?.into()..u.arbitrary::<u32>()?.into())
        .reserve_low(u.arbitrary::<u16>()?.into())
        .per_cpu_lists(lists))
}

/// First the size of memory, then the configuration, then requests.
///
/// # Panics
/// If a configuration that was accepted makes an allocator that is not sound, or loses a frame.
pub fn run(data: &[u8]) {
    let mut source = Unstructured::new(data);
    let Ok((frames, config)) = source.int_in_range(1..=9000u64).and_then(|frames| Ok((frames, config(&mut source)?)))
    else {
        return;
    };
    let map = [Region::usable(0..frames << 12)];
    let allocator = PageAllocator::<Quiet>::new();
    let Ok(bytes) = PageAllocator::<Quiet>::metadata_bytes(map, &config) else { return };
    let init = |storage: &'static mut [MaybeUninit<u8>]| allocator.init_simulated(map, &config, storage).map(|_| ());
    // SAFETY: the allocator is not used after the storage is gone.
    let booted = unsafe { Stored::new(bytes, init) };
    if booted.is_err() {
        return;
    }
    let mut held = Vec::new();
    for &byte in source.take_rest().iter().take(200) {
        let gfp = [Gfp::KERNEL, Gfp::ATOMIC, Gfp::HIGHUSER_MOVABLE, Gfp::KERNEL | Gfp::DMA][usize::from(byte % 4)];
        match byte >> 4 {
            15 => drop(allocator.drain()),
            14 => held.clear(),
            order => held.extend(allocator.alloc_order(Order::saturating(order), gfp)),
        }
    }
    drop(held);
    allocator.drain();
    let stats = allocator.stats();
    assert_eq!((stats.free, stats.bad_frees), (stats.managed, 0), "frames are lost: {config:?}");
    assert_eq!(allocator.check(), Ok(()), "{config:?}");
}
