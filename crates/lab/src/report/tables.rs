//! The result as text: Linux beside ours, a column a rule set.

use std::fmt::Write;

use comfy_table::{CellAlignment, Row, Table, presets};
use pageblock_frame::PAGEBLOCK_ORDER;

use crate::replay::{Outcome, Ruled, Side};

/// All tables, with remarks around them.
pub(crate) fn tables(outcome: &Outcome) -> String {
    let mut text = String::new();
    for (title, table) in sections(outcome) {
        let _ = writeln!(text, "{title}\n{}\n", trimmed(&table));
    }
    for line in remarks(outcome) {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// The tables with their titles.
pub(crate) fn sections(outcome: &Outcome) -> Vec<(&'static str, Table)> {
    vec![
        ("At the end of the trace", summary(outcome)),
        ("Unusable free space index by order", unusable(outcome)),
        ("Free blocks by order at the end", free_blocks(outcome)),
        ("Requests by order", requests(outcome)),
        ("Events", events(outcome)),
    ]
}

/// A table without the blanks at the ends of its lines.
pub(crate) fn trimmed(table: &Table) -> String {
    table.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// An empty table with this header, columns but the first `left` to the right.
pub(crate) fn plain(header: impl Into<Row>, left: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    for column in table.column_iter_mut().skip(left) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// The columns of a table that lays all machines side by side.
pub(super) fn header(outcome: &Outcome) -> Vec<String> {
    let rules = outcome.rules.iter().map(|ruled| ruled.rules.to_owned());
    words(&["", "start", "Linux"]).into_iter().chain(rules).collect()
}

fn summary(outcome: &Outcome) -> Table {
    let mut table = plain(header(outcome), 1);
    let mut sides = vec![&outcome.start, &outcome.linux];
    sides.extend(outcome.rules.iter().map(|ruled| &ruled.end));
    let mut row = |name: &str, of: fn(&Side) -> u64| {
        table.add_row(std::iter::once(name.to_owned()).chain(sides.iter().map(|side| of(side).to_string())));
    };
    row("free frames", |side| side.free_frames);
    row("wholly free pageblocks", |side| side.free_pageblocks);
    row("mixed pageblocks", |side| side.mixed_pageblocks);
    row("fallbacks", |side| side.fallbacks);
    row("  below a pageblock", |side| side.fallbacks_below_pageblock);
    let mut row = |name: &str, linux: String, of: fn(&Ruled) -> u64| {
        let cells = outcome.rules.iter().map(|ruled| of(ruled).to_string());
        table.add_row([name.to_owned(), String::new(), linux].into_iter().chain(cells));
    };
    row("requests not served", outcome.event_counts.alloc_failed.to_string(), |ruled| ruled.refused);
    row("  of order 9", order_9(outcome).to_string(), |ruled| ruled.refused_by_order.get(9).copied().unwrap_or(0));
    row("served, though refused by Linux", String::new(), |ruled| ruled.served_beyond);
    row("served below the watermarks", String::new(), |ruled| ruled.below_watermarks);
    row("frames on per-CPU lists", outcome.linux.listed_frames.to_string(), |ruled| ruled.listed_frames);
    row("runs of compaction", outcome.event_counts.compaction_runs.to_string(), |ruled| ruled.compaction_runs);
    row("frames moved", outcome.moves.moved.to_string(), |ruled| ruled.moved);
    table
}

/// Requests for a pageblock that Linux refused.
fn order_9(outcome: &Outcome) -> u64 {
    outcome.by_order.iter().filter(|row| row.order == PAGEBLOCK_ORDER.as_u8()).map(|row| row.failed).sum()
}

fn orders(outcome: &Outcome) -> Vec<String> {
    (0..outcome.start.unusable_free_index.len()).map(|order| order.to_string()).collect()
}

/// All machines with the names of their columns.
fn sides(outcome: &Outcome) -> impl Iterator<Item = (&'static str, &Side)> {
    let ours = outcome.rules.iter().map(|ruled| (ruled.rules, &ruled.end));
    std::iter::once(("Linux", &outcome.linux)).chain(ours)
}

fn unusable(outcome: &Outcome) -> Table {
    let mut table = plain([words(&[""]), orders(outcome)].concat(), 1);
    for (name, side) in std::iter::once(("start", &outcome.start)).chain(sides(outcome)) {
        let index = side.unusable_free_index.iter().map(|index| format!("{index:.3}"));
        table.add_row(std::iter::once(name.to_owned()).chain(index));
    }
    table
}

fn free_blocks(outcome: &Outcome) -> Table {
    let mut table = plain([words(&["", "zone", "type", "pageblocks"]), orders(outcome)].concat(), 3);
    for (name, side) in sides(outcome) {
        for zone in &side.zones {
            let numbers = |blocks: &[u64]| blocks.iter().map(u64::to_string).collect::<Vec<_>>();
            let all = words(&[name, &zone.zone, "all", ""]);
            table.add_row([all, numbers(&zone.free_blocks)].concat());
            for kind in &zone.free_blocks_by_type {
                let head = words(&["", "", kind.kind, &kind.pageblocks.to_string()]);
                table.add_row([head, numbers(&kind.free_blocks)].concat());
            }
        }
    }
    table
}

fn requests(outcome: &Outcome) -> Table {
    let refusals = outcome.rules.iter().map(|ruled| format!("refused by {}", ruled.rules));
    let head = words(&["order", "unmovable", "movable", "reclaimable", "frees", "failed in Linux"]);
    let mut table = plain(head.into_iter().chain(refusals).collect::<Vec<_>>(), 0);
    for row in &outcome.by_order {
        let numbers = [row.order.into(), row.unmovable, row.movable, row.reclaimable, row.freed, row.failed];
        let refused = outcome.rules.iter().map(|ruled| ruled.refused_by_order[usize::from(row.order)]);
        table.add_row(numbers.into_iter().chain(refused).map(|number: u64| number.to_string()));
    }
    table
}

fn events(outcome: &Outcome) -> Table {
    let counts = &outcome.event_counts;
    let mut table = plain(words(&["event", "lines"]), 1);
    for (name, count) in [
        ("mm_page_alloc", counts.alloc),
        ("mm_page_alloc, failed", counts.alloc_failed),
        ("mm_page_free", counts.free),
        ("mm_page_free_batched", counts.free_batched),
        ("mm_page_alloc_extfrag", counts.extfrag),
        ("mm_page_alloc_zone_locked", counts.zone_locked),
        ("mm_page_pcpu_drain", counts.pcpu_drain),
        ("mm_compaction_*", counts.compaction),
        ("others", counts.other),
        ("all", counts.total),
    ] {
        table.add_row([name.to_owned(), count.to_string()]);
    }
    table
}

/// Facts that the tables do not show, a line each.
pub(crate) fn remarks(outcome: &Outcome) -> Vec<String> {
    let mut lines = vec![
        format!("trace            {} ({:.1} s recorded)", outcome.trace, outcome.recorded_seconds),
        format!(
            "Linux's own      count: {} whole pageblocks, {} free frames, and {} on per-CPU lists",
            outcome.linux.free_pageblocks, outcome.linux.free_frames, outcome.linux.listed_frames
        ),
        format!("Linux's figures  from {}; fallbacks and mixed pageblocks from the events", outcome.linux.source),
        format!(
            "live set         {} frames in {} blocks of the trace, {} frames held since before it",
            outcome.live.frames, outcome.live.blocks, outcome.live.start_frames
        ),
    ];
    if let Some(ruled) = outcome.rules.first() {
        lines.push(format!(
            "machine          {} CPUs with lists, {:.3} bytes of metadata a frame",
            ruled.cpus, ruled.metadata_bytes_per_frame
        ));
    }
    let conserved = if outcome.conserved {
        "every frame; undoing the trace gave back the initial state".to_owned()
    } else {
        format!("NOT: {}", outcome.conservation_faults.join("; "))
    };
    lines.push(format!("conserved        {conserved}"));
    let off = &outcome.disagreements;
    lines.push(format!(
        "map and events   {} frames were on per-CPU lists at the start, {} freed and {} taken between map and trace; {} were allocated \
         though held, {} freed though free, {} outside",
        off.listed_at_start, off.freed_before_trace, off.taken_before_trace, off.allocated_while_held, off.freed_while_free, off.outside
    ));
    let skipped = &outcome.skipped;
    if let Some(first) = &skipped.first {
        lines.push(format!(
            "skipped          {} malformed lines, {} lost events; first: {first}",
            skipped.malformed, skipped.lost
        ));
    }
    lines.extend(outcome.unmatched.iter().map(|line| format!("not matched      {line}")));
    lines.extend(outcome.notes.iter().map(|line| format!("note             {line}")));
    lines
}
