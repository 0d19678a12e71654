//! `pageblock map` on a recorded memory map and on bad input.

use std::path::Path;

use clap::{Args, FromArgMatches};
use pageblock_lab::commands::map::{MapArgs, MapSummary};
use pageblock_lab::memmap;

/// `/proc/iomem` of a virtual machine with 24 GiB.
const IOMEM: &str = "00000000-00000fff : Reserved\n\
                     00001000-0009fbff : System RAM\n\
                     0009fc00-000fffff : Reserved\n\
                     00100000-bfffffff : System RAM\n\
                     eec00000-febfffff : Reserved\n\
                     100000000-63fffffff : System RAM\n";

fn args(words: &[&str]) -> MapArgs {
    let command = MapArgs::augment_args(clap::Command::new("map"));
    let words = ["map", "iomem"].iter().chain(words);
    MapArgs::from_arg_matches(&command.try_get_matches_from(words).unwrap()).unwrap()
}

fn summary(text: &str, words: &[&str]) -> anyhow::Result<MapSummary> {
    MapSummary::compute(&memmap::parse(Path::new("iomem"), text)?, &args(words))
}

#[test]
fn a_recorded_map_gives_the_zones_that_linux_showed() {
    let summary = summary(IOMEM, &["--thp", "--cpus", "2"]).unwrap();
    let zones: Vec<_> = summary.zones.iter().map(|zone| (zone.zone, zone.start, zone.present, zone.managed)).collect();
    let carved = summary.metadata.frames;
    let expected =
        [("DMA", 1, 3998, 3840), ("DMA32", 4096, 782_336, 782_336), ("Normal", 1 << 20, 5_505_024, 5_505_024 - carved)];
    assert_eq!(zones, expected);
    assert_eq!(summary.min_free_kbytes, 67_584);
    assert_eq!(summary.managed_frames, zones.iter().map(|zone| zone.3).sum::<u64>());
    assert_eq!(summary.zones[1].protection, [0, 0, zones[2].3 / 256, zones[2].3 / 256]);
    assert_eq!((summary.zones[2].pcp_batch, summary.zones[2].pcp_high), (63, summary.zones[2].low / 2));
    assert!(summary.metadata.bytes_per_frame < 1.5, "{}", summary.metadata.bytes_per_frame);
    assert!(summary.metadata.start >= 1 << 20, "the metadata is above 4 GiB");
}

#[test]
fn frames_and_reasons_add_up() {
    let text = format!("{IOMEM}100000000-1000007ff : System RAM\n140000800-14fffffff : Reserved\n");
    let summary = summary(&text, &["--reserve", "1G..1G", "--reserve", "2G+1", "--movable", "1000M"]).unwrap();
    let dropped: u64 = summary.dropped.values().map(|dropped| dropped.bytes).sum();
    assert_eq!(summary.managed_frames * 4096 + dropped, summary.usable_bytes);
    assert_eq!(summary.dropped["requested"].first, Some(1));
    assert_eq!(summary.dropped["duplicate"].bytes, 2048);
    assert_eq!(summary.dropped["reserved"].frames, 0x1_0000);
    let movable = summary.zones.last().unwrap();
    assert_eq!((movable.zone, movable.present), ("Movable", 250 * 1024));
}

#[test]
fn what_cannot_be_done_is_said() {
    let refused = |text: &str, words: &[&str]| format!("{:#}", summary(text, words).unwrap_err());
    assert!(refused("0-fff : System RAM\n", &[]).starts_with("no room for"));
    assert!(refused("100000-1fffff : System RAM\n", &["--movable", "1G"]).contains("movable frames are wanted of 256"));
    assert!(
        refused("0-1fffffffffff : System RAM\n", &[]).contains("region 0 is memory above the largest frame number")
    );
    assert!(refused("0-x : System RAM\n", &[]).starts_with("iomem:1: expected"));
}

#[test]
fn the_keys_of_the_json_are_stable() {
    let value = serde_json::to_value(summary(IOMEM, &[]).unwrap()).unwrap();
    let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    let top = "dropped managed_frames metadata min_free_kbytes present_frames regions runs usable_bytes zones";
    assert_eq!(keys(&value), top);
    let zone = "high low managed metadata_bytes min node pcp_batch pcp_high present protection spanned start zone";
    assert_eq!(keys(&value["zones"][0]), zone);
    assert_eq!(keys(&value["dropped"]), "carved low_memory unaligned");
}
