//! The result as text: Linux beside ours.

use std::fmt::Write;

use comfy_table::{CellAlignment, Row, Table, presets};

use crate::replay::{Outcome, Side};

/// All tables, with what is worth saying around them.
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

fn summary(outcome: &Outcome) -> Table {
    let mut table = plain(words(&["", "start", "Linux", "ours"]), 1);
    let (start, linux, ours) = (&outcome.start, &outcome.linux, &outcome.ours);
    let mut row = |name: &str, of: fn(&Side) -> u64| {
        table.add_row([name.to_owned(), of(start).to_string(), of(linux).to_string(), of(ours).to_string()]);
    };
    row("free frames", |side| side.free_frames);
    row("wholly free pageblocks", |side| side.free_pageblocks);
    row("mixed pageblocks", |side| side.mixed_pageblocks);
    row("fallbacks", |side| side.fallbacks);
    row("  below a pageblock", |side| side.fallbacks_below_pageblock);
    let failed = outcome.event_counts.alloc_failed;
    table.add_row(["requests not served".to_owned(), String::new(), failed.to_string(), outcome.refused.to_string()]);
    table
}

fn orders(outcome: &Outcome) -> Vec<String> {
    (0..outcome.ours.unusable_free_index.len()).map(|order| order.to_string()).collect()
}

fn unusable(outcome: &Outcome) -> Table {
    let mut table = plain([words(&[""]), orders(outcome)].concat(), 1);
    let sides = [("start", &outcome.start), ("Linux", &outcome.linux), ("ours", &outcome.ours)];
    for (name, side) in sides {
        let index = side.unusable_free_index.iter().map(|index| format!("{index:.3}"));
        table.add_row(std::iter::once(name.to_owned()).chain(index));
    }
    table
}

fn free_blocks(outcome: &Outcome) -> Table {
    let mut table = plain([words(&["", "zone", "type", "pageblocks"]), orders(outcome)].concat(), 3);
    for (name, side) in [("Linux", &outcome.linux), ("ours", &outcome.ours)] {
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
    let header = ["order", "unmovable", "movable", "reclaimable", "failed in Linux", "refused by ours", "frees"];
    let mut table = plain(words(&header), 0);
    for row in &outcome.by_order {
        let numbers = [row.unmovable, row.movable, row.reclaimable, row.failed, row.refused, row.freed];
        table.add_row(std::iter::once(row.order.to_string()).chain(numbers.map(|number| number.to_string())));
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

/// What the tables do not say, a line each.
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
        format!(
            "allocator        {:.1} ns and {:.2} calls an operation, {:.1} million operations a second",
            outcome.ns_per_operation,
            outcome.calls_per_operation,
            outcome.operations_per_second / 1e6
        ),
        format!("metadata         {:.3} bytes a frame", outcome.metadata_bytes_per_frame),
    ];
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
    if outcome.event_counts.compaction_runs > 0 {
        let moves = &outcome.moves;
        lines.push(format!(
            "compaction       {} runs of Linux's moved {} frames, {} of ours {}",
            outcome.event_counts.compaction_runs, moves.moved, moves.runs_by_us, moves.moved_by_us
        ));
    }
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
