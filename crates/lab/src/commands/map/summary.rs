//! A memory map as the allocator takes it, in numbers.

use std::collections::BTreeMap;

use anyhow::Context;
use pageblock_buddy::{LOWMEM_RESERVE_RATIO, Watermarks, ZoneStorage, lowmem_reserves, min_free_kbytes};
use pageblock_frame::{Order, PAGE_SIZE, PAGEBLOCK_FRAMES, PfnRange, ZoneKind};
use pageblock_memmap::{MapOptions, MapRun, Region, RegionMap, ZoneLimits, ZoneSpan};
use serde::Serialize;

use super::MapArgs;

/// `watermark_scale_factor`, in ten-thousandths of a zone.
const SCALE_FACTOR: u64 = 10;
/// Linux lets the reserve for huge pages grow to this part of the memory outside Movable zones.
const THP_SHARE: u64 = 20;
/// Migrate types that have per-CPU lists (`MIGRATE_PCPTYPES`).
const LISTED_TYPES: u64 = 3;

/// Everything that `pageblock map` prints; with `--json` these are the keys.
///
/// ```
/// use clap::{Args, FromArgMatches};
/// use pageblock_memmap::Region;
/// use pageblock_lab::commands::map::{MapArgs, MapSummary};
/// let command = MapArgs::augment_args(clap::Command::new("map"));
/// let args = MapArgs::from_arg_matches(&command.get_matches_from(["map", "iomem"])).unwrap();
/// let summary = MapSummary::compute(&[Region::from((0, 64 << 20, true))], &args).unwrap();
/// assert_eq!(summary.zones.len(), 2);
/// assert_eq!(summary.dropped["low_memory"].frames, 256);
/// ```
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MapSummary {
    /// Regions in the map.
    pub regions: usize,
    /// Bytes that the map calls usable, overlaps counted as often as they occur.
    pub usable_bytes: u64,
    /// Frames that the allocator can give out.
    pub managed_frames: u64,
    /// Frames of memory.
    pub present_frames: u64,
    /// `min_free_kbytes` as computed at boot.
    pub min_free_kbytes: u64,
    /// The metadata.
    pub metadata: Metadata,
    /// The zones that have memory, by node and kind.
    pub zones: Vec<ZoneRow>,
    /// The runs of usable frames, ascending, without those that hold the metadata.
    pub runs: Vec<Run>,
    /// Dropped ranges, by reason.
    pub dropped: BTreeMap<&'static str, Dropped>,
}

/// Place and size of the metadata.
///
/// ```
/// use pageblock_lab::commands::map::Metadata;
/// let metadata = Metadata { bytes: 5120, bytes_per_frame: 1.25, start: 256, frames: 2 };
/// assert_eq!(serde_json::to_value(metadata).unwrap()["bytes_per_frame"], 1.25);
/// ```
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Metadata {
    /// Bytes for all zones, as reserved.
    pub bytes: u64,
    /// The same for each frame of memory.
    pub bytes_per_frame: f64,
    /// First frame of the place that was carved out of the map.
    pub start: u64,
    /// Frames carved out.
    pub frames: u64,
}

/// One zone; counts in frames.
///
/// ```
/// use pageblock_lab::commands::map::ZoneRow;
/// let row = ZoneRow { node: 0, zone: "DMA", start: 1, spanned: 4095, ..ZoneRow::default() };
/// assert_eq!(serde_json::to_value(row).unwrap()["spanned"], 4095);
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct ZoneRow {
    /// Node of the zone.
    pub node: usize,
    /// Linux's name of the zone.
    pub zone: &'static str,
    /// First frame.
    pub start: u64,
    /// Frames from first to last, holes included.
    pub spanned: u64,
    /// Frames of memory.
    pub present: u64,
    /// Frames that the allocator can give out.
    pub managed: u64,
    /// Min watermark.
    pub min: u64,
    /// Low watermark.
    pub low: u64,
    /// High watermark.
    pub high: u64,
    /// Frames kept from requests that are limited to DMA, DMA32, Normal, Movable.
    pub protection: [u64; ZoneKind::COUNT],
    /// Frames that a per-CPU list takes from the zone at once.
    pub pcp_batch: u64,
    /// Frames that the lists of one CPU may hold.
    pub pcp_high: u64,
    /// Bytes of metadata.
    pub metadata_bytes: u64,
}

/// A run of usable frames.
///
/// ```
/// let run = pageblock_lab::commands::map::Run { start: 256, frames: 512, node: 0 };
/// assert_eq!(serde_json::to_string(&run).unwrap(), r#"{"start":256,"frames":512,"node":0}"#);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Run {
    /// First frame.
    pub start: u64,
    /// How many.
    pub frames: u64,
    /// Where.
    pub node: usize,
}

impl From<MapRun> for Run {
    fn from(run: MapRun) -> Self {
        Self { start: run.range.start.as_u64(), frames: run.range.len(), node: run.node.index() }
    }
}

/// Ranges dropped for one reason.
///
/// ```
/// use pageblock_lab::commands::map::Dropped;
/// let dropped = Dropped { reason: "no bytes", regions: 2, bytes: 0, frames: 0, first: Some(7) };
/// assert_eq!(serde_json::to_value(dropped).unwrap()["first"], 7);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Dropped {
    /// The reason in words.
    pub reason: &'static str,
    /// Regions or reservations that it happened to.
    pub regions: u32,
    /// Bytes that were called usable and are not.
    pub bytes: u64,
    /// Whole frames in them.
    pub frames: u64,
    /// The first region or reservation, counted from 0.
    pub first: Option<usize>,
}

impl MapSummary {
    /// Normalises the map and computes the zones.
    ///
    /// # Errors
    /// The map or the reservations are refused, the Movable zone is too large, there is no room for the metadata.
    pub fn compute(regions: &[Region], args: &MapArgs) -> anyhow::Result<Self> {
        let options = MapOptions::new().reserve_low(args.reserve_low);
        let mut map: RegionMap<1024> = RegionMap::build(regions.iter().copied(), &args.reserve, options)?;
        let limits = ZoneLimits::default().movable_frames(args.movable.div_ceil(PAGE_SIZE));
        let bytes = map.zones(&limits)?.iter().map(metadata_bytes).sum();
        let place = map.carve(bytes, PAGE_SIZE, &limits);
        let place = place.with_context(|| format!("no room for {bytes} bytes of metadata"))?;
        let spans = map.zones(&limits)?;
        let (min_free_kbytes, zones) = rows(&spans, args);
        Ok(Self {
            regions: map.report().regions(),
            usable_bytes: map.report().usable_bytes(),
            managed_frames: map.usable_frames(),
            present_frames: map.present_frames(),
            min_free_kbytes,
            metadata: metadata(bytes, place, map.present_frames()),
            zones,
            runs: map.usable().map(Run::from).collect(),
            dropped: dropped(&map),
        })
    }
}

fn dropped<const N: usize>(map: &RegionMap<N>) -> BTreeMap<&'static str, Dropped> {
    let row = |(reason, count): (pageblock_memmap::DropReason, pageblock_memmap::DropCount)| {
        let (regions, bytes, frames) = (count.regions, count.bytes, count.frames());
        (reason.key(), Dropped { reason: reason.name(), regions, bytes, frames, first: count.first })
    };
    map.report().iter().map(row).collect()
}

fn metadata(bytes: u64, place: PfnRange, present: u64) -> Metadata {
    let bytes_per_frame = bytes as f64 / present.max(1) as f64;
    Metadata { bytes, bytes_per_frame, start: place.start.as_u64(), frames: place.len() }
}

fn metadata_bytes(zone: &ZoneSpan) -> u64 {
    ZoneStorage::bytes(zone.span, Order::MAX) as u64
}

/// `min_free_kbytes`, and a row for each zone.
fn rows(zones: &[ZoneSpan], args: &MapArgs) -> (u64, Vec<ZoneRow>) {
    let managed: Vec<_> = zones.iter().map(|zone| (zone.kind, zone.usable)).collect();
    let min_free = if args.thp { raised_for_huge_pages(&managed) } else { boot_min_free(&managed) };
    let total = managed.iter().map(|(_, frames)| frames).sum();
    let rows = zones.iter().map(|zone| {
        let marks = Watermarks::compute(zone.usable, total, min_free, SCALE_FACTOR);
        let mut of_node = [0; ZoneKind::COUNT];
        for other in zones.iter().filter(|other| other.node == zone.node) {
            of_node[other.kind.index()] = other.usable;
        }
        let batch = per_cpu_batch(zone.usable);
        ZoneRow {
            node: zone.node.index(),
            zone: zone.kind.name(),
            start: zone.span.start.as_u64(),
            spanned: zone.span.len(),
            present: zone.present,
            managed: zone.usable,
            min: marks.min,
            low: marks.low,
            high: marks.high,
            protection: lowmem_reserves(of_node, LOWMEM_RESERVE_RATIO)[zone.kind.index()],
            pcp_batch: batch,
            pcp_high: (marks.low / u64::from(args.cpus.get())).max(4 * batch),
            metadata_bytes: metadata_bytes(zone),
        }
    });
    (min_free, rows.collect())
}

/// Frames outside Movable zones.
fn low_frames(zones: &[(ZoneKind, u64)]) -> u64 {
    zones.iter().filter(|(kind, _)| *kind != ZoneKind::Movable).map(|(_, frames)| frames).sum()
}

/// `min_free_kbytes` at boot, when no zone has a high watermark yet.
fn boot_min_free(zones: &[(ZoneKind, u64)]) -> u64 {
    min_free_kbytes(low_frames(zones) * (PAGE_SIZE / 1024))
}

/// The same after `set_recommended_min_free_kbytes()`: for each zone two pageblocks, and one for each pair of migrate
/// types, so that a fallback finds a whole pageblock to take.
fn raised_for_huge_pages(zones: &[(ZoneKind, u64)]) -> u64 {
    let populated = zones.iter().filter(|(kind, frames)| *kind != ZoneKind::Movable && *frames > 0).count() as u64;
    let wanted = PAGEBLOCK_FRAMES * populated * (2 + LISTED_TYPES * LISTED_TYPES);
    let frames = wanted.min(low_frames(zones) / THP_SHARE);
    boot_min_free(zones).max(frames * (PAGE_SIZE / 1024))
}

/// Frames moved at once between a zone and a per-CPU list (`zone_batchsize()`): a quarter of a thousandth of the zone,
/// at most 64, made one less than a power of two.
fn per_cpu_batch(managed: u64) -> u64 {
    let quarter = ((managed / 1024).min(256) / 4).max(1);
    let rounded = 1 << (quarter + quarter / 2).ilog2();
    (rounded - 1u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Managed frames, and min, low and high, from `/proc/zoneinfo` of a Linux 6.18 machine with huge pages on.
    #[test]
    fn watermarks_are_those_of_a_real_machine() {
        let recorded = [(ZoneKind::Dma, 3840), (ZoneKind::Dma32, 772_918), (ZoneKind::Normal, 5_394_266)];
        let min_free = raised_for_huge_pages(&recorded);
        assert_eq!(min_free, 67_584);
        let total = recorded.iter().map(|(_, frames)| frames).sum();
        let marks = |zone: usize| {
            let marks = Watermarks::compute(recorded[zone].1, total, min_free, SCALE_FACTOR);
            (marks.min, marks.low, marks.high)
        };
        assert_eq!(marks(1), (2116, 2888, 3660));
        assert_eq!(marks(2), (14_769, 20_163, 25_557));
    }

    #[test]
    fn batches_by_size_of_the_zone() {
        let batches = [(16, 1), (32, 1), (64, 3), (128, 7), (256, 15), (512, 31), (1024, 63), (1 << 20, 63)];
        for (mib, batch) in batches {
            assert_eq!(per_cpu_batch(mib << 8), batch, "{mib} MiB");
        }
        assert_eq!(per_cpu_batch(0), 1);
    }

    #[test]
    fn the_reserve_without_huge_pages_follows_the_square_root() {
        assert_eq!(boot_min_free(&[(ZoneKind::Normal, 1 << 20)]), 8192);
        assert_eq!(boot_min_free(&[(ZoneKind::Normal, 1 << 20), (ZoneKind::Movable, 1 << 20)]), 8192);
        assert_eq!(raised_for_huge_pages(&[(ZoneKind::Dma, 4096)]), 4096 / 20 * 4, "capped on a small machine");
    }
}
