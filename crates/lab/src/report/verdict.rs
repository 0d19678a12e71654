//! The first screen of a replay: two sentences and six lines of table.

use std::fmt::Write;

use crate::output::Console;
use crate::replay::{Outcome, Side};

use super::tables::{header, plain, trimmed};

/// Points by which two shares must differ for one to be called the better.
const DRAW: f64 = 0.5;

/// Two sentences and a table of six lines.
pub(crate) fn verdict(outcome: &Outcome, console: &Console) -> String {
    let mut text = String::new();
    for line in wrapped(&sentences(outcome).join(" ")) {
        let _ = writeln!(text, "{}", console.bold(&line));
    }
    let _ = writeln!(text, "\n{}", table(outcome));
    text
}

/// The recording, and all end states. Frames on per-CPU lists are counted as free, and as merged with their
/// neighbours, in Linux and in ours.
pub(crate) fn sentences(outcome: &Outcome) -> [String; 2] {
    let counts = &outcome.event_counts;
    let first = format!(
        "{} requests and {} frees, recorded on a real Linux in {:.0} s, were made again.",
        grouped(counts.alloc + counts.alloc_failed),
        grouped(counts.free),
        outcome.recorded_seconds
    );
    let linux = share(&outcome.linux_by_events);
    let end = match outcome.ours() {
        Some(_) if outcome.rules.len() > 1 => {
            let ends = outcome.rules.iter().map(|ruled| format!("{:.1} % with {}", share(&ruled.end), ruled.rules));
            let ends = ends.collect::<Vec<_>>().join(", ");
            format!("Of free memory, whole pageblocks hold at the end {ends}; Linux had {linux:.1} %.")
        }
        Some(ours) => compared(share(&ours.end), linux),
        None => format!("Linux ended with {linux:.1} % of free memory in whole pageblocks."),
    };
    [first, end]
}

/// Which share is larger.
fn compared(ours: f64, linux: f64) -> String {
    if ours > linux + DRAW {
        format!("At the end {ours:.1} % of free memory lies in whole pageblocks; Linux had {linux:.1} %.")
    } else if ours < linux - DRAW {
        format!("Linux ended better, with {linux:.1} % of free memory in whole pageblocks; here it is {ours:.1} %.")
    } else {
        format!("It is a draw: {ours:.1} % of free memory lies in whole pageblocks, and {linux:.1} % in Linux.")
    }
}

/// Part of the free frames that lie in wholly free pageblocks, in percent.
pub(crate) fn share(side: &Side) -> f64 {
    let whole = side.free_pageblocks * pageblock_frame::PAGEBLOCK_FRAMES;
    100.0 * whole.min(side.free_frames) as f64 / side.free_frames.max(1) as f64
}

fn table(outcome: &Outcome) -> String {
    let mut table = plain(header(outcome), 1);
    let mut sides = vec![&outcome.start, &outcome.linux_by_events];
    sides.extend(outcome.rules.iter().map(|ruled| &ruled.end));
    let mut row = |name: &str, of: &dyn Fn(&Side) -> String| {
        table.add_row([name.to_owned()].into_iter().chain(sides.iter().map(|side| of(side))));
    };
    row("free memory in whole pageblocks, %", &|side| format!("{:.1}", share(side)));
    row("whole pageblocks", &|side| grouped(side.free_pageblocks));
    row("free frames", &|side| grouped(side.free_frames));
    row("pageblocks of mixed types", &|side| grouped(side.mixed_pageblocks));
    row("fallbacks to another type", &|side| grouped(side.fallbacks));
    let refused = outcome.rules.iter().map(|ruled| grouped(ruled.refused));
    let linux = ["requests not served".to_owned(), String::new(), grouped(outcome.event_counts.alloc_failed)];
    table.add_row(linux.into_iter().chain(refused));
    trimmed(&table)
}

/// A number with commas between thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Lines of at most 80 columns.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last().map_or(0, |line| line.chars().count());
        if last > 0 && last + 1 + word.chars().count() > 80 {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas_and_lines_an_end() {
        assert_eq!([7, 1_000, 1_234_567].map(grouped), ["7", "1,000", "1,234,567"]);
        let lines = wrapped(&"word ".repeat(40));
        assert!(lines.len() > 2 && lines.iter().all(|line| line.len() <= 80));
    }

    #[test]
    fn a_share_is_of_free_memory() {
        let side = Side { free_frames: 2048, free_pageblocks: 3, ..Side::default() };
        assert_eq!(share(&side), 75.0);
        assert_eq!(share(&Side::default()), 0.0);
    }
}
