//! `pageblock map`: a machine's memory map, as the allocator would take it.
//!
//! The map is normalised as at boot, room for the metadata is carved out, and the zones are shown with the watermarks
//! that the formulas of Linux 6.1 give them.

mod render;
mod size;
mod summary;

use std::path::PathBuf;

use anyhow::Context;
use pageblock_memmap::PhysRange;

pub use size::{parse_range, parse_size};
pub use summary::{Dropped, MapSummary, Metadata, Run, ZoneRow};

use crate::memmap;

/// Arguments of `pageblock map`.
///
/// ```
/// use clap::{Args, FromArgMatches};
/// use pageblock_lab::commands::map::MapArgs;
/// let command = MapArgs::augment_args(clap::Command::new("map"));
/// let matches = command.get_matches_from(["map", "/proc/iomem", "--reserve", "1M+512K", "--cpus", "8"]);
/// let args = MapArgs::from_arg_matches(&matches).unwrap();
/// assert_eq!((args.reserve[0].len(), args.cpus.get(), args.reserve_low), (512 << 10, 8, 1 << 20));
/// ```
#[derive(clap::Args, Clone, Debug)]
pub struct MapArgs {
    /// Memory map: /proc/iomem read as root, or a boot log with its BIOS-e820 (and SRAT) lines; plain or zstd
    pub file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// CPUs that share a zone's per-CPU lists
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_cpus)]
    pub cpus: std::num::NonZeroU32,
    /// Keep these bytes back: START..END or START+LENGTH, in bytes or with K, M or G, decimal or 0x; repeatable
    #[arg(long, value_name = "RANGE", value_parser = parse_range)]
    pub reserve: Vec<PhysRange>,
    /// Keep everything below this address back
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = parse_size)]
    pub reserve_low: u64,
    /// Make a Movable zone of this size from the top of memory
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = parse_size)]
    pub movable: u64,
    /// Raise the watermarks as Linux does when transparent huge pages are on
    #[arg(long)]
    pub thp: bool,
}

/// Most CPUs that Linux is built for.
const CPUS: std::ops::RangeInclusive<u32> = 1..=8192;

fn parse_cpus(text: &str) -> Result<std::num::NonZeroU32, String> {
    let cpus = text.parse().ok().filter(|cpus: &std::num::NonZeroU32| CPUS.contains(&cpus.get()));
    cpus.ok_or_else(|| format!("expected {} to {} CPUs", CPUS.start(), CPUS.end()))
}

/// Runs the command: reads the map and prints its zones and losses.
///
/// # Errors
/// The file cannot be read or is malformed (with its line), the map or the reservations are refused, or standard output
/// cannot be written.
pub fn run(args: &MapArgs) -> anyhow::Result<()> {
    let regions = memmap::load(&args.file)?;
    let summary = MapSummary::compute(&regions, args).with_context(|| args.file.display().to_string())?;
    let text = if args.json { serde_json::to_string_pretty(&summary)? + "\n" } else { render::tables(&summary) };
    crate::output::print(&text)
}
