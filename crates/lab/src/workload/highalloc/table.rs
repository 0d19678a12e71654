//! The tables as text: Linux's rows beside ours.

use std::fmt::Write;

use comfy_table::Table;

use super::super::output::least_and_most;
use super::measure::{Outcome, Row, Run, SHARES};
use super::published::{LinuxBlocks, LinuxRow, MEASURED, Published};
use super::scene::{Pattern, Preset};
use crate::report::{plain, trimmed};

/// All of it.
pub(super) fn all(outcome: &Outcome, published: &Published) -> String {
    let mut text = String::new();
    for pattern in [Pattern::Alt, Pattern::Late] {
        for share in SHARES {
            let rows = outcome.rows.iter().filter(|row| (row.pattern, row.share) == (pattern, share));
            let table = trimmed(&blocks_got(outcome, rows, published));
            let _ = writeln!(text, "{}, {share} % kernel pages\n{table}\n", pattern.title());
        }
    }
    let spread = trimmed(&spread(outcome, published));
    let _ = writeln!(text, "Pageblocks that hold kernel pages, and the fewest that could\n{spread}\n");
    text.push_str(&remarks(outcome));
    text
}

/// The measured rows belong to a machine of one size.
fn is_comparable(outcome: &Outcome) -> bool {
    outcome.memory_bytes == MEASURED
}

const COLUMNS: [&str; 13] = [
    "flags",
    "",
    "min",
    "mean",
    "max",
    "% of free",
    "% usable",
    "at rest",
    "stalls",
    "success",
    "scanned",
    "moved",
    "cache",
];

fn blocks_got<'a>(outcome: &Outcome, rows: impl Iterator<Item = &'a Row>, published: &Published) -> Table {
    let mut table = plain(COLUMNS, 2);
    let mut last = "";
    for row in rows {
        let linux = published.row(outcome.patience, (row.pattern, row.share), row.flags);
        if row.flags != last
            && let Some(linux) = linux.filter(|_| is_comparable(outcome))
        {
            table.add_row(of_linux(linux));
        }
        last = row.flags;
        table.add_row(of_ours(row));
    }
    table
}

fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / (numbers.len() as f64).max(1.0)
}

fn range(numbers: &[f64]) -> [String; 3] {
    let (least, most) = least_and_most(numbers.iter().copied());
    [format!("{least:.0}"), format!("{:.1}", mean(numbers)), format!("{most:.0}")]
}

fn of_linux(row: &LinuxRow) -> Vec<String> {
    let mut cells = vec![row.flags.clone(), "Linux 6.1".to_owned()];
    cells.extend(range(&row.got()));
    cells.extend([format!("{:.0}", row.percent_of_free), String::new(), format!("{:.1}", mean(&row.rest()))]);
    let scanned = row.migrate_scanned + row.free_scanned;
    cells.extend([row.stalls, row.successes, scanned, row.migrated].map(|n| n.to_string()));
    cells.push(format!("{} > {}", row.cache_before, row.cache_after));
    cells
}

fn of_ours(row: &Row) -> Vec<String> {
    let all = |of: &dyn Fn(&Run) -> f64| row.runs.iter().map(of).collect::<Vec<_>>();
    let number = |of: &dyn Fn(&Run) -> u64| format!("{:.0}", mean(&all(&|run| of(run) as f64)));
    let mut cells = vec![row.flags.to_owned(), row.preset.name().to_owned()];
    cells.extend(range(&all(&|run| run.got as f64)));
    cells.push(format!("{:.1}", mean(&all(&|run| run.percent_of_free()))));
    cells.push(format!("{:.1}", mean(&all(&|run| run.percent_of_usable()))));
    cells.push(format!("{:.1}", mean(&all(&|run| run.at_rest as f64))));
    cells.push(number(&|run| run.stalls));
    cells.push(number(&|run| run.successes));
    cells.push(number(&|run| run.migrate_scanned + run.free_scanned));
    cells.push(number(&|run| run.migrated));
    cells.push(format!("{} > {}", number(&|run| run.cache[0]), number(&|run| run.cache[1])));
    cells
}

/// How kernel pages spread, by pattern and share; the same in all runs of a preset but for the half that was freed.
fn spread(outcome: &Outcome, published: &Published) -> Table {
    let header = ["pattern", "", "filled", "fewest", "ratio", "half freed", "fewest", "unusable index"];
    let mut table = plain(header, 2);
    for pattern in [Pattern::Alt, Pattern::Late] {
        for share in SHARES {
            let name = format!("{} {share} %", pattern.name());
            let linux = published.blocks.iter().find(|row| (row.pattern, row.share) == (pattern, share));
            if let Some(linux) = linux.filter(|_| is_comparable(outcome)) {
                table.add_row(spread_of_linux(&name, linux));
            }
            for preset in outcome.presets() {
                let same = |row: &&Row| (row.pattern, row.share, row.preset) == (pattern, share, preset);
                let runs: Vec<&Run> = outcome.rows.iter().filter(same).flat_map(|row| &row.runs).collect();
                let of = |of: &dyn Fn(&Run) -> f64| mean(&runs.iter().map(|run| of(run)).collect::<Vec<_>>());
                let blocks = [
                    of(&|run| run.kernel_blocks.filled as f64),
                    of(&|run| run.fewest_blocks.filled as f64),
                    of(&|run| run.kernel_blocks.halved as f64),
                    of(&|run| run.fewest_blocks.halved as f64),
                ];
                table.add_row(spread_row(&name, preset.name(), blocks, of(&|run| run.unusable_index)));
            }
        }
    }
    table
}

fn spread_of_linux(name: &str, row: &LinuxBlocks) -> Vec<String> {
    let blocks = [row.filled, row.fewest, row.halved, row.fewest_halved];
    spread_row(name, "Linux 6.1", blocks, row.unusable_index)
}

fn spread_row(name: &str, who: &str, blocks: [f64; 4], unusable: f64) -> Vec<String> {
    let [filled, fewest, halved, fewest_halved] = blocks;
    let ratio = filled / fewest.max(1.0);
    vec![
        name.to_owned(),
        who.to_owned(),
        format!("{filled:.1}"),
        format!("{fewest:.1}"),
        format!("{ratio:.2}"),
        format!("{halved:.1}"),
        format!("{fewest_halved:.1}"),
        format!("{unusable:.2}"),
    ]
}

fn remarks(outcome: &Outcome) -> String {
    let runs = || outcome.rows.iter().flat_map(|row| &row.runs);
    let managed = runs().map(|run| run.managed_blocks).max().unwrap_or(0);
    let free = mean(&runs().map(|run| run.free_blocks as f64).collect::<Vec<_>>());
    let raised = || outcome.rows.iter().filter(|row| row.preset != Preset::OwnMarks).flat_map(|row| &row.runs);
    let most =
        mean(&raised().map(|run| 100.0 * run.usable_blocks as f64 / run.free_blocks.max(1) as f64).collect::<Vec<_>>());
    format!(
        "Blocks of order 9 taken until {} requests in a row failed, of {managed} managed ({} MiB); {} runs of each line, seed {}.\n\
         % of free: of what the free pages before the attempt would make ({free:.0} blocks on average); % usable: of those above\n\
         the zones' min watermarks and lowmem reserves; over 100 where page cache was reclaimed. At rest: with what could be had after the process had ended and the\n\
         kernel pages were freed. Scanned: by both scanners. Watermarks: as khugepaged sets them; \"own marks\": by the formula.\n\
         As khugepaged sets them they leave {most:.0} % of the free pages on average: more than that takes reclaim.\n{}",
        outcome.patience,
        outcome.memory_bytes >> 20,
        outcome.iterations,
        outcome.seed,
        if is_comparable(outcome) { "" } else { "Linux 6.1 was measured with 512 MiB only.\n" }
    )
}
