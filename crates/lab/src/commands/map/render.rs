//! The summary as text.

use std::fmt::Write;

use comfy_table::Table;

use crate::report::plain;

use super::summary::MapSummary;

/// Tables of zones, runs and dropped ranges.
pub(super) fn tables(summary: &MapSummary) -> String {
    let metadata = &summary.metadata;
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{} regions, {} usable bytes: {} frames present, {} managed; min_free_kbytes {}",
        summary.regions, summary.usable_bytes, summary.present_frames, summary.managed_frames, summary.min_free_kbytes
    );
    let _ = writeln!(
        text,
        "metadata: {} bytes, {:.3} a frame, in {} frames from {:#x}",
        metadata.bytes, metadata.bytes_per_frame, metadata.frames, metadata.start
    );
    let _ = writeln!(text, "\nZones (frames)\n{}", zones(summary));
    let _ = writeln!(text, "\nUsable runs\n{}", runs(summary));
    if !summary.dropped.is_empty() {
        let _ = writeln!(text, "\nNot usable, and why\n{}", dropped(summary));
    }
    text
}

fn zones(summary: &MapSummary) -> Table {
    let header = [
        "node",
        "zone",
        "start",
        "spanned",
        "present",
        "managed",
        "min",
        "low",
        "high",
        "protection",
        "batch",
        "pcp high",
        "metadata bytes",
    ];
    let mut table = plain(header, 2);
    for zone in &summary.zones {
        let numbers = [zone.spanned, zone.present, zone.managed, zone.min, zone.low, zone.high];
        let mut row = vec![zone.node.to_string(), zone.zone.to_owned(), format!("{:#x}", zone.start)];
        row.extend(numbers.map(|number| number.to_string()));
        row.push(zone.protection.map(|frames| frames.to_string()).join(" "));
        row.extend([zone.pcp_batch, zone.pcp_high, zone.metadata_bytes].map(|number| number.to_string()));
        table.add_row(row);
    }
    table
}

fn runs(summary: &MapSummary) -> Table {
    let mut table = plain(["node", "first frame", "end", "frames"], 1);
    for run in &summary.runs {
        let end = run.start + run.frames;
        table.add_row([run.node.to_string(), format!("{:#x}", run.start), format!("{end:#x}"), run.frames.to_string()]);
    }
    table
}

fn dropped(summary: &MapSummary) -> Table {
    let mut table = plain(["reason", "entries", "first", "bytes", "frames"], 1);
    for dropped in summary.dropped.values() {
        table.add_row([
            dropped.reason.to_owned(),
            dropped.regions.to_string(),
            dropped.first.map_or_else(|| "-".to_owned(), |index| index.to_string()),
            dropped.bytes.to_string(),
            dropped.frames.to_string(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use pageblock_memmap::Region;

    use super::super::{MapArgs, MapSummary};
    use super::tables;

    #[test]
    fn columns_line_up() {
        let args = MapArgs {
            file: "map".into(),
            json: false,
            cpus: std::num::NonZeroU32::MIN,
            reserve: Vec::new(),
            reserve_low: 1 << 20,
            movable: 0,
            thp: false,
        };
        let regions = [Region::from((0, 0x9_fc00, true)), Region::from((1 << 20, 63 << 20, true))];
        let text = tables(&MapSummary::compute(&regions, &args).unwrap());
        let zones: Vec<_> = text.lines().skip_while(|line| !line.starts_with("Zones")).skip(1).take(3).collect();
        assert!(zones.iter().all(|line| line.len() == zones[0].len()), "{text}");
        assert!(zones[1].starts_with(" 0     DMA       0x0     4096     3999     3840"), "{text}");
        assert!(zones[2].starts_with(" 0     DMA32  0x1000    12288    12288    12281"), "{text}");
        assert!(text.contains("low memory kept back"), "{text}");
    }
}
